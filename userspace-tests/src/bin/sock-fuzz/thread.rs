// SPDX-License-Identifier: MIT
//! The preparation of a thread: on one of the two hosts, without privileges, with a periodic
//! signal.

use std::fs::File;
use std::io::Error;
use std::mem::zeroed;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

const NOBODY: libc::c_long = 65534;
/// The maximum wait of a call.
const PATIENCE_NS: libc::c_long = 20_000_000;

fn checked(result: i64, what: &str) {
    assert!(result >= 0, "{what}: {}", Error::last_os_error());
}

extern "C" fn woken(_signal: i32) {}

/// For the whole program: signals interrupt calls and have no other effect.
pub fn prepare() {
    // SAFETY: the handler does nothing; all zeros are an action.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = woken as *const () as usize;
        for signal in [libc::SIGALRM, libc::SIGIO, libc::SIGURG, libc::SIGPIPE] {
            checked(libc::sigaction(signal, &raw const action, null_mut()).into(), "sigaction");
        }
    }
}

/// Moves this thread to the network namespace and drops its privileges.
pub fn enter(host: &str) {
    let host = File::open(format!("/run/netns/{host}")).expect("the network namespace");
    // SAFETY: numbers only; by the system call itself, since each thread is somewhere else.
    unsafe {
        checked(libc::setns(host.as_raw_fd(), libc::CLONE_NEWNET).into(), "setns");
        checked(libc::syscall(libc::SYS_setgroups, 0, 0), "setgroups");
        checked(libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY), "setresgid");
        checked(libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY), "setresuid");
    }
}

/// A periodic signal, so that this thread never blocks for ever.
pub struct Waker(libc::timer_t);

impl Waker {
    pub fn new() -> Self {
        let mut timer = null_mut();
        // SAFETY: all zeros are an event and a time; the rest is set, and the pointers are good.
        unsafe {
            let mut event: libc::sigevent = zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGALRM;
            event.sigev_notify_thread_id = libc::gettid();
            checked(
                libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer).into(),
                "timer_create",
            );
            let mut time: libc::itimerspec = zeroed();
            time.it_value.tv_nsec = PATIENCE_NS;
            time.it_interval.tv_nsec = PATIENCE_NS;
            checked(
                libc::timer_settime(timer, 0, &raw const time, null_mut()).into(),
                "timer_settime",
            );
        }
        Self(timer)
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        // SAFETY: made by `new`.
        unsafe { libc::timer_delete(self.0) };
    }
}
