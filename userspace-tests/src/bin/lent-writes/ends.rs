// SPDX-License-Identifier: MIT
//! Sockets, descriptors and processes that end while the peer still has to read.

use std::os::unix::process::CommandExt;

use crate::memory::fill;
use crate::{say, Way};

pub const WAYS: &[Way] = &[
    Way::new("close", |lent| {
        // SAFETY: it takes a number.
        unsafe { libc::close(lent.sock) };
        fill(lent);
    }),
    Way::new("close_of_all_descriptors", |lent| {
        // SAFETY: nothing uses them afterwards.
        unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
        fill(lent);
    }),
    Way::new("exit", |_| {
        say("changed");
        // SAFETY: it takes a number.
        unsafe { libc::_exit(0) };
    }),
    Way::new("kill", |_| {
        say("changed");
        // SAFETY: it takes a number.
        unsafe { libc::raise(libc::SIGKILL) };
    }),
    Way::new("exec", |_| {
        let error = std::process::Command::new("/proc/self/exe").arg("--wait").exec();
        panic!("exec: {error}");
    }),
];
