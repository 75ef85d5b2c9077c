// SPDX-License-Identifier: MIT
//! Sockets, descriptors and processes that end while bytes are still coming.

use std::os::unix::process::CommandExt;

use crate::{say, Way};

pub const WAYS: &[Way] = &[
    Way::new("close", |ahead| {
        // SAFETY: it takes a number.
        unsafe { libc::close(ahead.sock) };
        ahead.memory.has_come(0..ahead.len);
    }),
    Way::new("close_of_all_descriptors", |ahead| {
        // SAFETY: nothing uses them afterwards.
        unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
        ahead.memory.has_come(0..ahead.len);
    }),
    Way::new("disconnect", |ahead| {
        // SAFETY: an address of family 0.
        let done = unsafe {
            let nobody = std::mem::zeroed::<libc::sockaddr>();
            let len = size_of::<libc::sockaddr>() as libc::socklen_t;
            libc::connect(ahead.sock, &raw const nobody, len)
        };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        ahead.memory.has_come(0..ahead.len);
    }),
    Way::new("exit", |_| {
        say("touched");
        // SAFETY: it takes a number.
        unsafe { libc::_exit(0) };
    }),
    Way::new("kill", |_| {
        say("touched");
        // SAFETY: it takes a number.
        unsafe { libc::raise(libc::SIGKILL) };
    }),
    Way::new("exec", |_| {
        let error = std::process::Command::new("/proc/self/exe").arg("--wait").exec();
        panic!("exec: {error}");
    }),
];
