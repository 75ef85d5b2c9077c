// SPDX-License-Identifier: GPL-2.0

//! From the engine's words to the words of system calls: errnos and TCP states.
//!
//! Contexts: any. No locks.

use crate::{
    engine::{
        conn::{
            Ended,
            State, //
        },
        policy::copying::Cause, //
    },
    ffi,
    prelude::*,
    trace::RULE_LEN, //
};

/// The error that a reader or writer sees when a connection has ended.
///
/// `peer_had_closed`: the peer's DisConn was received and ours not sent; TCP
/// then says EPIPE for a reset.
pub(crate) fn of_end(ended: Ended, peer_had_closed: bool) -> Option<Error> {
    match ended {
        Ended::Finished | Ended::Aborted => None,
        Ended::Reset if peer_had_closed => Some(EPIPE),
        Ended::Reset | Ended::Violation(_) | Ended::LinkFailed => Some(ECONNRESET),
        Ended::TimedOut | Ended::Unanswered => Some(ETIMEDOUT),
    }
}

/// The number by which netlink and trace events name an end.
pub(crate) fn end_number(ended: Ended) -> u8 {
    (match ended {
        Ended::Finished => ffi::SDP_END_FINISHED,
        Ended::Reset => ffi::SDP_END_RESET,
        Ended::Aborted => ffi::SDP_END_ABORTED,
        Ended::Violation(_) => ffi::SDP_END_VIOLATION,
        Ended::LinkFailed => ffi::SDP_END_LINK_FAILED,
        Ended::Unanswered => ffi::SDP_END_UNANSWERED,
        Ended::TimedOut => ffi::SDP_END_TIMED_OUT,
    }) as u8
}

/// The rule that was broken, as a string of C; empty where none was.
pub(crate) fn rule(ended: Ended) -> [c_char; RULE_LEN] {
    let mut text = [0; RULE_LEN];
    if let Ended::Violation(error) = ended {
        // The last byte stays the end of the string.
        let room = text.iter_mut().take(RULE_LEN - 1);
        for (to, from) in room.zip(error.requirement().bytes()) {
            *to = from as c_char;
        }
    }
    text
}

/// The TCP state that `ss` and TCP_INFO would show.
pub(crate) fn tcp_state(state: State) -> u32 {
    match state {
        State::Idle | State::Ended => ffi::TCP_CLOSE,
        State::HelloSent => ffi::TCP_SYN_SENT,
        State::HelloReceived | State::HelloAckSent => ffi::TCP_SYN_RECV,
        State::Established => ffi::TCP_ESTABLISHED,
        State::LocalClosing => ffi::TCP_FIN_WAIT1,
        State::LocalClosed => ffi::TCP_FIN_WAIT2,
        State::PeerClosed => ffi::TCP_CLOSE_WAIT,
        State::BothClosing => ffi::TCP_LAST_ACK,
        State::BothClosed => ffi::TCP_LAST_ACK,
        State::Disconnecting => ffi::TCP_TIME_WAIT,
    }
}

/// TCP's error if there is no route to the peer, or no device for it.
pub(crate) fn of_unresolved(error: Error) -> Error {
    if error == ENODEV || error == EADDRNOTAVAIL || error == ENOENT {
        // A route, but not over an RDMA device.
        ENETUNREACH
    } else if error == ETIMEDOUT || error == EHOSTUNREACH {
        EHOSTUNREACH
    } else if error == EINVAL || error == EBUSY || error == ENOSPC {
        // Drivers return this when the device has no more queue pairs.
        ENOBUFS
    } else {
        error
    }
}

/// TCP's error if the queue pair can't be made ready for the peer's reply.
pub(crate) fn of_unready(error: Error) -> Error {
    if error == EINVAL {
        // The CM is past the reply: the peer has rejected the connection after it.
        ECONNRESET
    } else {
        of_unresolved(error)
    }
}

/// Why memory that could not be offered, with `error`, is copied.
pub(crate) fn cause(error: Error) -> Cause {
    if error == ENOBUFS || error == ENOMEM {
        Cause::Limit
    } else if error == EAGAIN || error == EPIPE {
        Cause::Busy
    } else if error == EMSGSIZE {
        Cause::Device
    } else {
        Cause::Memory
    }
}

/// Whether a connection that failed with `error` may still succeed over TCP.
pub(crate) fn is_worth_tcp(error: Error) -> bool {
    [
        ECONNREFUSED,
        ECONNRESET,
        ETIMEDOUT,
        EHOSTDOWN,
        EHOSTUNREACH,
        ENETUNREACH,
        ENETDOWN,
        ENODEV,
        ENOMEM,
        ENOBUFS,
        EPROTO,
        EIO,
    ]
    .contains(&error)
}

#[kunit_tests(sdp_errno)]
mod tests {
    use super::*;
    use crate::engine::{
        error::PeerError,
        wire::Mid, //
    };

    fn text(ended: Ended) -> KVec<u8> {
        let mut bytes = KVec::new();
        for byte in rule(ended).into_iter().take_while(|byte| *byte != 0) {
            assert!(bytes.push(byte, GFP_KERNEL).is_ok());
        }
        assert!(bytes.len() < RULE_LEN);
        bytes
    }

    #[test]
    fn a_connect_fails_as_in_tcp() {
        assert!(of_unresolved(ENODEV) == ENETUNREACH);
        assert!(of_unresolved(EINVAL) == ENOBUFS);
        assert!(of_unready(EINVAL) == ECONNRESET);
        assert!(of_unready(ENODEV) == ENETUNREACH);
        assert!(of_unready(ENOMEM) == ENOMEM);
    }

    #[test]
    fn an_obstacle_is_a_cause() {
        assert!(cause(ENOBUFS) == Cause::Limit);
        assert!(cause(EAGAIN) == Cause::Busy);
        assert!(cause(EFAULT) == Cause::Memory);
    }

    #[test]
    fn a_rule_is_named_as_a_whole() {
        let longest = PeerError::CancelOutstanding(Mid::SrcAvailCancel);
        for error in [PeerError::MseqGap, PeerError::HelloMid, longest] {
            let named = text(Ended::Violation(error));
            assert!(named.as_slice() == error.requirement().as_bytes());
        }
        assert!(text(Ended::Reset).is_empty());
    }
}
