// SPDX-License-Identifier: MIT
//! Socket tests that run every case on TCP and on `AF_INET_SDP` and compare the observations.

mod addr;
mod args;
mod blocked;
mod case;
mod cases;
mod child;
mod control;
mod ends;
mod errno;
mod ktap;
mod link;
mod message;
mod netns;
mod observe;
mod pages;
mod payload;
mod pipes;
mod poller;
mod role;
mod signal;
mod sock;
mod supervisor;
mod verdict;
mod world;

use std::io;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use glob::Pattern;
use sdp_uapi as uapi;

use args::{Args, Device, Families};
use case::{Test, Turn};
use ktap::{Ktap, Subtest};
use netns::Netns;
use supervisor::{Outcome, Stage};
use verdict::Logs;
use world::{Family, Hosts, Side};

fn main() -> ExitCode {
    let args = Args::parse();
    let tests = match chosen(&args) {
        Ok(tests) => tests,
        Err(message) => return refuse(&message),
    };
    if args.list {
        for test in tests {
            println!("{}", test.name());
        }
        return ExitCode::SUCCESS;
    }
    let stage = match stage(&args) {
        Ok(stage) => stage,
        Err(error) => return refuse(&error.to_string()),
    };
    match run_all(&args, &stage, &tests) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => refuse(&error.to_string()),
    }
}

fn refuse(message: &str) -> ExitCode {
    eprintln!("sock-tests: {message}");
    ExitCode::from(2)
}

/// The tests to run, in the order of the tables.
fn chosen(args: &Args) -> Result<Vec<Test>, String> {
    let all: Vec<Test> = if args.broken { cases::broken() } else { cases::all() };
    for name in args.pick.iter().chain(&args.skip) {
        if !all.iter().any(|test| named(test, name)) {
            return Err(format!("no test is called \"{name}\"; --list shows their names"));
        }
    }
    let wanted = |test: &Test| {
        if !args.pick.is_empty() && !args.pick.iter().any(|name| named(test, name)) {
            return false;
        }
        if !args.pattern.is_empty() {
            let fits = |pattern: &Pattern| {
                pattern.matches(test.case.name) || pattern.matches(&test.name())
            };
            return args.pattern.iter().any(fits);
        }
        if !args.pick.is_empty() {
            return true;
        }
        let late = test.case.late_packets;
        (args.long || args.list || !test.case.long)
            && (args.device == Device::Rxe || !late)
            && args.one_of.is_none_or(|parts| late || test.is_in_part(parts))
            && args.ipv6_of.is_none_or(|parts| !test.is_repeated() || test.is_in_part(parts))
    };
    let chosen: Vec<Test> = all.into_iter().filter(wanted).collect();
    if chosen.is_empty() {
        return Err("no test has such a name; --list shows them".into());
    }
    Ok(chosen)
}

fn named(test: &Test, name: &str) -> bool {
    test.name() == name || test.case.name == name
}

fn stage(args: &Args) -> io::Result<Stage> {
    let (hosts, namespaces) = if args.loopback {
        (Hosts::Loopback, None)
    } else {
        let namespaces = (Netns::named(&args.server_ns)?, Netns::named(&args.client_ns)?);
        link::prepare(&namespaces.0, args.device)?;
        link::prepare(&namespaces.1, args.device)?;
        (Hosts::Namespaces, Some(namespaces))
    };
    Ok(Stage { hosts, namespaces, slowness: args.slowness, limit: args.timeout })
}

/// Runs the tests and returns how many failed.
fn run_all(args: &Args, stage: &Stage, tests: &[Test]) -> io::Result<usize> {
    let mut ktap = Ktap::begin(io::stdout(), tests.len())?;
    for test in tests {
        let name = test.name();
        if test.case.two_hosts && !stage.hosts.are_two() {
            ktap.skip(&name, "needs two hosts")?;
        } else if args.skip.iter().any(|skipped| named(test, skipped)) {
            ktap.skip(&name, "left out on the command line")?;
        } else {
            let began = Instant::now();
            let mut subtests = run_one(args.family, stage, test)?;
            if args.times {
                if let Some(last) = subtests.last_mut() {
                    last.diagnostics.push(format!("took {} ms", began.elapsed().as_millis()));
                }
            }
            ktap.test(&name, &subtests)?;
        }
    }
    ktap.end()?;
    Ok(ktap.failed)
}

fn run_one(families: Families, stage: &Stage, test: &Test) -> io::Result<Vec<Subtest>> {
    let mut subtests = Vec::new();
    let mut play = |name, family| {
        let outcome = supervisor::run(stage, test, family)?;
        subtests.push(subtest(name, &outcome));
        Ok::<Outcome, io::Error>(outcome)
    };
    match families {
        Families::Tcp => drop(play("tcp", Family::Tcp)?),
        Families::Sdp => drop(play("sdp", Family::Sdp)?),
        Families::Both => {
            let tcp = play("tcp", Family::Tcp)?;
            let sdp = play("sdp", Family::Sdp)?;
            subtests.push(agreement(test, &tcp.logs, &sdp.logs, None));
        }
        Families::Protocol => {
            let tcp = play("tcp", Family::Tcp)?;
            let other = play("protocol", Family::Protocol)?;
            subtests.push(agreement(test, &tcp.logs, &other.logs, Some(test.case.turns)));
        }
        Families::Companion => {
            let tcp = play("tcp", Family::Tcp)?;
            let other = play("companion", Family::Companion)?;
            // It fell back before the program could see it.
            subtests.push(agreement(test, &tcp.logs, &other.logs, Some(&[])));
        }
    }
    Ok(subtests)
}

fn subtest(name: &'static str, outcome: &Outcome) -> Subtest {
    let passed = outcome.failures.is_empty();
    let mut diagnostics = outcome.failures.clone();
    if !passed {
        diagnostics.extend(log_lines(name, &outcome.logs));
    }
    Subtest { name, passed, diagnostics }
}

fn agreement(test: &Test, tcp: &Logs, sdp: &Logs, open: Option<&[Turn]>) -> Subtest {
    let verdict = verdict::compare(tcp, sdp, test.case.differences, open);
    let passed = verdict.mismatches.is_empty();
    let mut diagnostics: Vec<String> =
        verdict.mismatches.iter().map(|line| format!("mismatch: {line}")).collect();
    diagnostics
        .extend(verdict.differences.iter().map(|line| format!("differs on purpose: {line}")));
    if !passed {
        diagnostics.extend(log_lines("tcp", tcp));
        diagnostics.extend(log_lines("sdp", sdp));
    }
    Subtest { name: "agreement", passed, diagnostics }
}

/// The number of shown lines of a log: the cause of a failure is at its end.
const SHOWN: usize = 30;

fn log_lines(family: &str, logs: &Logs) -> Vec<String> {
    let mut lines = Vec::new();
    for side in [Side::Server, Side::Client] {
        let log = logs.of(side);
        let hidden = log.len().saturating_sub(SHOWN);
        if hidden > 0 {
            lines.push(format!("{family} {side}: {hidden} earlier observations"));
        }
        for seen in &log[hidden..] {
            lines.push(format!("{family} {side} saw {} = {}", seen.label, seen.value));
        }
    }
    lines
}
