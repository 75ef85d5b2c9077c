// SPDX-License-Identifier: GPL-2.0

//! The values of options, as setsockopt(2) takes them and getsockopt(2) gives them.
//!
//! C header: [`include/linux/sockptr.h`](srctree/include/linux/sockptr.h)
//!
//! Contexts: process context, may sleep. No locks.

use crate::{
    ffi,
    prelude::*, //
};
use core::marker::PhantomData;
use kernel::{
    error::to_result,
    uaccess::{
        UserPtr,
        UserSlice, //
    }, //
};

/// The value that setsockopt(2) gives.
///
/// # Invariants
///
/// `value` is a pointer of the user program, which is checked whenever it is used, or one of
/// the kernel to `len` bytes.
#[derive(Clone, Copy)]
pub(crate) struct OptionValue<'a> {
    value: ffi::core::sockptr_t,
    len: c_uint,
    _value: PhantomData<&'a [u8]>,
}

impl OptionValue<'_> {
    /// # Safety
    ///
    /// `value` is a pointer of the user program, or one of the kernel to `len` bytes that stay
    /// there for the chosen lifetime.
    pub(super) unsafe fn new(value: ffi::core::sockptr_t, len: c_uint) -> Self {
        // INVARIANT: By the caller's promise.
        Self {
            value,
            len,
            _value: PhantomData,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// The value, for a function in C.
    pub(crate) fn raw(&self) -> (ffi::core::sockptr_t, c_uint) {
        (self.value, self.len)
    }

    /// The first bytes of the value. EINVAL if it has fewer.
    pub(crate) fn read(&self, to: &mut [u8]) -> Result {
        if to.len() > self.len() {
            return Err(EINVAL);
        }
        // SAFETY: A program's pointer is checked by the callee, and one of the kernel has as
        // many bytes, by the invariant.
        to_result(unsafe {
            ffi::rust_net_copy_from_sockptr(to.as_mut_ptr().cast(), self.value, to.len())
        })
    }
}

/// The memory that getsockopt(2) has for a value and its length: pointers of the user program,
/// which are checked whenever they are used.
#[derive(Clone, Copy)]
pub(crate) struct OptionRoom {
    value: UserPtr,
    len: UserPtr,
}

impl OptionRoom {
    pub(super) fn new(value: *mut c_char, len: *mut c_int) -> Self {
        Self {
            value: UserPtr::from_ptr(value.cast()),
            len: UserPtr::from_ptr(len.cast()),
        }
    }

    /// The pointers to value and length, for a function in C.
    pub(crate) fn raw(&self) -> (*mut c_char, *mut c_int) {
        (self.value.as_mut_ptr().cast(), self.len.as_mut_ptr().cast())
    }

    /// How many bytes the program says it has memory for.
    pub(crate) fn len(&self) -> Result<i32> {
        UserSlice::new(self.len, size_of::<c_int>()).reader().read()
    }

    /// Answers with as much of `value` as `room` allows, and with the length.
    pub(crate) fn answer(&self, room: usize, value: &[u8]) -> Result {
        let value = value.get(..room).unwrap_or(value);
        let len = c_int::try_from(value.len()).map_err(|_| EINVAL)?;
        UserSlice::new(self.len, size_of::<c_int>())
            .writer()
            .write(&len)?;
        UserSlice::new(self.value, value.len())
            .writer()
            .write_slice(value)
    }
}
