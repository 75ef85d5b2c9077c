// SPDX-License-Identifier: MIT
//! One history: the hosts, the processes, the events, and the verdict.

use std::fs;
use std::sync::atomic::Ordering;

use crate::board::{Board, OVER};
use crate::disturber::{self, Processes};
use crate::end::Task;
use crate::hosts::{await_that, Hosts, Outcome};
use crate::plan::{Conversation, Finish, Ground, Plan, What};
use crate::sys;

/// How long a killed process may take.
const DEATH_S: u64 = 60;

/// What a process is.
#[derive(Clone)]
enum Kind {
    End { conversation: usize, end: usize, host: usize },
    Event(String),
}

struct Process {
    pid: i32,
    kind: Kind,
    /// Killed by an event or by the driver.
    over: Option<i32>,
}

/// The processes of a history.
struct Crowd<'a> {
    processes: Vec<Process>,
    board: &'a Board,
    killed: Vec<(usize, usize)>,
    faults: Vec<String>,
}

impl Processes for Crowd<'_> {
    fn signal(&self, conversation: usize, end: usize, signal: i32) {
        for process in self.alive() {
            if matches!(process.kind, Kind::End { conversation: c, end: e, .. } if (c, e) == (conversation, end))
            {
                sys::kill(-process.pid, signal);
            }
        }
    }

    fn kill_host(&self, host: usize) {
        for process in self.alive() {
            if matches!(process.kind, Kind::End { host: one, .. } if one == host) {
                sys::kill(-process.pid, libc::SIGKILL);
            }
        }
    }

    fn background(&mut self, what: String, script: Box<dyn FnOnce() -> i32 + '_>) -> Outcome<()> {
        let pid = sys::fork(true, || {
            sys::begin_group();
            script()
        })
        .map_err(|error| format!("fork: {error}"))?;
        self.processes.push(Process { pid, kind: Kind::Event(what), over: None });
        Ok(())
    }
}

