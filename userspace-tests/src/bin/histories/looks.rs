// SPDX-License-Identifier: MIT
//! The tables of a host, as `ss` and people read them: files below /proc/net, and answers of `sock_diag(7)`.
//!
//! Sockets come and go while they are read, so a table has to be whole and sensible, and not more.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};

use libc::{c_int, c_void};
use sdp_uapi::AF_INET_SDP;

use crate::errno::{checked, Res};
use crate::sys;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Attributes of `linux/sdp_diag.h`: states that are asked for, what is to be shown, and the state.
const STATES: u16 = 2;
const SHOW: u16 = 3;
const STATE: u16 = 4;
/// `SDP_DIAG_SHOW_FLOW` and `SDP_DIAG_SHOW_TRAFFIC`
const SHOW_ALL: u32 = 3;
/// The states of TCP: 1 to 12.
const ALL_STATES: u32 = 0x1ffe;
const HEADER: usize = 16;
/// Words of a row of /proc/net/sdp, from the number to the inode.
const WORDS: usize = 7;

/// Reads all tables of the network namespace of this thread. Returns what is wrong with them.
pub fn look() -> Result<(), String> {
    let rows = fs::read_to_string("/proc/thread-self/net/sdp").unwrap_or_default();
    let mut least = 0;
    for row in rows.lines().skip(1) {
        let words = row.split_whitespace().count();
        let first = row.split_whitespace().next().and_then(|word| word.strip_suffix(':'));
        // A socket that goes while the table is read leaves out its number.
        match first.and_then(|word| word.parse::<usize>().ok()) {
            Some(number) if words >= WORDS && number >= least => least = number + 1,
            _ => return Err(format!("a row of /proc/net/sdp behind {least} is {row:?}")),
        }
    }
    let counters = fs::read_to_string("/proc/thread-self/net/sdpstats").unwrap_or_default();
    for line in counters.lines() {
        if !line.split_whitespace().skip(1).any(|word| word.parse::<u64>().is_ok()) {
            return Err(format!("/proc/net/sdpstats has {line:?}"));
        }
    }
    ask().map_err(|error| format!("sock_diag: {error}"))?
}

fn attribute(kind: u16, value: u32) -> Vec<u8> {
    [&8_u16.to_ne_bytes()[..], &kind.to_ne_bytes(), &value.to_ne_bytes()].concat()
}

/// A dump of all sockets.
fn request() -> Vec<u8> {
    let body = [
        vec![AF_INET_SDP as u8, 0, 0, 0],
        attribute(STATES, ALL_STATES),
        attribute(SHOW, SHOW_ALL),
    ]
    .concat();
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let len = (HEADER + body.len()) as u32;
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes
}

fn netlink() -> Res<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: takes integers only.
    sys::owned(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG) })
}

fn ask() -> Res<Result<(), String>> {
    let socket = netlink()?;
    let request = request();
    let base = request.as_ptr().cast::<c_void>();
    // SAFETY: the request lives through the call.
    checked(unsafe { libc::send(socket.as_raw_fd(), base, request.len(), 0) })?;
    let mut room = vec![0; 1 << 16];
    loop {
        let base = room.as_mut_ptr().cast::<c_void>();
        // SAFETY: the room lives through the call.
        let len = checked(unsafe { libc::recv(socket.as_raw_fd(), base, room.len(), 0) })?;
        match datagram(&room[..len]) {
            Ok(true) => {}
            Ok(false) => return Ok(Ok(())),
            Err(text) => return Ok(Err(format!("sock_diag: {text}"))),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

/// Returns whether there are more.
fn datagram(mut bytes: &[u8]) -> Result<bool, String> {
    while !bytes.is_empty() {
        let len = word(bytes, 0).unwrap_or(0) as usize;
        let message = bytes.get(..len).filter(|_| len >= HEADER).ok_or("a message is cut")?;
        match half(message, 4).map(c_int::from) {
            Some(libc::NLMSG_DONE) => return Ok(false),
            Some(libc::NLMSG_ERROR) => {
                let code = word(message, HEADER).unwrap_or(0) as i32;
                return Err(format!("error {code}"));
            }
            _ => socket(&message[HEADER..])?,
        }
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(true)
}

/// The answer about one socket has a state, and its attributes fill it.
fn socket(message: &[u8]) -> Result<(), String> {
    let mut rest = message.get(4..).ok_or("an answer is cut")?;
    let mut state = None;
    while !rest.is_empty() {
        let len = usize::from(half(rest, 0).unwrap_or(0));
        let attribute = rest.get(..len).filter(|_| len >= 4).ok_or("an attribute is cut")?;
        if half(attribute, 2) == Some(STATE) {
            state = attribute.get(4).copied();
        }
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    match state {
        Some(1..=12) => Ok(()),
        state => Err(format!("a socket of state {state:?}")),
    }
}
