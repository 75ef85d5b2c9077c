// SPDX-License-Identifier: GPL-2.0

//! The modes of both directions, and the messages that change them.
//!
//! rules: MODE

use crate::engine::{
    error::PeerError,
    machine::IllegalMove,
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

/// Both directions of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Modes {
    send: HalfMode,
    receive: HalfMode,
    /// Our source goes to Pipelined mode when it can.
    wanted: bool,
    /// As a sink we would like Pipelined mode.
    pub(crate) req_pipe: bool,
    /// As a sink the peer would.
    pub(crate) peer_req_pipe: bool,
}

impl Modes {
    pub(crate) fn new() -> Self {
        Self {
            send: HalfMode::Combined,
            receive: HalfMode::Combined,
            wanted: false,
            req_pipe: false,
            peer_req_pipe: false,
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

    /// Whether SinkAvail or its cancel may come.
    pub(crate) fn check_sink_adverts(&self, mid: Mid) -> Result<(), PeerError> {
        match self.send {
            HalfMode::Pipelined => Ok(()),
            HalfMode::Combined | HalfMode::Buffered => Err(PeerError::ModeForbids(mid)),
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

    /// The application asks for Pipelined mode of our direction.
    pub(crate) fn want_pipelined(&mut self) {
        self.wanted = self.send == HalfMode::Combined;
    }

    /// Whether Pipelined mode was asked for and not announced.
    pub(crate) fn wants_pipelined(&self) -> bool {
        self.wanted
    }

    /// Our source is about to announce Pipelined mode, which it never leaves.
    pub(crate) fn on_pipelined(&mut self) -> Result<(), IllegalMove> {
        self.wanted = false;
        //= spec: MODE-7
        self.send.on_source_pipelines()
    }
}

#[cfg(test)]
mod tests {
    use super::{HalfMode, IllegalMove, Modes};
    use crate::engine::{
        error::PeerError,
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

    //= test: MODE-7
    #[test]
    fn our_source_enters_pipelined_mode_once() {
        let mut state = Modes::new();
        assert!(!state.wants_pipelined());
        state.want_pipelined();
        assert!(state.wants_pipelined());
        state.on_pipelined().unwrap();
        assert_eq!(
            (state.send(), state.wants_pipelined()),
            (Mode::Pipelined, false)
        );
        state.want_pipelined();
        assert!(!state.wants_pipelined());
        assert_eq!(state.on_pipelined(), Err(IllegalMove));
        assert_eq!(state.send(), Mode::Pipelined);
    }

    //= test: MODE-5
    #[test]
    fn sink_adverts_belong_to_pipelined_mode() {
        for mode in MODES {
            let legal = mode == Mode::Pipelined;
            for mid in [Mid::SinkAvail, Mid::SinkAvailCancel] {
                let state = modes(mode, Mode::Combined);
                assert_eq!(state.check_sink_adverts(mid).is_ok(), legal);
            }
        }
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
