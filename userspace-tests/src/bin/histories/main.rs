// SPDX-License-Identifier: MIT
//! Random histories of the module: programs, hosts, and all that may happen to them. Emits KTAP.
//!
//! A seed chooses a plan (`--show`): two to four hosts, connections with ends that send and receive in all
//! ways, and events: processes are killed, links and devices come and go, completions are late or missing,
//! memory is refused, clocks jump, the module is unloaded. Each byte is known. A conversation that nothing
//! may end must succeed; each other one must end within a time, with no wrong byte and no end of its stream
//! before all that was sent. Nothing may be left afterwards.

mod accepting;
#[path = "../../addr.rs"]
#[allow(dead_code, reason = "shared with the socket tests, which use more of it")]
mod addr;
mod board;
mod bytes;
#[path = "../sock-fuzz/chance.rs"]
#[allow(dead_code, reason = "shared with sock-fuzz, which uses more of it")]
mod chance;
mod dangers;
mod disturber;
mod draw;
mod end;
#[path = "../../errno.rs"]
#[allow(dead_code, reason = "shared with the socket tests, which use more of it")]
mod errno;
mod event_loop;
mod history;
mod hosts;
mod kernel_log;
mod looks;
mod plan;
mod questions;
mod receiving;
mod refusal;
mod sending;
mod silence;
mod standstill;
mod sys;
mod talk;
mod troubles;
mod unread;

use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use clap::{Parser, ValueEnum};

use board::Board;
use draw::Limits;
use kernel_log::KernelLog;
use plan::{Ground, Plan};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Choice {
    Tcp,
    Rlo,
    Rxe,
}

/// Random histories of the module
// Switches of a command line are independent of each other.
#[allow(clippy::struct_excessive_bools)]
#[derive(Parser)]
struct Arguments {
    /// The first seed; without one it is chosen by the time
    #[arg(long, overrides_with = "seed")]
    seed: Option<u64>,
    /// The number of histories; by default as many as fit the time
    #[arg(long, overrides_with = "count")]
    count: Option<u64>,
    /// The time for all histories, in seconds of the host's processor; the one that has begun is ended
    #[arg(long, default_value_t = 50)]
    seconds: u64,
    /// Histories of a test
    #[arg(long, default_value_t = 25)]
    batch: u64,
    /// The device below SDP, or TCP, which shows whether the driver is right
    #[arg(long, value_enum, env = "SDP_DEVICE", default_value = "rlo")]
    device: Choice,
    /// How long the processes of a history may take after its last event, in simulated seconds. The longest
    /// waits are those of the connection managers, a minute and more for a peer that does not answer
    #[arg(long, default_value_t = 300)]
    patience: u64,
    /// Nothing is disturbed
    #[arg(long)]
    calm: bool,
    /// Leave out these events, counted from 0, to find the ones that a failure needs
    #[arg(long, value_name = "EVENT", num_args = 1..)]
    no_event: Vec<usize>,
    /// Leave out these conversations
    #[arg(long, value_name = "CONVERSATION", num_args = 1..)]
    no_conversation: Vec<usize>,
    /// Print the plans and end
    #[arg(long)]
    show: bool,
    /// Go on after a failure
    #[arg(long)]
    keep_going: bool,
    /// Print each seed before its history
    #[arg(long)]
    verbose: bool,
}

impl Arguments {
    fn limits(&self) -> Limits {
        let ground = match self.device {
            Choice::Tcp => Ground::Tcp,
            Choice::Rlo => Ground::Rlo,
            Choice::Rxe => Ground::Rxe,
        };
        Limits { ground, calm: self.calm }
    }

    /// The plan of a seed, without the parts that are left out.
    fn plan(&self, seed: u64) -> Plan {
        let mut plan = draw::draw(seed, self.limits());
        for (number, conversation) in plan.conversations.iter_mut().enumerate() {
            conversation.left_out = self.no_conversation.contains(&number);
        }
        let mut number = 0;
        plan.events.retain(|_| {
            number += 1;
            !self.no_event.contains(&(number - 1))
        });
        plan
    }

