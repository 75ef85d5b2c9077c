// SPDX-License-Identifier: GPL-2.0

//! Memory regions.
//!
//! Contexts: all sleep.

use super::object::{
    attach,
    detach,
    errno,
    own,
    Object, //
};
use crate::{
    ffi,
    mr::{
        Mr,
        Pages, //
    },
    prelude::*,
    qp::Device, //
};

/// # Safety
///
/// `pd` is valid, and its device ours.
unsafe fn new_mr(pd: *mut ffi::ib_pd, pages: u32, all: Option<u32>) -> Result<*mut ffi::ib_mr> {
    // SAFETY: `pd` is valid, and its device ours, by the caller's promise.
    let device = unsafe { Device::of((*pd).device) };
    let region = device
        .port
        .regions
        .enter(|index| Mr::new(index, pd as usize, pages as usize, all))?;
    let key = region.index << 8;
    let object = KBox::new(
        Object::<ffi::ib_mr, Mr> {
            ib: ffi::ib_mr {
                lkey: key,
                rkey: key,
                ..Default::default()
            },
            own: core::ptr::null(),
        },
        GFP_KERNEL,
    );
    let object = match object {
        Ok(object) => object,
        Err(error) => {
            drop(device.port.regions.remove(region.index));
            return Err(error.into());
        }
    };
    let ib = KBox::into_raw(object).cast::<ffi::ib_mr>();
    // SAFETY: It is being created.
    unsafe { attach(ib, region) };
    Ok(ib)
}

fn or_error(result: Result<*mut ffi::ib_mr>) -> *mut ffi::ib_mr {
    match result {
        Ok(ib) => ib,
        Err(error) => error.to_ptr(),
    }
}

pub(super) unsafe extern "C" fn get_dma_mr(pd: *mut ffi::ib_pd, rights: c_int) -> *mut ffi::ib_mr {
    // SAFETY: ib_core passes a valid one of our device.
    or_error(unsafe { new_mr(pd, 0, Some(rights as u32)) })
}

pub(super) unsafe extern "C" fn reg_user_mr(
    _pd: *mut ffi::ib_pd,
    _start: u64,
    _length: u64,
    _address: u64,
    _rights: c_int,
    _dmah: *mut ffi::ib_dmah,
    _udata: *mut ffi::ib_udata,
) -> *mut ffi::ib_mr {
    // User verbs are not supported.
    EOPNOTSUPP.to_ptr()
}

pub(super) unsafe extern "C" fn alloc_mr(
    pd: *mut ffi::ib_pd,
    kind: ffi::ib_mr_type,
    pages: u32,
) -> *mut ffi::ib_mr {
    // SAFETY: `pd` is valid, and its device ours.
    let device = unsafe { Device::of((*pd).device) };
    if kind != ffi::ib_mr_type_IB_MR_TYPE_MEM_REG
        || !device.port.limits.mem_mgt
        || pages > device.port.limits.max_mr_pages
    {
        return EINVAL.to_ptr();
    }
    // SAFETY: ib_core passes a valid one of our device.
    or_error(unsafe { new_mr(pd, pages, None) })
}

pub(super) unsafe extern "C" fn dereg_mr(ib: *mut ffi::ib_mr, _udata: *mut ffi::ib_udata) -> c_int {
    // SAFETY: It was created, and its device is ours.
    unsafe {
        let region = detach::<_, Mr>(ib);
        let device = Device::of((*ib).device);
        drop(device.port.regions.remove(region.index));
        region.revoke();
        drop(KBox::from_raw(ib.cast::<Object<ffi::ib_mr, Mr>>()));
    }
    0
}

/// The argument of `ib_sg_to_pages` instead of a region: it reads the size of a page, writes the address
/// and the length, and hands its argument on to `map_page`. So the list of the pages is there
/// without a lock.
#[repr(C)]
struct Mapping {
    ib: ffi::ib_mr,
    pages: Pages,
}

unsafe extern "C" fn map_page(ib: *mut ffi::ib_mr, address: u64) -> c_int {
    // SAFETY: It is the first field of the `Mapping` of `map_mr_sg`.
    errno(unsafe { &mut (*ib.cast::<Mapping>()).pages }.push(address))
}

pub(super) unsafe extern "C" fn map_mr_sg(
    ib: *mut ffi::ib_mr,
    list: *mut ffi::scatterlist,
    count: c_int,
    offset: *mut c_uint,
) -> c_int {
    // SAFETY: It was created.
    let (mr, page_size) = unsafe { (own::<_, Mr>(ib), (*ib).page_size) };
    let pages = match mr.begin_map(page_size) {
        Ok(pages) => pages,
        Err(error) => return error.to_errno(),
    };
    let mut mapping = Mapping {
        ib: ffi::ib_mr {
            page_size,
            ..pin_init::zeroed()
        },
        pages,
    };
    let argument = (&raw mut mapping).cast();
    // SAFETY: The list is valid.
    let count = unsafe { ffi::ib_sg_to_pages(argument, list, count, offset, Some(map_page)) };
    mr.end_map(mapping.pages);
    // SAFETY: It was created, and its consumer waits for this call.
    unsafe { ((*ib).iova, (*ib).length) = (mapping.ib.iova, mapping.ib.length) };
    count
}
