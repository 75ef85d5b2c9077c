// SPDX-License-Identifier: MIT

//! The answers of peers that the namespace remembers, `/proc/net/sdppeers`. A connect() that may use TCP
//! goes by them.

use std::fs;
use std::io::{self, ErrorKind, Write};

use crate::arguments::Arguments;
use crate::failed;
use crate::peer::{Peer, PATH};

fn read() -> io::Result<Vec<Peer>> {
    let text = fs::read_to_string(PATH).map_err(|e| match e.kind() {
        ErrorKind::NotFound => {
            io::Error::other("sdp.ko is not loaded, or is older than this: modprobe sdp")
        }
        _ => failed(PATH, e),
    })?;
    text.lines()
        .map(|line| Peer::parse(line).ok_or_else(|| io::Error::other(format!("{PATH}: {line}"))))
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
