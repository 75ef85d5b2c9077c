// SPDX-License-Identifier: GPL-2.0

//! What a link sends: messages, RDMA Writes of payload, probes; and what has completed.
//!
//! Contexts: under the endpoint's lock.

use crate::{
    engine::{
        conn::RemoteSink,
        wire::Header, //
    },
    ffi,
    link::{
        Flying,
        Link,
        Load,
        Sent,
        Slot,
        Timed,
        SEND_SGES,
        TIMED_ONE_IN, //
    },
    prelude::*,
    queue::{
        Frag,
        SendQueue, //
    },
    verbs::buffer::{
        Direction,
        Mapping, //
    },
};
use kernel::{
    page::PAGE_SIZE,
    time::Instant, //
};

/// Largest page that is mapped whole: a fragment of the socket. Pages that splice() gave may
/// be far larger.
const SHARED_MAX: usize = PAGE_SIZE << 3;

/// The pieces that one request gathers.
struct Pieces {
    sges: [ffi::ib_sge; SEND_SGES as usize],
    used: usize,
    /// Number of them that are the socket's fragments.
    frags: u8,
}

impl Pieces {
    fn new() -> Self {
        Self {
            sges: pin_init::zeroed(),
            used: 0,
            frags: 0,
        }
    }

    fn push(&mut self, addr: u64, length: u32, lkey: u32) -> Result {
        let sge = self.sges.get_mut(self.used).ok_or(EMSGSIZE)?;
        *sge = ffi::ib_sge { addr, length, lkey };
        self.used = self.used.saturating_add(1);
        Ok(())
    }

    fn as_mut(&mut self) -> &mut [ffi::ib_sge] {
        self.sges.get_mut(..self.used).unwrap_or(&mut [])
    }
}

impl Link {
    /// Posts `header` and the next `payload_len` bytes of `queue`.
    pub(crate) fn send(
        &mut self,
        queue: &mut SendQueue,
        header: &Header,
        payload_len: u32,
        solicited: bool,
    ) -> Result {
        if self.messages >= self.send_depth {
            return Err(ENOBUFS);
        }
        self.slots.reserve(GFP_KERNEL)?;
        let bytes = header.as_bytes();
        // The slot's last send has completed: sends complete in order, and at
        // most `send_depth` are posted.
        let addr = self.headers.put(bytes)?;
        let lkey = self.qp.domain().local_dma_lkey();
        let mut pieces = Pieces::new();
        pieces.push(addr, bytes.len() as u32, lkey)?;
        let pinned = self.gather(queue, payload_len, &mut pieces)?;
        self.untimed = self.untimed.saturating_sub(1);
        if self.timed.is_none() && self.untimed == 0 {
            self.untimed = TIMED_ONE_IN;
            self.timed = Some(Timed {
                before: self.slots.len(),
                since: Instant::now(),
            });
        }
        // SAFETY: The header lies in `headers`, in a slot that is not written to before this
        // has completed, and the payload where `gather` says.
        unsafe { self.qp.post_send(pieces.as_mut(), solicited) }?;
        // Room was reserved.
        self.slots.push(
            Slot::Message(Load {
                frags: pieces.frags,
                bytes: payload_len,
                extra: 0,
                pinned,
            }),
            GFP_KERNEL,
        )?;
        self.messages = self.messages.saturating_add(1);
        Ok(())
    }

    /// Posts a Write of the next `len` bytes of `queue`.
    pub(crate) fn write(&mut self, queue: &mut SendQueue, to: &RemoteSink, len: u32) -> Result {
        self.slots.reserve(GFP_KERNEL)?;
        let mut pieces = Pieces::new();
        let pinned = self.gather(queue, len, &mut pieces)?;
        // SAFETY: The payload stays where `gather` says until this has completed.
        unsafe { self.qp.post_write(pieces.as_mut(), to.r_key, to.va) }?;
        // Room was reserved.
        self.slots.push(
            Slot::Write(Load {
                frags: pieces.frags,
                bytes: len,
                extra: 0,
                pinned,
            }),
            GFP_KERNEL,
        )
    }

