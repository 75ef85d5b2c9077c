// SPDX-License-Identifier: MIT
//! The system calls of this program that no other part of the tests has.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use libc::{c_int, c_void};

use crate::errno::{checked_int, checked_unit, Errno, Res};

/// Memory that children share.
pub fn shared_memory(len: usize) -> *mut c_void {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh mapping.
    let memory = unsafe { libc::mmap(ptr::null_mut(), len, protection, flags, -1, 0) };
    assert!(memory != libc::MAP_FAILED, "mmap: {}", Errno::last());
    memory
}

pub fn sleep_us(micros: u64) {
    std::thread::sleep(std::time::Duration::from_micros(micros));
}

/// `CLOCK_MONOTONIC`, which no jump changes.
pub fn now_us() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time lives through the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// Sets the time of day forward or back.
pub fn jump(seconds: i64) -> Res<()> {
    // Only the clock of a guest: never that of the host on which the program is tried.
    if !std::path::Path::new("/run/vm/settings").exists() {
        return Ok(());
    }
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time lives through the calls.
    unsafe {
        libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now);
        now.tv_sec += seconds;
        checked_unit(libc::clock_settime(libc::CLOCK_REALTIME, &raw const now))
    }
}

/// Forks; the child runs the script and exits with its result. With `group` it begins a group.
pub fn fork(group: bool, script: impl FnOnce() -> i32) -> Res<i32> {
    // SAFETY: this process has one thread, so the child may go on as it is.
    let pid = checked_int(unsafe { libc::fork() })?;
    if pid > 0 {
        // The child does the same; whichever is first, a signal to its group finds it.
        if group {
            // SAFETY: takes integers only.
            unsafe { libc::setpgid(pid, pid) };
        }
        return Ok(pid);
    }
    let run = std::panic::AssertUnwindSafe(script);
    let status = std::panic::catch_unwind(run).unwrap_or(101);
    exit(status)
}

/// The processes of a group.
pub fn group(leader: i32) -> Vec<i32> {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // SAFETY: takes an integer only.
    pids.filter(|&pid| unsafe { libc::getpgid(pid) } == leader).collect()
}

/// Ends the process without the parent's exit handlers.
pub fn exit(status: i32) -> ! {
    // SAFETY: takes an integer only.
    unsafe { libc::_exit(status) }
}

/// A child that has ended, and its status.
pub fn reap() -> Option<(i32, c_int)> {
    let mut status = 0;
    // SAFETY: the status lives through the call.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    (pid > 0).then_some((pid, status))
}

/// Has to be called before [`await_child`].
pub fn block_child_signals() {
    let set = child_signals();
    // SAFETY: the set lives through the call.
    unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
}

fn child_signals() -> libc::sigset_t {
    // SAFETY: the call initialises the set.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        set
    }
}

/// Sleeps until a child ends, for at most so long.
pub fn await_child(micros: u64) {
    let set = child_signals();
    let limit = libc::timespec {
        tv_sec: (micros / 1_000_000) as libc::time_t,
        tv_nsec: (micros % 1_000_000 * 1000) as libc::c_long,
    };
    // SAFETY: set and limit live through the call.
    unsafe { libc::sigtimedwait(&raw const set, ptr::null_mut(), &raw const limit) };
}

pub fn kill(pid: i32, signal: c_int) {
    // SAFETY: takes integers only. A process that has ended meanwhile needs no signal.
    unsafe { libc::kill(pid, signal) };
}

/// Children of children come to this process when their parents end.
pub fn adopt() {
    // SAFETY: takes integers only.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// This process begins a group, and ends with its parent.
pub fn begin_group() {
    // SAFETY: takes integers only.
    unsafe {
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
    }
}

extern "C" fn heard(_signal: c_int) {}

/// The signal interrupts calls, and has no other effect.
pub fn hear(signal: c_int) {
    // SAFETY: the handler does nothing; all zeros are an action.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = heard as *const () as usize;
        libc::sigaction(signal, &raw const action, ptr::null_mut());
    }
}

/// The network namespace of this thread.
pub fn namespace() -> io::Result<OwnedFd> {
    File::open("/proc/thread-self/ns/net").map(OwnedFd::from)
}

pub fn enter(namespace: RawFd) -> Res<()> {
    // SAFETY: takes integers only.
    checked_unit(unsafe { libc::setns(namespace, libc::CLONE_NEWNET) })
}

/// Moves this thread into a fresh network namespace.
pub fn unshare() -> Res<()> {
    // SAFETY: takes integers only.
    checked_unit(unsafe { libc::unshare(libc::CLONE_NEWNET) })
}

/// Runs something in another network namespace.
pub fn within<T>(home: RawFd, namespace: RawFd, script: impl FnOnce() -> T) -> Res<T> {
    enter(namespace)?;
    let result = script();
    enter(home)?;
    Ok(result)
}

/// Sets or clears the flag of an interface that says that it is up.
pub fn set_up(interface: &str, up: bool) -> Res<()> {
    // SAFETY: all zeros are a request; it lives through the calls.
    unsafe {
        let fd = owned(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?;
        let mut request: libc::ifreq = std::mem::zeroed();
        for (place, byte) in request.ifr_name.iter_mut().zip(interface.bytes()) {
            *place = byte as libc::c_char;
        }
        checked_unit(libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request))?;
        let flag = libc::IFF_UP as libc::c_short;
        let flags = request.ifr_ifru.ifru_flags;
        request.ifr_ifru.ifru_flags = if up { flags | flag } else { flags & !flag };
        checked_unit(libc::ioctl(fd.as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut request))
    }
}

/// A descriptor that a call has returned.
pub fn owned(returned: c_int) -> Res<OwnedFd> {
    // SAFETY: the descriptor is fresh.
    checked_int(returned).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes a pipe. The kernel says `ENFILE` where it has no memory for one, and no limit of files is
/// near here, so that is `ENOMEM` to callers.
pub fn pipe() -> Res<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: the kernel writes two descriptors, which are fresh.
    unsafe {
        checked_unit(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC)).map_err(|error| {
            if error == Errno(libc::ENFILE) {
                Errno(libc::ENOMEM)
            } else {
                error
            }
        })?;
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

/// Waits for events of one descriptor; returns those that have come.
pub fn poll(fd: RawFd, events: i16, timeout_ms: i32) -> Res<i16> {
    let mut entry = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: the entry lives through the call.
    checked_int(unsafe { libc::poll(&raw mut entry, 1, timeout_ms) })?;
    Ok(entry.revents)
}

/// Waits until one of them is readable; returns the first one that is.
pub fn poll_all(fds: &[RawFd], timeout_ms: i32) -> Res<Option<RawFd>> {
    let entry = |&fd: &RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut entries: Vec<_> = fds.iter().map(entry).collect();
    let count = entries.len() as libc::nfds_t;
    // SAFETY: the entries live through the call.
    checked_int(unsafe { libc::poll(entries.as_mut_ptr(), count, timeout_ms) })?;
    Ok(entries.iter().find(|entry| entry.revents != 0).map(|entry| entry.fd))
}

/// Unloads the module, if it is not in use.
pub fn delete_module(name: &std::ffi::CStr) -> Res<()> {
    // SAFETY: the name lives through the call.
    let done = unsafe { libc::syscall(libc::SYS_delete_module, name.as_ptr(), libc::O_NONBLOCK) };
    checked_unit(done as c_int)
}

/// Loads a module from a file.
pub fn insert_module(file: &File) -> Res<()> {
    // SAFETY: the parameters live through the call.
    let done = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) };
    checked_unit(done as c_int)
}
