// SPDX-License-Identifier: GPL-2.0

//! Random numbers. Contexts: any.
//!
//! C header: [`include/linux/random.h`](srctree/include/linux/random.h)

use crate::ffi;

/// A random number.
pub(crate) fn random_u32() -> u32 {
    // SAFETY: The function has no condition.
    unsafe { ffi::get_random_u32() }
}
