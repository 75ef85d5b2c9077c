// SPDX-License-Identifier: GPL-2.0

//! Translates a consumer's names for memory (keys, device addresses) to bytes that can be copied.
//!
//! Contexts: any.

use crate::{
    ffi,
    mr::{
        Mr,
        Refused,
        Use, //
    },
    port::Port,
    prelude::*, //
};
use core::{
    marker::PhantomData,
    mem::MaybeUninit, //
};

/// The key of all memory, for local use. Index 1 of the table of regions is reserved for it.
pub(crate) const DMA_LKEY: u32 = 0x0100;

pub(crate) const LOCAL_WRITE: u32 = ffi::ib_access_flags_IB_ACCESS_LOCAL_WRITE;
pub(crate) const REMOTE_WRITE: u32 = ffi::ib_access_flags_IB_ACCESS_REMOTE_WRITE;
pub(crate) const REMOTE_READ: u32 = ffi::ib_access_flags_IB_ACCESS_REMOTE_READ;

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

/// One side of a copy: the port and the protection domain of its keys.
#[derive(Clone, Copy)]
pub(crate) struct End<'a> {
    pub(crate) port: &'a Port,
    pub(crate) pd: usize,
    pub(crate) side: Side<'a>,
}

impl<'a> End<'a> {
    /// Whether bytes may be written there.
    fn writable(&self) -> Result<(), Refused> {
        match self.side {
            Side::Inline(_) => Err(Refused),
            Side::Local { .. } | Side::Remote { .. } => Ok(()),
        }
    }

    /// At most `want` bytes from `offset` on, for writing.
    pub(crate) fn room(&self, offset: u64, want: usize) -> Result<Piece<'a>, Refused> {
        self.writable()?;
        self.piece(offset, want)
    }

    /// At most `want` bytes from `offset` on. Bytes of `Inline` are read-only.
    pub(crate) fn piece(&self, offset: u64, want: usize) -> Result<Piece<'a>, Refused> {
        let mut first = None;
        let held = self.each_run(offset, want, |start, len| {
            first = Some((start, len));
            false
        })?;
        let (start, len) = first.ok_or(Refused)?;
        // SAFETY: Memory, by `each_run`, until `held` is dropped.
        Ok(unsafe { Piece::new(start, len, held) })
    }

    /// Shows `visit` the contiguous runs of at most `want` bytes from `offset` on, each with its
    /// length, until that returns false. There are fewer than `want` bytes where the pieces of a work
    /// request end, and before or behind a piece in a region. The runs are memory until the result
    /// is dropped.
    fn each_run(
        &self,
        offset: u64,
        want: usize,
        mut visit: impl FnMut(*mut u8, usize) -> bool,
    ) -> Result<Option<Use>, Refused> {
        match self.side {
            Side::Inline(bytes) => {
                let rest = bytes.get(offset as usize..).ok_or(Refused)?;
                visit(rest.as_ptr().cast_mut(), rest.len().min(want));
                Ok(None)
            }
            Side::Remote {
                key,
                address,
                rights,
            } => {
                let address = address.checked_add(offset).ok_or(Refused)?;
                self.region(key, rights, address, want, visit).map(Some)
            }
            Side::Local { pieces, rights } => {
                let (mut before, mut offset, mut rest) = (0u64, offset, want);
                for sge in pieces {
                    let end = before + u64::from(sge.length);
                    if offset < end {
                        let len = rest.min((end - offset) as usize);
                        let address = sge.addr.checked_add(offset - before).ok_or(Refused)?;
                        if sge.lkey != DMA_LKEY || !self.port.limits.dma_lkey {
                            if rest < want {
                                // A use is of one region: the next call translates it.
                                return Ok(None);
                            }
                            let used = self.region(sge.lkey, rights, address, len, visit)?;
                            return Ok(Some(used));
                        }
                        // It is memory; the verbs ask its consumer to keep it until the work
                        // request that names it is complete, and no copy goes on after that.
                        let start = self.port.addresses.start(address, len).ok_or(Refused)?;
                        rest -= len;
                        if !visit(start, len) || rest == 0 {
                            return Ok(None);
                        }
                        offset = end;
                    }
                    before = end;
                }
                if rest < want {
                    Ok(None)
                } else {
                    Err(Refused)
                }
            }
        }
    }

    fn region(
        &self,
        key: u32,
        rights: u32,
        address: u64,
        want: usize,
        visit: impl FnMut(*mut u8, usize) -> bool,
    ) -> Result<Use, Refused> {
        let region = self.port.regions.get(key >> 8).ok_or(Refused)?;
        let access = (key, self.pd, rights);
        Mr::each_run(&region, access, address, want, &self.port.addresses, visit)
    }

    /// Fills `runs` with at most `want` bytes from `offset` on.
    fn translate(&self, offset: u64, want: usize, runs: &mut Runs<'a>) -> Result<(), Refused> {
        runs.clear();
        runs.held = self.each_run(offset, want, |start, len| runs.push(start, len))?;
        Ok(())
    }
}

