// SPDX-License-Identifier: GPL-2.0

//! Pages and their DMA mappings.

use crate::{
    account::{
        Charge,
        Need, //
    },
    ffi,
    prelude::*,
    verbs::device::Device, //
};
use core::ptr::NonNull;
use kernel::sync::Arc;

/// One counted reference to a (possibly compound) page of the kernel's linear
/// mapping.
///
/// # Invariants
///
/// `page` is valid and this value owns one reference to it.
pub(crate) struct Page {
    page: NonNull<ffi::page>,
}

// SAFETY: A page and its reference count may be used from any context.
unsafe impl Send for Page {}
// SAFETY: The count is atomic, and `Page` gives out no Rust reference to the memory.
unsafe impl Sync for Page {}

impl Page {
    /// Allocates `1 << order` pages charged to the cgroup of `sk`. May sleep.
    ///
    /// # Safety
    ///
    /// `sk` is a valid socket.
    pub(crate) unsafe fn alloc(sk: *mut ffi::sock, order: u32) -> Result<Self> {
        // SAFETY: `sk` is a valid socket, by the caller's promise.
        let page = unsafe { ffi::sdp_alloc_pages(sk, order) };
        // INVARIANT: a fresh allocation carries one reference, ours.
        Ok(Self {
            page: NonNull::new(page).ok_or(ENOMEM)?,
        })
    }

    /// Takes another reference to `page`.
    ///
    /// # Safety
    ///
    /// `page` is valid and referenced by the caller.
    pub(crate) unsafe fn get(page: NonNull<ffi::page>) -> Self {
        // SAFETY: The caller has a reference, so that the count is not zero.
        unsafe { ffi::sdp_get_page(page.as_ptr()) };
        // INVARIANT: the reference taken above.
        Self { page }
    }

    pub(crate) fn as_ptr(&self) -> *mut ffi::page {
        self.page.as_ptr()
    }

    /// The page, with the reference: the caller puts it.
    pub(crate) fn into_raw(self) -> *mut ffi::page {
        core::mem::ManuallyDrop::new(self).as_ptr()
    }

    /// Bytes of the page and of those that it is the head of.
    pub(crate) fn size(&self) -> usize {
        // SAFETY: The page is valid by the invariant; its order is fixed while it is
        // referenced.
        unsafe { ffi::sdp_page_size(self.page.as_ptr()) }
    }

    /// Whether `len` bytes from `offset` on lie in the page.
    pub(crate) fn holds(&self, offset: usize, len: usize) -> bool {
        offset
            .checked_add(len)
            .is_some_and(|end| end <= self.size())
    }

    /// Start of the memory.
    pub(crate) fn address(&self) -> *mut u8 {
        // SAFETY: The page is valid by the invariant. It has an address, because 64-bit
        // machines have no high memory.
        unsafe { ffi::sdp_page_address(self.page.as_ptr()) }.cast()
    }
}

impl Clone for Page {
    fn clone(&self) -> Self {
        // SAFETY: Valid by the invariant, referenced by `self`.
        unsafe { Self::get(self.page) }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: By the invariant there is a reference, which is dropped here.
        unsafe { ffi::sdp_put_page(self.page.as_ptr()) };
    }
}

/// The direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    ToDevice,
    FromDevice,
}

impl Direction {
    pub(super) fn raw(self) -> i32 {
        // The values of `enum dma_data_direction`, which are fixed.
        match self {
            Direction::ToDevice => 1,
            Direction::FromDevice => 2,
        }
    }
}

/// A DMA mapping of a range of memory.
///
/// # Invariants
///
/// `addr` was returned by `ib_dma_map_page` or `ib_dma_map_single` for `len`
/// bytes and `direction` on `device` and was not unmapped. The removal of `device` waits
/// until this is dropped.
pub(crate) struct Mapping {
    device: Arc<Device>,
    addr: u64,
    len: usize,
    direction: Direction,
}

