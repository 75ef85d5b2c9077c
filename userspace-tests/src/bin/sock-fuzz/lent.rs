// SPDX-License-Identifier: MIT
//! Calls of the description that are no options: doors, memory that is lent or received ahead, and
//! netlink. And values as the description has them.

use std::mem::zeroed;
use std::ptr::null_mut;

use libc::{c_int, iovec, msghdr};
use sdp_uapi as uapi;

use crate::described::{calls, Field, Kind, CALLS};
use crate::fuzzer::Fuzzer;

/// Bytes that are lent or received ahead at a time, at most.
const MOST: usize = 32 * 4096;

/// The name by which a call of the description is counted: its own, or the name of a call which is
/// made for sockets of every kind.
pub fn counted_as(name: &str) -> &str {
    match name {
        "accept4$sdp" => "accept",
        "bind$sdp" => "bind",
        "connect$sdp" => "connect",
        "getsockname$sdp" | "getpeername$sdp" => "getname",
        name => name,
    }
}

/// The beginning of a message of netlink.
#[repr(C)]
struct Request {
    head: libc::nlmsghdr,
    family: u8,
    protocol: u8,
    reserved: u16,
}

impl Fuzzer {
    /// The bytes of a value: mostly numbers that are meant.
    pub fn value(&mut self, fields: &[Field]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for field in fields {
            let number = self.number(&field.kind);
            bytes.extend(&number.to_le_bytes()[..field.len]);
        }
        bytes
    }

    fn number(&mut self, kind: &Kind) -> u64 {
        if self.chance.one_in(24) {
            return self.chance.number() as u64;
        }
        self.meant(kind)
    }

    fn meant(&mut self, kind: &Kind) -> u64 {
        match kind {
            Kind::Number(Some((low, high))) => match self.chance.below(4) {
                0 => self.chance.of(&[*low, *high]),
                _ => low + self.chance.word() % (high - low + 1),
            },
            Kind::Number(None) => self.chance.number() as u64,
            Kind::Flags(values) if self.chance.one_in(4) => {
                values.iter().fold(0, |sum, value| sum | value)
            }
            Kind::Flags(values) => self.chance.of(values),
            Kind::Constant(value) => *value,
            Kind::Address(_) if self.chance.one_in(8) => 0,
            Kind::Address(len) => {
                let align = len.next_power_of_two();
                self.memory.aside(&mut self.chance, *len, align).addr() as u64
            }
            Kind::Event if self.chance.one_in(4) => self.fd() as u64,
            Kind::Event => u64::MAX,
        }
    }

    /// A socket by one of the doors, and never of another family.
    pub fn open_door(&mut self) {
        let call = self.chance.of(&calls("socket$"));
        let kinds: Vec<_> = call.numbers.iter().map(|field| field.kind.clone()).collect();
        let numbers: Vec<_> = kinds.iter().map(|kind| self.meant(kind) as c_int).collect();
        let [domain, form, protocol] = numbers[..] else { return };
        let nonblock = if self.chance.one_in(8) { 0 } else { libc::SOCK_NONBLOCK };
        let flags = libc::SOCK_CLOEXEC | nonblock;
        // SAFETY: takes numbers.
        let fd = unsafe { libc::socket(domain, form | flags, protocol) };
        self.tally.count(&call.name, fd.into());
        if fd >= 0 {
            self.pool.put(&mut self.chance, fd);
        }
    }

    fn piece(&mut self) -> iovec {
        let len = if self.chance.one_in(4) { self.chance.below(MOST) } else { MOST / 2 };
        let align = self.chance.of(&[1, 4096]);
        iovec { iov_base: self.memory.aside(&mut self.chance, len, align).cast(), iov_len: len }
    }

