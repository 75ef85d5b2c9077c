// SPDX-License-Identifier: GPL-2.0

//! The receive buffers: posted, held by the application, granted to the peer.
//!
//! # How many
//!
//! A connection starts with `initial` buffers, so that an idle one costs
//! little. Each message with payload that follows another one, without a
//! message of ours between them, wants one more of them, up to `depth`: a peer
//! that streams doubles its window in a round trip, as in TCP's slow start, and
//! question and answer stay as small as they began. An idle connection wants
//! no more than at the start; those that are posted go as messages come. Messages that the application has
//! not read counts against `depth`. While fewer than [`PAYLOAD_LEAST`]
//! could be granted the window is *shut*: [`SHUT`] buffers stay posted, which
//! allow the peer control messages but no payload. An *open* window has at
//! least [`OPEN_LEAST`], one more than payload needs: a credit update of ours
//! costs the peer's answer one of them, and without the spare one two idle
//! sides would have to answer each other's updates for ever. A peer that keeps
//! the rules can therefore make us hold at most `depth + 1` buffers.
//!
//! # When to tell the peer
//!
//! See [`Window::update_due`].
//!
//! rules: CREDIT, UPDATE

use super::credit::Need;
use crate::engine::{error::PeerError, types::Mseq};

/// Credits that a peer with payload to send needs.
const PAYLOAD_LEAST: u16 = Need::Payload.least();
/// Buffers posted when no more payload can be taken.
const SHUT: u16 = Need::Control.least();
/// The fewest buffers wanted otherwise.
const OPEN_LEAST: u16 = 4;
/// Buffers wanted in addition when updates of the peer have cost credits.
const UPDATES: u16 = 2;

/// The part of the wanted buffers that can be lacking for a while: an eighth, as a shift.
const WAITING_SHIFT: u32 = 3;

/// Whether a message is owed to the peer for its grant alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UpdateDue {
    Not,
    /// When [`Timer::CreditUpdate`](crate::engine::timer::Timer) has run.
    Later,
    Now,
}

/// A message that arrives, as far as credits are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    Payload,
    Control,
    /// Data without payload.
    CreditUpdate,
}

/// The peer's right to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    depth: u16,
    initial: u16,
    /// As many as are worth to be posted.
    target: u16,
    /// Payload has come since our last message.
    streaming: bool,
    /// No more payload will arrive.
    finished: bool,
    /// Posted and not yet used up. `granted <= posted`
    posted: u16,
    /// Buffers filled with payload that the program has not read.
    held: u16,
    /// Upper bound of the peer's credits: those that a message of ours granted,
    /// less the credits of messages that have arrived since.
    granted: u16,
    /// The credits that it makes of our last message, less what has arrived
    /// since: fewer than `granted` if that said less than one before, as a
    /// frozen acknowledgement does. `told <= granted`
    told: u16,
    /// Credit updates among the messages that arrived since our last message.
    updates_since: u16,
    /// Updates of ours that were late, since anything else has happened.
    late: u8,
    /// The last message received.
    received: Mseq,
    /// The message up to which we acknowledge, while a later one is being
    /// dealt with.
    frozen: Option<Mseq>,
}

impl Window {
    pub(crate) fn new(depth: u16, initial: u16) -> Self {
        Self {
            depth,
            initial,
            target: initial.max(OPEN_LEAST),
            streaming: false,
            finished: false,
            posted: 0,
            held: 0,
            granted: 0,
            told: 0,
            updates_since: 0,
            late: 0,
            received: Mseq::HELLO,
            frozen: None,
        }
    }

    /// Acknowledges nothing from the last message on until
    /// [`thaw`](Self::thaw).
    ///
    /// rules: SRCCANCEL
    pub(crate) fn freeze(&mut self) {
        self.frozen.get_or_insert(self.received.previous());
    }

