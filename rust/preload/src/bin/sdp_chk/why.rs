// SPDX-License-Identifier: MIT

//! `sdp_chk --why PID`: which way the bytes of a process take, and why. `sdp_ss` has the words.

use crate::report::Report;
use serde_json::Value;
use std::fs;
use std::process::Command;

/// The sockets of the namespace of a process, as `sdp_ss --why` shows them.
fn sockets(pid: u32) -> Result<Value, String> {
    let mut command = Command::new("sdp_ss");
    command.args(["--why", "--json", "--processes", "--all"]);
    let namespace = format!("/proc/{pid}/ns/net");
    // To enter another one needs rights.
    if fs::read_link(&namespace).ok() != fs::read_link("/proc/self/ns/net").ok() {
        command.args(["--namespace", &namespace]);
    }
    let done = command.output().map_err(|e| format!("sdp_ss: {e}"))?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).trim().to_owned());
    }
    serde_json::from_slice(&done.stdout).map_err(|e| format!("sdp_ss: {e}"))
}

fn list<'a>(of: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    of.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn word<'a>(of: &'a Value, path: &str) -> &'a str {
    of.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn number(of: &Value, path: &str) -> u64 {
    of.pointer(path).and_then(Value::as_u64).unwrap_or_default()
}

/// A socket and its share, in words, and the remedy.
fn sentence<'a>(socket: &Value, share: &'a Value) -> (String, Option<&'a str>) {
    let end = |name| {
        let address = word(socket, &format!("/{name}/address"));
        format!(
            "{address} port {}",
            number(socket, &format!("/{name}/port"))
        )
    };
    let because = word(share, "/because");
    let text = format!(
        "{} to {}: {} bytes {}: {}{}{because}",
        end("local"),
        end("peer"),
        number(share, "/bytes"),
        word(share, "/direction"),
        word(share, "/way"),
        if because.is_empty() {
            ""
        } else {
            ", because of: "
        },
    );
    (text, share.get("remedy").and_then(Value::as_str))
}

/// Reports the shares of the sockets of `pid`; returns the number of its sockets.
fn tell(report: &mut Report, found: &Value, pid: u32) -> usize {
    let mut count = 0;
    for socket in found.as_array().into_iter().flatten() {
        if !list(socket, "processes").any(|owner| number(owner, "/pid") == u64::from(pid)) {
            continue;
        }
        count += 1;
        for share in list(socket, "why") {
            let (text, remedy) = sentence(socket, share);
            report.remark(&text, remedy);
        }
    }
    count
}

/// A field of /proc/PID/status. The name of the process there need not be UTF-8.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.strip_prefix(':').map(str::trim)
}

/// Says what is known of the process that has the thread `pid`. Returns the last line of the report.
pub(crate) fn check(report: &mut Report, pid: u32) -> &'static str {
    let status = match fs::read(format!("/proc/{pid}/status")) {
        Ok(status) => String::from_utf8_lossy(&status).into_owned(),
        Err(e) => {
            report.bad_apart(&format!("process {pid}: {e}"), "name one that runs");
            return "nothing is known of it";
        }
    };
    let leader = field(&status, "Tgid").and_then(|number| number.parse().ok());
    if field(&status, "NoNewPrivs") == Some("1") {
        report.remark(
            "the process has no_new_privs, so that a sandbox may hold it: with net.sdp.companion=1 \
             it gets no socket for SDP and TCP, and sdp_run has it use TCP",
            Some("sysctl net.sdp.companion=2, if its sandbox has no rules about TCP"),
        );
    }
    match sockets(pid) {
        Err(e) => {
            let advice = "the module must be loaded, sdp_ss in the path, and another user's process needs root";
            report.bad_apart(&e, advice);
            return "nothing is known of its sockets";
        }
        Ok(found) if tell(report, &found, leader.unwrap_or(pid)) == 0 => report.remark(
            "the process has no socket of SDP in its network namespace: it was started without sdp_run, a rule \
             has chosen TCP, or its connections came from clients over TCP",
            Some("sdp_run starts it; libsdp.conf(5) has the rules; sdp_chk --why on the client's host"),
        ),
        Ok(_) => {}
    }
    "that is what the kernel knows of its sockets"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Style;
    use serde_json::json;

    #[test]
    fn a_status_has_fields() {
        let status = "Name:\t\u{fffd}\nTgid:\t12\nNoNewPrivs:\t1\n";
        assert_eq!(field(status, "Tgid"), Some("12"));
        assert_eq!(field(status, "NoNewPrivs"), Some("1"));
        assert_eq!(field(status, "No"), None);
    }

    #[test]
    fn shares_are_sentences() {
        let mut share = json!({"direction": "sent", "way": "copies", "bytes": 5, "cause": "off",
            "because": "zero copy is off", "remedy": "set it"});
        let found = json!([
            {"local": {"address": "10.0.0.1", "port": 80}, "peer": {"address": "::1", "port": 7},
             "processes": [{"name": "x", "pid": 9, "fd": 3}], "why": [share]},
            {"processes": [{"name": "y", "pid": 8, "fd": 3}]},
            {},
        ]);
        let socket = found.get(0).cloned().unwrap_or_default();
        let text =
            "10.0.0.1 port 80 to ::1 port 7: 5 bytes sent: copies, because of: zero copy is off";
        assert_eq!(sentence(&socket, &share), (text.to_owned(), Some("set it")));
        share = json!({});
        assert_eq!(sentence(&json!({}), &share).1, None);
        let mut report = Report::new(Style::Json);
        assert_eq!(
            [9, 8, 7].map(|pid| tell(&mut report, &found, pid)),
            [1, 1, 0]
        );
        assert_eq!(tell(&mut report, &json!("nonsense"), 9), 0);
    }
}
