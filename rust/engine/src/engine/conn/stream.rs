// SPDX-License-Identifier: GPL-2.0

//! The send stream: which way its next bytes travel.
//!
//! rules: DATA, SRC, SINK, DISCARD

use super::{Connection, Mode, Output, RemoteSink};
use crate::engine::{
    flow::credit::Need,
    policy::{message, pipeline},
    wire::{
        avail::{SrcAvail, SRC_AVAIL_LEN},
        Body, Flags,
    },
    zcopy::{
        cancel::Cancel,
        runs::{Candidate, Front},
        targets::Place,
    },
};

/// Credits with which a write is cut: those that its chunks take, beside whole messages, and
/// what is kept back.
const CHUNK_CREDITS: u16 = 12;

impl Connection {
    /// The next bytes: written into a buffer that the sink offers, offered to be
    /// read, or as Data.
    pub(super) fn poll_stream(&mut self) -> Option<Output> {
        match self.front() {
            Front::Outstanding => self.poll_src_avail(),
            Front::Run(len) => {
                if let Some(place) = self.place() {
                    let output = self.write(place, len);
                    if output.is_some() {
                        self.lending.on_used();
                    }
                    return output;
                }
                self.poll_completion().or_else(|| self.poll_run())
            }
            Front::Plain(len) => {
                if let Some(place) = self.place().filter(|_| self.is_written(len)) {
                    return self.write(place, len.min(self.cfg.zcopy.max_write).min(self.gather));
                }
                // Written bytes come before bytes that are sent.
                if self.targets.written().is_some() {
                    return self.poll_completion();
                }
                self.poll_data(len)
            }
        }
    }

    /// Payload of a whole message, if a write of `len` bytes may go in chunks: nothing is
    /// queued or in flight, and what is queued leaves at once as Data.
    pub fn chunk_most(&self, len: u32) -> Option<u32> {
        let idle = self.stream.unsent() == 0 && self.slots.bytes() == 0;
        let open = self.state.is_connected() && self.check_send_open().is_ok();
        // A peer is asked for larger buffers if many bytes wait, and an offered one is written
        // to if they are more than a message.
        let uncut = self.worth_asking(len).is_some() || !self.targets.is_empty();
        let rich = self.credits.count() >= CHUNK_CREDITS;
        let may = idle && open && !uncut && rich && !self.stream.is_corked();
        may.then_some(self.next_payload())
    }

    fn front(&self) -> Front {
        self.runs.front(self.stream.unsent())
    }

    /// Where to write, if that is done at all.
    fn place(&self) -> Option<Place> {
        self.targets.place().filter(|_| self.cfg.zcopy.write)
    }

    /// Whether `len` plain bytes at the front are written rather than sent.
    fn is_written(&self, len: u32) -> bool {
        //= spec: URGENT-4
        let urgent = self
            .stream
            .urgent()
            .distance()
            .is_some_and(|mark| mark <= len);
        !urgent && message::is_write(len, self.max_payload)
    }

    /// An RDMA Write, recorded so that it can be completed later.
    fn write(&mut self, place: Place, len: u32) -> Option<Output> {
        if self.targets.writes() >= self.cfg.zcopy.write_depth || !self.may_send(Need::Control) {
            return None;
        }
        //= spec: SINK-3
        let len = len.min(place.free);
        self.targets.on_write(len);
        self.on_stream(len);
        self.stats.written_bytes_sent = self.stats.written_bytes_sent.wrapping_add(len.into());
        Some(Output::Write {
            to: RemoteSink {
                r_key: place.r_key,
                va: place.va,
            },
            len,
        })
    }

    /// RdmaWrCompl for the bytes written into the oldest buffer, if no more will be
    /// added: it is full, its sink wants it back, or the next bytes go another way.
    ///
    /// rules: SINK
    pub(super) fn poll_completion(&mut self) -> Option<Output> {
        let written = self.targets.written()?;
        let more = match self.front() {
            Front::Outstanding => false,
            Front::Run(_) => true,
            Front::Plain(len) => self.is_written(len),
        };
        if more && !self.targets.is_finishing() || !self.may_send(self.control_need()) {
            return None;
        }
        //= spec: SINK-4
        self.targets.on_completed();
        Some(self.send_control(Body::RdmaWrCompl(written)))
    }

    /// The run at the front: offered, or turned into plain bytes.
    fn poll_run(&mut self) -> Option<Output> {
        // A buffer that is not written into goes with the next message.
        let unused = self.place().is_none() && self.targets.is_unused();
        let possible = !unused && self.runs.candidate().is_some_and(|run| self.can_offer(run));
        // A peer that does not read is spared the round trip, and so are we.
        if possible && self.lending.wants() {
            return self.poll_src_avail();
        }
        self.runs.copy_front();
        self.poll_notice()
    }