    pub(crate) fn thaw(&mut self) {
        self.frozen = None;
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// The grant to the peer: the last message acknowledged, and the credits that
    /// follow from it.
    fn grant(&self) -> (Mseq, u16) {
        let ack = self.frozen.unwrap_or(self.received);
        let behind = u16::try_from(self.received.since(ack)).unwrap_or(u16::MAX);
        (ack, self.posted.saturating_sub(behind))
    }

    pub(crate) fn posted(&self) -> u16 {
        self.posted
    }

    pub(crate) fn held(&self) -> u16 {
        self.held
    }

    pub(crate) fn granted(&self) -> u16 {
        self.granted
    }

    /// Whether no more payload may come before the application reads.
    pub(crate) fn is_shut(&self) -> bool {
        let free = self.depth.saturating_sub(self.held);
        free < PAYLOAD_LEAST && self.granted < PAYLOAD_LEAST
    }

    /// How many more buffers to post.
    pub(crate) fn wanted(&self) -> u16 {
        self.lacking(self.depth)
    }

    /// Number of wanted buffers that the connection needs to go on: those that it
    /// would want with the smallest depth.
    pub(crate) fn needed(&self) -> u16 {
        self.lacking(self.depth.min(OPEN_LEAST))
    }

    /// Whether the wanted buffers can be posted with the next message, which may be one of the
    /// peer: so few are lacking that it can send one, with payload, and most of what it may send.
    pub(crate) fn may_wait(&self) -> bool {
        let wanted = self.wanted();
        let few = self.posted.saturating_add(wanted) >> WAITING_SHIFT;
        wanted == 0 || wanted <= few.max(1) && self.posted >= PAYLOAD_LEAST
    }

    /// Number of spare buffers that will soon be wanted: the lacking ones, and as
    /// many as a reader may be behind.
    pub(crate) fn spares(&self) -> u16 {
        self.wanted().saturating_add(self.posted >> 1)
    }

    fn lacking(&self, depth: u16) -> u16 {
        //= spec: CREDIT-10
        let free = depth.saturating_sub(self.held);
        let target = if free < PAYLOAD_LEAST {
            //= spec: CREDIT-9
            SHUT
        } else if self.finished {
            free.min(self.initial).max(OPEN_LEAST)
        } else {
            free.min(self.target).max(OPEN_LEAST)
        };
        target.saturating_sub(self.posted)
    }

    pub(crate) fn on_posted(&mut self, count: u16) {
        self.posted = self.posted.saturating_add(count);
    }

    /// A posted buffer was used up.
    pub(crate) fn on_used(&mut self) {
        self.posted = self.posted.saturating_sub(1);
    }

    /// Its message is dropped, because the connection has ended.
    pub(crate) fn on_dropped(&mut self) {
        self.granted = self.granted.min(self.posted);
        self.told = self.told.min(self.granted);
    }

    /// Checks number and credit of a message without taking it in.
    pub(crate) fn check(&self, mseq: Mseq, payload: bool) -> Result<(), PeerError> {
        // rules: SEQ
        //= spec: SEQ-2
        if mseq != self.received.next() {
            return Err(PeerError::MseqGap);
        }
        // rules: CREDIT
        //= spec: CREDIT-7
        if self.granted == 0 {
            return Err(PeerError::WithoutCredit);
        }
        if payload && self.granted < PAYLOAD_LEAST {
            return Err(PeerError::PayloadWithoutCredit);
        }
        Ok(())
    }

    /// Takes a message in that [`check`](Self::check) has passed.
    pub(crate) fn on_received(&mut self, arrival: Arrival) {
        self.received = self.received.next();
        self.granted = self.granted.saturating_sub(1);
        self.told = self.told.saturating_sub(1);
        if arrival != Arrival::CreditUpdate {
            self.late = 0;
        }
        match arrival {
            Arrival::CreditUpdate => self.updates_since = self.updates_since.saturating_add(1),
            Arrival::Control => {}
            Arrival::Payload if self.streaming => {
                self.target = self.target.saturating_add(1).min(self.depth);
            }
            Arrival::Payload => self.streaming = true,
        }
    }

    /// The payload of a message went to the application, and the buffer with it.
    pub(crate) fn on_held(&mut self) {
        self.held = self.held.saturating_add(1);
    }

    /// The application is done with a buffer.
    pub(crate) fn on_consumed(&mut self) {
        self.late = 0;
        self.held = self.held.saturating_sub(1);
    }

    /// No message has come or gone for a while.
    pub(crate) fn on_idle(&mut self) {
        self.target = self.smallest();
        self.streaming = false;
    }

    /// The target of a connection without payload.
    fn smallest(&self) -> u16 {
        self.initial.max(OPEN_LEAST)
    }

    /// The peer has ended its byte stream.
    pub(crate) fn on_finished(&mut self) {
        self.finished = true;
    }

    /// How many updates were late, one after the other.
    pub(crate) fn late(&self) -> u8 {
        self.late
    }

    /// An update that was late goes now.
    pub(crate) fn on_late(&mut self) {
        self.late = self.late.saturating_add(1);
    }

    /// A message goes that is no credit update.
    pub(crate) fn on_busy(&mut self) {
        self.late = 0;
    }

    /// A credit update goes. The peer's updates may have used up the credits that this one gives
    /// back. Then two buffers more than at the start are wanted: otherwise the updates of the
    /// two sides would make each other necessary, and each question and each answer would cost
    /// one. Not more than that, because a peer can send updates without end.
    pub(crate) fn on_update(&mut self) {
        if self.updates_since > 0 {
            let more = self.smallest().saturating_add(UPDATES).min(self.depth);
            self.target = self.target.max(more);
        }
    }

    /// Bufs and MSeqAck for a message that is sent now.
    pub(crate) fn on_sent(&mut self) -> (u16, Mseq) {
        let (ack, grant) = self.grant();
        // Messages that the peer sends before it sees this one use the credits of
        // earlier ones.
        self.granted = self.granted.max(grant);
        self.told = grant;
        self.updates_since = 0;
        self.streaming = false;
        //= spec: SEQ-3, SEQ-5
        (self.posted, ack)
    }

    /// Whether the peer may lack the credits for a control message.
    pub(crate) fn may_silence(&self) -> bool {
        self.told < Need::Control.least()
    }

    /// Whether a message sent now would grant anything.
    pub(crate) fn grants_new(&self) -> bool {
        self.grant().1 > self.told
    }

    /// Whether a credit update is due.
    ///
    /// With more than two credits left the peer can go on, and is told when
    /// half as many again are there. With two or fewer it may be stuck and is
    /// told at once, with one exception: when the window is shut, and all that
    /// the peer lacks is what it paid for credit updates to us, an answer
    /// would only make it pay once more. Then the answer is late, and later each
    /// time, which lets two sides that both do not read come to rest; a peer
    /// without any credit is never kept waiting. One that owes the answer to a
    /// SrcAvail, and may lack the credits for it, is told at once, but not twice in turn.
    ///
    /// rules: UPDATE
    pub(crate) fn update_due(&self) -> UpdateDue {
        let new = self.grant().1.saturating_sub(self.told);
        if new == 0 {
            return UpdateDue::Not;
        }
        if self.told >= PAYLOAD_LEAST {
            //= spec: UPDATE-5
            return if new > self.told >> 1 {
                UpdateDue::Now
            } else {
                UpdateDue::Not
            };
        }
        //= spec: UPDATE-2, UPDATE-4
        let only_updates = new <= self.updates_since;
        if only_updates && self.told > 0 && self.posted < OPEN_LEAST {
            UpdateDue::Later
        } else {
            UpdateDue::Now
        }
    }

    /// The conditions between any two calls, of a shell that posts the buffers that are
    /// wanted.
    pub(crate) fn is_sound(&self) -> bool {
        self.told <= self.granted
            && self.granted <= self.posted
            && self.held <= self.depth.saturating_add(1)
            && u32::from(self.posted).saturating_add(self.held.into())
                <= u32::from(self.depth.max(self.initial)).saturating_add(2)
    }
}

#[cfg(test)]
mod tests {
    use super::{Arrival, UpdateDue, Window, OPEN_LEAST, PAYLOAD_LEAST, SHUT};
    use crate::engine::{error::PeerError, types::Mseq};

