// SPDX-License-Identifier: MIT
//! Sockets and the BPF programs of their cgroup.

use std::fs;
use std::path::PathBuf;

use libc::{c_int, c_long, EPERM, SOL_SOCKET, SO_KEEPALIVE};

use crate::blocked::pid;
use crate::case::Case;
use crate::child;
use crate::role::Role;

// linux/bpf.h: commands, a program type, and its attach point.
const PROG_LOAD: c_int = 5;
const PROG_ATTACH: c_int = 8;
const CGROUP_SOCKOPT: u32 = 25;
const CGROUP_SETSOCKOPT: u32 = 22;

/// `r0 = 0; exit`: setting any option fails.
const REFUSE: [u64; 2] = [0xb7, 0x95];

#[repr(C)]
#[derive(Default)]
struct Load {
    program_type: u32,
    instructions: u32,
    at: u64,
    license: u64,
    log: [u64; 2],
    version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    hook: u32,
}

#[repr(C)]
struct Attach {
    target: c_int,
    program: c_int,
    hook: u32,
    flags: u32,
}

#[track_caller]
fn bpf<T>(command: c_int, attributes: &T) -> c_int {
    // SAFETY: the attributes, and what they point to, live through the call.
    let done: c_long =
        unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>()) };
    assert!(done >= 0, "bpf: {}", std::io::Error::last_os_error());
    c_int::try_from(done).expect("a descriptor")
}

/// A cgroup (version 2); it is empty when it is dropped.
struct Group(PathBuf);

impl Group {
    fn new() -> Self {
        let at = PathBuf::from(format!("/sys/fs/cgroup/sock-tests-{}", pid()));
        fs::create_dir(&at).expect("a cgroup");
        Group(at)
    }

    /// Moves the calling process into it.
    fn enter(&self) {
        fs::write(self.0.join("cgroup.procs"), pid().to_string()).expect("to enter a cgroup");
    }

    /// From now on, setting an option of a socket of this group fails.
    fn refuse_options(&self) {
        let load = Load {
            program_type: CGROUP_SOCKOPT,
            instructions: 2,
            at: REFUSE.as_ptr() as u64,
            license: c"GPL".as_ptr() as u64,
            hook: CGROUP_SETSOCKOPT,
            ..Load::default()
        };
        let program = bpf(PROG_LOAD, &load);
        let directory = fs::File::open(&self.0).expect("the cgroup");
        let target = std::os::fd::AsRawFd::as_raw_fd(&directory);
        let attach = Attach { target, program, hook: CGROUP_SETSOCKOPT, flags: 0 };
        bpf(PROG_ATTACH, &attach);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // A process that was waited for may be counted until its processor has left it.
        let removed = (0..1000).any(|_| match fs::remove_dir(&self.0) {
            Err(e) if e.kind() == std::io::ErrorKind::ResourceBusy => {
                std::thread::sleep(std::time::Duration::from_millis(10));
                false
            }
            done => {
                done.expect("to remove a cgroup");
                true
            }
        });
        assert!(removed, "an empty cgroup");
    }
}

fn accepted_in(t: &Role, group: &Group) {
    let outside = t.listener(1);
    group.enter();
    let inside = t.listener(1);
    let (to_outside, to_inside) = (t.socket(), t.socket());
    t.ok("connect", to_outside.connect(&t.here(t.port_of(&outside))));
    t.ok("connect", to_inside.connect(&t.here(t.port_of(&inside))));
    group.refuse_options();
    let keep = |sock: &crate::sock::Sock| sock.set(SOL_SOCKET, SO_KEEPALIVE, &1);
    t.err("a socket of the cgroup", keep(&inside), EPERM);
    t.ok("one from before", keep(&outside));
    t.err("an accepted one of the cgroup", keep(&inside.accept().expect("accept")), EPERM);
    t.ok("an accepted one from before", keep(&outside.accept().expect("accept")));
}

pub const CASES: &[Case] = &[Case::alone("cgroup_of_a_listener_is_that_of_its_connections", |t| {
    let group = Group::new();
    child::spawn(|| accepted_in(t, &group)).join();
})
.both_versions()];