    /// The command that repeats a history.
    fn command(&self, seed: u64) -> String {
        let calm = if self.calm { " --calm" } else { "" };
        let device = format!("{:?}", self.device).to_lowercase();
        format!("SDP_DEVICE={device} ./run histories --seed {seed} --count 1{calm}")
    }
}

/// The histories of one run.
struct Run {
    arguments: Arguments,
    board: Board,
    log: KernelLog,
    clock: Clock,
    next: u64,
    done: u64,
    failed: u64,
    hopeless: bool,
}

impl Run {
    fn is_over(&self) -> bool {
        let stop = self.failed > 0 && !self.arguments.keep_going;
        let all = match self.arguments.count {
            Some(count) => self.done >= count,
            None => self.clock.seconds() >= self.arguments.seconds,
        };
        self.hopeless || stop || all
    }

    /// One history; prints its faults. Returns whether it was good.
    fn one(&mut self) -> bool {
        let seed = self.next;
        self.next += 1;
        self.done += 1;
        if self.arguments.verbose {
            println!("# seed {seed}");
        }
        let plan = self.arguments.plan(seed);
        let verdict = history::run(&plan, &mut self.board, self.arguments.patience);
        let mut faults = verdict.faults;
        faults.extend(self.log.reports().into_iter().map(|line| format!("kernel: {line}")));
        self.hopeless |= verdict.hopeless;
        if faults.is_empty() {
            return true;
        }
        self.failed += 1;
        println!("# seed {seed} failed; to repeat it: {}", self.arguments.command(seed));
        for line in faults.iter().flat_map(|fault| fault.lines()).chain(plan.show().lines()) {
            println!("#   {line}");
        }
        false
    }

    /// The histories of one test.
    fn batch(&mut self) -> bool {
        let mut good = true;
        let end = self.done + self.arguments.batch;
        while self.done < end && !self.is_over() {
            good &= self.one();
        }
        good
    }
}

/// The time that has passed for people. Simulated time also passes while nobody works.
struct Clock {
    begin: Instant,
    simulated: bool,
    idle_s: f64,
}

impl Clock {
    fn new() -> Self {
        let line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
        Clock {
            begin: Instant::now(),
            simulated: line.contains("time-travel"),
            idle_s: Self::idle_s(),
        }
    }

    /// The time without work since boot.
    fn idle_s() -> f64 {
        let text = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
        text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0.0)
    }

    fn seconds(&self) -> u64 {
        let elapsed = self.begin.elapsed().as_secs_f64();
        let idle = if self.simulated { Self::idle_s() - self.idle_s } else { 0.0 };
        (elapsed - idle).max(0.0) as u64
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = arguments.seed.unwrap_or_else(|| now.as_secs() % 1_000_000 * 1000);
    if arguments.show {
        for seed in seed..seed + arguments.count.unwrap_or(1) {
            print!("{}", arguments.plan(seed).show());
        }
        return ExitCode::SUCCESS;
    }
    sys::adopt();
    sys::block_child_signals();
    // Its children inherit it, so that none can get the signal before.
    sys::hear(libc::SIGUSR1);
    println!("KTAP version 1\n# first seed {seed}");
    let clock = Clock::new();
    let (board, log) = (Board::new(), KernelLog::new());
    let mut run =
        Run { arguments, board, log, clock, next: seed, done: 0, failed: 0, hopeless: false };
    let mut number = 0;
    while number == 0 || !run.is_over() {
        let first = run.next;
        let good = run.batch();
        number += 1;
        println!(
            "{} {number} seeds {first} to {}",
            if good { "ok" } else { "not ok" },
            run.next - 1
        );
    }
    println!("1..{number}");
    println!("# {} histories in {} s, {} failed", run.done, run.clock.seconds(), run.failed);
    ExitCode::from(u8::from(run.failed > 0))
}
