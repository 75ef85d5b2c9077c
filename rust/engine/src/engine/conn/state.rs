// SPDX-License-Identifier: GPL-2.0

//! The life of a connection.
//!
//! rules: EST, CLOSE

machine! {
    /// Where a connection is in its life.
    ///
    /// ```text
    ///   Idle ----> HelloSent -------.
    ///                                >--> Established
    ///   HelloReceived -> HelloAckSent     |         |
    ///                     we shut down    |         |  peer's DisConn
    ///                                     v         v
    ///                          LocalClosing         PeerClosed
    ///      our DisConn completed |      |           | we shut down
    ///                            v      '------.    v
    ///                       LocalClosed  peer's >BothClosing
    ///                              |     DisConn    | our DisConn completed
    ///                              '------------.   v
    ///                              peer's DisConn>BothClosed
    ///                                               | our DREQ
    ///                                               v
    ///   (any)  --- our DREQ ------------------>  Disconnecting ---> Ended
    /// ```
    pub enum State {
        /// Active side, before its Hello.
        Idle,
        /// Active side, waiting for the HelloAck.
        HelloSent,
        /// Passive side, before its HelloAck.
        HelloReceived,
        /// Passive side, waiting for the connection to be established.
        HelloAckSent,
        /// Both directions are open.
        Established,
        /// We have no more to send; our DisConn is queued or in flight.
        LocalClosing,
        /// Our DisConn has reached the peer; the peer's direction is open.
        LocalClosed,
        /// The peer has no more to send; our direction is open.
        PeerClosed,
        /// The peer has no more to send, and neither have we; our DisConn is
        /// queued or in flight.
        BothClosing,
        /// Both DisConn have reached their receivers.
        BothClosed,
        /// We have asked the connection manager to disconnect.
        Disconnecting,
        /// Nothing is left.
        Ended,
    }

    /// The Hello was made.
    on_hello: Idle => HelloSent;
    /// The HelloAck was made.
    on_hello_ack: HelloReceived => HelloAckSent;
    /// Messages may be exchanged.
    on_established: HelloSent | HelloAckSent => Established;
    /// The application will send no more.
    on_shutdown: Established => LocalClosing, PeerClosed => BothClosing;
    /// The peer's DisConn.
    on_peer_disconn:
        Established => PeerClosed,
        LocalClosing => BothClosing,
        LocalClosed => BothClosed;
    /// The send of our DisConn completed.
    on_disconn_completed: LocalClosing => LocalClosed, BothClosing => BothClosed;
    /// Our DREQ goes out.
    on_disconnect:
        Established | LocalClosing | LocalClosed | PeerClosed | BothClosing | BothClosed
            => Disconnecting;
    /// There is no connection any more.
    on_end:
        Idle | HelloSent | HelloReceived | HelloAckSent | Established | LocalClosing
            | LocalClosed | PeerClosed | BothClosing | BothClosed | Disconnecting
            => Ended;
}

impl State {
    /// Whether messages may be exchanged.
    pub const fn is_connected(self) -> bool {
        match self {
            State::Established
            | State::LocalClosing
            | State::LocalClosed
            | State::PeerClosed
            | State::BothClosing
            | State::BothClosed => true,
            State::Idle
            | State::HelloSent
            | State::HelloReceived
            | State::HelloAckSent
            | State::Disconnecting
            | State::Ended => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::State;

    #[test]
    fn every_state_is_reached_and_only_the_end_is_final() {
        for state in State::STATES {
            let entered = State::MOVES.iter().any(|(_, _, to)| to == state);
            let initial = matches!(state, State::Idle | State::HelloReceived);
            assert_eq!(entered, !initial, "{state:?}");
            let left = State::MOVES.iter().any(|(_, from, _)| from == state);
            assert_eq!(left, *state != State::Ended, "{state:?}");
        }
    }
}
