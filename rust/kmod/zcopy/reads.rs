// SPDX-License-Identifier: GPL-2.0

//! RDMA Reads of the peer's offers, for a reader that waits, for one that was promised its bytes,
//! and for buffers of the kernel: what the engine and completions change.
//!
//! Locks: under the endpoint's lock.

use crate::{
    endpoint::Inner,
    net::account::Need,
    object::Sock,
    prelude::*,
    queue::{
        Kind,
        RxBuffer,
        Segment, //
    },
    rdma::region::Region,
    trace::{
        self,
        Of,
        Path, //
    }, //
};

/// Length of one Read into a buffer of the kernel.
pub(super) const FETCH_LEN: u32 = (kernel::page::PAGE_SIZE << 3) as u32;

impl Inner {
    /// Whether a reader's memory can be used: the bytes that come to it would be the
    /// next ones.
    pub(super) fn can_read_on(&self) -> bool {
        let ready = self
            .link
            .as_ref()
            .is_some_and(|link| link.can_register() && link.sink.is_idle());
        ready && self.recv.is_empty() && !self.turns.read.is_pinned()
    }

    /// Registers `region` and starts to read into it; takes it on success.
    pub(super) fn begin_reads(&mut self, sock: &Sock, region: &mut Option<Region>) -> Result {
        let ready = self.can_read_on();
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return Err(EPIPE);
        };
        if !ready || engine.next_remote().is_none() {
            return Err(EAGAIN);
        }
        link.reserve_reads(1)?;
        let lent = link.lend(region.take().ok_or(EINVAL)?);
        let lent = lent.map_err(|given| {
            *region = Some(given);
            EAGAIN
        })?;
        let posted = link.register(&lent);
        link.sink.begin(lent);
        self.turns.read.pin();
        if posted.is_err() {
            engine.handle_link_failed();
        } else {
            self.read_on(sock);
        }
        Ok(())
    }

    /// Continues to read into the reader's memory, while there are bytes and room.
    pub(crate) fn read_on(&mut self, sock: &Sock) {
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        while let room @ 1.. = link.sink.room() {
            if link.reserve_reads(1).is_err() {
                sock.refill_soon();
                break;
            }
            let Ok(remote) = engine.start_read(room) else {
                break;
            };
            if link.read_for_program(&remote).is_err() {
                engine.handle_link_failed();
                break;
            }
        }
    }

    /// No further Read begins into the reader's memory.
    pub(super) fn stop_reads(&mut self) {
        if let Some(link) = self.link.as_mut() {
            link.sink.stop();
        }
    }

    /// `Some` when no Read can access the reader's memory any more; `done` gets its
    /// region.
    pub(super) fn end_reads(&mut self, done: &mut Option<Region>) -> Option<()> {
        if !self.turns.read.is_pinned() {
            return Some(());
        }
        let link = self.link.as_mut()?;
        *done = Some(link.take_sink()?);
        self.turns.read.unpin();
        Some(())
    }

    /// Requests a part of the peer's offer for buffers of the kernel: by a Read of at most `most`
    /// bytes for a `blocking` call, otherwise as Data.
    pub(super) fn fetch(&mut self, sock: &Sock, blocking: bool, most: u32) {
        let turn = &self.turns.read;
        let idle = !turn.is_taken() && !turn.is_pinned();
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        if !idle || !link.sink.is_idle() {
            return;
        }
        let device = link.qp().device();
        let buffer = RxBuffer::new(sock, device, FETCH_LEN as usize, Need::Growth);
        let ready = buffer.and_then(|buffer| {
            link.reserve_reads(1)?;
            self.recv.reserve()?;
            Ok(buffer)
        });
        match ready {
            Ok(buffer) if blocking => {
                if let Ok(remote) = engine.start_read(most.min(FETCH_LEN)) {
                    if link.read_for_kernel(&remote, buffer).is_err() {
                        engine.handle_link_failed();
                    }
                }
            }
            _ => {
                if !blocking {
                    link.sink.decline(engine.remote_len());
                }
                engine.decline();
            }
        }
    }

    /// A Read has completed, into `buffer` or into the reader's memory.
    pub(crate) fn on_read(&mut self, sock: &Sock, buffer: Option<RxBuffer>) {
        let (Some(link), Some(engine)) = (self.link.as_mut(), self.engine.as_mut()) else {
            return;
        };
        let Some(len) = link.sink.pop() else {
            return;
        };
        engine.handle_read_completed();
        let of = Of(sock, &self.local, &self.peer);
        match buffer {
            None => {
                sock.count(|t| &t.zcopy_bytes_received, len);
                trace::receive(of, len, Path::Read);
                self.recv.pass(len);
                self.turns.read.on_filled(len);
                self.read_on(sock);
                self.on_promised(len);
                self.wake().settled = true;
            }
            Some(buffer) => {
                sock.count(|t| &t.fetched_bytes_received, len);
                trace::receive(of, len, Path::Fetched);
                if let Some(mapping) = buffer.mapping() {
                    mapping.sync_for_cpu(0, len as usize);
                }
                let segment = Segment {
                    buffer,
                    offset: 0,
                    len,
                    kind: Kind::Aside,
                };
                if self.recv.push(segment, false).is_err() {
                    engine.handle_link_failed();
                }
                let tailing = self.turns.read.is_tailing();
                let wake = self.wake();
                wake.readable = true;
                wake.settled |= tailing;
            }
        }
    }

    /// A Read of `len` bytes has completed. After the last one the promise is kept.
    fn on_promised(&mut self, len: u32) {
        let Some(link) = self.link.as_mut() else {
            return;
        };
        let Some(promise) = link.sink.promise.as_mut() else {
            return;
        };
        promise.on_filled(len);
        if !link.sink.is_idle() || link.sink.room() > 0 {
            return;
        }
        let Some(region) = link.take_sink() else {
            return;
        };
        self.turns.read.unpin();
        let done = link.sink.promise.take().map(|mut promise| {
            promise.on_done(region);
            promise
        });
        self.wake().kept = done;
    }

    /// The promise has ended.
    pub(crate) fn end_promise(&mut self) {
        self.turns.read.end_promise();
        self.wake_for_turn();
    }

    /// The call has the bytes behind the promised ones, or will not have them.
    pub(super) fn end_tail(&mut self) {
        self.turns.read.end_tail();
        self.wake_for_turn();
    }

    /// The turn to read may have ended.
    fn wake_for_turn(&mut self) {
        let wake = self.wake();
        wake.readable = true;
        wake.settled = true;
    }
}
