// SPDX-License-Identifier: MIT
//! A stream socket of SDP or TCP, by the calls themselves: the standard library knows no other families.

use std::io::Error;
use std::net::SocketAddrV4;

use libc::{c_int, c_void, sockaddr, sockaddr_in, socklen_t};
use sdp_uapi::{sdp_borrow_info, AF_INET_SDP, SDP_BORROW_INFO, SDP_ZCOPY_THRESH};

#[derive(Clone, Copy)]
pub enum Family {
    Sdp,
    Tcp,
}

impl Family {
    pub fn parse(word: &str) -> Self {
        match word {
            "sdp" => Family::Sdp,
            "tcp" => Family::Tcp,
            _ => panic!("{word} is neither sdp nor tcp"),
        }
    }
}

const NAME_LEN: socklen_t = size_of::<sockaddr_in>() as socklen_t;

/// A descriptor, which the end of the process closes.
pub struct Socket(c_int);

fn checked(result: c_int, call: &str) -> c_int {
    assert!(result >= 0, "{call}: {}", Error::last_os_error());
    result
}

/// As the kernel has it; for SDP sockets the family of an address is `AF_INET` as well.
fn name(address: SocketAddrV4) -> sockaddr_in {
    sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
        sin_zero: [0; 8],
    }
}

impl Socket {
    /// A new one, with zero copy of messages of at least so many bytes.
    pub fn new(family: Family, threshold: Option<c_int>) -> Self {
        let number = match family {
            Family::Sdp => AF_INET_SDP,
            Family::Tcp => libc::AF_INET,
        };
        // SAFETY: numbers.
        let fd = checked(unsafe { libc::socket(number, libc::SOCK_STREAM, 0) }, "socket");
        let sock = Socket(fd);
        // Bytes are sent when they are written, whichever family carries them.
        sock.set(libc::TCP_NODELAY, 1);
        if let (Family::Sdp, Some(value)) = (family, threshold) {
            sock.set(SDP_ZCOPY_THRESH, value);
        }
        sock
    }

    fn set(&self, option: c_int, value: c_int) {
        let at = (&raw const value).cast::<c_void>();
        let len = size_of::<c_int>() as socklen_t;
        // SAFETY: the value lives through the call.
        checked(unsafe { libc::setsockopt(self.0, libc::SOL_TCP, option, at, len) }, "setsockopt");
    }

    /// Listens, and returns the port.
    pub fn listen(&self, address: SocketAddrV4) -> u16 {
        let mut own = name(address);
        let mut len = NAME_LEN;
        let at = (&raw mut own).cast::<sockaddr>();
        // SAFETY: the name lives through the calls.
        unsafe {
            checked(libc::bind(self.0, at, NAME_LEN), "bind");
            checked(libc::listen(self.0, 1), "listen");
            checked(libc::getsockname(self.0, at, &raw mut len), "getsockname");
        }
        u16::from_be(own.sin_port)
    }

    pub fn accept(&self) -> Socket {
        let (no_name, no_len) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: it takes null for both.
        Socket(checked(unsafe { libc::accept(self.0, no_name, no_len) }, "accept"))
    }

    pub fn connect(&self, address: SocketAddrV4) {
        let peer = name(address);
        let at = (&raw const peer).cast::<sockaddr>();
        // SAFETY: the name lives through the call.
        checked(unsafe { libc::connect(self.0, at, NAME_LEN) }, "connect");
    }

    /// Sends all of it.
    pub fn send(&self, mut data: &[u8]) {
        while !data.is_empty() {
            // SAFETY: the data lives through the call. It may be read later; see `Room`.
            let sent = unsafe { libc::send(self.0, data.as_ptr().cast(), data.len(), 0) };
            assert!(sent > 0, "send: {}", Error::last_os_error());
            data = &data[sent as usize..];
        }
    }

    /// Receives so many bytes.
    pub fn receive(&self, into: &mut [u8]) {
        let at = into.as_mut_ptr().cast::<c_void>();
        // SAFETY: the memory lives through the call.
        let got = unsafe { libc::recv(self.0, at, into.len(), libc::MSG_WAITALL) };
        assert_eq!(got, into.len() as isize, "recv: {}", Error::last_os_error());
    }

    /// The stretches of memory that it has lent so far; none for TCP.
    pub fn lent(&self) -> u32 {
        // SAFETY: numbers.
        let mut info = unsafe { std::mem::zeroed::<sdp_borrow_info>() };
        let mut len = size_of::<sdp_borrow_info>() as socklen_t;
        let at = (&raw mut info).cast::<c_void>();
        // SAFETY: both live through the call.
        let result =
            unsafe { libc::getsockopt(self.0, libc::SOL_TCP, SDP_BORROW_INFO, at, &raw mut len) };
        if result == 0 {
            info.issued
        } else {
            0
        }
    }
}
