// SPDX-License-Identifier: MIT

//! The state inherited by this process, which the program shall inherit unchanged. Rust's runtime
//! ignores SIGPIPE, and opens /dev/null if descriptor 0, 1 or 2 is closed, before main() runs.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use libc::c_int;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Runs before Rust's runtime.
#[used]
#[link_section = ".init_array"]
static NOTE: extern "C" fn() = note;

/// The inherited handler of SIGPIPE.
static SIGPIPE: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);

/// A bit for each of the first three descriptors that was closed.
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

/// Executes the program with the inherited environment, signal mask and descriptors; `std` changes
/// each of these. Returns only after a failure.
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
            // SAFETY: It takes integers. exec() closes the descriptor, so that a failure of exec()
            // can still be reported.
            unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    // SAFETY: The handler restored was in force before. The arguments are C strings with a null
    // pointer after the last of them.
    unsafe {
        libc::signal(libc::SIGPIPE, SIGPIPE.load(Ordering::Relaxed));
        libc::execvp(name, arguments.as_ptr());
    }
    let error = io::Error::last_os_error();
    // SAFETY: The process continues with the runtime's own setting.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    error
}
