// SPDX-License-Identifier: MIT
//! One socket descriptor and the plain system calls on it, without retries and hidden flags.
//!
//! The scatter/gather calls are in `message.rs`, the event calls in `poller.rs`.

use std::ffi::c_void;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

use libc::{c_int, c_ulong, socklen_t};

use crate::addr::Addr;
use crate::errno::{checked, checked_int, checked_unit, Errno, Res};

/// The states of the kernel's `enum tcp_state` that cases use.
pub const TCP_ESTABLISHED: u8 = 1;
pub const TCP_FIN_WAIT2: u8 = 5;
pub const TCP_CLOSE: u8 = 7;
pub const TCP_CLOSE_WAIT: u8 = 8;
pub const TCP_LISTEN: u8 = 10;

/// Closed when dropped, or earlier by `close`; then the descriptor is -1.
#[derive(Debug)]
pub struct Sock(AtomicI32);

impl Sock {
    pub fn new(domain: c_int, kind: c_int, protocol: c_int) -> Res<Self> {
        // SAFETY: takes integers only.
        checked_int(unsafe { libc::socket(domain, kind, protocol) }).map(Self::from_fd)
    }

    pub fn from_fd(fd: RawFd) -> Self {
        Sock(AtomicI32::new(fd))
    }

    pub fn fd(&self) -> RawFd {
        self.0.load(Ordering::SeqCst)
    }

    pub fn close(&self) -> Res<()> {
        // SAFETY: takes an integer only; the descriptor is forgotten first, so it is closed once.
        checked_unit(unsafe { libc::close(self.0.swap(-1, Ordering::SeqCst)) })
    }

    pub fn dup(&self) -> Res<Self> {
        // SAFETY: takes an integer only.
        checked_int(unsafe { libc::dup(self.fd()) }).map(Self::from_fd)
    }

    pub fn bind(&self, addr: &Addr) -> Res<()> {
        self.bind_raw(addr.as_ptr(), addr.len())
    }

    pub fn bind_raw(&self, addr: *const libc::sockaddr, len: usize) -> Res<()> {
        // SAFETY: the kernel checks the pointer; a bad one is answered with EFAULT.
        checked_unit(unsafe { libc::bind(self.fd(), addr, len as socklen_t) })
    }

    pub fn connect(&self, addr: &Addr) -> Res<()> {
        self.connect_raw(addr.as_ptr(), addr.len())
    }

    pub fn connect_raw(&self, addr: *const libc::sockaddr, len: usize) -> Res<()> {
        // SAFETY: as in `bind_raw`.
        checked_unit(unsafe { libc::connect(self.fd(), addr, len as socklen_t) })
    }

    pub fn listen(&self, backlog: c_int) -> Res<()> {
        // SAFETY: takes integers only.
        checked_unit(unsafe { libc::listen(self.fd(), backlog) })
    }

    pub fn accept(&self) -> Res<Self> {
        self.accept4(0)
    }

    pub fn accept4(&self, flags: c_int) -> Res<Self> {
        self.accept_raw(ptr::null_mut(), ptr::null_mut(), flags)
    }

    pub fn accept_named(&self) -> Res<(Self, Addr)> {
        let mut peer = Addr::empty();
        let name = peer.as_mut_ptr();
        let sock = self.accept_raw(name, peer.len_mut(), 0)?;
        Ok((sock, peer))
    }

    pub fn accept_raw(
        &self,
        addr: *mut libc::sockaddr,
        len: *mut socklen_t,
        flags: c_int,
    ) -> Res<Self> {
        // SAFETY: as in `bind_raw`.
        checked_int(unsafe { libc::accept4(self.fd(), addr, len, flags) }).map(Self::from_fd)
    }

    pub fn name(&self) -> Res<Addr> {
        let mut addr = Addr::empty();
        let name = addr.as_mut_ptr();
        self.name_raw(name, addr.len_mut())?;
        Ok(addr)
    }

    pub fn name_raw(&self, addr: *mut libc::sockaddr, len: *mut socklen_t) -> Res<()> {
        // SAFETY: as in `bind_raw`.
        checked_unit(unsafe { libc::getsockname(self.fd(), addr, len) })
    }

    pub fn peer(&self) -> Res<Addr> {
        let mut addr = Addr::empty();
        let name = addr.as_mut_ptr();
        self.peer_raw(name, addr.len_mut())?;
        Ok(addr)
    }

    pub fn peer_raw(&self, addr: *mut libc::sockaddr, len: *mut socklen_t) -> Res<()> {
        // SAFETY: as in `bind_raw`.
        checked_unit(unsafe { libc::getpeername(self.fd(), addr, len) })
    }

    pub fn shutdown(&self, how: c_int) -> Res<()> {
        // SAFETY: takes integers only.
        checked_unit(unsafe { libc::shutdown(self.fd(), how) })
    }

    pub fn send(&self, data: &[u8], flags: c_int) -> Res<usize> {
        self.send_raw(data.as_ptr(), data.len(), flags)
    }

    pub fn send_raw(&self, data: *const u8, len: usize, flags: c_int) -> Res<usize> {
        // SAFETY: as in `bind_raw`.
        checked(unsafe { libc::send(self.fd(), data.cast(), len, flags) })
    }

    pub fn send_to(&self, data: &[u8], flags: c_int, to: &Addr) -> Res<usize> {
        // SAFETY: both buffers live through the call.
        checked(unsafe {
            libc::sendto(
                self.fd(),
                data.as_ptr().cast(),
                data.len(),
                flags,
                to.as_ptr(),
                to.len() as socklen_t,
            )
        })
    }

