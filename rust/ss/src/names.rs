// SPDX-License-Identifier: MIT

//! Names of the kernel's numbers.

/// The TCP states by number: the names of ss, the numbers of `/proc/net/tcp`.
const STATES: [&str; 14] = [
    "UNKNOWN",
    "ESTAB",
    "SYN-SENT",
    "SYN-RECV",
    "FIN-WAIT-1",
    "FIN-WAIT-2",
    "TIME-WAIT",
    "UNCONN",
    "CLOSE-WAIT",
    "LAST-ACK",
    "LISTEN",
    "CLOSING",
    "NEW-SYN-RECV",
    "BOUND-INACTIVE",
];

pub(crate) const LISTEN: u8 = 10;
pub(crate) const CLOSE: u8 = 7;

/// The sets of states that ss has a name for.
const GROUPS: [(&str, u32); 6] = [
    ("all", u32::MAX),
    ("connected", !((1 << LISTEN) | (1 << CLOSE))),
    ("synchronized", !((1 << LISTEN) | (1 << CLOSE) | (1 << 2))),
    ("listening", 1 << LISTEN),
    ("established", 1 << 1),
    ("closed", 1 << CLOSE),
];

/// The name of a state.
pub(crate) fn state(number: u8) -> &'static str {
    STATES.get(usize::from(number)).unwrap_or(&"UNKNOWN")
}

/// The states of a name, one bit each.
pub(crate) fn states(word: &str) -> Option<u32> {
    let word = word.to_lowercase();
    let group = GROUPS.iter().find(|(name, _)| *name == word);
    group.map(|(_, bits)| *bits).or_else(|| {
        let mut names = (0u32..).zip(STATES).skip(1);
        names.find_map(|(number, name)| (name.to_lowercase() == word).then_some(1 << number))
    })
}

/// The modes of one direction.
pub(crate) fn mode(number: u8) -> &'static str {
    match number {
        0 => "Buffered",
        1 => "Combined",
        2 => "Pipelined",
        _ => "unknown",
    }
}

/// How a connection has ended.
pub(crate) fn end(number: u8) -> &'static str {
    match number {
        1 => "finished",
        2 => "reset",
        3 => "aborted",
        4 => "violation",
        5 => "link-failed",
        6 => "unanswered",
        7 => "timed-out",
        _ => "unknown",
    }
}

/// The name of an errno that causes a fallback.
pub(crate) fn errno(number: u32) -> String {
    // The numbers of asm-generic/errno.h.
    let name = match number {
        1 => "EPERM",
        2 => "ENOENT",
        5 => "EIO",
        12 => "ENOMEM",
        13 => "EACCES",
        19 => "ENODEV",
        22 => "EINVAL",
        71 => "EPROTO",
        92 => "ENOPROTOOPT",
        95 => "EOPNOTSUPP",
        97 => "EAFNOSUPPORT",
        98 => "EADDRINUSE",
        99 => "EADDRNOTAVAIL",
        100 => "ENETDOWN",
        101 => "ENETUNREACH",
        103 => "ECONNABORTED",
        104 => "ECONNRESET",
        105 => "ENOBUFS",
        110 => "ETIMEDOUT",
        111 => "ECONNREFUSED",
        112 => "EHOSTDOWN",
        113 => "EHOSTUNREACH",
        _ => return format!("errno-{number}"),
    };
    name.to_owned()
}

/// A name from user input, without control characters that a terminal would execute.
pub(crate) fn printable(text: &str) -> String {
    let dots = |c: char| if c.is_control() { '.' } else { c };
    text.chars().map(dots).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_for_states() {
        assert_eq!(super::states("ESTAB"), Some(2));
        assert_eq!(super::states("established"), Some(2));
        assert_eq!(super::states("listen"), Some(1 << 10));
        assert_eq!(super::states("listening"), Some(1 << 10));
        assert_eq!(super::states("fin-wait-1"), Some(1 << 4));
        assert_eq!(super::states("unknown"), None);
        assert_eq!(super::states(""), None);
        assert_eq!(super::state(200), "UNKNOWN");
    }

    #[test]
    fn a_name_commands_no_terminal() {
        assert_eq!(super::printable("a\x1b[2J\nb\u{9b}"), "a.[2J.b.");
    }
}
