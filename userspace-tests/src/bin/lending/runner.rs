// SPDX-License-Identifier: MIT
//! The conversation with the runner.

use std::io::{BufRead, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// Says a word to the runner.
pub fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{word}").and_then(|()| out.flush()).expect("stdout");
}

/// Waits for a line of the runner.
pub fn hear() {
    std::io::stdin().lock().read_line(&mut String::new()).expect("stdin");
}

/// Does what the runner asks for by the words of the command line. `--list`: prints the names of all ways.
/// `--wait`, after an exec: says the `last` word and waits. `WAY ADDRESS PORT`: connects, and calls `go`.
pub fn serve<W>(
    mut ways: impl Iterator<Item = (&'static str, W)>,
    last: &str,
    go: impl FnOnce(W, TcpStream),
) {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--list"] => ways.for_each(|(name, _)| println!("{name}")),
        ["--wait"] => {
            say(last);
            hear();
        }
        [wanted, address, port] => {
            let (_, way) = ways.find(|(name, _)| *name == wanted).expect("a way of --list");
            let port: u16 = port.parse().expect("a port");
            let stream = TcpStream::connect((address, port)).expect("connect");
            assert!(stream.as_raw_fd() > 2);
            go(way, stream);
        }
        _ => panic!("usage: WAY ADDRESS PORT"),
    }
}
