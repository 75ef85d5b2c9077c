// SPDX-License-Identifier: GPL-2.0

//! Protection domains and address handles.
//!
//! Contexts: address handles may be made in any.

use super::object::{
    attach,
    detach,
    own, //
};
use crate::{
    ffi,
    path::{
        Ah,
        Av, //
    },
    prelude::*,
    qp::Device, //
};
use kernel::sync::Arc;

pub(super) unsafe extern "C" fn alloc_pd(
    _pd: *mut ffi::ib_pd,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    0
}

pub(super) unsafe extern "C" fn dealloc_pd(
    _pd: *mut ffi::ib_pd,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    0
}

pub(super) unsafe extern "C" fn create_ah(
    ib: *mut ffi::ib_ah,
    init: *mut ffi::rdma_ah_init_attr,
    _udata: *mut ffi::ib_udata,
) -> c_int {
    // SAFETY: All are valid for the call; `ib` is being created.
    unsafe {
        let flags = if (*init).flags & ffi::rdma_create_ah_flags_RDMA_CREATE_AH_SLEEPABLE != 0 {
            GFP_KERNEL
        } else {
            GFP_ATOMIC
        };
        let device = Device::of((*ib).device);
        let made = Av::new(&device.port, (*init).ah_attr).and_then(|av| {
            let mut attr = core::ptr::read((*init).ah_attr);
            // The address has the reference to the GID, and ib_core one of its own.
            attr.grh.sgid_attr = core::ptr::null();
            Ok(Arc::new(
                Ah {
                    av,
                    attr,
                    pd: (*ib).pd as usize,
                },
                flags,
            )?)
        });
        match made {
            Ok(ah) => {
                attach(ib, ah);
                0
            }
            Err(error) => error.to_errno(),
        }
    }
}

pub(super) unsafe extern "C" fn query_ah(
    ib: *mut ffi::ib_ah,
    attr: *mut ffi::rdma_ah_attr,
) -> c_int {
    // SAFETY: It was created, and `attr` is valid; both are plain C data.
    unsafe { *attr = core::ptr::read(&own::<_, Ah>(ib).attr) };
    0
}

pub(super) unsafe extern "C" fn destroy_ah(ib: *mut ffi::ib_ah, _flags: u32) -> c_int {
    // SAFETY: It was created.
    drop(unsafe { detach::<_, Ah>(ib) });
    0
}
