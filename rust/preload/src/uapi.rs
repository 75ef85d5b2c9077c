// SPDX-License-Identifier: MIT

//! The numbers of `include/uapi/linux/sdp.h` that this library uses.

use libc::c_int;

/// The address family of SDP sockets.
pub(crate) const AF_INET_SDP: c_int = 27;

/// Option of level `SOL_TCP`: the family of an SDP socket's own addresses,
/// `AF_INET` or `AF_INET6`; can be set until the socket is bound.
pub(crate) const SDP_SOCK_FAMILY: c_int = 82;

/// Option of level `SOL_TCP`: what an SDP socket may use, and what it uses.
pub(crate) const SDP_TRANSPORT: c_int = 83;
/// SDP alone.
pub(crate) const SDP_TRANSPORT_SDP: c_int = 0;
/// SDP first, then TCP; a listener: both.
pub(crate) const SDP_TRANSPORT_BOTH: c_int = 1;
/// TCP alone.
pub(crate) const SDP_TRANSPORT_TCP: c_int = 2;

/// Option of level `SOL_TCP`: the errno for which SDP was given up, or 0.
pub(crate) const SDP_FALLBACK_REASON: c_int = 84;

#[cfg(test)]
mod tests {
    /// The value the header gives `name`.
    fn header_value(name: &str) -> Option<i32> {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../include/uapi/linux/sdp.h"
        );
        let header = std::fs::read_to_string(path).unwrap_or_default();
        header.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            if words.next() != Some("#define") || words.next() != Some(name) {
                return None;
            }
            words.next()?.parse().ok()
        })
    }

    #[test]
    fn numbers_agree_with_the_header() {
        let numbers = [
            ("AF_INET_SDP", super::AF_INET_SDP),
            ("SDP_SOCK_FAMILY", super::SDP_SOCK_FAMILY),
            ("SDP_TRANSPORT", super::SDP_TRANSPORT),
            ("SDP_TRANSPORT_SDP", super::SDP_TRANSPORT_SDP),
            ("SDP_TRANSPORT_BOTH", super::SDP_TRANSPORT_BOTH),
            ("SDP_TRANSPORT_TCP", super::SDP_TRANSPORT_TCP),
            ("SDP_FALLBACK_REASON", super::SDP_FALLBACK_REASON),
        ];
        for (name, number) in numbers {
            assert_eq!(header_value(name), Some(number), "{name}");
        }
    }
}
