// SPDX-License-Identifier: MIT

//! The answers of peers that the namespace remembers, `/proc/net/sdppeers`. A connect() that may use TCP
//! goes by them.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::net::IpAddr;

use serde::Serialize;

use crate::arguments::Arguments;
use crate::failed;

const PATH: &str = "/proc/thread-self/net/sdppeers";

#[derive(Serialize, Debug, PartialEq, Eq)]
struct Peer {
    uid: u32,
    local: IpAddr,
    peer: IpAddr,
    /// "sdp" or "silent".
    answer: String,
    /// How long it counts.
    seconds: u64,
}

fn parse(line: &str) -> Option<Peer> {
    let mut words = line.split_whitespace();
    let mut next = || words.next();
    let peer = Peer {
        uid: next()?.parse().ok()?,
        local: next()?.parse().ok()?,
        peer: next()?.parse().ok()?,
        answer: next()?.to_owned(),
        seconds: next()?.parse().ok()?,
    };
    let is_known = ["sdp", "silent"].contains(&peer.answer.as_str());
    (is_known && next().is_none()).then_some(peer)
}

fn read() -> io::Result<Vec<Peer>> {
    let text = fs::read_to_string(PATH).map_err(|e| match e.kind() {
        ErrorKind::NotFound => {
            io::Error::other("sdp.ko is not loaded, or is older than this: modprobe sdp")
        }
        _ => failed(PATH, e),
    })?;
    text.lines()
        .map(|line| parse(line).ok_or_else(|| io::Error::other(format!("{PATH}: {line}"))))
        .collect()
}

pub(crate) fn run(options: &Arguments) -> io::Result<()> {
    let peers = read()?;
    let mut out = io::stdout().lock();
    if options.json {
        serde_json::to_writer(&mut out, &peers)?;
        return writeln!(out);
    }
    if !options.no_header {
        writeln!(
            out,
            "Answer  Seconds  User        Local address    Peer address"
        )?;
    }
    for Peer {
        uid,
        local,
        peer,
        answer,
        seconds,
    } in peers
    {
        let local = local.to_string();
        writeln!(
            out,
            "{answer:<7} {seconds:>7}  {uid:<10}  {local:<15}  {peer}"
        )?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read() {
        let found = parse("1000 10.0.0.1 10.0.0.2 silent 43");
        assert!(found.is_some_and(|p| p.uid == 1000 && p.answer == "silent" && p.seconds == 43));
        assert!(parse("0 fd00::1 fd00::2 sdp 600").is_some_and(|peer| peer.peer.is_ipv6()));
        for wrong in [
            "",
            "0 10.0.0.1 10.0.0.2 maybe 4",
            "0 10.0.0.1 10.0.0.2 sdp",
            "0 a b sdp 1",
        ] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
        assert_eq!(parse("0 10.0.0.1 10.0.0.2 sdp 1 2"), None);
    }
}
