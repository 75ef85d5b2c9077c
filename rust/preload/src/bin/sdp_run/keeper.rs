// SPDX-License-Identifier: MIT

//! A process that runs for as long as there are others in the cgroup. The switch lasts as long as a
//! descriptor is open, and the program must not inherit a descriptor that it does not know.
//!
//! The program keeps the process ID, the parent and the terminal of `sdp_run`, so the keeper is the
//! forked process.

use crate::cgroup::Cgroup;
use libc::c_int;
use std::ffi::c_uint;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

/// The keeper, until this process has become the program. Dropping it removes the switch, and
/// returns when that is done.
pub(crate) struct Keeper(UnixStream);

/// Makes the keeper of `held`. It starts to watch the cgroup when its connection to this process is
/// closed, as exec() does.
pub(crate) fn leave(cgroup: &Cgroup, held: Vec<OwnedFd>) -> io::Result<Keeper> {
    let (mut keeper, here) = UnixStream::pair()?;
    // SAFETY: The process has one thread.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(here);
            // SAFETY: The process has one thread. The first child ends at once, so that the keeper
            // is not a child of the program.
            unsafe {
                libc::setsid();
                match libc::fork() {
                    -1 => {
                        let reason = io::Error::last_os_error().raw_os_error().unwrap_or(0);
                        let _ = keeper.write_all(&reason.to_ne_bytes());
                    }
                    0 => keep(cgroup, held, keeper),
                    _ => {}
                }
                libc::_exit(0)
            }
        }
        child => {
            drop(keeper);
            // SAFETY: No status is requested: if SIGCHLD is ignored, there is none.
            unsafe { libc::waitpid(child, core::ptr::null_mut(), 0) };
            has_begun(&here)?;
            Ok(Keeper(here))
        }
    }
}

/// Whether the keeper runs; called once its parent has ended. A running keeper sends nothing and has
/// the other end. Otherwise the error is the reason why it could not be made.
fn has_begun(mut keeper: &UnixStream) -> io::Result<()> {
    let mut reason = [0; 4];
    keeper.set_nonblocking(true)?;
    let said = keeper.read(&mut reason);
    keeper.set_nonblocking(false)?;
    match said {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Err(error) => Err(error),
        Ok(4) => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(reason))),
        Ok(_) => Err(io::Error::other("it ended at once")),
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if self.0.write_all(b"-").is_ok() {
            let _ = self.0.read(&mut [0]);
        }
    }
}

fn keep(cgroup: &Cgroup, held: Vec<OwnedFd>, mut program: UnixStream) {
    let _ = std::env::set_current_dir("/");
    let mut kept: Vec<RawFd> = held.iter().map(AsRawFd::as_raw_fd).collect();
    kept.push(program.as_raw_fd());
    kept.extend(cgroup.descriptor().map(AsRawFd::as_raw_fd));
    close_all_but(kept);
    let is_out = cgroup.leave();
    // One byte means that it was dropped; end of file means that all ends are closed by exec().
    let is_running = !matches!(program.read(&mut [0]), Ok(1));
    if !is_running {
        drop(held);
        if !cgroup.is_own() {
            return;
        }
    }
    drop(program);
    if let Ok(events) = cgroup.events() {
        wait_until_empty(&events, (!is_out).then_some(cgroup));
    }
    cgroup.remove();
}

/// Waits until no process is in the cgroup, or none but this one in `around`. There is no event for
/// the second condition, so it is polled.
fn wait_until_empty(events: &File, around: Option<&Cgroup>) {
    const LOOK_AGAIN_MS: c_int = 1000;

    let mut text = [0; 256];
    while let Ok(length) = events.read_at(&mut text, 0) {
        let said = text.get(..length).unwrap_or_default();
        let is_empty = !said
            .split(|byte| *byte == b'\n')
            .any(|line| line == b"populated 1");
        if is_empty || around.is_some_and(|around| !around.has_others()) {
            return;
        }
        let mut change = libc::pollfd {
            fd: events.as_raw_fd(),
            events: libc::POLLPRI,
            revents: 0,
        };
        let patience = if around.is_some() { LOOK_AGAIN_MS } else { -1 };
        // SAFETY: One valid element; after an interruption the loop checks again.
        unsafe { libc::poll(&raw mut change, 1, patience) };
    }
}

/// A reader of the program's pipes must see end of file when the program ends.
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
    // SAFETY: No code in this process uses these descriptors.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn a_keeper_that_could_not_be_made_is_an_error_with_its_reason() {
        let (mut there, here) = UnixStream::pair().expect("a pair");
        assert!(has_begun(&here).is_ok());
        there
            .write_all(&libc::EAGAIN.to_ne_bytes())
            .expect("there is room");
        let error = has_begun(&here).expect_err("there is none");
        assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
        drop(there);
        assert!(has_begun(&here).is_err());
    }
}
