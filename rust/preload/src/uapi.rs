// SPDX-License-Identifier: MIT

//! The numbers of `include/uapi/linux/sdp.h` that this library uses.

use libc::c_int;

/// The address family of SDP sockets.
pub(crate) const AF_INET_SDP: c_int = 27;

/// Option of level `SOL_TCP`: the family of an SDP socket's own addresses,
/// `AF_INET` or `AF_INET6`; can be set until the socket is bound.
pub(crate) const SDP_SOCK_FAMILY: c_int = 82;

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
        assert_eq!(header_value("AF_INET_SDP"), Some(super::AF_INET_SDP));
        assert_eq!(
            header_value("SDP_SOCK_FAMILY"),
            Some(super::SDP_SOCK_FAMILY)
        );
    }
}
