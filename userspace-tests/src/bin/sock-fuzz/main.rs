// SPDX-License-Identifier: MIT
//! Random system calls on SDP sockets of every kind, by an unprivileged user. Emits KTAP.
//!
//! Run as root in a guest with the network namespaces a and b: half of the threads are on each
//! host, all use the same descriptors, and none has privileges. The bytes that the kernel writes
//! are compared with its results; other faults are in the kernel's log, which the harness checks.

mod calls;
mod chance;
mod described;
mod fuzzer;
mod lent;
mod memory;
mod messages;
mod names;
mod options;
mod pool;
mod tally;
mod thread;

use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use fuzzer::Fuzzer;
use pool::Pool;
use tally::Tally;

/// All descriptors.
static POOL: Pool = Pool::new();

/// The time that a thread may exceed its limit: the longest uninterruptible wait is that for a peer
/// that uses advertised memory, five seconds.
const GRACE: Duration = Duration::from_secs(300);

/// The maximum number of rounds. The first one is enough on most machines; on a slow one it makes a
/// dozen calls of a kind, and by chance none of them may succeed.
const ROUNDS: u64 = 5;

/// Random system calls on SDP sockets
#[derive(Parser)]
struct Arguments {
    /// Duration of a round in seconds; further rounds follow while a call has never succeeded
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    #[arg(long, default_value_t = 8)]
    threads: u64,
    /// Repeats the calls of an earlier run, but not the interleaving of threads
    #[arg(long)]
    seed: Option<u64>,
}

/// The missing results of a run that proves nothing about the module. On a slow machine it is
/// chance which of the calls that transfer bytes succeed.
fn missing(tally: &Tally) -> Vec<String> {
    let calls = [
        "socket of the family",
        "socket of the protocol",
        "socket with TCP's half",
        "SDP_TRANSPORT",
        "bind",
        "listen",
        "connect",
        "couple",
        "setsockopt",
        "getsockopt",
        "getname",
        "ioctl",
    ];
    let mut missing: Vec<_> = calls
        .iter()
        .filter(|call| tally.successes(call) == 0)
        .map(|call| format!("not one {call} has succeeded"))
        .collect();
    let absent = described::CALLS.iter().filter(|call| !tally.has(lent::counted_as(&call.name)));
    missing.extend(absent.map(|call| format!("{} was never made", call.name)));
    if tally.sent == 0 || tally.received == 0 {
        missing.push("no byte went".into());
    }
    missing
}

/// A round of random calls by all threads.
fn round(arguments: &Arguments, seed: u64) -> Tally {
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let (done, results) = mpsc::channel();
    for number in 0..arguments.threads {
        let done = done.clone();
        std::thread::spawn(move || {
            let host = usize::from(number % 2 == 1);
            thread::enter(["a", "b"][host]);
            let _waker = thread::Waker::new();
            let tally = Fuzzer::new(&POOL, &names::HOSTS[host], seed.wrapping_add(number)).run(end);
            // The receiver has ended only after a failure.
            let _ = done.send(tally);
        });
    }
    let mut sum = Tally::default();
    for _ in 0..arguments.threads {
        let left = (end + GRACE).saturating_duration_since(Instant::now());
        if let Ok(tally) = results.recv_timeout(left) {
            sum.add(tally);
        } else {
            sum.fault("a thread has not come back".into());
            break;
        }
    }
    sum
}

/// Rounds until the results are complete or faulty.
fn run(arguments: &Arguments, seed: u64) -> Tally {
    thread::prepare();
    let mut sum = Tally::default();
    for number in 0..ROUNDS {
        sum.add(round(arguments, seed.wrapping_add(number * arguments.threads)));
        if !sum.faults.is_empty() || missing(&sum).is_empty() {
            break;
        }
    }
    sum
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = arguments.seed.unwrap_or_else(|| u64::from(now().subsec_nanos()));
    println!("KTAP version 1\n1..1\n# seed {seed}");
    let mut tally = run(&arguments, seed);
    {
        // SO_LINGER may cause a long wait.
        let _waker = thread::Waker::new();
        POOL.close_all();
    }
    for line in tally.lines() {
        println!("# {line}");
    }
    println!("# bytes: {} sent, {} received", tally.sent, tally.received);
    for what in missing(&tally) {
        tally.fault(what);
    }
    for fault in &tally.faults {
        println!("# {fault}");
    }
    let good = tally.faults.is_empty();
    println!("{} 1 random calls", if good { "ok" } else { "not ok" });
    ExitCode::from(u8::from(!good))
}
