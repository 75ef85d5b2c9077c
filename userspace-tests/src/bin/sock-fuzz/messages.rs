// SPDX-License-Identifier: MIT
//! Calls that send and receive.

use std::mem::zeroed;
use std::ptr::null_mut;

use libc::{c_int, iovec, msghdr};

use crate::fuzzer::Fuzzer;
use crate::memory::Place;
use crate::names;

const SEND_FLAGS: [c_int; 8] = [
    libc::MSG_DONTWAIT,
    libc::MSG_OOB,
    libc::MSG_MORE,
    libc::MSG_NOSIGNAL,
    libc::MSG_ZEROCOPY,
    libc::MSG_FASTOPEN,
    libc::MSG_DONTROUTE,
    libc::MSG_EOR,
];
const RECEIVE_FLAGS: [c_int; 8] = [
    libc::MSG_DONTWAIT,
    libc::MSG_OOB,
    libc::MSG_PEEK,
    libc::MSG_WAITALL,
    libc::MSG_TRUNC,
    libc::MSG_ERRQUEUE,
    libc::MSG_CMSG_CLOEXEC,
    libc::MSG_DONTWAIT,
];

fn piece(place: Place, len: usize) -> iovec {
    iovec { iov_base: place.address.cast(), iov_len: len }
}

impl Fuzzer {
    fn length(&mut self) -> usize {
        match self.chance.below(6) {
            0 => self.chance.below(4),
            1 => self.chance.below(65536),
            2 => self.chance.of(&[4096, 8192, 16384, 32768]),
            _ => 1 + self.chance.below(2000),
        }
    }

    fn flags(&mut self, these: &[c_int]) -> c_int {
        let rest = if self.chance.one_in(40) { self.chance.number() } else { 0 };
        // A write without a reader must not end the program.
        self.chance.flags(these) | rest | libc::MSG_NOSIGNAL
    }

    pub fn send(&mut self) {
        let (fd, len) = (self.fd(), self.length());
        let place = self.memory.place(&mut self.chance, len.max(1));
        let flags = self.flags(&SEND_FLAGS);
        let (name, told) = names::name(&mut self.chance);
        let name = if self.chance.one_in(4) { self.memory.put(&name) } else { None };
        // SAFETY: the kernel checks the pointers, and reads only.
        let result = unsafe {
            let to = name.map_or(null_mut(), |name| name.address);
            let told = if name.is_some() { told } else { 0 };
            libc::sendto(fd, place.address.cast(), len, flags, to.cast(), told)
        };
        self.tally.count("sendto", result as i64);
        self.tally.sent += result.max(0) as u64;
    }

    pub fn send_message(&mut self) {
        let fd = self.fd();
        let mut pieces = Vec::new();
        for _ in 0..=self.chance.below(4) {
            let len = self.length();
            let place = self.memory.place(&mut self.chance, len.max(1));
            pieces.push(piece(place, len));
        }
        let control_len = self.chance.of(&[0, 0, 0, 16, 20, 24, 64, 1000]);
        let control = self.memory.place(&mut self.chance, control_len);
        if control.is_good() {
            // A plausible header, followed by random bytes.
            let level = self.chance.of(&[libc::SOL_SOCKET, libc::IPPROTO_TCP, 282, 0]);
            let kind = self.chance.below(64) as i32;
            let len = self.chance.of(&[16_usize, 20, 24, 64, 1000, usize::MAX]);
            let bytes = self.memory.at(control);
            bytes[..8].copy_from_slice(&len.to_ne_bytes());
            bytes[8..12].copy_from_slice(&level.to_ne_bytes());
            bytes[12..16].copy_from_slice(&kind.to_ne_bytes());
        }
        // SAFETY: all zeros are a message without anything.
        let mut message: msghdr = unsafe { zeroed() };
        message.msg_iov = pieces.as_mut_ptr();
        message.msg_iovlen = if self.chance.one_in(50) {
            self.chance.of(&[1025, usize::MAX, 0])
        } else {
            pieces.len()
        };
        message.msg_control = control.address.cast();
        message.msg_controllen = control_len;
        let flags = self.flags(&SEND_FLAGS);
        // SAFETY: the kernel checks the pointers, and reads only.
        let result = unsafe { libc::sendmsg(fd, &raw const message, flags) };
        self.tally.count("sendmsg", result as i64);
        self.tally.sent += result.max(0) as u64;
    }