    fn window(depth: u16, initial: u16) -> Window {
        let mut window = Window::new(depth, initial);
        window.on_posted(window.wanted());
        window.on_sent();
        window
    }

    fn receive(window: &mut Window, arrival: Arrival) {
        window.on_used();
        window
            .check(window.received.next(), arrival == Arrival::Payload)
            .unwrap();
        window.on_received(arrival);
        if arrival == Arrival::Payload {
            window.on_held();
        }
        window.on_posted(window.wanted());
        assert!(window.is_sound());
    }

    /// One message of a stream with a reader that keeps up.
    fn stream(window: &mut Window) {
        receive(window, Arrival::Payload);
        window.on_consumed();
        window.on_posted(window.wanted());
        if window.update_due() == UpdateDue::Now {
            window.on_sent();
        }
    }

    #[test]
    fn starts_small_and_grows_with_a_stream() {
        let mut window = window(20, 5);
        assert_eq!(window.posted(), 5);
        stream(&mut window);
        assert_eq!(window.posted(), 5);
        stream(&mut window);
        assert_eq!(window.posted(), 6);
        for _ in 0..40 {
            stream(&mut window);
        }
        assert_eq!(window.posted(), 20);
    }

    #[test]
    fn a_shut_window_does_not_wait_for_its_last_buffers() {
        let mut window = window(3, 3);
        while !window.is_shut() {
            receive(&mut window, Arrival::Payload);
            window.on_sent();
        }
        assert_eq!((window.posted(), window.wanted()), (2, 0));
        assert!(window.may_wait());
        window.on_used();
        assert_eq!((window.posted(), window.wanted()), (1, 1));
        assert!(!window.may_wait());
    }

