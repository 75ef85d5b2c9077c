// SPDX-License-Identifier: GPL-2.0

//! Receive buffers of a socket.
//!
//! A buffer is mapped while it may be posted. If it has unread bytes when its connection ends, it
//! is unmapped, because the device may go away before the program reads.
//!
//! The first buffers of a connection are smaller than a page, and cut from one ([`Sheet`]): an
//! idle connection has no others.
//!
//! Contexts: making one may sleep. No locks.

use crate::{
    ffi,
    net::{
        account::{
            Charge,
            Need, //
        },
        sk::Sk,
    },
    prelude::*,
    rdma::{
        device::Device,
        mapping::{
            Direction,
            Mapping, //
        },
        page::{
            Page,
            Part, //
        },
        receive::{
            Buffer,
            Parts, //
        }, //
    },
};
use core::ptr::NonNull;
use kernel::{
    page::PAGE_SIZE,
    sync::Arc, //
};

enum Memory {
    Mapped(Buffer<Arc<Charge>>),
    Plain { part: Part, _charge: Arc<Charge> },
}

/// A private receive buffer. Those that are parts of the same page share its charge.
pub(crate) struct RxBuffer(Memory);

/// The rest of a page that buffers are cut from.
#[derive(Default)]
pub(crate) struct Sheet(Option<(Part, Arc<Charge>)>);

impl Sheet {
    /// The next `size` bytes, of a new page if need be. May sleep.
    fn cut(&mut self, sk: &Sk, size: usize, need: Need) -> Result<(Part, Arc<Charge>)> {
        if let Some((rest, charge)) = self.0.as_mut() {
            if let Some(part) = rest.cut(size) {
                return Ok((part, charge.clone()));
            }
        }
        let (page, charge) = alloc(sk, size, need)?;
        let mut rest = Part::from(page);
        let part = rest.cut(size).ok_or(EINVAL)?;
        self.0 = Some((rest, charge.clone()));
        Ok((part, charge))
    }
}

impl From<Buffer<Arc<Charge>>> for RxBuffer {
    fn from(buffer: Buffer<Arc<Charge>>) -> Self {
        Self(Memory::Mapped(buffer))
    }
}

impl RxBuffer {
    /// Allocates and maps `size` bytes. May sleep.
    pub(crate) fn new(sk: &Sk, device: &Arc<Device>, size: usize, need: Need) -> Result<Self> {
        let (page, charge) = alloc(sk, size, need)?;
        Self::mapped(device, page.into(), size, charge)
    }

    /// As [`new`](Self::new), from `sheet` where that leaves a page room for others.
    pub(crate) fn of_sheet(
        sheet: &mut Sheet,
        sk: &Sk,
        device: &Arc<Device>,
        size: usize,
        need: Need,
    ) -> Result<Self> {
        if Self::in_page(size) < 2 {
            return Self::new(sk, device, size, need);
        }
        let (part, charge) = sheet.cut(sk, size, need)?;
        Self::mapped(device, part, size, charge)
    }

    /// How many buffers of `size` bytes are cut from a page, at multiples of it; 1 if they are
    /// not.
    pub(crate) fn in_page(size: usize) -> usize {
        let count = PAGE_SIZE.checked_div(size).unwrap_or(0);
        if count.saturating_mul(size) == PAGE_SIZE {
            count
        } else {
            1
        }
    }

    fn mapped(device: &Arc<Device>, part: Part, size: usize, charge: Arc<Charge>) -> Result<Self> {
        let parts = Parts {
            memory: Mapping::new(device, part, 0, size, Direction::FromDevice)?,
            with: charge,
        };
        Ok(Self(Memory::Mapped(KBox::new(parts, GFP_KERNEL)?)))
    }

    /// Memory that no device knows, with its charge.
    pub(crate) fn unmapped(part: Part, charge: Arc<Charge>) -> Self {
        Self(Memory::Plain {
            part,
            _charge: charge,
        })
    }

    /// Allocates `size` bytes that no device knows. May sleep.
    pub(crate) fn without_device(sk: &Sk, size: usize, need: Need) -> Result<Self> {
        let (page, charge) = alloc(sk, size, need)?;
        Ok(Self::unmapped(page.into(), charge))
    }

    /// A copy of `bytes` that no device knows. May sleep.
    pub(crate) fn copy_of(sk: &Sk, bytes: &[u8], need: Need) -> Result<Self> {
        let buffer = Self::without_device(sk, bytes.len(), need)?;
        // SAFETY: The page is new, no other code has it, and it has room for the bytes.
        unsafe {
            let to = buffer.part().address();
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        Ok(buffer)
    }

    /// The memory.
    pub(crate) fn part(&self) -> &Part {
        match &self.0 {
            Memory::Mapped(buffer) => buffer.memory.memory(),
            Memory::Plain { part, .. } => part,
        }
    }

    pub(crate) fn mapping(&self) -> Option<&Mapping<Part>> {
        match &self.0 {
            Memory::Mapped(buffer) => Some(&buffer.memory),
            Memory::Plain { .. } => None,
        }
    }

    /// Number of bytes that the device may write.
    pub(crate) fn size(&self) -> usize {
        self.mapping().map_or(0, Mapping::size)
    }

    /// To be posted; none where it is not mapped.
    pub(crate) fn into_receive(self) -> Option<Buffer<Arc<Charge>>> {
        match self.0 {
            Memory::Mapped(buffer) => Some(buffer),
            Memory::Plain { .. } => None,
        }
    }

    /// Ends the mapping and gives the memory away: no device will write to it again.
    pub(crate) fn into_part(self) -> Part {
        match self.0 {
            Memory::Mapped(buffer) => KBox::into_inner(buffer).memory.into_memory(),
            Memory::Plain { part, .. } => part,
        }
    }

    /// Ends the mapping; the bytes stay readable.
    pub(crate) fn unmap(&mut self) {
        if let Memory::Mapped(buffer) = &self.0 {
            *self = Self::unmapped(buffer.memory.memory().clone(), buffer.with.clone());
        }
    }

    /// The byte at `at`, if the buffer is so long. Called for one that the device has given
    /// back.
    pub(crate) fn byte(&self, at: usize) -> Option<u8> {
        let mut byte = [0];
        self.part().read(at, &mut byte).then(|| byte[0])
    }
}

/// Pages for `size` bytes, charged to the cgroup of `sk` and to the protocol. May sleep.
fn alloc(sk: &Sk, size: usize, need: Need) -> Result<(Page, Arc<Charge>)> {
    let order = size
        .div_ceil(PAGE_SIZE)
        .next_power_of_two()
        .trailing_zeros();
    let charge = Arc::new(Charge::new(sk, 1 << order, need)?, GFP_KERNEL)?;
    // SAFETY: A socket of ours. A fresh allocation carries one reference.
    unsafe {
        let page = NonNull::new(ffi::sdp_alloc_pages(sk.sk(), order)).ok_or(ENOMEM)?;
        Ok((Page::from_raw(page), charge))
    }
}
