// SPDX-License-Identifier: MIT
//! Calls that make, connect, close and query sockets.

use std::mem::zeroed;
use std::ptr::{from_ref, null_mut};

use libc::c_int;
use sdp_uapi::{AF_INET_SDP, IPPROTO_SDP, SDP_SOCK_FAMILY, SDP_TRANSPORT};

use crate::fuzzer::Fuzzer;
use crate::names;

/// The kinds of sockets, for the summary.
const KINDS: [&str; 3] =
    ["socket of the family", "socket of the protocol", "socket with TCP's half"];

/// The events of an exclusive waiter.
const EXCLUSIVE: u32 =
    (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLERR | libc::EPOLLHUP | libc::EPOLLET) as u32;

/// The number of checks whether a pair is connected; every 20 milliseconds.
const ROUNDS: u32 = 50;

fn set(fd: c_int, option: c_int, value: c_int) -> c_int {
    // SAFETY: `value` is an int.
    unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, option, from_ref(&value).cast(), 4) }
}

impl Fuzzer {
    pub fn socket(&mut self) {
        let kind = self.chance.below(KINDS.len());
        let family = self.chance.of(&[libc::AF_INET, libc::AF_INET6]);
        let (domain, protocol) = match kind {
            1 => (family, IPPROTO_SDP),
            _ => (AF_INET_SDP, self.chance.of(&[0, libc::IPPROTO_TCP])),
        };
        // The timer interrupts blocking calls, so some sockets may block.
        let flags = if self.chance.one_in(8) { 0 } else { libc::SOCK_NONBLOCK };
        let (domain, protocol, flags) = if self.chance.one_in(60) {
            (domain, self.chance.number(), self.chance.number())
        } else {
            (domain, protocol, flags | libc::SOCK_CLOEXEC)
        };
        // SAFETY: takes numbers.
        let fd = unsafe { libc::socket(domain, libc::SOCK_STREAM | flags, protocol) };
        self.tally.count(KINDS[kind], fd.into());
        if fd < 0 {
            return;
        }
        if kind == 2 {
            let transport = self.chance.of(&[1, 1, 2]);
            set(fd, SDP_SOCK_FAMILY, family);
            self.tally.count("SDP_TRANSPORT", set(fd, SDP_TRANSPORT, transport).into());
        } else if kind == 0 && family == libc::AF_INET6 {
            set(fd, SDP_SOCK_FAMILY, family);
        }
        self.pool.put(&mut self.chance, fd);
    }

    /// A connection between two sockets of any kind, because random calls seldom connect any.
    pub fn couple(&mut self) {
        let host = self.chance.of(self.host);
        let name = names::whole(host, 0);
        let kinds = [self.chance.below(KINDS.len()), self.chance.below(KINDS.len())];
        // Without this, accept() would never find a connection.
        let left_to_chance = self.chance.one_in(3);
        let [listener, client] = kinds.map(|kind| self.make(kind, host.is_ipv6()));
        // SAFETY: the name is whole; the answers go to this call's memory.
        let server = unsafe {
            let mut bound: libc::sockaddr_in6 = zeroed();
            let mut len = 28;
            let mut asked = libc::pollfd { fd: listener, events: libc::POLLIN, revents: 0 };
            libc::bind(listener, name.as_ptr().cast(), name.len() as u32);
            libc::listen(listener, 4);
            libc::getsockname(listener, (&raw mut bound).cast(), &raw mut len);
            libc::connect(client, (&raw const bound).cast(), len.min(28));
            // The signal that ends all blocking calls interrupts each of these.
            let mut rounds = 0..ROUNDS;
            while rounds.next().is_some() && libc::poll(&raw mut asked, 1, 100) < 1 {}
            if left_to_chance {
                -1
            } else {
                libc::accept4(listener, null_mut(), null_mut(), libc::SOCK_NONBLOCK)
            }
        };
        if !left_to_chance {
            self.tally.count("couple", server.into());
        }
        for fd in [listener, client, server] {
            if fd >= 0 {
                self.pool.put(&mut self.chance, fd);
            }
        }
    }

    /// A non-blocking socket.
    fn make(&mut self, kind: usize, is_ipv6: bool) -> c_int {
        let family = if is_ipv6 { libc::AF_INET6 } else { libc::AF_INET };
        let (domain, protocol) =
            if kind == 1 { (family, IPPROTO_SDP) } else { (AF_INET_SDP, libc::IPPROTO_TCP) };
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: takes numbers.
        let fd = unsafe { libc::socket(domain, libc::SOCK_STREAM | flags, protocol) };
        set(fd, SDP_SOCK_FAMILY, family);
        if kind == 2 {
            set(fd, SDP_TRANSPORT, 1);
        }
        fd
    }

    pub fn close(&mut self) {
        let fd = self.pool.take(&mut self.chance);
        if fd >= 0 {
            // SAFETY: it is in the pool no more.
            let result = unsafe { libc::close(fd) };
            self.tally.count("close", result.into());
        }
    }

    pub fn dup(&mut self) {
        // SAFETY: takes a number.
        let fd = unsafe { libc::dup(self.fd()) };
        self.tally.count("dup", fd.into());
        if fd >= 0 {
            self.pool.put(&mut self.chance, fd);
        }
    }

    /// Half of the calls are for a new socket, because most of those in the pool are bound already.
    pub fn bind(&mut self) {
        let fd = if self.chance.one_in(2) {
            let kind = self.chance.below(KINDS.len());
            let is_ipv6 = self.chance.one_in(2);
            let fd = self.make(kind, is_ipv6);
            if fd >= 0 {
                self.pool.put(&mut self.chance, fd);
            }
            fd
        } else {
            self.fd()
        };
        self.named(fd, "bind", libc::bind);
    }