    #[test]
    fn an_idle_window_is_small_again_when_messages_have_come() {
        let mut window = window(20, 5);
        for _ in 0..40 {
            stream(&mut window);
        }
        window.on_idle();
        assert_eq!((window.posted(), window.wanted()), (20, 0));
        // Posted buffers cannot be taken back, so the peer keeps its credits.
        assert_eq!(window.update_due(), UpdateDue::Not);
        for _ in 0..16 {
            receive(&mut window, Arrival::Payload);
            window.on_consumed();
            window.on_sent();
        }
        assert_eq!(window.posted(), 5);
        for _ in 0..40 {
            stream(&mut window);
        }
        assert_eq!(window.posted(), 20);
    }

    #[test]
    fn question_and_answer_have_a_buffer_to_spare() {
        let mut window = window(20, 4);
        assert_eq!((window.wanted(), window.spares()), (0, 2));
        window.on_used();
        window.on_received(Arrival::Payload);
        window.on_held();
        assert_eq!((window.wanted(), window.spares()), (1, 2));
        // As the message came a spare one was posted; now that it is read its
        // buffer is the next spare one.
        window.on_posted(1);
        window.on_consumed();
        assert_eq!((window.wanted(), window.spares()), (0, 2));
    }

    #[test]
    fn a_stream_without_memory_goes_on_with_the_least() {
        let mut window = Window::new(20, 5);
        window.on_posted(window.needed());
        window.on_sent();
        assert_eq!(window.posted(), OPEN_LEAST);
        for _ in 0..40 {
            window.on_used();
            window.check(window.received.next(), true).unwrap();
            window.on_received(Arrival::Payload);
            window.on_held();
            window.on_posted(window.needed());
            assert!(window.posted() <= OPEN_LEAST && window.is_sound());
            window.on_consumed();
            window.on_posted(window.needed());
            if window.update_due() == UpdateDue::Now {
                window.on_sent();
            }
        }
        assert!(window.wanted() > 10);
    }

