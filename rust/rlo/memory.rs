// SPDX-License-Identifier: GPL-2.0

//! Translates a consumer's names for memory (keys, device addresses) to bytes that can be copied.
//!
//! Contexts: any.

use crate::{
    device::Device,
    ffi,
    mr::{
        Mr,
        Use, //
    },
    prelude::*, //
};
use core::marker::PhantomData;
use kernel::sync::Arc;

/// The key of all memory, for local use. Index 1 of the table of regions is reserved for it.
pub(crate) const DMA_LKEY: u32 = 0x0100;

pub(crate) const LOCAL_WRITE: u32 = ffi::ib_access_flags_IB_ACCESS_LOCAL_WRITE;
pub(crate) const REMOTE_WRITE: u32 = ffi::ib_access_flags_IB_ACCESS_REMOTE_WRITE;
pub(crate) const REMOTE_READ: u32 = ffi::ib_access_flags_IB_ACCESS_REMOTE_READ;

/// Access is refused: wrong key, bounds, rights or protection domain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused;

/// A run of bytes in the kernel's address space.
///
/// # Invariants
///
/// While it exists, `len` bytes from `start` are memory that a consumer has registered, or has
/// given by a work request that is not complete.
pub(crate) struct Piece<'a> {
    pub(crate) start: *mut u8,
    pub(crate) len: usize,
    _use: Option<Use>,
    /// It may borrow inline bytes of the work request.
    _bytes: PhantomData<&'a [u8]>,
}

impl Piece<'_> {
    /// # Safety
    ///
    /// As long as the piece exists, `len` bytes from `start` are memory that a consumer has
    /// registered, or has given by a work request that is not complete.
    pub(crate) unsafe fn new(start: *mut u8, len: usize, held: Option<Use>) -> Self {
        // INVARIANT: by the caller's promise.
        Self {
            start,
            len,
            _use: held,
            _bytes: PhantomData,
        }
    }
}

/// One end of a copy.
#[derive(Clone, Copy)]
pub(crate) enum Side<'a> {
    /// The pieces of a work request; `rights` is 0 to read, or `LOCAL_WRITE`.
    Local {
        pieces: &'a [ffi::ib_sge],
        rights: u32,
    },
    /// A peer's memory.
    Remote { key: u32, address: u64, rights: u32 },
    /// Bytes that came with the work request.
    Inline(&'a [u8]),
}

/// One side of a copy: the device and the protection domain of its keys.
#[derive(Clone, Copy)]
pub(crate) struct End<'a> {
    pub(crate) device: &'a Device,
    pub(crate) pd: usize,
    pub(crate) side: Side<'a>,
}

impl<'a> End<'a> {
    /// At most `want` bytes from `offset` on, for writing.
    pub(crate) fn room(&self, offset: u64, want: usize) -> Result<Piece<'a>, Refused> {
        match self.side {
            Side::Inline(_) => Err(Refused),
            Side::Local { .. } | Side::Remote { .. } => self.piece(offset, want),
        }
    }

    /// At most `want` bytes from `offset` on. Bytes of `Inline` are read-only.
    pub(crate) fn piece(&self, offset: u64, want: usize) -> Result<Piece<'a>, Refused> {
        match self.side {
            Side::Inline(bytes) => {
                let rest = bytes.get(offset as usize..).ok_or(Refused)?;
                let len = rest.len().min(want);
                // SAFETY: The bytes are borrowed for as long as the piece exists.
                Ok(unsafe { Piece::new(rest.as_ptr().cast_mut(), len, None) })
            }
            Side::Remote {
                key,
                address,
                rights,
            } => {
                let address = address.checked_add(offset).ok_or(Refused)?;
                let region = self.region(key).ok_or(Refused)?;
                Mr::piece(&region, key, self.pd, address, want, rights, self.device)
            }
            Side::Local { pieces, rights } => {
                let mut before = 0u64;
                for sge in pieces {
                    let end = before + u64::from(sge.length);
                    if offset < end {
                        let want = want.min((end - offset) as usize);
                        let address = sge.addr.checked_add(offset - before).ok_or(Refused)?;
                        return self.local(sge.lkey, address, want, rights);
                    }
                    before = end;
                }
                Err(Refused)
            }
        }
    }

    fn region(&self, key: u32) -> Option<Arc<Mr>> {
        self.device.regions.get(key >> 8)
    }

    fn local(
        &self,
        key: u32,
        address: u64,
        want: usize,
        rights: u32,
    ) -> Result<Piece<'a>, Refused> {
        if key == DMA_LKEY && self.device.limits.dma_lkey {
            let start = self.device.address(address, want).ok_or(Refused)?;
            // SAFETY: It is memory; the verbs ask its consumer to keep it until the work
            // request that names it is complete, and no copy goes on after that.
            return Ok(unsafe { Piece::new(start, want, None) });
        }
        let region = self.region(key).ok_or(Refused)?;
        Mr::piece(&region, key, self.pd, address, want, rights, self.device)
    }
}

/// The end at which a copy was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Source,
    Destination,
}

/// Copies `len` bytes, from an offset at one end to an offset at the other.
pub(crate) fn copy(
    (from, from_offset): (End<'_>, u64),
    (to, to_offset): (End<'_>, u64),
    len: usize,
) -> Result<(), Fault> {
    let mut done = 0;
    while done < len {
        let source = from
            .piece(from_offset + done as u64, len - done)
            .map_err(|_| Fault::Source)?;
        let target = to
            .room(to_offset + done as u64, source.len)
            .map_err(|_| Fault::Destination)?;
        // SAFETY: Both are memory for so long, by the invariant of `Piece`, and the target is no
        // longer than the source. Consumers, and other copies, may write to it meanwhile: so there
        // are no slices, and it is C that copies, to which this means other bytes and no more.
        unsafe { ffi::rlo_copy_run(target.start.cast(), source.start.cast(), target.len) };
        done += target.len;
    }
    Ok(())
}

/// Whether a whole range is accessible. It is checked before the first byte is copied to a peer's
/// memory, because a refused request must not change that memory.
pub(crate) fn check(end: End<'_>, len: u64) -> Result<(), Refused> {
    let mut done = 0;
    while done < len {
        let want = usize::try_from(len - done).unwrap_or(usize::MAX);
        done += end.piece(done, want)?.len as u64;
    }
    Ok(())
}
