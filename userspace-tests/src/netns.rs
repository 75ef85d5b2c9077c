// SPDX-License-Identifier: MIT
//! Entering, leaving and configuring network namespaces.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use crate::errno::{checked_int, checked_unit, Errno, Res};

/// A namespace as an open file, which keeps it alive.
pub struct Netns(File);

impl Netns {
    pub fn named(name: &str) -> io::Result<Self> {
        let path = PathBuf::from("/run/netns").join(name);
        let explain = |error| io::Error::other(format!("{}: {error}", path.display()));
        File::open(&path).map(Netns).map_err(explain)
    }

    /// The namespace of this thread.
    #[track_caller]
    pub fn current() -> Self {
        Netns(File::open("/proc/thread-self/ns/net").expect("the namespace of this thread"))
    }

    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Moves this thread into the namespace.
    pub fn enter(&self) -> Res<()> {
        // SAFETY: takes integers only.
        checked_unit(unsafe { libc::setns(self.0.as_raw_fd(), libc::CLONE_NEWNET) })
    }
}

/// A request about the loopback device.
pub fn loopback() -> libc::ifreq {
    // SAFETY: all zeros are a request without a name.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request
}

/// Moves this thread into a fresh namespace with a loopback device that is up.
pub fn enter_fresh() -> Res<()> {
    // SAFETY: the request block lives through the calls.
    unsafe {
        checked_unit(libc::unshare(libc::CLONE_NEWNET))?;
        let fd =
            checked_int(libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0))?;
        let mut request = loopback();
        request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
        let up = checked_unit(libc::ioctl(fd, libc::SIOCSIFFLAGS, &raw mut request));
        libc::close(fd);
        up
    }
}

/// Moves this thread into a fresh namespace; its owner, a user namespace, maps no user.
pub fn enter_foreign() -> Res<()> {
    let errno = |error: io::Error| Errno(error.raw_os_error().unwrap_or(0));
    let (mut ready, told) = UnixStream::pair().map_err(errno)?;
    // SAFETY: takes nothing; the child makes system calls alone.
    let child = checked_int(unsafe { libc::fork() })?;
    if child == 0 {
        // SAFETY: plain calls; the child waits to be killed.
        unsafe {
            libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET);
            libc::write(told.as_raw_fd(), b"x".as_ptr().cast(), 1);
            loop {
                libc::pause();
            }
        }
    }
    drop(told);
    let entered = ready
        .read_exact(&mut [0])
        .and_then(|()| File::open(format!("/proc/{child}/ns/net")))
        .map_err(errno)
        .and_then(|file| Netns(file).enter());
    // SAFETY: the child is this process's, and is reaped here.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    entered
}

/// A `/proc/sys/net` value of the current namespace, restored when dropped.
pub struct Sysctl {
    path: PathBuf,
    before: String,
}

impl Sysctl {
    #[track_caller]
    pub fn set(name: &str, value: &str) -> Self {
        let path = PathBuf::from("/proc/sys/net").join(name);
        let before = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("reading {}: {error}", path.display()));
        write(&path, value);
        Sysctl { path, before }
    }

    #[track_caller]
    pub fn get(name: &str) -> String {
        let path = PathBuf::from("/proc/sys/net").join(name);
        std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("reading {}: {error}", path.display()))
    }
}

#[track_caller]
fn write(path: &PathBuf, value: &str) {
    std::fs::write(path, value)
        .unwrap_or_else(|error| panic!("writing {}: {error}", path.display()));
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        // An empty list is written as a newline.
        let before = if self.before.is_empty() { "\n" } else { &self.before };
        if let Err(error) = std::fs::write(&self.path, before) {
            eprintln!("# putting {} back: {error}", self.path.display());
        }
    }
}

/// Makes every device of this namespace give up on a silent neighbour after a fraction of a second.
#[track_caller]
pub fn impatient_neighbours(version: &str) -> Vec<Sysctl> {
    let root = format!("/proc/sys/net/{version}/neigh");
    let devices = std::fs::read_dir(&root).unwrap_or_else(|error| panic!("{root}: {error}"));
    let mut changed = Vec::new();
    for device in devices {
        let name = device.expect("a directory entry").file_name();
        let name = format!("{version}/neigh/{}", name.to_string_lossy());
        changed.push(Sysctl::set(&format!("{name}/retrans_time_ms"), "50"));
        changed.push(Sysctl::set(&format!("{name}/mcast_solicit"), "2"));
    }
    changed
}

const CAP_NET_BIND_SERVICE: u32 = 10;
const CAP_IPC_LOCK: u32 = 14;

/// Drops the privilege to bind ports below `ip_unprivileged_port_start`, for this thread.
pub fn drop_bind_privilege() -> Res<()> {
    drop_privilege(CAP_NET_BIND_SERVICE)
}

/// Drops the privilege to exceed `RLIMIT_MEMLOCK`, for this thread, and sets that limit to `bytes`.
pub fn limit_locked_memory(bytes: u64) -> Res<()> {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the limit lives through the call.
    if unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) } != 0 {
        return Err(Errno::last());
    }
    drop_privilege(CAP_IPC_LOCK)
}

fn drop_privilege(privilege: u32) -> Res<()> {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Sets {
        effective: u32,
        permitted: u32,
        inheritable: u32,
    }
    // _LINUX_CAPABILITY_VERSION_3: two words per set.
    let mut header = Header { version: 0x2008_0522, pid: 0 };
    let mut sets = [Sets { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: header and sets have the layout of that version and live through the calls.
    unsafe {
        if libc::syscall(libc::SYS_capget, &raw mut header, sets.as_mut_ptr()) != 0 {
            return Err(Errno::last());
        }
        sets[0].effective &= !(1 << privilege);
        if libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) != 0 {
            return Err(Errno::last());
        }
    }
    Ok(())
}
