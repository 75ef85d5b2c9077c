// SPDX-License-Identifier: GPL-2.0

//! Large copies between consumers, by the module's copy engine if the machine has one.
//!
//! Contexts: `copy` sleeps.

use crate::{
    copier::{
        self,
        Run,
        RUNS, //
    },
    ffi,
    memory::{
        End,
        Fault,
        Piece, //
    },
    prelude::*, //
};
use kernel::error::to_result;

/// The result of a copy.
pub(crate) struct Copied {
    pub(crate) bytes: usize,
    /// Bytes of the copy that the engine moved.
    pub(crate) offloaded: usize,
}

/// Copies at most `len` bytes, from an offset at one end to an offset at the other. Sleeps.
pub(crate) fn copy(from: (End<'_>, u64), to: (End<'_>, u64), len: usize) -> Result<Copied, Fault> {
    let mut runs = [Run::default(); RUNS];
    // Uses of regions are held until no descriptor is in flight.
    let mut pieces: [Option<(Piece<'_>, Piece<'_>)>; RUNS] = [const { None }; RUNS];
    let mut count = 0;
    let mut bytes = 0;
    let mut fault = None;
    for (run, held) in runs.iter_mut().zip(pieces.iter_mut()) {
        if bytes == len {
            break;
        }
        match pair(from, to, bytes, len - bytes) {
            Ok((source, target)) => {
                run.from = source.start.cast();
                run.to = target.start.cast();
                run.len = target.len;
                bytes += target.len;
                count += 1;
                *held = Some((source, target));
            }
            Err(found) => {
                fault = Some(found);
                break;
            }
        }
    }
    // SAFETY: The first `count` runs are valid for their length at both ends, by the invariant of
    // `Piece`, until the pieces are dropped below. A worker may sleep.
    let offloaded = unsafe { copier::copy(runs.get(..count).unwrap_or(&[])) };
    drop(pieces);
    match fault {
        Some(fault) => Err(fault),
        None => Ok(Copied { bytes, offloaded }),
    }
}

/// The next bytes that are contiguous at both ends.
fn pair<'a>(
    (from, from_offset): (End<'a>, u64),
    (to, to_offset): (End<'a>, u64),
    done: usize,
    rest: usize,
) -> Result<(Piece<'a>, Piece<'a>), Fault> {
    let source = from
        .piece(from_offset + done as u64, rest)
        .map_err(|_| Fault::Source)?;
    let target = to
        .room(to_offset + done as u64, source.len)
        .map_err(|_| Fault::Destination)?;
    Ok((source, target))
}

/// The engine may be requested while this exists.
pub(crate) struct Engine(());

impl Engine {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: Called once, before the first task.
        to_result(unsafe { ffi::rlo_engine_init() })?;
        Ok(Self(()))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: All devices are gone, and with them all tasks.
        unsafe { ffi::rlo_engine_exit() }
    }
}