    #[test]
    fn without_memory_a_reader_that_does_not_read_shuts_the_window_early() {
        let mut window = window(20, 4);
        let mut held = 0;
        while window.posted() >= PAYLOAD_LEAST {
            window.on_sent();
            window.on_used();
            window.on_received(Arrival::Payload);
            window.on_held();
            window.on_posted(window.needed());
            held += 1;
        }
        assert_eq!((held, window.posted()), (3, SHUT));
        assert_eq!(window.needed(), 0);
    }

    #[test]
    fn question_and_answer_need_no_more_buffers() {
        let mut window = window(20, 5);
        for _ in 0..10 {
            stream(&mut window);
            window.on_sent();
            receive(&mut window, Arrival::Control);
            window.on_sent();
        }
        assert_eq!(window.posted(), 5);
    }

    //= test: CREDIT-9, CREDIT-10
    #[test]
    fn a_reader_that_does_not_read_shuts_the_window_at_two() {
        for depth in 3..12 {
            let mut window = window(depth, 4);
            let mut held = 0;
            while window.posted() >= 3 {
                window.on_sent();
                receive(&mut window, Arrival::Payload);
                held += 1;
            }
            assert_eq!(window.posted(), 2, "depth {depth}");
            assert!(held <= depth + 1);
            // Only control is left, and its buffers come back.
            window.on_sent();
            assert_eq!(
                window.check(window.received.next(), true),
                Err(PeerError::PayloadWithoutCredit)
            );
            receive(&mut window, Arrival::Control);
            assert_eq!(window.posted(), 2);
            assert_eq!(window.update_due(), UpdateDue::Now);
        }
    }

    #[test]
    fn a_shut_window_opens_again_when_the_reader_reads() {
        let mut window = window(6, 4);
        while window.posted() >= 3 {
            window.on_sent();
            assert!(!window.is_shut());
            receive(&mut window, Arrival::Payload);
        }
        window.on_sent();
        while window.held() > 3 {
            assert!(window.is_shut());
            assert_eq!(window.update_due(), UpdateDue::Not);
            window.on_consumed();
            window.on_posted(window.wanted());
        }
        assert!(!window.is_shut());
        assert_eq!(window.posted(), 4);
        assert_eq!(window.update_due(), UpdateDue::Now);
    }

    //= test: CREDIT-7
    #[test]
    fn a_message_without_a_credit_is_refused() {
        let mut window = Window::new(8, 4);
        window.on_posted(4);
        assert_eq!(
            window.check(Mseq::new(1), false),
            Err(PeerError::WithoutCredit)
        );
        window.on_sent();
        assert_eq!(window.check(Mseq::new(1), true), Ok(()));
        assert_eq!(window.check(Mseq::new(2), true), Err(PeerError::MseqGap));
        assert_eq!(window.check(Mseq::HELLO, true), Err(PeerError::MseqGap));
    }

    //= test: UPDATE-5
    #[test]
    fn an_update_is_due_at_half_as_many_again() {
        let mut window = Window::new(64, 64);
        window.on_posted(64);
        window.on_sent();
        window.on_posted(32);
        assert_eq!(window.update_due(), UpdateDue::Not);
        window.on_posted(1);
        assert_eq!(window.update_due(), UpdateDue::Now);
        window.on_sent();
        assert_eq!(window.update_due(), UpdateDue::Not);
    }

    #[test]
    fn a_peer_with_two_credits_is_told_at_once() {
        let mut window = window(8, 4);
        receive(&mut window, Arrival::Control);
        assert_eq!(window.update_due(), UpdateDue::Not);
        receive(&mut window, Arrival::Control);
        assert_eq!(window.granted(), 2);
        assert_eq!(window.update_due(), UpdateDue::Now);
    }

