// SPDX-License-Identifier: MIT
//! A child process of a role, for cases about shared and inherited sockets.

use std::panic::{catch_unwind, AssertUnwindSafe};

use crate::errno::{checked_int, checked_unit};

pub struct Child(i32);

/// Forks; the child runs the script and exits, with status 1 when it panicked.
#[track_caller]
pub fn spawn(script: impl FnOnce()) -> Child {
    // SAFETY: roles that use this have one thread, so the child may go on as it is.
    let pid = checked_int(unsafe { libc::fork() }).expect("fork");
    if pid > 0 {
        return Child(pid);
    }
    let status = i32::from(catch_unwind(AssertUnwindSafe(script)).is_err());
    // SAFETY: ends the process without running the parent's exit handlers.
    unsafe { libc::_exit(status) }
}

impl Child {
    pub fn pid(&self) -> i32 {
        self.0
    }

    fn wait(&self) -> i32 {
        let mut status = 0;
        // SAFETY: the status word lives through the call.
        checked_int(unsafe { libc::waitpid(self.0, &raw mut status, 0) }).expect("waitpid");
        status
    }

    /// Waits for the end of a child that must not have panicked.
    #[track_caller]
    pub fn join(self) {
        let status = self.wait();
        assert!(
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
            "the child process failed"
        );
    }

    #[track_caller]
    pub fn kill(self) {
        // SAFETY: integers only.
        checked_unit(unsafe { libc::kill(self.0, libc::SIGKILL) }).expect("kill");
        let status = self.wait();
        assert!(libc::WIFSIGNALED(status), "the child process was not killed");
    }
}
