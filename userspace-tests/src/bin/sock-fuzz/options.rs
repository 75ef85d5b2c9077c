// SPDX-License-Identifier: MIT
//! setsockopt(2), getsockopt(2) and ioctl(2), with valid and random arguments.

use libc::{c_int, c_void};
use sdp_uapi as uapi;

use crate::chance::Chance;
use crate::described::{calls, Call, CALLS};
use crate::fuzzer::Fuzzer;

/// The kernel's numbers; the C library lacks some.
const LEVELS: [c_int; 8] = [
    libc::SOL_SOCKET,
    libc::IPPROTO_TCP,
    libc::IPPROTO_IP,
    libc::IPPROTO_IPV6,
    uapi::IPPROTO_SDP,
    282,
    284,
    17,
];

const REQUESTS: [u64; 16] = [
    libc::FIONREAD,
    libc::TIOCOUTQ,
    0x8905,
    0x894b,
    libc::FIONBIO,
    libc::FIOASYNC,
    0x8901,
    0x8902,
    0x8903,
    0x8904,
    0x8906,
    0x8907,
    0x8910,
    0x8912,
    0x8915,
    0x890b,
];

/// The maximum length of a value.
const LONGEST: usize = 6000;

fn option(chance: &mut Chance) -> (c_int, c_int) {
    let level = if chance.one_in(30) { chance.number() } else { chance.of(&LEVELS[..4]) };
    let level = if chance.one_in(20) { chance.of(&LEVELS) } else { level };
    let option = match chance.below(10) {
        0 | 1 if level == libc::IPPROTO_TCP => {
            let options: Vec<_> = CALLS.iter().filter_map(|call| call.option).collect();
            chance.of(&options)
        }
        0 => chance.number(),
        _ => chance.below(90) as c_int,
    };
    (level, option)
}

/// The length argument.
fn length(chance: &mut Chance) -> i32 {
    match chance.below(8) {
        0 => chance.number(),
        1 => chance.below(LONGEST) as i32,
        2 => chance.below(20) as i32,
        3 => chance.of(&[0, 1, 2, 3, 5, 7, 8, 12, 16, 24, 32, 136, 256]),
        _ => 4,
    }
}

impl Fuzzer {
    pub fn set_option(&mut self) {
        if self.chance.one_in(3) {
            let call = self.chance.of(&calls("setsockopt$"));
            return self.set_described(call);
        }
        let fd = self.fd();
        let (level, option) = option(&mut self.chance);
        let len = length(&mut self.chance);
        let real = usize::try_from(len).unwrap_or(0).clamp(4, LONGEST);
        let place = self.memory.place(&mut self.chance, real);
        if place.is_good() {
            let number = self.chance.number();
            let chance = &mut self.chance;
            let value = self.memory.at(place);
            match chance.below(6) {
                0 => value.iter_mut().for_each(|byte| *byte = chance.word() as u8),
                1 => value.fill(0),
                2 => {
                    let text: &[u8] = chance.of(&[b"cubic", b"reno", b"tls", b"smc", b"lo", b"x"]);
                    value.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
                }
                _ => value[..4].copy_from_slice(&number.to_ne_bytes()),
            }
        }
        // SAFETY: the kernel checks the pointer; of ours there is nothing to be read.
        let result =
            unsafe { libc::setsockopt(fd, level, option, place.address.cast(), len as u32) };
        self.tally.count("setsockopt", result.into());
    }

    /// An option with a value that means something.
    fn set_described(&mut self, call: &'static Call) {
        let value = self.value(&call.value);
        let Some(place) = self.memory.put(&value) else { return };
        let len =
            if self.chance.one_in(12) { length(&mut self.chance) } else { value.len() as i32 };
        let option = call.option.unwrap_or(-1);
        // SAFETY: the kernel checks the pointer; the addresses in the value are of memory that is not
        // this program's otherwise.
        let result = unsafe {
            let value = place.address.cast();
            libc::setsockopt(self.fd(), libc::IPPROTO_TCP, option, value, len as u32)
        };
        self.tally.count("setsockopt", result.into());
        self.tally.count(&call.name, result.into());
        self.check(&[(place, value.len())], || format!("{}: {result}", call.name));
    }

    fn get_described(&mut self, call: &'static Call) {
        let room: usize = call.value.iter().map(|field| field.len).sum();
        let place = self.memory.place(&mut self.chance, room);
        let size = self.memory.place(&mut self.chance, 4);
        if size.is_good() {
            self.memory.at(size).copy_from_slice(&(room as u32).to_ne_bytes());
        }
        let option = call.option.unwrap_or(-1);
        // SAFETY: the kernel checks the pointers; what it may write is given out for it.
        let result = unsafe {
            let (value, size) = (place.address.cast(), size.address.cast());
            libc::getsockopt(self.fd(), libc::IPPROTO_TCP, option, value, size)
        };
        self.tally.count("getsockopt", result.into());
        self.tally.count(&call.name, result.into());
        let written = if result == 0 { self.said(size).min(room) } else { room };
        self.check(&[(place, written), (size, 4)], || format!("{}: {result}", call.name));
    }

    pub fn get_option(&mut self) {
        if self.chance.one_in(3) {
            let call = self.chance.of(&calls("getsockopt$"));
            return self.get_described(call);
        }
        let fd = self.fd();
        let (level, option) = option(&mut self.chance);
        let len = length(&mut self.chance);
        // Options of IPv6 take a negative length for a large one, as with TCP.
        let room = usize::try_from(len).unwrap_or(LONGEST);
        let value = self.memory.place(&mut self.chance, room.clamp(1, LONGEST));
        let size = self.memory.place(&mut self.chance, 4);
        if size.is_good() {
            self.memory.at(size).copy_from_slice(&len.to_ne_bytes());
        }
        // SAFETY: the kernel checks the pointers; what it may write is given out for it.
        let result = unsafe {
            libc::getsockopt(fd, level, option, value.address.cast(), size.address.cast())
        };
        self.tally.count("getsockopt", result.into());
        let said = self.said(size);
        // A failed call may have written a part without reporting it.
        let written = if result == 0 { said.min(room) } else { room };
        self.check(&[(value, written), (size, 4)], || {
            format!("getsockopt({level}, {option}) of {len}: {result}, length {said}")
        });
    }

    pub fn ioctl(&mut self) {
        let fd = self.fd();
        let request = if self.chance.one_in(8) {
            self.chance.word() & 0xffff
        } else {
            self.chance.of(&REQUESTS)
        };
        let place = self.memory.place(&mut self.chance, 512);
        if place.is_good() {
            let chance = &mut self.chance;
            let number = chance.number();
            self.memory.at(place)[..4].copy_from_slice(&number.to_ne_bytes());
            if matches!(request, 0x8901 | 0x8902) {
                // The process for signals must not be a foreign one.
                // SAFETY: no conditions.
                let own = unsafe { libc::getpid() };
                self.memory.at(place)[..4].copy_from_slice(&own.to_ne_bytes());
            }
        }
        // SAFETY: the kernel checks the pointer.
        let result = unsafe { libc::ioctl(fd, request as _, place.address.cast::<c_void>()) };
        self.tally.count("ioctl", result.into());
    }
}
