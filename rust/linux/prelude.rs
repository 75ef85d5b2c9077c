// SPDX-License-Identifier: GPL-2.0

//! The kernel's prelude, and the differences between the supported versions of Linux.
//!
//! Each module includes this file, and imports it in place of `kernel::prelude`. Kbuild sets
//! `linux_7_3` on Linux 7.3 and later. Beside this file only rlo's `irq_lock.rs` looks at it. Each
//! difference has one name, with the meaning that it has in the newest version, so the callers do
//! not depend on the version.

#![allow(dead_code, unused_imports, reason = "each module uses a part")]

#[cfg(not(linux_7_3))]
pub(crate) use before_7_3::*;
pub(crate) use kernel::prelude::*;
#[cfg(linux_7_3)]
pub(crate) use since_7_3::*;

/// Reads a limit of `ib_device_attr`. Before 7.3 it is an `int`, which is never negative; since then
/// it is a `u32`.
pub(crate) fn from_attribute<T: TryInto<u32>>(value: T) -> u32 {
    value.try_into().unwrap_or(0)
}

/// Makes a limit of `ib_device_attr`; the largest `int`, if it does not fit.
pub(crate) fn to_attribute<T: TryFrom<u32> + Default>(value: u32) -> T {
    T::try_from(value)
        .or_else(|_| T::try_from(i32::MAX as u32))
        .unwrap_or_default()
}

#[cfg(linux_7_3)]
mod since_7_3 {
    use kernel::{
        bindings,
        sync::barrier::{
            smp_mb,
            Read, //
        },
    };
    pub(crate) use pin_init::raw_try_init;

    /// `THIS_MODULE`, the owner of static objects.
    pub(crate) const fn this_module() -> *mut bindings::module {
        kernel::module::this_module::<crate::LocalModule>().as_ptr()
    }

    /// Orders earlier reads before later ones.
    pub(crate) fn smp_rmb() {
        smp_mb(Read);
    }
}

#[cfg(not(linux_7_3))]
mod before_7_3 {
    pub(crate) use kernel::sync::barrier::smp_rmb;
    use kernel::{
        bindings,
        prelude::*, //
    };

    /// `THIS_MODULE`, the owner of static objects.
    pub(crate) const fn this_module() -> *mut bindings::module {
        crate::THIS_MODULE.as_ptr()
    }

    /// Initialises a place that is not in a smart pointer.
    ///
    /// # Safety
    ///
    /// `slot` is valid for writes and uninitialised. It does not move until it is dropped. After an
    /// error its memory is only freed.
    pub(crate) unsafe fn raw_try_init<T, E>(
        slot: *mut T,
        init: impl PinInit<T, E>,
    ) -> Result<(), E> {
        // SAFETY: By the caller's promise, which is the same.
        unsafe { init.__pinned_init(slot) }
    }

    /// The errno as a constant, for which `Error` has no public constructor.
    const fn error(number: u32) -> Error {
        assert!(number > 0 && number <= bindings::MAX_ERRNO);
        // SAFETY: An `Error` is the negative errno and nothing else, as the assertion below
        // shows. The number is in the range that is its invariant.
        unsafe { core::mem::transmute::<i32, Error>(-(number as i32)) }
    }

    const _: () = assert!(
        matches!(error(bindings::EPERM), EPERM)
            && matches!(error(bindings::EINVAL), EINVAL)
            && matches!(error(bindings::ETIMEDOUT), ETIMEDOUT)
    );

    macro_rules! errnos {
        ($($name:ident)*) => {
            $(pub(crate) const $name: Error = error(bindings::$name);)*
        };
    }

    // Used by the modules and missing in `kernel::error::code`.
    errnos! {
        EADDRINUSE EADDRNOTAVAIL EAFNOSUPPORT EALREADY ECONNABORTED ECONNREFUSED ECONNRESET
        EHOSTUNREACH EINPROGRESS EISCONN ENETDOWN ENETUNREACH ENOBUFS ENODATA ENOPROTOOPT ENOTCONN
        EOPNOTSUPP EPROTO EPROTONOSUPPORT ESOCKTNOSUPPORT
    }
}
