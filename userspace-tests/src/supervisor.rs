// SPDX-License-Identifier: MIT
//! Runs one case once: two forked roles, their reports, and a time limit.
//!
//! The supervisor has a single thread and never uses the sockets under test, so it stays responsive
//! if the kernel hangs a role.

use std::any::Any;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use libc::pid_t;

use crate::case::{Case, Test};
use crate::control::{channel, take, Control};
use crate::ends::{await_quiet, Ends};
use crate::netns::Netns;
use crate::observe::{Note, Report};
use crate::role::Role;
use crate::verdict::Logs;
use crate::world::{Family, Hosts, Side};

/// The settings for all cases.
pub struct Stage {
    pub hosts: Hosts,
    pub namespaces: Option<(Netns, Netns)>,
    pub slowness: u32,
    /// Overrides the time limit of a case, in seconds on an ordinary machine.
    pub limit: Option<u32>,
}

impl Stage {
    fn limit(&self, case: &Case) -> Duration {
        let seconds = self.limit.unwrap_or(case.limit);
        Duration::from_secs(u64::from(seconds) * u64::from(self.slowness))
    }
}

/// The result of one run.
#[derive(Debug, Default)]
pub struct Outcome {
    pub logs: Logs,
    /// One text per fault; empty if the case passed.
    pub failures: Vec<String>,
}

/// The time for the other role to notice that the first has failed.
const GRACE: Duration = Duration::from_secs(1);
/// A killed process that does not end within this time hangs in the kernel.
const DEATH: Duration = Duration::from_secs(20);

/// The wait for the end of the connections of earlier cases.
const QUIET: Duration = Duration::from_millis(250);

/// The supervisor's view of a role.
struct Actor {
    side: Side,
    pid: pid_t,
    report: OwnedFd,
    place: String,
    failure: Option<String>,
    done: bool,
    open: bool,
}

pub fn run(stage: &Stage, test: &Test, family: Family) -> io::Result<Outcome> {
    let mut actors = start(stage, test, family)?;
    let mut outcome = Outcome::default();
    let limit = stage.limit(test.case);
    let began = Instant::now();
    let mut deadline = began + limit;
    while actors.iter().any(|actor| actor.open) {
        let now = Instant::now();
        if now >= deadline {
            break;
        }
        gather(&mut actors, &mut outcome.logs, deadline - now)?;
        if actors.iter().any(|actor| actor.failure.is_some() || !actor.open && !actor.done) {
            deadline = deadline.min(Instant::now() + GRACE * stage.slowness);
        }
    }
    judge(&mut actors, &mut outcome, began.elapsed() >= limit);
    Ok(outcome)
}

fn start(stage: &Stage, test: &Test, family: Family) -> io::Result<[Actor; 2]> {
    let (server_control, client_control) = channel()?;
    let (server_report, server_notes) = channel()?;
    let (client_report, client_notes) = channel()?;
    let make = |side, control, report| {
        let role = Role {
            side,
            family,
            ip: test.ip,
            here: stage.hosts.address(side, test.ip),
            there: stage.hosts.address(other(side), test.ip),
            slowness: stage.slowness,
            control: Control::new(control),
            report: Report::new(report),
        };
        fork_role(stage, test.case, role)
    };
    // Each role must close the other's end of the control channel, or it would never see its end.
    let server = make(Side::Server, server_control.try_clone()?, server_report)?;
    drop(server_control);
    let client = make(Side::Client, client_control.try_clone()?, client_report)?;
    drop(client_control);
    Ok([
        Actor::new(Side::Server, server, server_notes),
        Actor::new(Side::Client, client, client_notes),
    ])
}

fn other(side: Side) -> Side {
    match side {
        Side::Server => Side::Client,
        Side::Client => Side::Server,
    }
}

/// Forks; the child runs the role, with only the descriptors of its two channels, and exits.
fn fork_role(stage: &Stage, case: &Case, role: Role) -> io::Result<pid_t> {
    // SAFETY: this process has one thread, so the child may go on using everything it inherits.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    if pid > 0 {
        return Ok(pid);
    }
    // SAFETY: integers only. The role leads a process group, so that its own children can be ended
    // with it, and it does not outlive the supervisor.
    unsafe {
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
    close_others(stage, &role);
    let played = catch_panic(role.report.fd(), || {
        if let Some((server, client)) = &stage.namespaces {
            let home = if role.side == Side::Server { server } else { client };
            home.enter().expect("entering the network namespace");
        }
        if role.family != Family::Tcp {
            await_quiet(QUIET * stage.slowness);
            AT_FIRST.get_or_init(Ends::now);
        }
        case.play(&role);
    });
    match played {
        Ok(()) => role.report.note(&Note::Done),
        Err(why) => role.report.note(&Note::Failed(why)),
    }
    // SAFETY: ends the process without running the parent's exit handlers.
    unsafe { libc::_exit(0) }
}

/// Closes the copied ends of the supervisor, so that each channel has exactly two ends.
fn close_others(stage: &Stage, role: &Role) {
    let mut kept = vec![0, 1, 2, role.control.fd(), role.report.fd()];
    if let Some((server, client)) = &stage.namespaces {
        kept.extend([server.fd(), client.fd()]);
    }
    kept.sort_unstable();
    kept.dedup();
    let mut first = 0;
    for fd in kept.into_iter().chain([i32::MAX]) {
        if first < fd {
            // SAFETY: integers only; nothing in this process uses these descriptors any more.
            unsafe { libc::syscall(libc::SYS_close_range, first, fd - 1, 0) };
        }
        first = fd.saturating_add(1);
    }
}

