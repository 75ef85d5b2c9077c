// SPDX-License-Identifier: MIT
//! One end of a connection, which obeys: `bench/async` starts two of them, under `sdp_run --async` or not.
//!
//! `flow-end FAMILY THRESHOLD listen ADDRESS` says `port N`, and `flow-end FAMILY THRESHOLD connect ADDRESS PORT`
//! takes it. FAMILY is `sdp` or `tcp`. THRESHOLD is the value of `SDP_ZCOPY_THRESH`, or `default`.
//! Both say `connected`. Then each line on stdin is an order:
//!
//! ```text
//! send SIZE COUNT UNITS BUFFERS FILLS    computes so many units and fills the buffer before each send
//! receive SIZE COUNT UNITS BUFFERS FILLS
//! ping, echo SIZE COUNT UNITS BUFFERS FILLS
//! compute UNITS                          nothing else
//! ```
//!
//! It says `ready`, waits for another line, works, and says `done BEGIN END LENT`: two times of
//! `CLOCK_MONOTONIC` in nanoseconds, and how many stretches of memory it has lent.

mod socket;
mod work;

use std::io::{BufRead, Write};
use std::net::SocketAddrV4;

use socket::{Family, Socket};
use work::{Computation, Order, Room};

/// Says a line.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("stdout");
}

/// The next line; `None` at the end.
fn hear() -> Option<String> {
    let mut line = String::new();
    let len = std::io::stdin().lock().read_line(&mut line).expect("stdin");
    (len > 0).then_some(line)
}

fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it lives through the call.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    assert_eq!(result, 0, "clock_gettime");
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Obeys until stdin ends.
fn serve(sock: &Socket) {
    let mut computation = Computation::new();
    let mut room = Room::new(1, 1);
    while let Some(line) = hear() {
        let order = Order::parse(&line);
        if !room.fits(&order) {
            room = Room::new(order.size, order.buffers);
        }
        say("ready");
        if hear().is_none() {
            return;
        }
        let before = sock.lent();
        let begin = now_ns();
        order.obey(sock, &room, &mut computation);
        let end = now_ns();
        say(&format!("done {begin} {end} {}", sock.lent().wrapping_sub(before)));
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [family, threshold, role, ref place @ ..] = words[..] else {
        panic!("usage: flow-end FAMILY THRESHOLD listen ADDRESS | connect ADDRESS PORT");
    };
    let family = Family::parse(family);
    let threshold = (threshold != "default").then(|| threshold.parse().expect("a threshold"));
    let sock = Socket::new(family, threshold);
    let address =
        |host: &str, port: u16| SocketAddrV4::new(host.parse().expect("an address"), port);
    let sock = match (role, place) {
        ("listen", [host]) => {
            let port = sock.listen(address(host, 0));
            say(&format!("port {port}"));
            sock.accept()
        }
        ("connect", [host, port]) => {
            sock.connect(address(host, port.parse().expect("a port")));
            sock
        }
        _ => panic!("neither listen ADDRESS nor connect ADDRESS PORT"),
    };
    say("connected");
    serve(&sock);
}
