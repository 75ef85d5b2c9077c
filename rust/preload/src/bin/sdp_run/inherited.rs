// SPDX-License-Identifier: MIT

//! What this process was given, for the program to be given the same: Rust's
//! runtime ignores SIGPIPE and opens /dev/null where 0, 1 or 2 is closed, before
//! main() runs.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use libc::c_int;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Runs before the runtime does anything.
#[used]
#[link_section = ".init_array"]
static NOTE: extern "C" fn() = note;

/// What SIGPIPE leads to.
static SIGPIPE: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);

/// A bit for each of the first three descriptors that is closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

const STANDARD: [c_int; 3] = [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO];

extern "C" fn note() {
    // SAFETY: An all-zero action is a valid one, and there is room for one.
    let action = unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        libc::sigaction(libc::SIGPIPE, core::ptr::null(), &raw mut action);
        action.sa_sigaction
    };
    SIGPIPE.store(action, Ordering::Relaxed);
    for fd in STANDARD {
        // SAFETY: It takes integers.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

/// Becomes the program: with this process's environment, signal mask and descriptors,
/// none of which std's own way leaves alone. Returns only if it could not.
pub(crate) fn become_program(program: &OsStr, rest: &[OsString]) -> io::Error {
    let words: Result<Vec<_>, _> = std::iter::once(program)
        .chain(rest.iter().map(OsString::as_os_str))
        .map(|word| CString::new(word.as_bytes()))
        .collect();
    let words = match words {
        Ok(words) => words,
        Err(error) => return error.into(),
    };
    let mut arguments: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    let Some(&name) = arguments.first() else {
        return io::ErrorKind::InvalidInput.into();
    };
    arguments.push(core::ptr::null());
    for fd in STANDARD {
        if CLOSED.load(Ordering::Relaxed) & (1 << fd) != 0 {
            // Closed by exec(), so that it can still be said that this failed.
            // SAFETY: It takes integers.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    // SAFETY: What was in force before may be in force again. Strings of C, and a null
    // behind the last of them.
    unsafe {
        libc::signal(libc::SIGPIPE, SIGPIPE.load(Ordering::Relaxed));
        libc::execvp(name, arguments.as_ptr());
    }
    let error = io::Error::last_os_error();
    // SAFETY: This process goes on as it was.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    error
}
