// SPDX-License-Identifier: MIT
//! The ends of a host's connections, for reports of failures, because a program cannot see which
//! side began a reset, or why.

use std::fs;
use std::time::{Duration, Instant};

/// SDP's counters of abnormal ends, by name (sdp(7)).
const NAMES: [&str; 5] =
    ["resets_received", "resets_sent", "violations", "link_failures", "device_removals"];

/// The counters at one time.
pub struct Ends([i64; NAMES.len()]);

impl Ends {
    /// The counters of this thread's namespace; none without SDP.
    pub fn now() -> Self {
        Ends::parse(&counters())
    }

    fn parse(text: &str) -> Self {
        Ends(NAMES.map(|name| value(text, name)))
    }

    /// The increase since `before`, as a clause.
    pub fn since(&self, before: &Ends) -> String {
        let mut parts = Vec::new();
        for ((name, now), before) in NAMES.iter().zip(self.0).zip(before.0) {
            if now > before {
                parts.push(format!("{name} {}", now - before));
            }
        }
        if parts.is_empty() {
            "no connection ended early".to_string()
        } else {
            parts.join(", ")
        }
    }
}

/// SDP's counters in this thread's namespace; empty without SDP.
fn counters() -> String {
    fs::read_to_string("/proc/thread-self/net/sdpstats").unwrap_or_default()
}

fn value(text: &str, name: &str) -> i64 {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value).unwrap_or(0)
}

/// Waits until this namespace has no connections, but not longer than `limit`. Workers
/// end the connections of the last case after its programs. Their counts would seem to belong to the
/// next case.
pub fn await_quiet(limit: Duration) {
    let start = Instant::now();
    while value(&counters(), "established") > 0 && start.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "established 4\nresets_sent 1\nviolations 0\nlink_failures 12\n";

    #[test]
    fn what_has_changed_is_told() {
        let after = "established 3\nresets_sent 2\nviolations 0\nlink_failures 15\n";
        let told = Ends::parse(after).since(&Ends::parse(BEFORE));
        assert_eq!(told, "resets_sent 1, link_failures 3");
    }

    #[test]
    fn a_value_is_found_by_its_whole_name() {
        assert_eq!(value(BEFORE, "established"), 4);
        assert_eq!(value(BEFORE, "resets"), 0);
    }

    #[test]
    fn that_nothing_has_changed_is_told() {
        assert_eq!(Ends::parse(BEFORE).since(&Ends::parse(BEFORE)), "no connection ended early");
        assert_eq!(Ends::parse("").since(&Ends::parse("")), "no connection ended early");
    }
}