impl Crowd<'_> {
    fn alive(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().filter(|process| process.over.is_none())
    }

    /// Starts the processes of all ends.
    fn begin(&mut self, plan: &Plan, hosts: &mut Hosts) -> Outcome<()> {
        let all = plan.conversations.iter().enumerate();
        for (number, conversation) in all.filter(|(_, one)| !one.left_out) {
            for side in 0..2 {
                let host = conversation.ends[side].host;
                let (state, peer) =
                    (self.board.end(number, side), self.board.end(number, 1 - side));
                let pid = sys::fork(true, || {
                    sys::begin_group();
                    hosts.enter(host);
                    let (seed, ground) = (plan.seed, plan.ground);
                    Task { seed, ground, number, conversation, side, state, peer }.run()
                })
                .map_err(|error| format!("fork: {error}"))?;
                let kind = Kind::End { conversation: number, end: side, host };
                self.processes.push(Process { pid, kind, over: None });
            }
        }
        Ok(())
    }

    /// Takes note of the processes that have ended.
    fn reap(&mut self) {
        while let Some((pid, status)) = sys::reap() {
            let Some(process) = self.processes.iter_mut().find(|process| process.pid == pid) else {
                continue;
            };
            process.over = Some(status);
            match process.kind.clone() {
                Kind::End { conversation, end, .. } => {
                    self.board.end(conversation, end).phase.store(OVER, Ordering::SeqCst);
                    self.board.end(conversation, end).shut.store(true, Ordering::SeqCst);
                    let killed = self.killed.contains(&(conversation, end));
                    let good = status == 0
                        || killed
                            && libc::WIFSIGNALED(status)
                            && libc::WTERMSIG(status) == libc::SIGKILL;
                    if !good {
                        self.faults.push(format!(
                            "end {end} of conversation {conversation} ended with status {status:#x}"
                        ));
                    }
                }
                Kind::Event(what) => {
                    if status != 0 {
                        self.faults.push(format!("{what} ended with status {status:#x}"));
                    }
                }
            }
        }
    }

    /// Notes which ends an event kills.
    fn note(&mut self, what: &What) {
        match *what {
            What::Kill { conversation, end } => self.killed.push((conversation, end)),
            What::DeleteHost { host } => {
                for process in &self.processes {
                    if let Kind::End { conversation, end, host: one } = process.kind {
                        if one == host {
                            self.killed.push((conversation, end));
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// Sleeps until a time; ends earlier if all processes have ended.
    fn sleep_until(&mut self, end_us: u64) {
        loop {
            self.reap();
            let now = sys::now_us();
            if now >= end_us || self.alive().next().is_none() {
                return;
            }
            sys::await_child(end_us - now);
        }
    }

    /// Descriptions of the processes that hang, with the stacks of their threads and children.
    fn stacks(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for process in self.alive() {
            let what = match &process.kind {
                Kind::End { conversation, end, .. } => {
                    format!("end {end} of conversation {conversation}")
                }
                Kind::Event(what) => what.clone(),
            };
            lines.push(format!("{what} hangs (process {})", process.pid));
            for pid in sys::group(process.pid) {
                let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
                for task in tasks.flatten() {
                    lines.push(format!("  thread {}", task.file_name().to_string_lossy()));
                    for name in ["syscall", "wchan", "stack"] {
                        let text = fs::read_to_string(task.path().join(name)).unwrap_or_default();
                        lines.extend(text.lines().map(|line| format!("    {name}: {line}")));
                    }
                }
            }
        }
        lines
    }

    /// Kills what is left. Returns false if something does not die.
    fn kill_all(&mut self) -> bool {
        for process in &self.processes {
            sys::kill(-process.pid, libc::SIGKILL);
            if let Kind::End { conversation, end, .. } = process.kind {
                self.killed.push((conversation, end));
            }
        }
        self.sleep_until(sys::now_us() + DEATH_S * 1_000_000);
        self.alive().next().is_none()
    }
}

/// What a history has shown.
pub struct Verdict {
    pub faults: Vec<String>,
    /// The machine cannot be used for further histories.
    pub hopeless: bool,
}

/// Runs a plan.
pub fn run(plan: &Plan, board: &mut Board, patience_s: u64) -> Verdict {
    board.clear();
    let mut hosts = match Hosts::make(plan) {
        Ok(hosts) => hosts,
        Err(error) => {
            return Verdict { faults: vec![format!("the hosts: {error}")], hopeless: true }
        }
    };
    let mut crowd = Crowd { processes: Vec::new(), board, killed: Vec::new(), faults: Vec::new() };
    let performed = perform(plan, &mut hosts, &mut crowd);
    crowd.sleep_until(sys::now_us() + patience_s * 1_000_000);
    let refused = disturber::refuse(crate::plan::Refusal::default());
    crowd.faults.extend(performed.err().into_iter().chain(refused.err()));
    let mut hopeless = false;
    if crowd.alive().next().is_some() {
        let stacks = crowd.stacks();
        crowd.faults.push(format!("not at its end {patience_s} s after the last event"));
        crowd.faults.extend(stacks);
        crowd.faults.extend(hosts.table());
        hopeless = !crowd.kill_all();
    }
    let mut faults = std::mem::take(&mut crowd.faults);
    drop(crowd);
    let all = plan.conversations.iter().enumerate();
    for (number, conversation) in all.filter(|(_, one)| !one.left_out) {
        faults.extend(judge(number, conversation, board));
    }
    if !hopeless {
        if let Err(error) = aftermath(plan, hosts) {
            hopeless = true;
            faults.push(error);
        }
    }
    if !faults.is_empty() {
        for number in 0..plan.conversations.len() {
            for (end, name) in ["client", "server"].iter().enumerate() {
                faults.push(format!(
                    "conversation {number}, {name}: {}",
                    board.end(number, end).line()
                ));
            }
        }
    }
    Verdict { faults, hopeless }
}

/// Starts the processes and makes the events happen.
fn perform(plan: &Plan, hosts: &mut Hosts, crowd: &mut Crowd) -> Outcome<()> {
    disturber::refuse(plan.refusal)?;
    crowd.begin(plan, hosts)?;
    let begin = sys::now_us();
    for event in &plan.events {
        let at = begin + u64::from(event.at_ms) * 1000;
        // Events undo others, so they happen even if all processes have ended.
        crowd.sleep_until(at);
        crowd.note(&event.what);
        if !matches!(event.what, What::Look { .. }) {
            crowd.board.disturb();
        }
        disturber::happen(&event.what, plan, hosts, crowd)
            .map_err(|error| format!("{:?}: {error}", event.what))?;
    }
    Ok(())
}

/// Sockets of a deleted host are in no table, and live on for as long as a connection without a program may.
fn reloaded(hosts: &Hosts, plan: &Plan) -> Outcome<bool> {
    let mut fault = Ok(());
    let waited = await_that("the last user of the module", 60, || {
        disturber::reload(hosts, plan).unwrap_or_else(|error| {
            fault = Err(error);
            true
        })
    });
    fault.map(|()| waited.is_ok())
}

/// Nothing may be left.
fn aftermath(plan: &Plan, hosts: Hosts) -> Outcome<()> {
    if plan.ground != Ground::Tcp {
        hosts.await_empty_tables()?;
        if plan.reload && !reloaded(&hosts, plan)? {
            return Err("the module is in use without a socket".into());
        }
    }
    hosts.take_down(plan.tidy)
}

/// Compares what both ends have seen.
fn judge(number: usize, conversation: &Conversation, board: &Board) -> Vec<String> {
    let mut faults = Vec::new();
    for (end, name) in ["client", "server"].iter().enumerate() {
        let (own, peer) = (board.end(number, end), board.end(number, 1 - end));
        let mut fault =
            |text: String| faults.push(format!("conversation {number}, {name}: {text}"));
        if let Some(text) = own.fault_text() {
            fault(text);
        }
        let received = own.received.load(Ordering::SeqCst);
        let accepted = peer.accepted.load(Ordering::SeqCst);
        let read_all = own.read_all.load(Ordering::SeqCst);
        if conversation.certain {
            let total = conversation.ends[1 - end].total();
            if !read_all || received != total {
                fault(format!("{received} of {total} bytes, the end was read: {read_all}"));
            }
        // An end that was told of an error by a call that sends reads the end of the stream afterwards.
        } else if read_all
            && received < accepted
            && own.send_error.load(Ordering::SeqCst) == 0
            && conversation.ends[end].finish == Finish::Orderly
        {
            fault(format!("the stream ended after {received} bytes, {accepted} were sent"));
        }
    }
    faults
}