    #[test]
    fn an_open_window_does_not_answer_a_single_update() {
        for depth in 3..20 {
            let mut window = window(depth, 4);
            receive(&mut window, Arrival::CreditUpdate);
            assert_eq!(window.update_due(), UpdateDue::Not, "depth {depth}");
        }
    }

    #[test]
    fn a_shut_window_answers_a_mere_update_late() {
        let mut window = Window::new(4, 4);
        window.on_posted(2);
        window.on_sent();
        window.held = 4;
        receive(&mut window, Arrival::CreditUpdate);
        assert_eq!((window.posted(), window.granted()), (2, 1));
        assert_eq!(window.update_due(), UpdateDue::Later);
        receive(&mut window, Arrival::CreditUpdate);
        assert_eq!(window.update_due(), UpdateDue::Now);
        window.on_sent();
        receive(&mut window, Arrival::Control);
        assert_eq!(window.update_due(), UpdateDue::Now);
    }

    //= test: SEQ-5
    #[test]
    fn a_frozen_acknowledgement_grants_no_credit_for_what_is_behind_it() {
        let mut window = window(8, 4);
        receive(&mut window, Arrival::Control);
        window.freeze();
        receive(&mut window, Arrival::Control);
        receive(&mut window, Arrival::Control);
        assert_eq!(window.on_sent(), (4, Mseq::HELLO));
        assert_eq!(window.told, 1);
        // The peer may have sent before it saw that.
        assert_eq!(window.granted(), 1);
        assert!(!window.grants_new());
        assert_eq!(window.update_due(), UpdateDue::Not);
        // A second one changes nothing.
        window.freeze();
        assert_eq!(window.on_sent(), (4, Mseq::HELLO));
        window.thaw();
        assert!(window.grants_new());
        assert_eq!(window.update_due(), UpdateDue::Now);
        assert_eq!(window.on_sent(), (4, Mseq::new(3)));
        assert_eq!(window.granted(), 4);
    }

    //= test: CREDIT-7, SEQ-5
    #[test]
    fn a_message_on_its_way_keeps_the_credit_that_a_frozen_acknowledgement_hides() {
        let mut window = window(4, 4);
        for _ in 0..2 {
            receive(&mut window, Arrival::Control);
        }
        window.freeze();
        assert_eq!(window.granted(), 2);
        receive(&mut window, Arrival::Control);
        // One of four is hidden, yet the peer had the credit for one more.
        window.posted = 2;
        assert_eq!(window.on_sent(), (2, Mseq::new(1)));
        assert_eq!((window.told, window.granted()), (0, 1));
        receive(&mut window, Arrival::Control);
        window.thaw();
        assert_eq!(window.update_due(), UpdateDue::Now);
    }

    #[test]
    fn after_the_peers_last_byte_few_buffers_are_kept() {
        let mut window = window(20, 5);
        for _ in 0..40 {
            stream(&mut window);
        }
        window.on_finished();
        assert_eq!((window.posted(), window.wanted()), (20, 0));
        for _ in 0..17 {
            window.on_used();
        }
        assert_eq!(window.wanted(), 2);
    }

    #[test]
    fn what_cannot_be_is_unsound() {
        let sound = window(4, 4);
        assert!(sound.is_sound());
        let wrong: [fn(&mut Window); 4] = [
            |w| w.granted = w.told - 1,
            |w| w.posted = w.granted - 1,
            |w| (w.posted, w.held) = (w.granted, w.depth + 2),
            |w| w.posted = w.depth + 3,
        ];
        for break_it in wrong {
            let mut window = sound;
            // With room for what is held, so that one thing alone is wrong.
            window.initial = 20;
            assert!(window.is_sound());
            break_it(&mut window);
            if window.posted == window.depth + 3 {
                window.initial = 4;
            }
            assert!(!window.is_sound(), "{window:?}");
        }
    }
}