/// The counters before the script began, in the process of a role that is not on TCP.
static AT_FIRST: OnceLock<Ends> = OnceLock::new();

/// The place of the last panic.
static PANICKED_AT: Mutex<String> = Mutex::new(String::new());

/// Runs the script; a panic becomes its message with the place it came from.
///
/// A panic is also noted at once: on a second thread it may leave the first one waiting for ever.
fn catch_panic(report: RawFd, script: impl FnOnce()) -> Result<(), String> {
    std::panic::set_hook(Box::new(move |info| {
        let mut place = info.location().map(ToString::to_string).unwrap_or_default();
        // Read before the sockets are closed, which may end connections as well.
        if let Some(before) = AT_FIRST.get() {
            place = format!("{place}, {}", Ends::now().since(before));
        }
        Note::At(format!("panicked at {place}: {}", message(info.payload()))).send(report);
        if let Ok(mut last) = PANICKED_AT.lock() {
            *last = place;
        }
    }));
    catch_unwind(AssertUnwindSafe(script)).map_err(|payload| {
        let place = PANICKED_AT.lock().map(|place| place.clone()).unwrap_or_default();
        format!("{} ({place})", message(payload.as_ref()))
    })
}

fn message(payload: &(dyn Any + Send)) -> &str {
    payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
}

impl Actor {
    fn new(side: Side, pid: pid_t, report: OwnedFd) -> Self {
        Actor {
            side,
            pid,
            report,
            place: "starts".to_string(),
            failure: None,
            done: false,
            open: true,
        }
    }

    fn note(&mut self, text: &str, logs: &mut Logs) {
        match Note::decode(text) {
            Some(Note::At(place)) => self.place = place,
            Some(Note::Seen(seen)) => {
                self.place = format!("saw \"{}\"", seen.label);
                logs.of_mut(self.side).push(seen);
            }
            Some(Note::Failed(why)) => self.failure = Some(why),
            Some(Note::Done) => self.done = true,
            None => self.failure = Some(format!("unreadable note {text:?}")),
        }
    }

    /// Ends the process and its children; returns `None` if it does not die.
    fn reap(&self) -> Option<i32> {
        let start = Instant::now();
        let mut status = 0;
        loop {
            // SAFETY: integers, and a status word that lives through the call.
            let gone = unsafe {
                libc::kill(-self.pid, libc::SIGKILL);
                libc::kill(self.pid, libc::SIGKILL);
                libc::waitpid(self.pid, &raw mut status, libc::WNOHANG)
            };
            if gone == self.pid {
                return Some(status);
            }
            if start.elapsed() > DEATH {
                return None;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The system call of each thread, for the report of a timeout.
    fn whereabouts(&self) -> String {
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{}/task", self.pid)) else {
            return "gone".to_string();
        };
        let read = |task: &std::path::Path, name: &str| {
            let text = std::fs::read_to_string(task.join(name)).unwrap_or_default();
            text.trim().to_string()
        };
        let lines: Vec<String> = tasks
            .filter_map(|task| Some(task.ok()?.path()))
            .map(|task| {
                let stack = read(&task, "stack").replace('\n', " < ");
                format!("in {} ({}) {stack}", read(&task, "wchan"), read(&task, "syscall"))
            })
            .collect();
        lines.join("; ")
    }
}

/// Waits for messages of either role and reads one from each that has any.
fn gather(actors: &mut [Actor; 2], logs: &mut Logs, limit: Duration) -> io::Result<()> {
    let mut fds: Vec<libc::pollfd> = actors
        .iter()
        .map(|actor| libc::pollfd {
            fd: if actor.open { actor.report.as_raw_fd() } else { -1 },
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    let millis = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX).max(1);
    // SAFETY: the array lives through the call and its length is passed.
    if unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, millis) } < 0 {
        return Err(io::Error::last_os_error());
    }
    for (actor, fd) in actors.iter_mut().zip(&fds) {
        if fd.revents != 0 {
            match take(&actor.report) {
                Some(text) => actor.note(&text, logs),
                None => actor.open = false,
            }
        }
    }
    Ok(())
}

/// Ends both roles and turns the facts about them into failures.
fn judge(actors: &mut [Actor; 2], outcome: &mut Outcome, late: bool) {
    let anyone_failed = actors.iter().any(|actor| actor.failure.is_some());
    for actor in actors {
        let side = actor.side;
        let whereabouts = if actor.open { actor.whereabouts() } else { String::new() };
        let status = actor.reap();
        if let Some(why) = &actor.failure {
            outcome.failures.push(format!("{side}: {why}"));
        } else if actor.open {
            // A role that only waited for the failed one is not a failure of its own, but is
            // reported.
            let what = if late || !anyone_failed { "TIMEOUT" } else { "ended by the runner" };
            let place = &actor.place;
            outcome.failures.push(format!("{side}: {what}, last: {place}; {whereabouts}"));
        } else if !actor.done && !actor.open {
            let how = status.map_or("will not die".to_string(), ending);
            outcome.failures.push(format!("{side}: {how}, last: {}", actor.place));
        }
        if status.is_none() {
            outcome.failures.push(format!("{side}: cannot be killed: {}", actor.whereabouts()));
        }
    }
}

fn ending(status: i32) -> String {
    if libc::WIFSIGNALED(status) {
        format!("killed by signal {}", libc::WTERMSIG(status))
    } else {
        format!("ended early with status {}", libc::WEXITSTATUS(status))
    }
}