/// Runs that are translated at a time: the lock of a region is taken once for them.
const RUNS: usize = 16;

/// Runs of bytes in the kernel's address space, one after the other.
///
/// # Invariants
///
/// Each of the first `count` runs is initialised, and memory as in [`Piece`].
struct Runs<'a> {
    runs: [MaybeUninit<(*mut u8, usize)>; RUNS],
    count: usize,
    held: Option<Use>,
    _bytes: PhantomData<&'a [u8]>,
}

impl Runs<'_> {
    fn new() -> Self {
        Self {
            runs: [const { MaybeUninit::uninit() }; RUNS],
            count: 0,
            held: None,
            _bytes: PhantomData,
        }
    }

    fn clear(&mut self) {
        self.count = 0;
        self.held = None;
    }

    /// Adds a run. Returns whether there is room for another.
    fn push(&mut self, start: *mut u8, len: usize) -> bool {
        if let Some(run) = self.runs.get_mut(self.count) {
            // INVARIANT: initialised here; `each_run` promises the rest.
            run.write((start, len));
            self.count += 1;
        }
        self.count < RUNS
    }

    fn len(&self) -> usize {
        self.iter().map(|(_, len)| len).sum()
    }

    fn iter(&self) -> impl Iterator<Item = (*mut u8, usize)> + '_ {
        let runs = self.runs.iter().take(self.count);
        // SAFETY: Initialised by the invariant.
        runs.map(|run| unsafe { run.assume_init() })
    }

    /// Copies bytes of `from` until one of both is used up; returns their number.
    fn fill(&self, from: &Runs<'_>) -> usize {
        let mut sources = from.iter();
        let (mut source, mut rest) = (core::ptr::null_mut::<u8>(), 0);
        let mut done = 0;
        for (mut target, mut room) in self.iter() {
            while room > 0 {
                if rest == 0 {
                    match sources.next() {
                        Some(run) => (source, rest) = run,
                        None => return done,
                    }
                }
                let len = room.min(rest);
                // SAFETY: Both ranges are valid for `len` bytes, by the invariant of `Runs`.
                // Consumers and other copies may write to them meanwhile. So no slices are made,
                // and C copies, for which such a race only changes the copied bytes.
                unsafe { ffi::rlo_copy_run(target.cast(), source.cast(), len) };
                (target, source) = (target.wrapping_add(len), source.wrapping_add(len));
                (room, rest, done) = (room - len, rest - len, done + len);
            }
        }
        done
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
    to.writable().map_err(|_| Fault::Destination)?;
    let (mut source, mut target) = (Runs::new(), Runs::new());
    let mut done = 0;
    while done < len {
        from.translate(from_offset + done as u64, len - done, &mut source)
            .map_err(|_| Fault::Source)?;
        to.translate(to_offset + done as u64, source.len(), &mut target)
            .map_err(|_| Fault::Destination)?;
        match target.fill(&source) {
            0 => return Err(Fault::Source),
            copied => done += copied,
        }
    }
    Ok(())
}

/// Whether a whole range of a peer's memory is accessible. It is checked before the first byte is
/// copied there, because a refused request must not change that memory.
pub(crate) fn check(end: End<'_>, len: u64) -> Result<(), Refused> {
    let Side::Remote {
        key,
        address,
        rights,
    } = end.side
    else {
        return Err(Refused);
    };
    let region = end.port.regions.get(key >> 8).ok_or(Refused)?;
    region.allows((key, end.pd, rights), address, len, &end.port.addresses)
}