    /// In Combined mode one byte is inline and one is not.
    fn can_offer(&self, run: Candidate) -> bool {
        //= spec: ADVERT-4
        self.cfg.zcopy.advertise
            && match self.modes.send() {
                Mode::Buffered => false,
                Mode::Combined => run.left >= 2 && self.inline_room() > 0,
                Mode::Pipelined => true,
            }
    }

    /// The most inline bytes: the header is longer than Data's.
    fn inline_room(&self) -> u32 {
        //= spec: HDR-3
        let header = u32::try_from(SRC_AVAIL_LEN).unwrap_or(u32::MAX);
        let room = self.max_payload.saturating_sub(header);
        room.min(self.next_payload())
    }

    /// Whether a SrcAvail may go now, apart from credits.
    ///
    /// rules: ADVERT, CROSS
    fn has_advert_room(&self) -> bool {
        let own = self.runs.outstanding();
        //= spec: ADVERT-1
        let all = own.saturating_add(self.offers.outstanding());
        //= spec: ADVERT-2
        let window = match self.modes.send() {
            Mode::Buffered => 0,
            Mode::Combined => 1,
            Mode::Pipelined => self.advert_window,
        };
        own < window
            && all < self.peer_adverts
            && self.targets.is_empty()
            // The peer judges by our acknowledgement what we knew.
            && !self.window.is_frozen()
            //= spec: SRC-5
            && self.runs.cancel == Cancel::No
    }

    /// Whether a SinkAvail could come that a SrcAvail would cross, and the program has
    /// more time than that.
    fn may_hold(&self) -> bool {
        self.modes.send() == Mode::Pipelined
            && self.runs.outstanding() == 0
            && self.targets.is_empty()
            && !self.send_closed()
    }

    /// The SrcAvail behind those that are outstanding.
    fn poll_src_avail(&mut self) -> Option<Output> {
        let run = self.runs.candidate()?;
        if !self.can_offer(run) || !self.has_advert_room() {
            return None;
        }
        if self.may_hold() && self.holding.holds() {
            return None;
        }
        //= spec: CREDIT-3
        if !self.may_send(Need::Payload) {
            self.count_stall();
            return None;
        }
        self.stalled = false;
        //= spec: SRC-2
        //= spec: SRC-3
        let inline = match self.modes.send() {
            Mode::Pipelined => 0,
            Mode::Buffered | Mode::Combined => {
                pipeline::inline_len(run.inline, run.left, self.inline_room())
            }
        };
        //= spec: SRC-1
        let advert = SrcAvail {
            len: run.left,
            r_key: run.r_key,
            va: run.va,
        };
        let flags = Flags {
            oob_pend: self.take_announcement(),
            ..Flags::default()
        };
        self.stream.on_sent(inline);
        let output = self.send(Body::SrcAvail(advert), flags, inline);
        self.runs.on_advertised(self.credits.last_sent(), inline);
        self.on_payload_sent(inline);
        self.stats.src_avails_sent = self.stats.src_avails_sent.wrapping_add(1);
        self.holding.on_sent();
        self.decline_if_stuck();
        Some(output)
    }

    /// Data from the first `front` bytes.
    fn poll_data(&mut self, front: u32) -> Option<Output> {
        let full = self.next_payload();
        let segment = self.stream.next(full, self.slots.has_small(), front)?;
        //= spec: CREDIT-3
        if !self.may_send(Need::Payload) {
            self.count_stall();
            return None;
        }
        self.stalled = false;
        let flags = Flags {
            //= spec: URGENT-1
            oob_pres: segment.urgent,
            oob_pend: self.take_announcement() || segment.urgent,
            req_pipe: false,
        };
        if flags.oob_pres {
            self.stats.urgent_sent = self.stats.urgent_sent.wrapping_add(1);
        }
        self.on_stream(segment.len);
        self.on_payload_sent(segment.len);
        let output = self.send(Body::Data, flags, segment.len);
        if self.stream.is_small(segment, full) {
            self.slots.on_small();
        }
        Some(output)
    }

    /// Whether the message announces an urgent byte: the first one that can. OFED
    /// tells its program of each announcement, not of each byte.
    ///
    /// rules: URGENT
    pub(super) fn take_announcement(&mut self) -> bool {
        //= spec: URGENT-2
        let wants = self.stream.urgent().wants_announcement();
        if wants {
            self.stream.urgent_mut().on_announced();
        }
        wants
    }

    /// `len` bytes have left the front of the stream.
    fn on_stream(&mut self, len: u32) {
        self.stream.on_sent(len);
        self.runs.on_sent(len);
    }

    fn on_payload_sent(&mut self, len: u32) {
        if len > 0 {
            self.targets.on_payload_sent();
        }
    }
}