impl Mapping {
    /// Maps `len` bytes at `offset` of `page`; EINVAL where they do not lie in it.
    ///
    /// # Safety
    ///
    /// The page outlives the mapping: owners keep both in one struct, mapping first. The
    /// device is leased until the mapping is dropped.
    pub(crate) unsafe fn new(
        device: &Arc<Device>,
        page: &Page,
        offset: usize,
        len: usize,
        direction: Direction,
    ) -> Result<Self> {
        if !page.holds(offset, len) {
            return Err(EINVAL);
        }
        // SAFETY: The device is leased, by the caller's promise; the page is valid by its
        // type's invariant, and has these bytes.
        unsafe {
            let addr = ffi::sdp_ib_dma_map_page(
                device.as_ptr(),
                page.as_ptr(),
                offset,
                len,
                direction.raw(),
            );
            Self::mapped(device, addr, len, direction)
        }
    }

    /// Maps memory for the device.
    ///
    /// # Safety
    ///
    /// The memory came from `kmalloc`, outlives the mapping and stays where it is. The
    /// device is leased until the mapping is dropped.
    pub(super) unsafe fn of_memory(
        device: &Arc<Device>,
        memory: &mut [u8],
        direction: Direction,
    ) -> Result<Self> {
        // SAFETY: By the caller's promise the device is leased, and the memory physically
        // contiguous, as all of `kmalloc` is.
        unsafe {
            let addr = ffi::sdp_ib_dma_map_single(
                device.as_ptr(),
                memory.as_mut_ptr().cast(),
                memory.len(),
                direction.raw(),
            );
            Self::mapped(device, addr, memory.len(), direction)
        }
    }

    /// Takes over the result of a mapping call.
    ///
    /// # Safety
    ///
    /// `addr` is that result, for `len` bytes and `direction`. The device is leased until
    /// the mapping is dropped.
    unsafe fn mapped(
        device: &Arc<Device>,
        addr: u64,
        len: usize,
        direction: Direction,
    ) -> Result<Self> {
        // SAFETY: The device is leased, and `addr` comes from the mapping call, by the
        // caller's promise.
        if unsafe { ffi::sdp_ib_dma_mapping_error(device.as_ptr(), addr) } != 0 {
            return Err(ENOMEM);
        }
        // INVARIANT: just mapped.
        Ok(Self {
            device: device.clone(),
            addr,
            len,
            direction,
        })
    }

    /// Address for an SGE.
    pub(crate) fn addr(&self) -> u64 {
        self.addr
    }

    /// Whether `len` bytes at `offset` are mapped.
    pub(crate) fn covers(&self, offset: usize, len: usize) -> bool {
        offset.checked_add(len).is_some_and(|end| end <= self.len)
    }

    /// The address and length of `len` bytes at `offset`, as far as they are mapped.
    fn range(&self, offset: usize, len: usize) -> (u64, usize) {
        let offset = offset.min(self.len);
        let len = len.min(self.len.wrapping_sub(offset));
        (self.addr.wrapping_add(offset as u64), len)
    }

    /// Gives `len` bytes at `offset` to the CPU after the device wrote them.
    pub(crate) fn sync_for_cpu(&self, offset: usize, len: usize) {
        let dir = self.direction.raw();
        let (addr, len) = self.range(offset, len);
        // SAFETY: The range is inside of the mapping, whose device waits, by the invariant.
        unsafe { ffi::sdp_ib_dma_sync_for_cpu(self.device.as_ptr(), addr, len, dir) };
    }

    /// Gives `len` bytes at `offset` back to the device.
    pub(crate) fn sync_for_device(&self, offset: usize, len: usize) {
        let dir = self.direction.raw();
        let (addr, len) = self.range(offset, len);
        // SAFETY: The range is inside of the mapping, whose device waits, by the invariant.
        unsafe { ffi::sdp_ib_dma_sync_for_device(self.device.as_ptr(), addr, len, dir) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let dir = self.direction.raw();
        // SAFETY: Mapped, on a device that waits, by the invariant; this is the only
        // unmapping.
        unsafe { ffi::sdp_ib_dma_unmap_page(self.device.as_ptr(), self.addr, self.len, dir) };
    }
}

/// A private receive buffer.
///
/// It is mapped while it may be posted. If a buffer has unread bytes when its
/// connection ends, it is unmapped, because the device may go away before the program
/// reads.
pub(crate) struct RxBuffer {
    mapping: Option<Mapping>,
    page: Page,
    _charge: Charge,
}

impl RxBuffer {
    /// Allocates and maps `size` bytes. May sleep.
    ///
    /// # Safety
    ///
    /// `sk` is a valid socket. The device is leased until the buffer is unmapped or
    /// dropped.
    pub(crate) unsafe fn new(
        sk: *mut ffi::sock,
        device: &Arc<Device>,
        size: usize,
        need: Need,
    ) -> Result<Self> {
        // SAFETY: `sk` is a valid socket, by the caller's promise.
        let mut buffer = unsafe { Self::without_device(sk, size, need) }?;
        let way = Direction::FromDevice;
        // SAFETY: The page is dropped behind the mapping, as fields are in their order; the
        // lease is the caller's promise.
        let mapping = unsafe { Mapping::new(device, &buffer.page, 0, size, way) }?;
        buffer.mapping = Some(mapping);
        Ok(buffer)
    }

