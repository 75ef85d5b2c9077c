// SPDX-License-Identifier: GPL-2.0

//! Objects of ib_core with ours behind them.
//!
//! Contexts: any.

use crate::prelude::*;
use kernel::sync::{
    Arc,
    ArcBorrow, //
};

/// An object of ib_core, followed by the pointer to ours.
///
/// # Invariants
///
/// Between creation and destruction `own` is an `Arc<T>`'s.
#[repr(C)]
pub(super) struct Object<C, T> {
    pub(super) ib: C,
    pub(super) own: *const T,
}

/// # Safety
///
/// `ib` is the first field of an `Object<C, T>` that was created and not destroyed.
pub(super) unsafe fn own<'a, C, T>(ib: *mut C) -> ArcBorrow<'a, T> {
    // SAFETY: It is such an object, and its `own` is an Arc's, by the caller's promise.
    unsafe { ArcBorrow::from_raw((*ib.cast::<Object<C, T>>()).own) }
}

/// # Safety
///
/// `ib` is the first field of an `Object<C, T>` that is being created.
pub(super) unsafe fn attach<C, T>(ib: *mut C, value: Arc<T>) {
    // SAFETY: It is such an object, and no other code knows it yet, by the caller's promise.
    unsafe { (*ib.cast::<Object<C, T>>()).own = value.into_raw() }
}

/// # Safety
///
/// As for `own`; it is destroyed by this.
pub(super) unsafe fn detach<C, T>(ib: *mut C) -> Arc<T> {
    let object = ib.cast::<Object<C, T>>();
    // SAFETY: It is such an object, and its `own` is an Arc's, by the caller's promise; no code asks
    // for it afterwards.
    unsafe {
        let value = Arc::from_raw((*object).own);
        (*object).own = core::ptr::null();
        value
    }
}

pub(super) fn errno(result: Result) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => error.to_errno(),
    }
}
