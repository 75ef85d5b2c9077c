// SPDX-License-Identifier: MIT
//! The process of an end: it connects or accepts, and talks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::Ordering;

use sdp_uapi::{AF_INET6_SDP, AF_INET_SDP, IPPROTO_SDP};

use crate::addr::Addr;
use crate::board::{EndState, CONNECTED, OVER, WAITING};
use crate::bytes::Stream;
use crate::errno::{checked_int, checked_unit, Errno, Res};
use crate::event_loop::{self, Half};
use crate::plan::{Conversation, Door, Ground, Manner, CLIENT, SERVER};
use crate::refusal;
use crate::sys;
use crate::talk::{set, Talk};

/// The first port of the servers.
const PORT: u16 = 7000;

/// All that the process of an end has to know.
pub struct Task<'a> {
    pub seed: u64,
    pub ground: Ground,
    pub number: usize,
    pub conversation: &'a Conversation,
    /// CLIENT or SERVER.
    pub side: usize,
    pub state: &'a EndState,
    pub peer: &'a EndState,
}

/// The address of a host.
pub fn address(host: usize, version: u8) -> IpAddr {
    let number = host as u8 + 1;
    if version == 4 {
        Ipv4Addr::new(10, 9, 0, number).into()
    } else {
        Ipv6Addr::new(0xfd09, 0, 0, 0, 0, 0, 0, u16::from(number)).into()
    }
}

impl Task<'_> {
    /// Runs the end; the result is the exit status.
    pub fn run(&self) -> i32 {
        let talk = Talk {
            fd: -1,
            end: &self.conversation.ends[self.side],
            own: Stream::new(self.seed, self.number, self.side),
            theirs: Stream::new(self.seed, self.number, 1 - self.side),
            state: self.state,
            peer: self.peer,
            certain: self.conversation.certain,
            raced: self.conversation.raced,
            ground: self.ground,
            is_client: self.side == CLIENT,
            server: self.server_place(),
            silence: self.conversation.ends[1 - self.side].silence(),
        };
        self.state.phase.store(WAITING, Ordering::SeqCst);
        let made = if self.side == CLIENT { self.connect(&talk) } else { self.accept(&talk) };
        if let Some(socket) = made {
            self.state.phase.store(CONNECTED, Ordering::SeqCst);
            talk.begin();
            converse(socket, talk);
        }
        self.state.phase.store(OVER, Ordering::SeqCst);
        0
    }

    fn families(&self) -> (i32, i32, i32) {
        let inet = if self.conversation.version == 4 { libc::AF_INET } else { libc::AF_INET6 };
        match (self.ground, self.conversation.door) {
            (Ground::Tcp, _) => (inet, 0, inet),
            (_, Door::Protocol) => (inet, IPPROTO_SDP, inet),
            (_, Door::Family) if inet == libc::AF_INET => (AF_INET_SDP, 0, AF_INET_SDP),
            (_, Door::Family) => (AF_INET_SDP, 0, AF_INET6_SDP),
        }
    }

    pub fn socket(&self, talk: &Talk) -> Res<OwnedFd> {
        let (family, protocol, of_names) = self.families();
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        // SAFETY: takes integers only.
        let socket = sys::owned(unsafe { libc::socket(family, kind, protocol) })?;
        let fd = socket.as_raw_fd();
        if of_names == AF_INET6_SDP {
            set(fd, libc::SOL_TCP, sdp_uapi::SDP_SOCK_FAMILY, &libc::AF_INET6)?;
        }
        for option in &talk.end.options {
            if option.name == libc::SO_LINGER && option.level == libc::SOL_SOCKET {
                let linger = libc::linger { l_onoff: 1, l_linger: option.value };
                set(fd, option.level, option.name, &linger)?;
            } else {
                set(fd, option.level, option.name, &option.value)?;
            }
        }
        set(fd, libc::SOL_SOCKET, libc::SO_ZEROCOPY, &1_i32)?;
        // Without probes a peer that vanished is never noticed by an end that reads.
        set(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, &1_i32)?;
        set(fd, libc::SOL_TCP, libc::TCP_KEEPIDLE, &5_i32)?;
        set(fd, libc::SOL_TCP, libc::TCP_KEEPINTVL, &2_i32)?;
        set(fd, libc::SOL_TCP, libc::TCP_KEEPCNT, &3_i32)?;
        Ok(socket)
    }

    fn server_place(&self) -> Addr {
        let host = self.conversation.ends[SERVER].host;
        Addr::new(address(host, self.conversation.version), PORT + self.number as u16)
    }

    pub fn server_name(&self) -> Addr {
        self.server_place().with_family(self.families().2)
    }

    pub fn refuse(talk: &Talk) {
        if talk.end.refused {
            refusal::begin();
        }
    }

    fn connect(&self, talk: &Talk) -> Option<OwnedFd> {
        while !self.peer.listening.load(Ordering::SeqCst) {
            if self.peer.phase.load(Ordering::SeqCst) == OVER {
                return None;
            }
            sys::sleep_us(300);
        }
        sys::sleep_us(u64::from(self.conversation.start_ms) * 1000);
        Self::refuse(talk);
        let made = self.socket(talk).and_then(|socket| {
            self.join(&socket, talk.end.eager)?;
            Ok(socket)
        });
        made.inspect_err(|&error| talk.failed("connect", error, &self.state.connect_error)).ok()
    }

    fn join(&self, socket: &OwnedFd, eager: bool) -> Res<()> {
        let fd = socket.as_raw_fd();
        let name = self.server_name();
        if eager {
            set_nonblocking(fd, true)?;
        }
        // SAFETY: the name lives through the call.
        let begun = unsafe { libc::connect(fd, name.as_ptr(), name.len() as libc::socklen_t) };
        match checked_unit(begun) {
            Ok(()) => {}
            // A connection goes on after a signal as if it had been begun without waiting.
            Err(Errno(libc::EINPROGRESS | libc::EINTR)) => await_connection(fd)?,
            Err(error) => return Err(error),
        }
        if eager {
            set_nonblocking(fd, false)?;
        }
        Ok(())
    }
}

