// SPDX-License-Identifier: MIT
//! The numbers of `include/uapi/linux/sdp.h`; a test reads that header and compares.

use libc::c_int;

/// Address family of SDP sockets, and in addresses the same as `AF_INET`.
pub const AF_INET_SDP: c_int = 27;
/// In addresses the same as `AF_INET6`.
pub const AF_INET6_SDP: c_int = 28;
/// `SOL_TCP`: smallest send that may go without a copy.
pub const SDP_ZCOPY_THRESH: c_int = 80;
/// `SOL_TCP`: why the last `bind` found no usable RDMA device.
pub const SDP_LAST_BIND_ERR: c_int = 81;
/// `SOL_TCP`: `AF_INET` or `AF_INET6`, the family of the names of a socket that is not bound yet.
pub const SDP_SOCK_FAMILY: c_int = 82;
/// `SOL_TCP`: what a socket may use, SDP, TCP or both.
pub const SDP_TRANSPORT: c_int = 83;
pub const SDP_TRANSPORT_SDP: c_int = 0;
pub const SDP_TRANSPORT_TCP: c_int = 2;
/// `SOL_TCP`: the thresholds of writers and readers alone.
pub const SDP_ZCOPY_SOURCE_THRESH: c_int = 85;
pub const SDP_ZCOPY_SINK_THRESH: c_int = 86;
/// `SOL_TCP`: what the socket has counted, as a row of 64-bit numbers.
pub const SDP_TRAFFIC: c_int = 87;
/// The protocol of SDP under `AF_INET` and `AF_INET6`.
pub const IPPROTO_SDP: c_int = 257;

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of `#define name value`, decimal or hexadecimal.
    fn defined(header: &str, name: &str) -> Option<i64> {
        header.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            if words.next()? != "#define" || words.next()? != name {
                return None;
            }
            let value = words.next()?;
            match value.strip_prefix("0x") {
                Some(digits) => i64::from_str_radix(digits, 16).ok(),
                None => value.parse().ok(),
            }
        })
    }

    #[test]
    fn numbers_are_those_of_the_kernel_header() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../include/uapi/linux/sdp.h");
        let header = std::fs::read_to_string(path).expect("the uapi header is in the source tree");
        for (name, here) in [
            ("AF_INET_SDP", AF_INET_SDP),
            ("AF_INET6_SDP", AF_INET6_SDP),
            ("SDP_ZCOPY_THRESH", SDP_ZCOPY_THRESH),
            ("SDP_LAST_BIND_ERR", SDP_LAST_BIND_ERR),
            ("SDP_SOCK_FAMILY", SDP_SOCK_FAMILY),
            ("SDP_TRANSPORT", SDP_TRANSPORT),
            ("SDP_TRANSPORT_SDP", SDP_TRANSPORT_SDP),
            ("SDP_TRANSPORT_TCP", SDP_TRANSPORT_TCP),
            ("SDP_ZCOPY_SOURCE_THRESH", SDP_ZCOPY_SOURCE_THRESH),
            ("SDP_ZCOPY_SINK_THRESH", SDP_ZCOPY_SINK_THRESH),
            ("SDP_TRAFFIC", SDP_TRAFFIC),
            ("IPPROTO_SDP", IPPROTO_SDP),
        ] {
            assert_eq!(defined(&header, name), Some(here as i64), "{name}");
        }
    }
}
