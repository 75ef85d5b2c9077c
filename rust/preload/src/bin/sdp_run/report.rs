// SPDX-License-Identifier: MIT

//! `--report`: runs the program over SDP, and once more over TCP, and compares both.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::usage::{Reading, Usage};

/// A difference that one run of each cannot show.
const NOISE: f64 = 0.1;

/// Direction, way, and the counters of its bytes.
const WAYS: [(&str, &[&str]); 7] = [
    ("sent, no copy", &["zcopy_bytes_sent", "written_bytes_sent"]),
    ("sent, one copy, by the reader", &["gathered_bytes_sent"]),
    (
        "sent, copies",
        &["bcopy_bytes_sent", "copied_bytes_written"],
    ),
    (
        "received, no copy",
        &["zcopy_bytes_received", "written_bytes_received"],
    ),
    ("received, one copy", &["fetched_bytes_received"]),
    ("received, copies", &["bcopy_bytes_received"]),
    ("fallbacks to TCP", &["tcp_fallbacks"]),
];

/// While it exists, a key of the terminal ends the program, and not this process.
struct Ignored([libc::sighandler_t; 2]);

const KEYS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

impl Ignored {
    fn new() -> Self {
        // SAFETY: No handler runs.
        Self(KEYS.map(|key| unsafe { libc::signal(key, libc::SIG_IGN) }))
    }
}

impl Drop for Ignored {
    fn drop(&mut self) {
        for (key, old) in KEYS.into_iter().zip(self.0) {
            // SAFETY: The handler was in force before.
            unsafe { libc::signal(key, old) };
        }
    }
}

/// Runs a command, with nothing on its standard input, because it runs twice.
fn run(command: &mut Command) -> io::Result<(ExitStatus, Usage)> {
    let before = Reading::now()?;
    let mut child = command.stdin(Stdio::null()).spawn()?;
    let ignored = Ignored::new();
    let status = child.wait();
    drop(ignored);
    let after = Reading::now()?;
    Ok((status?, after.since(&before)))
}

/// This program with other arguments.
fn sdp_run(arguments: &[OsString]) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.args(arguments);
    Ok(command)
}

/// Runs the program by `sdp_run` with these arguments, and then without it. Returns the first run's
/// status, and the page.
pub(crate) fn report(arguments: &[OsString], program: &[OsString]) -> io::Result<(u8, String)> {
    let (status, sdp) = run(&mut sdp_run(arguments)?)?;
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    let code = u8::try_from(code).unwrap_or(u8::MAX);
    let mut other = None;
    if status.success() {
        if let Some((name, rest)) = program.split_first() {
            let (status, tcp) = run(Command::new(name).args(rest))?;
            other = status.success().then_some(tcp);
        }
    }
    let name = program.join(&OsString::from(" "));
    Ok((code, page(&name.to_string_lossy(), &sdp, other.as_ref())))
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// One of the times of a run.
type Time = fn(&Usage) -> Duration;

fn page(name: &str, sdp: &Usage, tcp: Option<&Usage>) -> String {
    let mut text = format!("sdp_run: {name}\n");
    let mut line = |what: &str, sdp: String, tcp: Option<String>| {
        let _ = write!(text, "  {what:<34} {sdp:>16}");
        let _ = match tcp {
            Some(tcp) => writeln!(text, " {tcp:>16}"),
            None => writeln!(text),
        };
    };
    line(
        "",
        "over SDP".to_owned(),
        tcp.map(|_| "over TCP".to_owned()),
    );
    let times: [(&str, Time); 3] = [
        ("time", |used| used.elapsed),
        ("processor time of the program", |used| used.program),
        ("processor time of the machine", |used| used.machine),
    ];
    for (what, time) in times {
        line(what, seconds(time(sdp)), tcp.map(|tcp| seconds(time(tcp))));
    }
    let count = |used: &Usage| used.connections().to_string();
    line("connections over SDP", count(sdp), tcp.map(count));
    let count = |used: &Usage| used.tcp_connections().to_string();
    line("connections over TCP", count(sdp), tcp.map(count));
    for (what, counters) in WAYS {
        match sdp.sdp(counters) {
            0 => {}
            value => line(what, value.to_string(), None),
        }
    }
    text + &verdict(sdp, tcp) + "\n"
}

/// The share of `other` by which `own` is less; below 0 if it is more.
fn gain(own: Duration, other: Duration) -> f64 {
    let (own, other) = (own.as_secs_f64(), other.as_secs_f64());
    // Less than a tick of the kernel's clock.
    if own.max(other) < 0.02 {
        return 0.0;
    }
    (other - own) / own.max(other)
}

fn verdict(sdp: &Usage, tcp: Option<&Usage>) -> String {
    let Some(tcp) = tcp else {
        return "Not compared with TCP: the program has failed, or was ended.".to_owned();
    };
    if sdp.connections() == 0 {
        return "No connection used SDP: sdp_run -d PROGRAM tells why.".to_owned();
    }
    let gains = [
        gain(sdp.elapsed, tcp.elapsed),
        gain(sdp.machine, tcp.machine),
    ];
    let is_better = gains.iter().any(|gain| *gain > NOISE);
    let is_worse = gains.iter().any(|gain| *gain < -NOISE);
    let word = match (is_better, is_worse) {
        (true, false) => "Worth it",
        (false, true) => "Not worth it",
        (true, true) => "It depends",
        (false, false) => "No difference that one run of each can show",
    };
    let of = |gain: f64, what: &str| {
        let word = if gain < 0.0 { "more" } else { "less" };
        format!("{:.0}% {word} {what}", 100.0 * gain.abs())
    };
    let [time, processor] = gains;
    format!(
        "{word}: {}, {}.",
        of(time, "time"),
        of(processor, "processor time of the machine")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(elapsed: u64, machine: u64, connections: &str) -> Usage {
        Usage::of_text(
            connections,
            Duration::from_secs(elapsed),
            Duration::from_secs(machine),
        )
    }

    #[test]
    fn the_verdict_goes_by_time_and_processor_time() {
        let sdp = |elapsed, machine| usage(elapsed, machine, "active_opens 1");
        let tcp = usage(100, 100, "");
        let cases = [
            (sdp(95, 70), "Worth it: 5% less time, 30% less processor"),
            (sdp(100, 120), "Not worth it: 0% less time, 17% more"),
            (sdp(60, 150), "It depends: 40% less time, 33% more"),
            (sdp(105, 95), "No difference"),
            (usage(1, 1, ""), "No connection used SDP"),
        ];
        for (sdp, beginning) in cases {
            let said = verdict(&sdp, Some(&tcp));
            assert!(said.starts_with(beginning), "{said}");
        }
        assert!(verdict(&sdp(1, 1), None).starts_with("Not compared"));
    }

    #[test]
    fn a_page_has_both_columns() {
        let text = "active_opens 3\nzcopy_bytes_sent 5\nwritten_bytes_sent 6";
        let page = page("curl x", &usage(2, 3, text), Some(&usage(4, 6, "")));
        let has = |words: &[&str]| {
            page.lines()
                .any(|line| line.split_whitespace().collect::<Vec<_>>().ends_with(words))
        };
        assert!(has(&["time", "2.00", "s", "4.00", "s"]), "{page}");
        assert!(has(&["over", "SDP", "3", "0"]), "{page}");
        assert!(has(&["no", "copy", "11"]), "{page}");
        assert!(!page.contains("fallbacks"), "{page}");
    }
}
