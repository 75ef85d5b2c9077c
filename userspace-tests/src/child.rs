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

    /// The exit status of a child that must not have been killed.
    #[track_caller]
    pub fn status(self) -> i32 {
        let status = self.wait();
        assert!(libc::WIFEXITED(status), "the child process was killed");
        libc::WEXITSTATUS(status)
    }

    /// The signal that ended the child.
    pub fn killed_by(self) -> Option<i32> {
        let status = self.wait();
        libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status))
    }

    /// Waits for the end of a child that must not have panicked.
    #[track_caller]
    pub fn join(self) {
        assert_eq!(self.status(), 0, "the child process failed");
    }

    #[track_caller]
    pub fn kill(self) {
        // SAFETY: integers only.
        checked_unit(unsafe { libc::kill(self.0, libc::SIGKILL) }).expect("kill");
        assert_eq!(self.killed_by(), Some(libc::SIGKILL), "the child process was not killed");
    }
}
