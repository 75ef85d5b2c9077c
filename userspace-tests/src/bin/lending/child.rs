// SPDX-License-Identifier: MIT
//! Forked children that must end well.

use libc::pid_t;

/// Runs it in a forked child that gets the number of its parent.
pub fn in_child(f: impl FnOnce(pid_t)) {
    // SAFETY: the child runs `f` and ends, without the runtime of this program.
    unsafe {
        let parent = libc::getpid();
        let child = libc::fork();
        if child == 0 {
            f(parent);
            libc::_exit(0);
        }
        ended_well(child);
    }
}

pub fn ended_well(child: pid_t) {
    let mut status = 0;
    // SAFETY: the status lives through the call.
    while unsafe { libc::waitpid(child, &raw mut status, 0) } != child {
        let error = std::io::Error::last_os_error();
        assert_eq!(error.raw_os_error(), Some(libc::EINTR), "waitpid");
    }
    assert_eq!(status, 0, "the child has failed");
}
