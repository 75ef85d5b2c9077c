// SPDX-License-Identifier: MIT

//! A process that stays behind for as long as there are others in the cgroup:
//! the switch lasts as long as a descriptor, and the program is none to be given
//! one that it does not know.
//!
//! The program keeps the number, the parent and the terminal that `sdp_run` had;
//! it is the keeper that goes aside.

use crate::cgroup::Cgroup;
use libc::c_int;
use std::ffi::c_uint;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

/// Makes the keeper of `held`. It begins to look into the cgroup when the
/// descriptor that this gives is closed, as exec() does.
pub(crate) fn leave(cgroup: &Cgroup, held: &[OwnedFd]) -> io::Result<OwnedFd> {
    let (started, starting) = pipe()?;
    // SAFETY: There is but one thread.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(starting);
            // SAFETY: As before; the first child ends at once, so that the keeper
            // is no child of the program.
            unsafe {
                libc::setsid();
                if libc::fork() == 0 {
                    keep(cgroup, held, started);
                }
                libc::_exit(0)
            }
        }
        child => {
            // SAFETY: The status is not asked for.
            unsafe { libc::waitpid(child, core::ptr::null_mut(), 0) };
            Ok(starting)
        }
    }
}

fn keep(cgroup: &Cgroup, held: &[OwnedFd], started: OwnedFd) {
    let _ = std::env::set_current_dir("/");
    let mut keep: Vec<RawFd> = held.iter().map(AsRawFd::as_raw_fd).collect();
    keep.push(started.as_raw_fd());
    keep.extend(cgroup.descriptor().map(AsRawFd::as_raw_fd));
    close_all_but(keep);
    // It ends where it is closed everywhere.
    let _ = File::from(started).read(&mut [0]);
    if let Ok(events) = cgroup.events() {
        wait_until_empty(&events);
    }
    cgroup.remove();
}

fn wait_until_empty(events: &File) {
    let mut text = [0; 256];
    while let Ok(length) = events.read_at(&mut text, 0) {
        let said = text.get(..length).unwrap_or_default();
        if !said
            .split(|byte| *byte == b'\n')
            .any(|line| line == b"populated 1")
        {
            return;
        }
        let mut change = libc::pollfd {
            fd: events.as_raw_fd(),
            events: libc::POLLPRI,
            revents: 0,
        };
        // SAFETY: One valid element; an interruption makes the loop look again.
        unsafe { libc::poll(&raw mut change, 1, -1) };
    }
}

/// Whoever reads from a pipe that the program writes to must see its end.
fn close_all_but(mut kept: Vec<RawFd>) {
    kept.sort_unstable();
    let mut first = 0;
    for fd in kept {
        if first < fd {
            close_range(first, fd - 1);
        }
        first = fd + 1;
    }
    close_range(first, c_int::MAX);
}

fn close_range(first: c_int, last: c_int) {
    let (Ok(first), Ok(last)) = (c_uint::try_from(first), c_uint::try_from(last)) else {
        return;
    };
    // SAFETY: Nothing in this process uses these.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: Room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: The kernel has just given them to us.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}
