// SPDX-License-Identifier: GPL-2.0

//! recvmsg(2) without a copy: Write ZCopy at the sink.
//!
//! A recv() that finds no bytes offers its memory to the peer (SinkAvail). The peer may
//! write to it until the call has enough bytes, or until the offer is taken back by a
//! signal, a timeout, or the end of the connection. The key is invalidated before the
//! call returns the bytes.

use super::room::Wish;
use crate::{
    ffi,
    net::msg::RecvMsg,
    object::Sock,
    prelude::*,
    rdma::mr::Access,
    sock::{
        call::Call,
        wait::WaitMode, //
    }, //
};

impl Sock {
    /// Offers the reader's memory, if there is nothing else to read, and waits. Returns
    /// the number of bytes written to it; 0 means that other bytes came, or that no
    /// offer was possible.
    pub(super) fn receive_offered<'a>(
        &'a self,
        call: &mut Call<'a>,
        msg: &mut RecvMsg,
        wish: &Wish,
        timeo: &mut isize,
    ) -> Result<usize> {
        let (addr, len) = msg.segment();
        let len = len.min(wish.room);
        let threshold = self.look(|inner| inner.sink_threshold(self));
        if threshold.least_of(len as u64) == 0 || self.is_shut() {
            return Ok(0);
        }
        let Some(region_pages) = self.drive(|inner| inner.begin_to_offer(len)) else {
            return Ok(0);
        };
        let end = self.offer_at(call, region_pages, addr, len, timeo);
        self.end_reading(msg, end)
    }

    fn is_shut(&self) -> bool {
        self.shutdown_bits() & ffi::RCV_SHUTDOWN != 0
    }

    /// Called with the turn to read.
    fn offer_at<'a>(
        &'a self,
        call: &mut Call<'a>,
        region_pages: u32,
        addr: usize,
        len: usize,
        timeo: &mut isize,
    ) -> Result<usize> {
        let pinned = self.pin_room(region_pages, addr, (len, len), Access::RemoteWrite);
        let Ok((region, pages)) = pinned else {
            // Without memory for it, messages bring the bytes.
            return Ok(0);
        };
        let mut given = Some(region);
        let offered = self.drive(|inner| inner.offer_buffer(&mut given));
        drop(given);
        if offered.is_err() {
            return Ok(0);
        }
        let mut done = None;
        let waited = self.wait_settled(call, timeo, WaitMode::Signals, || {
            let over = self.look(|inner| inner.end_offer(&mut done));
            // An offer ends when no call reads any more.
            over.or_else(|| self.is_shut().then_some(false))
        });
        if waited != Ok(true) {
            if let Err(reason) = waited {
                self.count_cancel(reason);
            }
            self.drive(|inner| {
                if let Some(engine) = inner.engine.as_mut() {
                    engine.cancel_sinks();
                }
            });
            self.await_unused(call, || self.look(|inner| inner.end_offer(&mut done)))?;
        }
        // Unmapped from the device before the bytes are looked at.
        drop(done);
        let n = self.deliver_filled(&pages)?;
        match waited {
            // Bytes that came meanwhile are for the reader, as in TCP.
            Err(e) if n == 0 && self.look(|inner| inner.recv.is_empty()) => Err(e),
            _ => Ok(n),
        }
    }
}