    pub fn receive(&mut self) {
        let (fd, len) = (self.fd(), self.length());
        let place = self.memory.place(&mut self.chance, len.max(1));
        let flags = self.flags(&RECEIVE_FLAGS);
        let (name_len, size) = (self.chance.below(140), self.chance.one_in(3));
        let name = self.memory.place(&mut self.chance, name_len.max(1));
        let size = if size { self.memory.put(&(name_len as u32).to_ne_bytes()) } else { None };
        // SAFETY: the kernel checks the pointers; what it may write is given out for it.
        let result = unsafe {
            let (name, size) =
                size.map_or((null_mut(), null_mut()), |size| (name.address, size.address));
            libc::recvfrom(fd, place.address.cast(), len, flags, name.cast(), size.cast())
        };
        self.tally.count("recvfrom", result as i64);
        let received = result.max(0) as usize;
        self.tally.received += received as u64;
        let named = size.map_or(0, |size| self.said(size).min(name_len));
        let size = size.unwrap_or(Place { address: null_mut(), len: 0, here: 0 });
        self.check(&[(place, received), (name, named), (size, 4)], || {
            format!("recvfrom({len}, flags {flags:#x}): {result}, name {named} of {name_len}")
        });
    }

    pub fn receive_message(&mut self) {
        let fd = self.fd();
        let mut pieces = Vec::new();
        let mut places = Vec::new();
        for _ in 0..=self.chance.below(4) {
            let len = self.length();
            let place = self.memory.place(&mut self.chance, len.max(1));
            pieces.push(piece(place, len));
            places.push((place, len));
        }
        let control_len = self.chance.below(300);
        let control = self.memory.place(&mut self.chance, control_len);
        let name_len = self.chance.below(140);
        let name = self.memory.place(&mut self.chance, name_len);
        // SAFETY: all zeros are a message without anything.
        let mut message: msghdr = unsafe { zeroed() };
        message.msg_iov = pieces.as_mut_ptr();
        message.msg_iovlen = pieces.len();
        message.msg_control = control.address.cast();
        message.msg_controllen = control_len;
        message.msg_name = name.address.cast();
        message.msg_namelen = name_len as u32;
        let flags = self.flags(&RECEIVE_FLAGS);
        // SAFETY: the kernel checks the pointers; what it may write is given out for it.
        let result = unsafe { libc::recvmsg(fd, &raw mut message, flags) };
        self.tally.count("recvmsg", result as i64);
        let received = result.max(0) as usize;
        self.tally.received += received as u64;
        let mut left = received;
        let mut written = Vec::new();
        for (place, len) in places {
            let here = left.min(len);
            left -= here;
            written.push((place, here));
        }
        let (controlled, named) = if result < 0 {
            (control_len, name_len)
        } else {
            (message.msg_controllen.min(control_len), name_len.min(message.msg_namelen as usize))
        };
        written.extend([(control, controlled), (name, named)]);
        self.check(&written, || {
            format!("recvmsg(flags {flags:#x}): {result}, control {controlled}, name {named}")
        });
    }

    pub fn read_or_write(&mut self) {
        let (fd, len) = (self.fd(), self.length());
        let place = self.memory.place(&mut self.chance, len.max(1));
        if self.chance.one_in(2) {
            // SAFETY: the kernel checks the pointer, and reads only.
            let result = unsafe { libc::write(fd, place.address.cast(), len) };
            self.tally.count("write", result as i64);
            self.tally.sent += result.max(0) as u64;
            return;
        }
        // SAFETY: the kernel checks the pointer; what it may write is given out for it.
        let result = unsafe { libc::read(fd, place.address.cast(), len) };
        self.tally.count("read", result as i64);
        let received = result.max(0) as usize;
        self.tally.received += received as u64;
        self.check(&[(place, received)], || format!("read({len}): {result}"));
    }

    /// Through a pipe, into a socket or out of one.
    pub fn splice(&mut self) {
        let (fd, len) = (self.fd(), self.length());
        let mut pipe = [0; 2];
        // SAFETY: room for two.
        if unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
            return;
        }
        let flags = self.chance.below(16) as u32;
        // SAFETY: descriptors and numbers; what is written is given out for reading.
        let result = unsafe {
            let result = if self.chance.one_in(2) {
                let place = self.memory.place(&mut self.chance, len.max(1));
                libc::write(pipe[1], place.address.cast(), len);
                libc::splice(pipe[0], null_mut(), fd, null_mut(), len, flags)
            } else {
                libc::splice(fd, null_mut(), pipe[1], null_mut(), len, flags)
            };
            libc::close(pipe[0]);
            libc::close(pipe[1]);
            result
        };
        self.tally.count("splice", result as i64);
    }
}