    /// sendmsg(2) that may borrow.
    pub fn lend(&mut self) {
        let pieces = [self.piece(), self.piece()];
        let room = self.chance.below(6) as u32;
        let range = size_of::<uapi::sdp_borrow_range>();
        let ranges = self.memory.aside(&mut self.chance, range * 6, 8);
        let borrowed = self.memory.aside(&mut self.chance, size_of::<uapi::sdp_borrowed>(), 8);
        let asked = uapi::sdp_borrowed { counter: 0, ranges: ranges.addr() as u64, room, count: 0 };
        #[expect(clippy::cast_ptr_alignment, reason = "the place is on a multiple of 8")]
        // SAFETY: it lies in the memory that is this thread's, on a multiple of its alignment.
        unsafe {
            borrowed.cast::<uapi::sdp_borrowed>().write_volatile(asked);
        };
        let mut control = [0u64; 3];
        control[0] = 24;
        control[1] = libc::IPPROTO_TCP as u64 | ((uapi::SDP_BORROW as u64) << 32);
        control[2] = self.number(&Kind::Constant(borrowed.addr() as u64));
        // SAFETY: all zeros are a message without anything.
        let mut message: msghdr = unsafe { zeroed() };
        message.msg_iov = pieces.as_ptr().cast_mut();
        message.msg_iovlen = 1 + self.chance.below(2);
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        let flags =
            self.chance.of(&[0, 0, libc::MSG_DONTWAIT, libc::MSG_MORE]) | libc::MSG_NOSIGNAL;
        // SAFETY: the kernel checks the pointers; it writes to the memory aside.
        let result = unsafe { libc::sendmsg(self.fd(), &raw const message, flags) };
        self.tally.count("sendmsg$sdp_borrow", result as i64);
        self.tally.sent += result.max(0) as u64;
    }

    /// recvmsg(2) that may return before its bytes are there.
    pub fn receive_ahead(&mut self) {
        let pieces = [self.piece(), self.piece()];
        let control = self.memory.aside(&mut self.chance, 64, 8);
        // SAFETY: all zeros are a message without anything.
        let mut message: msghdr = unsafe { zeroed() };
        message.msg_iov = pieces.as_ptr().cast_mut();
        message.msg_iovlen = 1 + self.chance.below(2);
        message.msg_control = control.cast();
        message.msg_controllen = self.chance.of(&[64, 64, 32, 16, 0]);
        // SAFETY: the kernel checks the pointers; it writes to the memory aside.
        let result = unsafe { libc::recvmsg(self.fd(), &raw mut message, libc::MSG_ZEROCOPY) };
        self.tally.count("recvmsg$sdp_ahead", result as i64);
        self.tally.received += result.max(0) as u64;
    }

    /// The sockets of the namespace by netlink, with a whole answer or a part of it.
    pub fn list_sockets(&mut self) {
        let Some(call) = CALLS.iter().find(|call| call.name == "sendmsg$SDP_DIAG") else { return };
        let mut request = Vec::new();
        for (kind, field) in &call.attributes {
            if self.chance.one_in(3) {
                continue;
            }
            let value = self.value(std::slice::from_ref(field));
            let len = 4 + value.len() as u16;
            request.extend(len.to_ne_bytes());
            request.extend(kind.to_ne_bytes());
            request.extend(value);
        }
        let head = Request {
            head: libc::nlmsghdr {
                nlmsg_len: (size_of::<Request>() + request.len()) as u32,
                nlmsg_type: if self.chance.one_in(12) { self.chance.word() as u16 } else { 20 },
                nlmsg_flags: if self.chance.one_in(12) { 1 } else { 0x301 },
                nlmsg_seq: 1,
                nlmsg_pid: 0,
            },
            family: uapi::AF_INET_SDP as u8,
            protocol: u8::from(self.chance.one_in(12)),
            reserved: 0,
        };
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let room = self.chance.of(&[4096, 16384, 100]);
        let answer = self.memory.aside(&mut self.chance, room, 8);
        // SAFETY: the kernel reads what is this call's, and writes to the memory aside.
        let result = unsafe {
            let fd = libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG);
            let mut pieces = [
                iovec {
                    iov_base: (&raw const head).cast_mut().cast(),
                    iov_len: size_of::<Request>(),
                },
                iovec { iov_base: request.as_mut_ptr().cast(), iov_len: request.len() },
            ];
            let mut message: msghdr = zeroed();
            message.msg_iov = pieces.as_mut_ptr();
            message.msg_iovlen = pieces.len();
            message.msg_name = null_mut();
            let sent = libc::sendmsg(fd, &raw const message, 0);
            let mut left = 4;
            while left > 0 && libc::recv(fd, answer.cast(), room, 0) > 0 {
                left -= 1;
            }
            libc::close(fd);
            sent
        };
        self.tally.count("sendmsg$SDP_DIAG", result as i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_of_the_description_is_made() {
        let made = [
            "socket$",
            "setsockopt$",
            "getsockopt$",
            "sendmsg$sdp_borrow",
            "recvmsg$sdp_ahead",
            "sendmsg$SDP_DIAG",
        ];
        for call in CALLS.iter() {
            let is_made = made.iter().any(|begin| call.name.starts_with(begin));
            assert!(is_made || counted_as(&call.name) != call.name, "{}", call.name);
        }
    }
}
