// SPDX-License-Identifier: MIT

//! The numbers of `include/uapi/linux/sdp_diag.h`, and the numbers of sdp.h that it uses.

/// The family of SDP sockets.
pub(crate) const AF_INET_SDP: u8 = 27;
/// The message of sock_diag(7).
pub(crate) const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `struct sdp_diag`.
pub(crate) const HEAD_LEN: usize = 4;

pub(crate) const SDP_TRANSPORT_BOTH: u8 = 1;
pub(crate) const SDP_TRANSPORT_TCP: u8 = 2;

pub(crate) const SDP_CAUSE_OFF: u8 = 1;
pub(crate) const SDP_CAUSE_EXCEPTED: u8 = 2;
pub(crate) const SDP_CAUSE_DEVICE: u8 = 3;
pub(crate) const SDP_CAUSE_PEER: u8 = 4;
pub(crate) const SDP_CAUSE_IPSEC: u8 = 5;

pub(crate) const SDP_DIAG_SHOW_FLOW: u32 = 1;
pub(crate) const SDP_DIAG_SHOW_TRAFFIC: u32 = 2;

macro_rules! attributes {
    ($($name:ident)*) => { attributes!(@ 0u16, $($name)*); #[cfg(test)] const NAMES: &[&str] = &[$(stringify!($name)),*]; };
    (@ $number:expr, $name:ident $($rest:ident)*) => {
        #[allow(dead_code, reason = "those that only stand for a place")]
        pub(crate) const $name: u16 = $number;
        attributes!(@ $number + 1, $($rest)*);
    };
    (@ $number:expr,) => {};
}

attributes! {
    SDP_DIAG_UNSPEC
    SDP_DIAG_PAD
    SDP_DIAG_STATES
    SDP_DIAG_SHOW
    SDP_DIAG_STATE
    SDP_DIAG_TRANSPORT
    SDP_DIAG_REASON
    SDP_DIAG_LOCAL_ADDR
    SDP_DIAG_LOCAL_PORT
    SDP_DIAG_LOCAL_SCOPE
    SDP_DIAG_PEER_ADDR
    SDP_DIAG_PEER_PORT
    SDP_DIAG_PEER_SCOPE
    SDP_DIAG_RX_QUEUE
    SDP_DIAG_TX_QUEUE
    SDP_DIAG_INODE
    SDP_DIAG_UID
    SDP_DIAG_COOKIE
    SDP_DIAG_IFINDEX
    SDP_DIAG_DEVICE
    SDP_DIAG_MODE_SEND
    SDP_DIAG_MODE_RECEIVE
    SDP_DIAG_OFFERED
    SDP_DIAG_END
    SDP_DIAG_RULE
    SDP_DIAG_CREDITS
    SDP_DIAG_POSTED
    SDP_DIAG_RCV_SIZE
    SDP_DIAG_MAX_PAYLOAD
    SDP_DIAG_CREDIT_STALLS
    SDP_DIAG_SLOT_STALLS
    SDP_DIAG_ROUND_TRIP_US
    SDP_DIAG_TRAFFIC
    SDP_DIAG_CAUSE
    SDP_DIAG_THRESHOLD
    SDP_DIAG_OWN_THRESHOLD
    SDP_DIAG_TCP_SENT
    SDP_DIAG_TCP_RECEIVED
}

/// The members of `struct sdp_traffic`, all of them u64, in their order.
pub(crate) const TRAFFIC: [&str; 38] = [
    "bcopy_bytes_sent",
    "bcopy_bytes_received",
    "zcopy_bytes_sent",
    "zcopy_bytes_received",
    "written_bytes_sent",
    "written_bytes_received",
    "copied_bytes_written",
    "gathered_bytes_sent",
    "fetched_bytes_received",
    "changed_bytes",
    "adverts_sent",
    "adverts_received",
    "adverts_declined",
    "adverts_recalled",
    "adverts_withdrawn",
    "adverts_unused",
    "answers_stale",
    "sinks_sent",
    "sinks_used",
    "sinks_discarded",
    "sinks_returned",
    "sinks_received",
    "sinks_stale",
    "cancels_by_signal",
    "cancels_by_timeout",
    "cancels_by_kill",
    "region_hits",
    "region_misses",
    "region_shortages",
    "pin_failures",
    "peer_wait_us",
    "cache_hits",
    "cache_misses",
    "copied_nowait_bytes",
    "copied_memory_bytes",
    "copied_limit_bytes",
    "copied_busy_bytes",
    "declined_bytes",
];

#[cfg(test)]
mod tests {
    fn header(name: &str) -> String {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../include/uapi/linux/");
        std::fs::read_to_string(format!("{dir}{name}")).unwrap_or_default()
    }

    /// The first words of the lines between two given lines.
    fn words_between<'a>(text: &'a str, begin: &str, end: &str) -> Vec<&'a str> {
        text.lines()
            .map(str::trim)
            .skip_while(|line| *line != begin)
            .skip(1)
            .take_while(|line| !line.starts_with(end))
            .filter_map(|line| line.split([',', ' ', '\t']).next())
            .collect()
    }

    #[test]
    fn attributes_are_those_of_the_header() {
        let text = header("sdp_diag.h");
        let mut found = words_between(&text, "SDP_DIAG_UNSPEC,", "__SDP_DIAG_MAX");
        found.insert(0, "SDP_DIAG_UNSPEC");
        assert_eq!(found, super::NAMES);
    }

    #[test]
    fn traffic_is_that_of_the_header() {
        let text = header("sdp.h");
        let found: Vec<_> = text
            .lines()
            .skip_while(|line| *line != "struct sdp_traffic {")
            .take_while(|line| *line != "};")
            .filter_map(|line| line.trim().strip_prefix("__u64 ")?.strip_suffix(';'))
            .collect();
        assert_eq!(found, super::TRAFFIC);
    }

    #[test]
    fn numbers_are_those_of_the_headers() {
        for (file, name, number) in [
            ("sdp.h", "AF_INET_SDP", u32::from(super::AF_INET_SDP)),
            (
                "sdp.h",
                "SDP_TRANSPORT_BOTH",
                super::SDP_TRANSPORT_BOTH.into(),
            ),
            (
                "sdp.h",
                "SDP_TRANSPORT_TCP",
                super::SDP_TRANSPORT_TCP.into(),
            ),
            ("sdp_diag.h", "SDP_CAUSE_OFF", super::SDP_CAUSE_OFF.into()),
            (
                "sdp_diag.h",
                "SDP_CAUSE_EXCEPTED",
                super::SDP_CAUSE_EXCEPTED.into(),
            ),
            (
                "sdp_diag.h",
                "SDP_CAUSE_DEVICE",
                super::SDP_CAUSE_DEVICE.into(),
            ),
            ("sdp_diag.h", "SDP_CAUSE_PEER", super::SDP_CAUSE_PEER.into()),
            (
                "sdp_diag.h",
                "SDP_CAUSE_IPSEC",
                super::SDP_CAUSE_IPSEC.into(),
            ),
            (
                "sdp_diag.h",
                "SDP_DIAG_SHOW_FLOW",
                super::SDP_DIAG_SHOW_FLOW,
            ),
            (
                "sdp_diag.h",
                "SDP_DIAG_SHOW_TRAFFIC",
                super::SDP_DIAG_SHOW_TRAFFIC,
            ),
        ] {
            let text = header(file);
            let value = text.lines().find_map(|line| {
                let mut words = line.split_whitespace();
                (words.next() == Some("#define") && words.next() == Some(name))
                    .then(|| words.next()?.parse().ok())?
            });
            assert_eq!(value, Some(number), "{name}");
        }
    }
}
