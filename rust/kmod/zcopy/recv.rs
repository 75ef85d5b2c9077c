// SPDX-License-Identifier: GPL-2.0

//! recvmsg(2) without a copy: Read ZCopy at the sink.
//!
//! RDMA Reads bring the peer's offer straight into the pinned pages of a waiting
//! reader. Then the list of pages is looked up again and compared, because the program
//! can change its memory at any time. Short reads and peeks get the bytes through a
//! buffer of the kernel. For a non-blocking read the peer is asked to send them as
//! Data.

use crate::{
    endpoint::Inner,
    engine::policy::threshold::Threshold,
    net::msg::RecvMsg,
    object::Sock,
    prelude::*,
    rdma::{
        mr::Access,
        pages::UserPages,
        region::Region, //
    },
    sock::{
        call::Call,
        wait::{
            WaitMode,
            FOREVER, //
        },
    },
    zcopy::{
        ahead::Ahead,
        reads::FETCH_LEN,
        room::Wish, //
    },
};
use kernel::sync::Arc;

/// Time for Reads in flight when their reader is killed. A silent peer may make the transport take
/// longer, and a killed program must not wait for it.
const KILLED_MS: u32 = 1000;

/// While this exists, a reader is waiting that could take the peer's offers. A socket may have
/// several.
pub(crate) struct Presence<'a> {
    sock: &'a Sock,
    told: bool,
}

impl<'a> Presence<'a> {
    pub(crate) fn new(sock: &'a Sock) -> Self {
        Self { sock, told: false }
    }

    /// Tells the engine, if zero copy is on.
    pub(crate) fn begin(&mut self) {
        if self.told {
            return;
        }
        let is_zcopy = |inner: &mut Inner| inner.link.as_ref().is_some_and(|link| link.is_zcopy());
        if !self.sock.look(is_zcopy) {
            return;
        }
        self.told = true;
        self.sock.drive(|inner| {
            inner.turns.readers.come();
            if let Some(engine) = inner.engine.as_mut() {
                engine.set_reading(true);
            }
        });
    }
}

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        if self.told {
            self.sock.drive(|inner| {
                let others = inner.turns.readers.go();
                if let Some(engine) = inner.engine.as_mut().filter(|_| !others) {
                    engine.set_reading(false);
                }
            });
        }
    }
}

impl Sock {
    /// Reads the peer's offer, if there is nothing else to read, or has the peer write.
    /// Returns the number of bytes that are in the reader's memory now. With 0 they are
    /// in flight, or there are none.
    pub(crate) fn receive_remote<'a>(
        &'a self,
        call: &mut Call<'a>,
        msg: &mut RecvMsg,
        wish: &Wish,
        ahead: Option<&mut Ahead>,
        timeo: &mut isize,
    ) -> Result<usize> {
        if self.look(|inner| inner.remote_len()) == 0 {
            // A reader that can receive ahead waits for an offer of the peer: only its length
            // is known in time.
            if wish.blocking && wish.plain && wish.hungry && ahead.is_none() {
                return self.receive_offered(call, msg, wish, timeo);
            }
            return Ok(0);
        }
        if wish.blocking && wish.plain {
            if let Some(n) = ahead.and_then(|ahead| self.read_ahead(call, msg, wish, ahead)) {
                return Ok(n);
            }
            call.own_peer().check()?;
            let n = self.receive_uncopied(call, msg, wish.room)?;
            if n > 0 {
                return Ok(n);
            }
        }
        if wish.hungry {
            self.drive(|inner| inner.fetch(self, wish.blocking, FETCH_LEN));
        }
        Ok(0)
    }

    /// Requests a part of the peer's offer for buffers of the kernel.
    pub(crate) fn fetch_remote(&self, blocking: bool) {
        if self.look(|inner| inner.remote_len()) > 0 {
            self.drive(|inner| inner.fetch(self, blocking, FETCH_LEN));
        }
    }

    fn receive_uncopied<'a>(
        &'a self,
        call: &mut Call<'a>,
        msg: &mut RecvMsg,
        room: usize,
    ) -> Result<usize> {
        let (addr, len) = msg.segment();
        let len = len.min(room);
        let room = len;
        let begun = self.look(|inner| {
            let direct = inner.sink_threshold(self) != Threshold::Off;
            let remote = usize::try_from(inner.remote_len()).unwrap_or(usize::MAX);
            let len = room.min(remote);
            let region_pages = inner.region_pages()?;
            let fits = direct && len >= super::READ_LEAST && inner.can_read_on();
            fits.then(|| {
                let generation = inner.generation();
                inner.turns.read.take(generation);
                (region_pages, len)
            })
        });
        let Some((region_pages, len)) = begun else {
            return Ok(0);
        };
        let end = match self.pin_room(region_pages, addr, (len, room), Access::LocalWrite) {
            Ok((region, pages)) => self.read_into(call, region, &pages),
            // Without memory for it, buffers of the kernel take the bytes.
            Err(_) => Ok(0),
        };
        self.end_reading(msg, end)
    }

    /// Reads into `region`, waits, and delivers the bytes to the program. Called with
    /// the turn to read.
    fn read_into<'a>(
        &'a self,
        call: &mut Call<'a>,
        region: Region,
        pages: &Arc<UserPages>,
    ) -> Result<usize> {
        let mut given = Some(region);
        let started = self.drive(|inner| inner.begin_reads(self, &mut given));
        drop(given);
        if started.is_err() {
            return Ok(0);
        }
        let mut done = None;
        let mut ended = || self.look(|inner| inner.end_reads(&mut done));
        let mut forever = FOREVER;
        let killed = self
            .wait_settled(call, &mut forever, WaitMode::Kill, &mut ended)
            .is_err();
        if killed {
            // Other programs with the socket get the bytes in flight. After exec() that is this one.
            self.look(Inner::stop_reads);
            if self
                .wait_settled_within(call, KILLED_MS, &mut ended)
                .is_err()
            {
                // Without these bytes the stream has a hole, so the connection ends.
                self.drive(|inner| inner.lose_bytes(self, inner.turns.read.generation()));
                self.await_unused(call, ended)?;
            }
        }
        // Back from the device, before the bytes are looked at.
        drop(done);
        self.deliver_filled(pages)
    }
}
