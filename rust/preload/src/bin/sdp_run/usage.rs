// SPDX-License-Identifier: MIT

//! What a program has used, and what its connections have carried: the difference of two readings.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use nix::sys::resource::{getrusage, UsageWho};
use nix::sys::time::TimeValLike;
use nix::unistd::{sysconf, SysconfVar};

/// Counters by name.
type Counters = HashMap<String, u64>;

/// The values at one moment.
pub(crate) struct Reading {
    at: Instant,
    /// Processor time of the children that were waited for, and of the machine.
    program: Duration,
    machine: Duration,
    /// SDP's and TCP's, of the network namespace.
    sdp: Counters,
    tcp: Counters,
}

/// The use between two moments.
#[derive(Default, Debug)]
pub(crate) struct Usage {
    pub(crate) elapsed: Duration,
    pub(crate) program: Duration,
    pub(crate) machine: Duration,
    sdp: Counters,
    tcp: Counters,
}

/// `/proc/net/sdpstats`: a name and a value on each line.
fn of_sdp(text: &str) -> Counters {
    let pair = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

/// `/proc/net/snmp`: a line of names, and one of values.
fn of_tcp(text: &str) -> Counters {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let names = names.split(' ').map(str::to_owned);
    let values = values.split(' ').map(|value| value.parse().unwrap_or(0));
    names.zip(values).collect()
}

/// The first line of `/proc/stat`: ticks of all processors that were neither idle nor another machine's.
fn busy(text: &str, ticks: u64) -> Duration {
    let mut words = text.lines().next().unwrap_or("").split_whitespace();
    let value = |word: &str| word.parse().unwrap_or(0);
    let sum: u64 = [1, 0, 0, 2, 0]
        .iter()
        .filter_map(|skipped| words.nth(*skipped))
        .map(value)
        .sum();
    Duration::from_millis(sum.saturating_mul(1000) / ticks.max(1))
}

impl Reading {
    pub(crate) fn now() -> io::Result<Self> {
        let used = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let microseconds = (used.user_time() + used.system_time()).num_microseconds();
        let ticks = sysconf(SysconfVar::CLK_TCK)?.unwrap_or(100);
        Ok(Self {
            at: Instant::now(),
            program: Duration::from_micros(u64::try_from(microseconds).unwrap_or(0)),
            machine: busy(&fs::read_to_string("/proc/stat")?, ticks.unsigned_abs()),
            // A kernel without the module has counted nothing.
            sdp: of_sdp(&fs::read_to_string("/proc/thread-self/net/sdpstats").unwrap_or_default()),
            tcp: of_tcp(&fs::read_to_string("/proc/thread-self/net/snmp").unwrap_or_default()),
        })
    }

    /// The use since `before`.
    pub(crate) fn since(&self, before: &Self) -> Usage {
        let rise = |now: &Counters, then: &Counters| {
            let old = |name| then.get(name).copied().unwrap_or(0);
            now.iter()
                .map(|(name, value)| (name.clone(), value.saturating_sub(old(name))))
                .collect()
        };
        Usage {
            elapsed: self.at.saturating_duration_since(before.at),
            program: self.program.saturating_sub(before.program),
            machine: self.machine.saturating_sub(before.machine),
            sdp: rise(&self.sdp, &before.sdp),
            tcp: rise(&self.tcp, &before.tcp),
        }
    }
}

fn sum(counters: &Counters, names: &[&str]) -> u64 {
    let value = |name: &&str| counters.get(*name).copied().unwrap_or(0);
    names.iter().map(value).sum()
}

impl Usage {
    /// The sum of these counters of SDP.
    pub(crate) fn sdp(&self, names: &[&str]) -> u64 {
        sum(&self.sdp, names)
    }

    /// Connections over SDP.
    pub(crate) fn connections(&self) -> u64 {
        self.sdp(&["active_opens", "passive_opens"])
    }

    /// Connections over TCP.
    pub(crate) fn tcp_connections(&self) -> u64 {
        sum(&self.tcp, &["ActiveOpens", "PassiveOpens"])
    }
}

#[cfg(test)]
impl Usage {
    /// For tests of others: with these lines of SDP's counters.
    pub(crate) fn of_text(text: &str, elapsed: Duration, machine: Duration) -> Self {
        Self {
            elapsed,
            machine,
            sdp: of_sdp(text),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_read() {
        let sdp = of_sdp("active_opens 3\nx y\npassive_opens 4\n");
        assert_eq!(sum(&sdp, &["active_opens", "passive_opens", "none"]), 7);
        let tcp = of_tcp("Ip: A\nIp: 1\nTcp: RtoMax ActiveOpens\nTcp: -1 5\nUdp: B\n");
        assert_eq!(sum(&tcp, &["ActiveOpens"]), 5);
        // user, nice, system, (idle, iowait,) irq, softirq.
        let text = "cpu  100 10 200 5000 7 30 60 9 0 0\ncpu0 1 1 1 1\n";
        assert_eq!(busy(text, 100), Duration::from_secs(4));
        assert_eq!(busy("", 100), Duration::ZERO);
    }

    #[test]
    fn a_use_is_a_difference() {
        let reading = |text, seconds| Reading {
            at: Instant::now(),
            program: Duration::from_secs(seconds),
            machine: Duration::from_secs(2 * seconds),
            sdp: of_sdp(text),
            tcp: Counters::new(),
        };
        let used = reading("active_opens 9\nnew 2", 5).since(&reading("active_opens 4", 3));
        assert_eq!((used.connections(), used.sdp(&["new"])), (5, 2));
        assert_eq!(used.program, Duration::from_secs(2));
        assert_eq!(used.machine, Duration::from_secs(4));
    }
}
