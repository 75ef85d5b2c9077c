// SPDX-License-Identifier: MIT

//! The counters of a namespace, `/proc/net/sdpstats`, and their increase.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::thread;
use std::time::Duration;

use crate::arguments::Arguments;
use crate::dump;
use crate::failed;
use crate::socket::{Socket, Transport};
use crate::why;

const PATH: &str = "/proc/thread-self/net/sdpstats";

/// Gauges: current values, which are not sums.
const GAUGES: [&str; 3] = ["established", "orphans", "memory_pages"];

/// Names and values in the order of the file.
type Counters = Vec<(String, i64)>;

fn parse(text: &str) -> Option<Counters> {
    text.lines()
        .map(|line| {
            let (name, value) = line.split_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        })
        .collect()
}

fn read() -> io::Result<Counters> {
    let text = fs::read_to_string(PATH).map_err(|e| match e.kind() {
        ErrorKind::NotFound => io::Error::other("sdp.ko is not loaded: modprobe sdp"),
        _ => failed(PATH, e),
    })?;
    parse(&text).ok_or_else(|| io::Error::other(format!("{PATH} is not a list of counters")))
}

/// The increase of counters, and the current values of gauges. The counters of a reloaded module
/// begin from 0.
fn since(now: &Counters, before: &Counters) -> Counters {
    now.iter()
        .map(|(name, value)| {
            let gauge = GAUGES.contains(&name.as_str());
            let old = before.iter().find(|(other, _)| other == name && !gauge);
            let old = old.map_or(0, |(_, value)| *value);
            let begun = if old > *value { 0 } else { old };
            (name.clone(), value.saturating_sub(begun))
        })
        .collect()
}

fn print(options: &Arguments, counters: &Counters) -> io::Result<()> {
    let shown = counters
        .iter()
        .filter(|(_, value)| options.zero || options.json || *value != 0);
    let mut out = io::stdout().lock();
    if options.json {
        let map: serde_json::Map<_, _> =
            shown.map(|(name, n)| (name.clone(), (*n).into())).collect();
        serde_json::to_writer(&mut out, &map)?;
        writeln!(out)?;
    } else {
        for (name, value) in shown {
            writeln!(out, "{name:<26} {value:>16}")?;
        }
        if options.interval.is_some() {
            writeln!(out)?;
        }
    }
    out.flush()
}

/// The way of all bytes, and why: by the counters, and by the sockets on TCP that exist.
fn why(options: &Arguments) -> io::Result<()> {
    let counters = read()?;
    let mut tcp = Vec::new();
    let mut add = |socket: Socket| {
        if socket.transport == Transport::Tcp {
            tcp.extend(why::of_socket(&socket));
        }
        Ok(())
    };
    let request = dump::Request {
        states: u32::MAX,
        flow: false,
        traffic: true,
    };
    match dump::run(request, &mut add) {
        // An older module has no dump, and tells no bytes of TCP.
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        result => result?,
    }
    let count = |name: &str| {
        let found = counters.iter().find(|(other, _)| other == name);
        found.map_or(0, |(_, value)| value.unsigned_abs())
    };
    let shares = why::of_namespace(count, tcp);
    let mut out = io::stdout().lock();
    if options.json {
        serde_json::to_writer(&mut out, &shares)?;
        return writeln!(out);
    }
    for share in shares {
        writeln!(out, "{share}")?;
    }
    out.flush()
}

/// Prints them once or periodically.
pub(crate) fn run(options: &Arguments) -> io::Result<()> {
    if options.why {
        return why(options);
    }
    let mut before = read()?;
    let Some(seconds) = options.interval else {
        return print(options, &before);
    };
    let mut left = options.count;
    while left != Some(0) {
        thread::sleep(Duration::from_secs(seconds.into()));
        let now = read()?;
        print(options, &since(&now, &before))?;
        before = now;
        left = left.map(|left| left.saturating_sub(1));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(text: &str) -> Counters {
        parse(text).unwrap_or_default()
    }

    #[test]
    fn a_list_is_read() {
        assert_eq!(
            counters("a 1\nb -2\n"),
            [("a".to_owned(), 1), ("b".to_owned(), -2)]
        );
        for wrong in ["a", "a x", "a 1 2", "\n"] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn differences_are_made_of_counters_only() {
        let before = counters("data_msgs_sent 10\nestablished 3\nold 9\nresets_sent 7");
        let now = counters("data_msgs_sent 25\nestablished 2\nnew 4\nresets_sent 2");
        let found = since(&now, &before);
        assert_eq!(
            found,
            counters("data_msgs_sent 15\nestablished 2\nnew 4\nresets_sent 2")
        );
    }
}
