// SPDX-License-Identifier: GPL-2.0

//! The modes of both directions, and the messages that change them.
//!
//! rules: MODE

use crate::engine::{
    error::{PeerError, Refused},
    types::Mseq,
    wire::{
        mode::{Half, Mode, ModeChange},
        Flags, Mid,
    },
};

machine! {
    /// Mode of one direction.
    ///
    /// ```text
    ///              source                source
    ///   Buffered <-------- Combined <--------------> Pipelined
    ///            -------->
    ///              sink
    /// ```
    pub enum HalfMode {
        /// Data, and one SrcAvail at a time. Where every connection begins.
        Combined,
        /// Data only.
        Buffered,
        /// Advertisements from both ends.
        Pipelined,
    }

    /// The source gives up advertisements.
    on_source_buffers: Combined => Buffered;
    /// The sink would have them again.
    on_sink_combines: Buffered => Combined;
    /// The source lets several be outstanding, and the sink advertise.
    on_source_pipelines: Combined => Pipelined;
    /// The source ends that.
    on_source_combines: Pipelined => Combined;
}

impl HalfMode {
    pub(crate) const fn mode(self) -> Mode {
        match self {
            HalfMode::Combined => Mode::Combined,
            HalfMode::Buffered => Mode::Buffered,
            HalfMode::Pipelined => Mode::Pipelined,
        }
    }

    /// The source changes it.
    fn on_source(&mut self, mode: Mode) -> Result<(), PeerError> {
        match mode {
            Mode::Buffered => self.on_source_buffers(),
            Mode::Combined => self.on_source_combines(),
            Mode::Pipelined => self.on_source_pipelines(),
        }
        .map_err(|_| PeerError::ModeTransition)
    }
}

/// A message about modes that must be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    /// As the source of our direction.
    Source(Mode),
    /// As the sink of the peer's.
    SinkCombined,
}

/// Both directions of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Modes {
    send: HalfMode,
    receive: HalfMode,
    /// The mode that was asked for and not announced.
    wanted: Option<Mode>,
    /// The sink of the peer's direction would leave Buffered mode.
    combine: bool,
    /// Whether policy may ask for Pipelined mode.
    pub(crate) auto: bool,
    /// As a sink we would like Pipelined mode.
    pub(crate) req_pipe: bool,
    /// As a sink the peer would.
    pub(crate) peer_req_pipe: bool,
    /// Our change from Pipelined to Combined, until the peer has acknowledged
    /// it. What it has advertised before it knew is void.
    left_at: Option<Mseq>,
}

impl Modes {
    pub(crate) fn new() -> Self {
        Self {
            send: HalfMode::Combined,
            receive: HalfMode::Combined,
            wanted: None,
            combine: false,
            auto: true,
            req_pipe: false,
            peer_req_pipe: false,
            left_at: None,
        }
    }

    pub(crate) fn send(&self) -> Mode {
        self.send.mode()
    }

    pub(crate) fn receive(&self) -> Mode {
        self.receive.mode()
    }

    /// Whether a SrcAvailCancel may come.
    pub(crate) fn check_src_adverts(&self, mid: Mid) -> Result<(), PeerError> {
        match self.receive {
            HalfMode::Combined | HalfMode::Pipelined => Ok(()),
            HalfMode::Buffered => Err(PeerError::ModeForbids(mid)),
        }
    }

    /// Whether a source's answer about SinkAvails is legal.
    pub(crate) fn check_sink_answers(&self, mid: Mid) -> Result<(), PeerError> {
        match self.receive {
            HalfMode::Pipelined => Ok(()),
            HalfMode::Combined | HalfMode::Buffered => Err(PeerError::ModeForbids(mid)),
        }
    }

    /// Whether SinkAvail or its cancel may come. Ok(false): it was sent before
    /// the peer knew of our change and means nothing.
    pub(crate) fn check_sink_adverts(&self, mid: Mid, mseq_ack: Mseq) -> Result<bool, PeerError> {
        if self.left_at.is_some_and(|at| at.is_after(mseq_ack)) {
            return Ok(false);
        }
        match self.send {
            HalfMode::Pipelined => Ok(true),
            HalfMode::Combined | HalfMode::Buffered => Err(PeerError::ModeForbids(mid)),
        }
    }

    /// What the peer has acknowledged.
    pub(crate) fn on_acked(&mut self, mseq_ack: Mseq) {
        if self.left_at.is_some_and(|at| !at.is_after(mseq_ack)) {
            self.left_at = None;
        }
    }

