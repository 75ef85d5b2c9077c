// SPDX-License-Identifier: GPL-2.0

//! Receive buffers of a socket.
//!
//! A buffer is mapped while it may be posted. If it has unread bytes when its connection ends, it
//! is unmapped, because the device may go away before the program reads.
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
        page::Page,
        receive::Buffer, //
    },
};
use core::ptr::NonNull;
use kernel::sync::Arc;

enum Memory {
    Mapped(Mapping<Page>),
    Plain(Page),
}

/// A private receive buffer.
pub(crate) struct RxBuffer {
    memory: Memory,
    charge: Charge,
}

impl From<Buffer<Charge>> for RxBuffer {
    fn from(buffer: Buffer<Charge>) -> Self {
        Self {
            memory: Memory::Mapped(buffer.memory),
            charge: buffer.with,
        }
    }
}

impl RxBuffer {
    /// Allocates and maps `size` bytes. May sleep.
    pub(crate) fn new(sk: &Sk, device: &Arc<Device>, size: usize, need: Need) -> Result<Self> {
        let (page, charge) = alloc(sk, size, need)?;
        let mapping = Mapping::new(device, page, 0, size, Direction::FromDevice)?;
        Ok(Self {
            memory: Memory::Mapped(mapping),
            charge,
        })
    }

    /// A page that no device knows, with its charge.
    pub(crate) fn unmapped(page: Page, charge: Charge) -> Self {
        Self {
            memory: Memory::Plain(page),
            charge,
        }
    }

    /// Allocates `size` bytes that no device knows. May sleep.
    pub(crate) fn without_device(sk: &Sk, size: usize, need: Need) -> Result<Self> {
        let (page, charge) = alloc(sk, size, need)?;
        Ok(Self::unmapped(page, charge))
    }

    /// A copy of `bytes` that no device knows. May sleep.
    pub(crate) fn copy_of(sk: &Sk, bytes: &[u8], need: Need) -> Result<Self> {
        let buffer = Self::without_device(sk, bytes.len(), need)?;
        // SAFETY: The page is new, nobody else has it, and it has room for the bytes.
        unsafe {
            let to = buffer.page().address();
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        Ok(buffer)
    }

    pub(crate) fn page(&self) -> &Page {
        match &self.memory {
            Memory::Mapped(mapping) => mapping.memory(),
            Memory::Plain(page) => page,
        }
    }

    pub(crate) fn mapping(&self) -> Option<&Mapping<Page>> {
        match &self.memory {
            Memory::Mapped(mapping) => Some(mapping),
            Memory::Plain(_) => None,
        }
    }

    /// Number of bytes that the device may write.
    pub(crate) fn size(&self) -> usize {
        self.mapping().map_or(0, Mapping::size)
    }

    /// To be posted; none where it is not mapped.
    pub(crate) fn into_receive(self) -> Option<Buffer<Charge>> {
        match self.memory {
            Memory::Mapped(memory) => Some(Buffer {
                memory,
                with: self.charge,
            }),
            Memory::Plain(_) => None,
        }
    }

    /// Ends the mapping and gives the page away: no device will write to it again.
    pub(crate) fn into_page(self) -> Page {
        match self.memory {
            Memory::Mapped(mapping) => mapping.into_memory(),
            Memory::Plain(page) => page,
        }
    }

    /// Ends the mapping; the bytes stay readable.
    pub(crate) fn unmap(&mut self) {
        let page = self.page().clone();
        self.memory = Memory::Plain(page);
    }

    /// The first `len` bytes of the buffer, at most `N`, padded with zeroes. Called for
    /// a buffer that the device has returned.
    pub(crate) fn head<const N: usize>(&self, len: usize) -> [u8; N] {
        const { assert!(N <= kernel::page::PAGE_SIZE) };
        let mut head = [0u8; N];
        let from = self.page().address();
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
        self.page().holds(at, 1).then(|| {
            // SAFETY: The byte lies in the page. Volatile as in `head`: the memory is a
            // device's as well.
            unsafe { core::ptr::read_volatile(self.page().address().add(at)) }
        })
    }
}

/// Pages for `size` bytes, charged to the cgroup of `sk` and to the protocol. May sleep.
fn alloc(sk: &Sk, size: usize, need: Need) -> Result<(Page, Charge)> {
    let order = size
        .div_ceil(kernel::page::PAGE_SIZE)
        .next_power_of_two()
        .trailing_zeros();
    let charge = Charge::new(sk, 1 << order, need)?;
    // SAFETY: A socket of ours. A fresh allocation carries one reference.
    unsafe {
        let page = NonNull::new(ffi::sdp_alloc_pages(sk.sk(), order)).ok_or(ENOMEM)?;
        Ok((Page::from_raw(page), charge))
    }
}
