// SPDX-License-Identifier: MIT
//! Detects from `/proc` that a thread sleeps in a given system call.

use libc::{c_int, c_long};

use crate::errno::{checked_unit, Res};
use crate::role::Role;

pub fn pid() -> i32 {
    std::process::id() as i32
}

pub fn tid() -> i32 {
    // SAFETY: takes nothing and touches no memory.
    unsafe { libc::gettid() }
}

pub fn kill(pid: i32, signal: c_int) -> Res<()> {
    // SAFETY: takes integers only.
    checked_unit(unsafe { libc::kill(pid, signal) })
}

/// Signals one thread of this process.
pub fn kill_thread(tid: i32, signal: c_int) -> Res<()> {
    // SAFETY: takes integers only.
    checked_unit(unsafe { libc::syscall(libc::SYS_tgkill, pid(), tid, signal) as c_int })
}

/// Whether the thread sleeps in one of these system calls.
fn asleep_in(pid: i32, tid: i32, calls: &[c_long]) -> bool {
    let task = format!("/proc/{pid}/task/{tid}");
    let Ok(stat) = std::fs::read_to_string(format!("{task}/stat")) else { return false };
    // The command name is in parentheses and may contain anything; the state follows it.
    let Some((_, after)) = stat.rsplit_once(") ") else { return false };
    if !after.starts_with('S') {
        return false;
    }
    let Ok(call) = std::fs::read_to_string(format!("{task}/syscall")) else { return false };
    let number = call.split_whitespace().next().and_then(|word| word.parse().ok());
    number.is_some_and(|number| calls.contains(&number))
}

/// The number of times that a thread of this process has gone to sleep.
pub fn sleeps_of(tid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).expect("status");
    let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).expect("a count")
}

impl Role {
    /// Waits until the thread of that process sleeps in one of `calls`.
    #[track_caller]
    pub fn await_asleep(&self, pid: i32, tid: i32, calls: &[c_long]) {
        let asleep = self.until(|| asleep_in(pid, tid, calls));
        assert!(asleep, "thread {tid} never slept in any of the system calls {calls:?}");
    }

    /// Makes the call on this thread, and runs `then` on another one once the call sleeps.
    #[track_caller]
    pub fn while_asleep<T>(
        &self,
        calls: &[c_long],
        then: impl FnOnce(i32) + Send,
        call: impl FnOnce() -> T,
    ) -> T {
        let sleeper = tid();
        std::thread::scope(|scope| {
            let other = scope.spawn(move || {
                self.await_asleep(pid(), sleeper, calls);
                then(sleeper);
            });
            let result = call();
            if let Err(panic) = other.join() {
                std::panic::resume_unwind(panic);
            }
            result
        })
    }

    /// Announces that this thread is about to sleep in a call, for `hear_asleep` on the other side.
    pub fn tell_sleeping(&self, point: &str) {
        self.tell(point, format!("{} {}", pid(), tid()));
    }

    /// Waits until the announcing thread sleeps in one of `calls`.
    #[track_caller]
    pub fn hear_asleep(&self, point: &str, calls: &[c_long]) {
        let who: String = self.hear(point);
        let mut numbers = who.split(' ').map(|number| number.parse().expect("a number"));
        let (pid, tid) = (numbers.next().expect("a pid"), numbers.next().expect("a tid"));
        self.await_asleep(pid, tid, calls);
    }
}