    pub fn connect(&mut self) {
        let fd = self.fd();
        self.named(fd, "connect", libc::connect);
    }

    fn named(
        &mut self,
        fd: c_int,
        what: &'static str,
        call: unsafe extern "C" fn(c_int, *const libc::sockaddr, u32) -> c_int,
    ) {
        let (name, len) = names::name(&mut self.chance);
        let mut place = self.memory.place(&mut self.chance, name.len());
        if place.is_good() {
            self.memory.at(place).copy_from_slice(&name);
        } else if self.chance.one_in(2) {
            let Some(good) = self.memory.put(&name) else { return };
            place = good;
        }
        // SAFETY: the kernel checks the pointer, and reads only.
        let result = unsafe { call(fd, place.address.cast(), len) };
        self.tally.count(what, result.into());
    }

    pub fn listen(&mut self) {
        let backlog = if self.chance.one_in(4) { self.chance.number() } else { 8 };
        // SAFETY: takes numbers.
        let result = unsafe { libc::listen(self.fd(), backlog) };
        self.tally.count("listen", result.into());
    }

    pub fn accept(&mut self) {
        let fd = self.fd();
        let flags = self.chance.of(&[0, libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC, 1]);
        let len = self.chance.below(140);
        let name = self.memory.place(&mut self.chance, len.max(1));
        let size = self.memory.put(&(len as u32).to_ne_bytes());
        let Some(size) = size.filter(|_| self.chance.one_in(2)) else {
            // SAFETY: no pointer.
            let new = unsafe { libc::accept4(fd, null_mut(), null_mut(), flags) };
            self.accepted(new);
            return;
        };
        // SAFETY: the kernel checks the pointers; what it may write is given out for it.
        let new = unsafe { libc::accept4(fd, name.address.cast(), size.address.cast(), flags) };
        self.accepted(new);
        let named = self.said(size).min(len);
        self.check(&[(name, named), (size, 4)], || format!("accept({len}): {new}, length {named}"));
    }

    fn accepted(&mut self, new: c_int) {
        self.tally.count("accept", new.into());
        if new >= 0 {
            self.pool.put(&mut self.chance, new);
        }
    }

    pub fn ask_name(&mut self) {
        let fd = self.fd();
        let call = self.chance.of(&[
            libc::getsockname
                as unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut u32) -> c_int,
            libc::getpeername,
        ]);
        let len = if self.chance.one_in(6) {
            self.chance.number()
        } else {
            self.chance.below(140) as i32
        };
        let real = usize::try_from(len).unwrap_or(0).clamp(1, 4096);
        let name = self.memory.place(&mut self.chance, real);
        let size = self.memory.place(&mut self.chance, 4);
        if size.is_good() {
            self.memory.at(size).copy_from_slice(&len.to_ne_bytes());
        }
        // SAFETY: the kernel checks the pointers; what it may write is given out for it.
        let result = unsafe { call(fd, name.address.cast(), size.address.cast()) };
        self.tally.count("getname", result.into());
        let said = self.said(size);
        let written = said.min(usize::try_from(len).unwrap_or(0));
        self.check(&[(name, written), (size, 4)], || {
            format!("getsockname or getpeername of {len}: {result}, length {said}")
        });
    }

    pub fn shutdown(&mut self) {
        let how =
            if self.chance.one_in(8) { self.chance.number() } else { self.chance.below(3) as i32 };
        // SAFETY: takes numbers.
        let result = unsafe { libc::shutdown(self.fd(), how) };
        self.tally.count("shutdown", result.into());
    }

    pub fn poll(&mut self) {
        let mut asked = [libc::pollfd { fd: -1, events: 0, revents: 0 }; 8];
        for one in &mut asked {
            one.fd = self.pool.any(&mut self.chance);
            one.events = self.chance.word() as i16;
        }
        let patience = self.chance.below(5) as c_int;
        // SAFETY: eight of them.
        let result = unsafe { libc::poll(asked.as_mut_ptr(), 8, patience) };
        self.tally.count("poll", result.into());
    }

    /// Waits and edge-triggered events through epoll, as in event loops.
    pub fn epoll(&mut self) {
        // SAFETY: takes a number.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return;
        }
        for _ in 0..4 {
            let fd = self.fd();
            let mut events = self.chance.word() as u32;
            if self.chance.one_in(3) {
                // Other bits are refused beside it.
                events &= EXCLUSIVE;
                events |= libc::EPOLLEXCLUSIVE as u32;
            }
            let mut event = libc::epoll_event { events, u64: 0 };
            // SAFETY: `event` is one.
            unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        }
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 4];
        // SAFETY: four of them; the descriptor is this call's.
        let result = unsafe {
            let result = libc::epoll_wait(epoll, events.as_mut_ptr(), 4, 2);
            libc::close(epoll);
            result
        };
        self.tally.count("epoll", result.into());
    }

    pub fn change_flags(&mut self) {
        let flags = self.chance.of(&[
            0,
            libc::O_NONBLOCK,
            libc::O_NONBLOCK,
            libc::O_NONBLOCK | libc::O_ASYNC,
        ]);
        // SAFETY: takes numbers.
        let result = unsafe { libc::fcntl(self.fd(), libc::F_SETFL, flags) };
        self.tally.count("fcntl", result.into());
    }
}