    /// Has `pieces` gather the next `len` bytes of `queue`. Returns whether they
    /// lie in a program's memory, which is all or none of them.
    ///
    /// They stay mapped until the request has completed: those of a program in a run of
    /// `source`, which is not over before that, others in `flying`. Both are dropped behind
    /// the queue pair.
    fn gather(&mut self, queue: &mut SendQueue, len: u32, pieces: &mut Pieces) -> Result<bool> {
        if len > 0 && queue.is_pinned() {
            let (lkey, addr) = self.source.place().ok_or(EINVAL)?;
            pieces.push(addr, len, lkey)?;
            queue.pass(len);
            self.source.on_gathered(len);
            return Ok(true);
        }
        let lkey = self.qp.domain().local_dma_lkey();
        let mut left = len;
        while left > 0 {
            let frag = queue.take(left).ok_or(EINVAL)?;
            left = left.saturating_sub(frag.len);
            let len = frag.len;
            let addr = self.fly(frag)?;
            pieces.push(addr, len, lkey)?;
            pieces.frags = pieces.frags.saturating_add(1);
        }
        Ok(false)
    }

    /// Enters `frag` into `flying`, mapped. Returns its address.
    ///
    /// A page of the socket is mapped whole, for all messages that gather from it while one
    /// of them is in flight.
    fn fly(&mut self, frag: Frag) -> Result<u64> {
        self.flying.reserve(GFP_KERNEL)?;
        let (offset, len) = (frag.offset as usize, frag.len as usize);
        let shared = self
            .flying
            .back_mut()
            .and_then(|last| Some((last.start, last.share(&frag)?)));
        let (start, mapping) = match shared {
            Some((start, mapping)) => {
                // Bytes that were written since it was mapped.
                mapping.sync_for_device(offset.wrapping_sub(start), len);
                (start, mapping)
            }
            None => {
                let size = frag.page.size();
                let (start, mapped) = if size <= SHARED_MAX {
                    (0, size)
                } else {
                    (offset, len)
                };
                let (device, way) = (self.qp.device(), Direction::ToDevice);
                // SAFETY: The page is kept with the mapping and behind it; the link has the
                // lease, and drops it behind `flying`.
                let mapping = unsafe { Mapping::new(device, &frag.page, start, mapped, way) }?;
                (start, mapping)
            }
        };
        let addr = mapping
            .addr()
            .wrapping_add(offset.wrapping_sub(start) as u64);
        // INVARIANT: it is behind the element that had the mapping. Room was reserved, so
        // that it is not dropped here.
        self.flying.push(
            Flying {
                mapping: Some(mapping),
                start,
                frag,
            },
            GFP_KERNEL,
        )?;
        Ok(addr)
    }

    /// Posts a keepalive probe, unless a request in flight will tell the same.
    pub(crate) fn probe(&mut self) -> Result<bool> {
        if !self.slots.is_empty() {
            return Ok(false);
        }
        self.slots.reserve(GFP_KERNEL)?;
        self.qp.post_probe()?;
        self.slots.push(Slot::Probe, GFP_KERNEL)?;
        self.messages = self.messages.saturating_add(1);
        Ok(true)
    }

    /// Whether every send has completed.
    pub(crate) fn is_send_idle(&self) -> bool {
        self.slots.is_empty()
    }

    /// The oldest request of the send queue has completed.
    pub(crate) fn take_sent(&mut self) -> Option<Sent> {
        let mut slot = self.slots.pop()?;
        if let Some(timed) = self.timed.as_mut() {
            match timed.before.checked_sub(1) {
                Some(before) => timed.before = before,
                None => {
                    let us = timed.since.elapsed().as_micros_ceil();
                    self.round_trip
                        .on_measured(u32::try_from(us).unwrap_or(u32::MAX));
                    self.timed = None;
                }
            }
        }
        match &slot {
            Slot::Message(_) | Slot::Probe => self.messages = self.messages.saturating_sub(1),
            Slot::Register | Slot::Revoke(_) => self.chores = self.chores.saturating_sub(1),
            Slot::UnprovenRead | Slot::Read | Slot::Write(_) => {}
        }
        if let Slot::Message(load) | Slot::Write(load) = &mut slot {
            for _ in 0..load.frags {
                let flying = self.flying.pop();
                let extra = flying.map_or(0, |flying| flying.frag.extra);
                load.extra = load.extra.saturating_add(extra);
            }
            if load.pinned {
                self.source.on_sent(load.bytes);
            }
        }
        Some(match slot {
            Slot::Message(load) => Sent::Message(load),
            Slot::Write(load) => Sent::Write(load),
            Slot::Probe => Sent::Probe,
            Slot::Register => Sent::Registered,
            Slot::Revoke(key) => Sent::Revoked(key),
            Slot::UnprovenRead => Sent::UnprovenRead,
            Slot::Read => Sent::Read,
        })
    }

    /// Number of runs and regions of waiting calls that this link keeps pinned.
    pub(crate) fn pins(&self) -> (u32, u32) {
        (self.source.awaited_len(), self.sink.pins())
    }
}
