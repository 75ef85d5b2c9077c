// SPDX-License-Identifier: MIT

//! One read: the kernel reports bytes that are still coming, and they are protected. After any failure
//! the read waits for them, which is an ordinary read.

use crate::counters::{self, Receipts};
use crate::ledger::{Counted, Kind, Quiet, Range, State, LEDGER};
use crate::lend::{self, FOREVER, LEAST_LENT};
use crate::{forks, guard, next};
use libc::{c_int, iovec, msghdr, ssize_t};
use sdp_uapi as uapi;

/// A read with one of these is an ordinary one.
const OTHERS: c_int = libc::MSG_OOB
    | libc::MSG_PEEK
    | libc::MSG_TRUNC
    | libc::MSG_DONTWAIT
    | libc::MSG_ERRQUEUE
    | libc::MSG_ZEROCOPY;

fn set_counter(fd: c_int, counter: u64) -> bool {
    let setup = uapi::sdp_ahead {
        counter,
        least: LEAST_LENT,
        reserved: 0,
    };
    lend::set_option(fd, uapi::SDP_AHEAD, &setup)
}

/// Prepares a read into the parts that may be ahead. Returns the counter of the socket; `None`: it must
/// be an ordinary read.
///
/// # Safety
///
/// `parts` has `count` elements.
unsafe fn prepared(fd: c_int, parts: *const iovec, count: usize) -> Option<&'static Receipts> {
    let info = lend::ask(fd)?;
    // SAFETY: As the caller says.
    if !unsafe { lend::may_lend(Kind::Received, parts, count) } {
        return None;
    }
    if info.ahead != 0 {
        return counters::receipts(info.ahead);
    }
    let counter = counters::take_ahead()?;
    if !lend::is_forgotten(Kind::Received, counter) || !set_counter(fd, counter) {
        counters::give_back_ahead(counter);
        return None;
    }
    counters::receipts(counter)
}

/// Reads into the parts as recvmsg(2) does; its `msg_flags` are returned in `told`. `None`: it must
/// be an ordinary read.
///
/// # Safety
///
/// The parts are the program's, as for recvmsg(2).
pub(crate) unsafe fn receive(
    fd: c_int,
    parts: *const iovec,
    count: usize,
    flags: c_int,
    told: &mut c_int,
) -> Option<ssize_t> {
    if flags & OTHERS != 0 {
        return None;
    }
    // SAFETY: The caller vouches for the parts.
    let receipts = lend::keep_errno(|| unsafe { prepared(fd, parts, count) })?;
    let mut control = uapi::AheadControl::default();
    // SAFETY: All zeroes is an empty message.
    let mut message = unsafe { core::mem::zeroed::<msghdr>() };
    message.msg_iov = parts.cast_mut();
    message.msg_iovlen = count;
    message.msg_control = core::ptr::from_mut(&mut control).cast();
    message.msg_controllen = size_of::<uapi::AheadControl>();
    // SAFETY: The caller vouches for the parts; the kernel writes to the control message.
    let read = unsafe { next::recvmsg(fd, &raw mut message, flags | libc::MSG_ZEROCOPY) };
    *told = message.msg_flags;
    // SAFETY: It is alive; the kernel has written to it.
    let control = unsafe { (&raw const control).read_volatile() };
    let Some(reported) = control.range().filter(|_| read > 0) else {
        return Some(read);
    };
    let range = Range {
        start: usize::try_from(reported.start).unwrap_or(0),
        len: reported.len as usize,
        counted: Some(Counted::Received(receipts)),
        id: reported.id,
        offset: 0,
        late: false,
    };
    if lend::keep_errno(|| is_protected(&range) || is_there(fd, &range)) {
        return Some(read);
    }
    // The connection broke before the program was told of these bytes.
    // SAFETY: The caller vouches for the parts.
    let parts = unsafe { core::slice::from_raw_parts(parts, count) };
    let before = before(parts, range.start);
    match ssize_t::try_from(before) {
        Ok(before @ 1..) => Some(before),
        // An ordinary read tells of the end.
        _ => None,
    }
}

/// The bytes of the parts in front of an address in one of them.
fn before(parts: &[iovec], address: usize) -> usize {
    let mut sum = 0usize;
    for part in parts {
        let inside = address.wrapping_sub(part.iov_base.addr());
        if inside < part.iov_len {
            return sum.saturating_add(inside);
        }
        sum = sum.saturating_add(part.iov_len);
    }
    0
}

/// Protects the pages, unless their bytes have come. After a failure parts of them may be protected, and
/// are released when they are touched.
fn is_protected(range: &Range) -> bool {
    match range.state() {
        State::Over => return true,
        State::Failed(_) => return false,
        State::Open => {}
    }
    let done = LEDGER.try_with(|ledger| {
        // A child that is being made gets the bytes.
        let protected = !forks::may_be_copied()
            && ledger.insert(*range)
            && guard::protect(Kind::Received, range.start, range.len).is_ok();
        if !protected {
            ledger.withdraw(range);
            let _ = guard::release(Kind::Received, range.start, range.len);
            // A program with memory that cannot be protected is left alone as well.
            ledger.on_disturbed(Kind::Received);
        }
        protected
    });
    done == Some(true)
}

/// Waits for the bytes, as a blocking read does; `false`: they will never come.
fn is_there(fd: c_int, range: &Range) -> bool {
    // Signals must not end it. They are handled afterwards.
    let _quiet = Quiet::new();
    let wait = uapi::sdp_borrow_wait {
        id: range.id,
        timeout_ms: FOREVER,
    };
    if lend::set_option(fd, uapi::SDP_AHEAD_WAIT, &wait) {
        return true;
    }
    // Another thread may have closed the descriptor; the counter goes on.
    loop {
        match range.state() {
            State::Over => return true,
            State::Failed(_) => return false,
            // SAFETY: It takes a number.
            State::Open => unsafe { libc::usleep(50) },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_front_are_those_of_all_parts() {
        let part = |start, len| iovec {
            iov_base: core::ptr::without_provenance_mut(start),
            iov_len: len,
        };
        let parts = [part(0x9000, 100), part(0x1010, 0x8000), part(0x9100, 5)];
        assert_eq!(before(&parts, 0x2000), 100 + 0xff0);
        assert_eq!(before(&parts, 0x9000), 0);
        assert_eq!(before(&parts, 0x9102), 100 + 0x8000 + 2);
        assert_eq!(before(&parts, 0x10), 0, "in none");
    }
}