pub fn set_nonblocking(fd: RawFd, on: bool) -> Res<()> {
    // SAFETY: takes integers only.
    let flags = checked_int(unsafe { libc::fcntl(fd, libc::F_GETFL, 0) })?;
    let flags = if on { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
    // SAFETY: as above.
    checked_int(unsafe { libc::fcntl(fd, libc::F_SETFL, flags) }).map(|_| ())
}

/// Waits until a connection that was begun is there or has failed.
fn await_connection(fd: RawFd) -> Res<()> {
    loop {
        match sys::poll(fd, libc::POLLOUT, -1) {
            Ok(_) => break,
            Err(Errno(libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
    }
    let mut error: i32 = 0;
    let mut len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: value and length live through the call.
    checked_unit(unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_ERROR,
            (&raw mut error).cast(),
            &raw mut len,
        )
    })?;
    if error == 0 {
        Ok(())
    } else {
        Err(Errno(error))
    }
}

/// Uses the connection in the way of the plan, and closes it.
fn converse(socket: OwnedFd, talk: Talk) {
    let talk = Talk { fd: socket.as_raw_fd(), ..talk };
    match talk.end.manner {
        Manner::Threads | Manner::Polite => by_threads(&talk),
        Manner::Fork => by_child(&talk),
        Manner::Passed => match pass(socket) {
            Ok(socket) => {
                by_threads(&Talk { fd: socket.as_raw_fd(), ..talk });
            }
            Err(error) => talk.failed("passing the socket", error, &talk.state.send_error),
        },
        manner @ (Manner::Poll | Manner::Epoll | Manner::Edge) => {
            if let Err(error) = set_nonblocking(talk.fd, true) {
                talk.failed("fcntl", error, &talk.state.send_error);
            }
            event_loop::run(&talk, manner);
        }
        manner @ (Manner::Apart | Manner::ApartEdge) => {
            if let Err(error) = set_nonblocking(talk.fd, true) {
                talk.failed("fcntl", error, &talk.state.send_error);
            }
            apart(&talk, manner);
        }
    }
}

fn by_threads(talk: &Talk) {
    let both = || {
        talk.write_all();
        talk.read_all();
    };
    in_two_threads(talk, || talk.write_all(), || talk.read_all(), both);
}

/// A thread for each direction, both with event loops.
fn apart(talk: &Talk, manner: Manner) {
    let half = |half| move || event_loop::run_half(talk, manner, half);
    in_two_threads(talk, half(Half::Write), half(Half::Read), || event_loop::run(talk, manner));
}

/// Writes in a thread of its own and reads in this one, which does both without memory for a thread.
fn in_two_threads(
    talk: &Talk,
    write: impl FnOnce() + Send,
    read: impl FnOnce(),
    both: impl FnOnce(),
) {
    std::thread::scope(|scope| {
        let writer = refusal::spare(|| {
            std::thread::Builder::new().spawn_scoped(scope, || {
                Task::refuse(talk);
                write();
            })
        });
        if writer.is_ok() {
            read();
        } else {
            both();
        }
    });
}

fn by_child(talk: &Talk) {
    let child = refusal::spare(|| {
        sys::fork(false, || {
            Task::refuse(talk);
            talk.write_all();
            0
        })
    });
    match child {
        Ok(pid) => {
            talk.read_all();
            let status = wait(pid);
            if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) != 0 {
                talk.state.fault("the writing child has failed");
            }
        }
        Err(error) => {
            talk.failed("fork", error, &talk.state.send_error);
            talk.read_all();
        }
    }
}

fn wait(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: the status lives through the call.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0
        && Errno::last() == Errno(libc::EINTR)
    {}
    status
}

/// Sends the socket through a Unix socket; the first descriptor is closed while it is on its way.
fn pass(socket: OwnedFd) -> Res<OwnedFd> {
    let mut fds = [0; 2];
    // SAFETY: the kernel writes two descriptors.
    checked_unit(unsafe {
        libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0, fds.as_mut_ptr())
    })?;
    let (out, into) = (sys::owned(fds[0])?, sys::owned(fds[1])?);
    let mut byte = [0_u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut control = [0_u64; 8];
    // SAFETY: zeros are a header; everything lives through the calls, and the control buffer has room for
    // one descriptor.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = libc::CMSG_SPACE(size_of::<RawFd>() as u32) as usize;
        let message = libc::CMSG_FIRSTHDR(&raw const header);
        (*message).cmsg_level = libc::SOL_SOCKET;
        (*message).cmsg_type = libc::SCM_RIGHTS;
        (*message).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as usize;
        libc::CMSG_DATA(message).cast::<RawFd>().write_unaligned(socket.as_raw_fd());
        checked_int(libc::sendmsg(out.as_raw_fd(), &raw const header, 0) as i32)?;
        drop(socket);
        header.msg_controllen = size_of_val(&control);
        checked_int(
            libc::recvmsg(into.as_raw_fd(), &raw mut header, libc::MSG_CMSG_CLOEXEC) as i32
        )?;
        let message = libc::CMSG_FIRSTHDR(&raw const header);
        if message.is_null() {
            return Err(Errno(libc::ENOBUFS));
        }
        sys::owned(libc::CMSG_DATA(message).cast::<RawFd>().read_unaligned())
    }
}
