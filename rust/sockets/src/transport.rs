// SPDX-License-Identifier: MIT

//! SDP, TCP or both.

use libc::c_int;

/// What a socket may use; of one that is connected, what it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// SDP alone.
    Sdp,
    /// A client: SDP, and TCP where that fails. A listener: both. Where the kernel has no SDP, TCP.
    /// Of a socket: not decided.
    Both,
    /// TCP.
    Tcp,
}

impl Transport {
    pub(crate) const fn number(self) -> c_int {
        match self {
            Self::Sdp => sdp_uapi::SDP_TRANSPORT_SDP,
            Self::Both => sdp_uapi::SDP_TRANSPORT_BOTH,
            Self::Tcp => sdp_uapi::SDP_TRANSPORT_TCP,
        }
    }

    /// `None` for a number that a newer kernel may have.
    pub(crate) const fn of(number: c_int) -> Option<Self> {
        match number {
            sdp_uapi::SDP_TRANSPORT_SDP => Some(Self::Sdp),
            sdp_uapi::SDP_TRANSPORT_BOTH => Some(Self::Both),
            sdp_uapi::SDP_TRANSPORT_TCP => Some(Self::Tcp),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Transport;

    #[test]
    fn numbers_go_there_and_back() {
        for transport in [Transport::Sdp, Transport::Both, Transport::Tcp] {
            assert_eq!(Transport::of(transport.number()), Some(transport));
        }
        assert_eq!(Transport::of(99), None);
    }
}