    pub fn recv(&self, room: &mut [u8], flags: c_int) -> Res<usize> {
        self.recv_raw(room.as_mut_ptr(), room.len(), flags)
    }

    pub fn recv_raw(&self, room: *mut u8, len: usize, flags: c_int) -> Res<usize> {
        // SAFETY: the caller's buffer is either good for `len` bytes or deliberately unmapped.
        checked(unsafe { libc::recv(self.fd(), room.cast(), len, flags) })
    }

    pub fn recv_from(&self, room: &mut [u8], flags: c_int, from: &mut Addr) -> Res<usize> {
        let name = from.as_mut_ptr();
        // SAFETY: both buffers live through the call.
        checked(unsafe {
            libc::recvfrom(
                self.fd(),
                room.as_mut_ptr().cast(),
                room.len(),
                flags,
                name,
                from.len_mut(),
            )
        })
    }

    pub fn write(&self, data: &[u8]) -> Res<usize> {
        // SAFETY: the buffer lives through the call.
        checked(unsafe { libc::write(self.fd(), data.as_ptr().cast(), data.len()) })
    }

    pub fn read(&self, room: &mut [u8]) -> Res<usize> {
        // SAFETY: the buffer lives through the call.
        checked(unsafe { libc::read(self.fd(), room.as_mut_ptr().cast(), room.len()) })
    }

    pub fn set<T>(&self, level: c_int, option: c_int, value: &T) -> Res<()> {
        self.set_raw(level, option, (&raw const *value).cast(), size_of::<T>() as socklen_t)
    }

    pub fn set_raw(
        &self,
        level: c_int,
        option: c_int,
        value: *const c_void,
        len: socklen_t,
    ) -> Res<()> {
        // SAFETY: as in `bind_raw`.
        checked_unit(unsafe { libc::setsockopt(self.fd(), level, option, value, len) })
    }

    pub fn get(&self, level: c_int, option: c_int) -> Res<c_int> {
        self.get_as(level, option, 0)
    }

    /// Reads an option of any plain type; `value` is the buffer's initial contents.
    pub fn get_as<T: Copy>(&self, level: c_int, option: c_int, mut value: T) -> Res<T> {
        let mut len = size_of::<T>() as socklen_t;
        self.get_raw(level, option, (&raw mut value).cast(), &raw mut len)?;
        Ok(value)
    }

    pub fn get_raw(
        &self,
        level: c_int,
        option: c_int,
        value: *mut c_void,
        len: *mut socklen_t,
    ) -> Res<()> {
        // SAFETY: as in `bind_raw`.
        checked_unit(unsafe { libc::getsockopt(self.fd(), level, option, value, len) })
    }

    /// The pending error; reading it clears it.
    pub fn error(&self) -> Res<Option<Errno>> {
        let error = self.get(libc::SOL_SOCKET, libc::SO_ERROR)?;
        Ok((error != 0).then_some(Errno(error)))
    }

    /// The first byte of `TCP_INFO`: the connection's state.
    pub fn state(&self) -> Res<u8> {
        self.get_as(libc::SOL_TCP, libc::TCP_INFO, 0xff_u8)
    }

    /// The accept queue in a listener's `TCP_INFO`: its length and its limit.
    pub fn queue(&self) -> Res<(u32, u32)> {
        let info = self.get_as(libc::SOL_TCP, libc::TCP_INFO, [0_u32; 8])?;
        Ok((info[6], info[7]))
    }

    pub fn set_timeout(&self, option: c_int, millis: u64) -> Res<()> {
        let limit = libc::timeval {
            tv_sec: (millis / 1000) as libc::time_t,
            tv_usec: (millis % 1000 * 1000) as libc::suseconds_t,
        };
        self.set(libc::SOL_SOCKET, option, &limit)
    }

    pub fn set_linger(&self, on: bool, seconds: c_int) -> Res<()> {
        let linger = libc::linger { l_onoff: c_int::from(on), l_linger: seconds };
        self.set(libc::SOL_SOCKET, libc::SO_LINGER, &linger)
    }

    pub fn ioctl(&self, request: c_ulong) -> Res<c_int> {
        let mut value: c_int = 0;
        // SAFETY: every request used here writes at most one int.
        checked_int(unsafe { libc::ioctl(self.fd(), request, &raw mut value) })?;
        Ok(value)
    }

    pub fn ioctl_set(&self, request: c_ulong, mut value: c_int) -> Res<()> {
        // SAFETY: every request used here reads at most one int.
        checked_unit(unsafe { libc::ioctl(self.fd(), request, &raw mut value) })
    }

    pub fn fcntl(&self, command: c_int, argument: c_int) -> Res<c_int> {
        // SAFETY: only commands with an integer argument are used.
        checked_int(unsafe { libc::fcntl(self.fd(), command, argument) })
    }

    pub fn set_nonblocking(&self, on: bool) -> Res<()> {
        let flags = self.fcntl(libc::F_GETFL, 0)?;
        let flags = if on { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
        self.fcntl(libc::F_SETFL, flags).map(|_| ())
    }

    pub fn is_nonblocking(&self) -> Res<bool> {
        Ok(self.fcntl(libc::F_GETFL, 0)? & libc::O_NONBLOCK != 0)
    }

    pub fn is_cloexec(&self) -> Res<bool> {
        Ok(self.fcntl(libc::F_GETFD, 0)? & libc::FD_CLOEXEC != 0)
    }
}

impl Drop for Sock {
    fn drop(&mut self) {
        if self.fd() >= 0 {
            // An error cannot be handled here; cases that need it call `close` themselves.
            let _ = self.close();
        }
    }
}
