// SPDX-License-Identifier: MIT

//! SDP, TCP or both.

use libc::c_int;

/// The transports that a socket may use; for a connected socket, the one that it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// SDP only.
    Sdp,
    /// Client: SDP, then TCP if that fails. Listener: both. If the kernel has no SDP: TCP. As a
    /// socket's current transport: not decided.
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

    /// `None` for an unknown number, for example of a newer kernel.
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