    /// The peer changes a mode. `pipelined`: our MaxAdverts allow that.
    pub(crate) fn on_mode_change(
        &mut self,
        change: ModeChange,
        pipelined: bool,
    ) -> Result<(), PeerError> {
        //= spec: MODE-2
        match change.half {
            //= spec: ADVERT-5
            Half::Receive if change.mode == Mode::Pipelined && !pipelined => {
                Err(PeerError::NotAnnounced(Mid::ModeChange))
            }
            Half::Receive => self.receive.on_source(change.mode),
            Half::Send if change.mode == Mode::Combined => self
                .send
                .on_sink_combines()
                .map_err(|_| PeerError::ModeTransition),
            Half::Send => Err(PeerError::ModeTransition),
        }
    }

    /// Notes the peer's wish, as a sink, from a message.
    pub(crate) fn on_flags(&mut self, mid: Mid, flags: Flags) {
        let as_sink = matches!(
            mid,
            Mid::RdmaRdCompl | Mid::SendSm | Mid::SinkAvail | Mid::SinkAvailCancel
        );
        if flags.req_pipe {
            self.peer_req_pipe = true;
        } else if as_sink {
            self.peer_req_pipe = false;
        }
    }

    /// The application asks for a mode of our direction.
    pub(crate) fn request(&mut self, mode: Mode) -> Result<(), Refused> {
        if mode == self.send() {
            self.wanted = None;
            return Ok(());
        }
        let mut after = self.send;
        after.on_source(mode).map_err(|_| Refused::NotNow)?;
        self.wanted = Some(mode);
        Ok(())
    }

    /// As a sink, asks for Combined mode of the peer's direction.
    pub(crate) fn ask_combined(&mut self) -> Result<(), Refused> {
        if self.receive != HalfMode::Buffered {
            return Err(Refused::NotNow);
        }
        self.combine = true;
        Ok(())
    }

    /// The message that waits to be sent.
    pub(crate) fn wish(&self) -> Option<Wish> {
        if self.combine && self.receive == HalfMode::Buffered {
            return Some(Wish::SinkCombined);
        }
        //= spec: DISCARD-5
        // What the peer has offered for the last time must have come first.
        let early = self.wanted == Some(Mode::Pipelined) && self.is_leaving();
        self.wanted.filter(|_| !early).map(Wish::Source)
    }

    /// Whether the peer may not know that we have left Pipelined mode.
    pub(crate) fn is_leaving(&self) -> bool {
        self.left_at.is_some()
    }

    /// What the wish looks like on the wire: the half is the receiver's.
    pub(crate) fn change(wish: Wish) -> ModeChange {
        match wish {
            Wish::Source(mode) => ModeChange {
                half: Half::Receive,
                mode,
            },
            Wish::SinkCombined => ModeChange {
                half: Half::Send,
                mode: Mode::Combined,
            },
        }
    }