    /// A page that no device knows, with its charge.
    pub(crate) fn unmapped(page: Page, charge: Charge) -> Self {
        Self {
            mapping: None,
            page,
            _charge: charge,
        }
    }

    /// Allocates `size` bytes that no device knows. May sleep.
    ///
    /// # Safety
    ///
    /// `sk` is a valid socket.
    pub(crate) unsafe fn without_device(
        sk: *mut ffi::sock,
        size: usize,
        need: Need,
    ) -> Result<Self> {
        let order = size
            .div_ceil(kernel::page::PAGE_SIZE)
            .next_power_of_two()
            .trailing_zeros();
        // SAFETY: `sk` is a valid socket, by the caller's promise.
        let (charge, page) =
            unsafe { (Charge::new(sk, 1 << order, need)?, Page::alloc(sk, order)?) };
        Ok(Self::unmapped(page, charge))
    }

    /// A copy of `bytes` that no device knows. May sleep.
    ///
    /// # Safety
    ///
    /// `sk` is a valid socket.
    pub(crate) unsafe fn copy_of(sk: *mut ffi::sock, bytes: &[u8], need: Need) -> Result<Self> {
        // SAFETY: `sk` is a valid socket, by the caller's promise.
        let buffer = unsafe { Self::without_device(sk, bytes.len(), need) }?;
        // SAFETY: The page is new, nobody else has it, and it has room for the bytes.
        unsafe {
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.page.address(), bytes.len())
        };
        Ok(buffer)
    }

    pub(crate) fn page(&self) -> &Page {
        &self.page
    }

    pub(crate) fn mapping(&self) -> Option<&Mapping> {
        self.mapping.as_ref()
    }

    /// Number of bytes that the device may write.
    pub(crate) fn size(&self) -> usize {
        self.mapping.as_ref().map_or(0, |mapping| mapping.len)
    }

    /// Ends the mapping and gives the page away: no device will write to it again.
    pub(crate) fn into_page(self) -> Page {
        drop(self.mapping);
        self.page
    }

    /// Ends the mapping; the bytes stay readable.
    pub(crate) fn unmap(&mut self) {
        self.mapping = None;
    }

    /// The first `len` bytes of the buffer, at most `N`, padded with zeroes. Called for
    /// a buffer that the device has returned.
    pub(crate) fn head<const N: usize>(&self, len: usize) -> [u8; N] {
        const { assert!(N <= kernel::page::PAGE_SIZE) };
        let mut head = [0u8; N];
        let from = self.page.address();
        for (at, byte) in head.iter_mut().enumerate().take(len) {
            // SAFETY: A page has at least `PAGE_SIZE` bytes, and `N` is no more. Volatile,
            // because the memory is a device's as well: one that still writes there makes
            // the byte another one and nothing worse.
            *byte = unsafe { core::ptr::read_volatile(from.add(at)) };
        }
        head
    }

    /// The byte at `at`, if the buffer is so long. Called for one that the device has given
    /// back.
    pub(crate) fn byte(&self, at: usize) -> Option<u8> {
        self.page.holds(at, 1).then(|| {
            // SAFETY: The byte lies in the page. Volatile as in `head`: the memory is a
            // device's as well.
            unsafe { core::ptr::read_volatile(self.page.address().add(at)) }
        })
    }
}
