// SPDX-License-Identifier: MIT
//! The results of the calls, and the faults.

use std::collections::BTreeMap;

#[derive(Default)]
pub struct Tally {
    /// By call: the number of successes, and the number of failures by errno.
    calls: BTreeMap<&'static str, (u64, BTreeMap<i32, u64>)>,
    /// Bytes sent.
    pub sent: u64,
    pub received: u64,
    pub faults: Vec<String>,
}

impl Tally {
    pub fn count(&mut self, call: &'static str, result: i64) {
        let (good, bad) = self.calls.entry(call).or_default();
        if result >= 0 {
            *good += 1;
        } else {
            *bad.entry(errno()).or_default() += 1;
        }
    }

    pub fn fault(&mut self, what: String) {
        // The first ones suffice, because a faulty call usually repeats its fault.
        if self.faults.len() < 5 {
            self.faults.push(what);
        }
    }

    /// Whether the call was made.
    pub fn has(&self, call: &str) -> bool {
        self.calls.contains_key(call)
    }

    pub fn successes(&self, call: &str) -> u64 {
        self.calls.get(call).map_or(0, |(good, _)| *good)
    }

    pub fn add(&mut self, other: Self) {
        for (call, (good, bad)) in other.calls {
            let own = self.calls.entry(call).or_default();
            own.0 += good;
            for (errno, times) in bad {
                *own.1.entry(errno).or_default() += times;
            }
        }
        self.sent += other.sent;
        self.received += other.received;
        self.faults.extend(other.faults);
    }

    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.calls.iter().map(|(call, (good, bad))| {
            let errors: Vec<_> =
                bad.iter().map(|(errno, times)| format!("{errno}:{times}")).collect();
            format!("{call}: {good} good, errno {}", errors.join(" "))
        })
    }
}

/// The errno of the last call.
pub fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