    /// The wish was sent with this number.
    pub(crate) fn on_sent(&mut self, wish: Wish, mseq: Mseq) {
        match wish {
            Wish::SinkCombined => {
                self.combine = false;
                let _ = self.receive.on_sink_combines();
            }
            Wish::Source(mode) => {
                self.wanted = None;
                if self.send == HalfMode::Pipelined {
                    self.left_at = Some(mseq);
                }
                let _ = self.send.on_source(mode);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HalfMode, Modes, Wish};
    use crate::engine::{
        error::{PeerError, Refused},
        types::Mseq,
        wire::{
            mode::{Half, Mode, ModeChange},
            Flags, Mid,
        },
    };
    use std::vec::Vec;

    const MODES: [Mode; 3] = [Mode::Buffered, Mode::Combined, Mode::Pipelined];

    fn half(mode: Mode) -> HalfMode {
        *HalfMode::STATES
            .iter()
            .find(|half| half.mode() == mode)
            .unwrap()
    }

    fn modes(send: Mode, receive: Mode) -> Modes {
        Modes {
            send: half(send),
            receive: half(receive),
            ..Modes::new()
        }
    }

    //= test: MODE-1
    #[test]
    fn both_directions_begin_combined() {
        let modes = Modes::new();
        assert_eq!(
            (modes.send(), modes.receive()),
            (Mode::Combined, Mode::Combined)
        );
    }

    //= test: MODE-2
    #[test]
    fn of_all_changes_four_are_legal() {
        let mut legal = Vec::new();
        for mode in MODES {
            for side in [Half::Receive, Half::Send] {
                for start in MODES {
                    let mut state = modes(start, start);
                    let change = ModeChange { half: side, mode };
                    let result = state.on_mode_change(change, true);
                    let concerned = match side {
                        Half::Receive => state.receive(),
                        Half::Send => state.send(),
                    };
                    match result {
                        Ok(()) => {
                            assert_eq!(concerned, mode);
                            legal.push((side, start, mode));
                        }
                        Err(error) => {
                            assert_eq!(error, PeerError::ModeTransition);
                            assert_eq!(concerned, start);
                        }
                    }
                }
            }
        }
        assert_eq!(
            legal,
            [
                (Half::Receive, Mode::Combined, Mode::Buffered),
                (Half::Receive, Mode::Pipelined, Mode::Combined),
                (Half::Send, Mode::Buffered, Mode::Combined),
                (Half::Receive, Mode::Combined, Mode::Pipelined),
            ]
        );
    }

    //= test: ADVERT-5
    #[test]
    fn who_announces_one_advert_is_not_asked_for_pipelined_mode() {
        let mut state = Modes::new();
        let change = ModeChange {
            half: Half::Receive,
            mode: Mode::Pipelined,
        };
        assert_eq!(
            state.on_mode_change(change, false),
            Err(PeerError::NotAnnounced(Mid::ModeChange))
        );
        assert_eq!(state.receive(), Mode::Combined);
    }

    #[test]
    fn requests_are_what_the_table_allows() {
        for start in MODES {
            for mode in MODES {
                let mut state = modes(start, Mode::Combined);
                let legal = matches!(
                    (start, mode),
                    (Mode::Combined, _) | (Mode::Pipelined, Mode::Combined)
                ) || start == mode;
                assert_eq!(state.request(mode).is_ok(), legal, "{start:?} {mode:?}");
                let wish = (legal && start != mode).then_some(Wish::Source(mode));
                assert_eq!(state.wish(), wish);
                if let Some(wish) = wish {
                    state.on_sent(wish, Mseq::new(5));
                    assert_eq!((state.send(), state.wish()), (mode, None));
                }
            }
        }
        let mut state = Modes::new();
        assert_eq!(state.ask_combined(), Err(Refused::NotNow));
        state = modes(Mode::Combined, Mode::Buffered);
        state.ask_combined().unwrap();
        assert_eq!(state.wish(), Some(Wish::SinkCombined));
        state.on_sent(Wish::SinkCombined, Mseq::new(5));
        assert_eq!((state.receive(), state.wish()), (Mode::Combined, None));
    }

    //= test: MODE-5
    #[test]
    fn what_crosses_our_change_means_nothing_and_later_ones_are_refused() {
        let mut state = modes(Mode::Pipelined, Mode::Combined);
        let mid = Mid::SinkAvail;
        assert_eq!(state.check_sink_adverts(mid, Mseq::new(4)), Ok(true));
        state.request(Mode::Combined).unwrap();
        state.on_sent(Wish::Source(Mode::Combined), Mseq::new(5));
        state.on_acked(Mseq::new(4));
        assert_eq!(state.check_sink_adverts(mid, Mseq::new(4)), Ok(false));
        // And Pipelined mode is not entered again before the peer knows.
        state.request(Mode::Pipelined).unwrap();
        assert_eq!(state.wish(), None);
        state.on_acked(Mseq::new(5));
        assert_eq!(state.wish(), Some(Wish::Source(Mode::Pipelined)));
        assert_eq!(
            state.check_sink_adverts(mid, Mseq::new(5)),
            Err(PeerError::ModeForbids(mid))
        );
    }

    //= test: MODE-8
    #[test]
    fn the_peers_wish_stays_until_a_message_of_its_sink_is_without() {
        let mut state = Modes::new();
        let with = Flags {
            req_pipe: true,
            ..Flags::default()
        };
        state.on_flags(Mid::Data, Flags::default());
        assert!(!state.peer_req_pipe);
        state.on_flags(Mid::RdmaRdCompl, with);
        assert!(state.peer_req_pipe);
        state.on_flags(Mid::Data, Flags::default());
        assert!(state.peer_req_pipe);
        state.on_flags(Mid::RdmaRdCompl, Flags::default());
        assert!(!state.peer_req_pipe);
    }
}
