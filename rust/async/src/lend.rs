// SPDX-License-Identifier: MIT

//! One send: lends, and protects what was lent. After any failure the send waits for the peer, and
//! then takes the memory back, which is correct as well.

use crate::ledger::{Counted, Kind, Ledger, Quiet, Range, LEDGER};
use crate::rights::errno;
use crate::{counters, forks, guard, handler, next, settings, total};
use core::sync::atomic::{AtomicU32, Ordering};
use libc::{c_int, iovec, msghdr, socklen_t, ssize_t};
use sdp_uapi as uapi;

/// Sends of fewer bytes are not lent, and reads of fewer are not ahead.
const LEAST: usize = 64 << 10;

/// Of these, whole pages: memory of allocators does not begin with one.
pub(crate) const LEAST_LENT: u32 = 56 << 10;

/// Stretches that one call can lend.
const RANGES: usize = 16;

/// Time for the peer to read what cannot be protected, before it is taken back.
const WAIT_MS: u32 = 10;

/// `SDP_BORROW_FOREVER`
pub(crate) const FOREVER: u32 = u32::MAX;
const _: () = assert!(FOREVER as i64 == uapi::SDP_BORROW_FOREVER);

static STATE: AtomicU32 = AtomicU32::new(OFF);
const OFF: u32 = 0;
/// Nothing was lent yet, and there is no handler.
const IDLE: u32 = 1;
const ON: u32 = 2;

#[expect(clippy::cast_possible_truncation, reason = "a few bytes")]
const fn len_of<T>() -> socklen_t {
    size_of::<T>() as socklen_t
}

pub(crate) fn keep_errno<R>(f: impl FnOnce() -> R) -> R {
    let before = errno();
    let result = f();
    // SAFETY: The C library gives each thread an errno that lives as long as it.
    unsafe { *libc::__errno_location() = before };
    result
}

/// Switches lending on for this process, and off for the children that it forks. It stays off if the C
/// library is not glibc.
pub(crate) fn switch_on(settings: settings::Settings) {
    settings::set(settings);
    if forks::watch() {
        STATE.store(IDLE, Ordering::Release);
    }
}

/// Nothing is lent by this process any more.
pub(crate) fn switch_off() {
    STATE.store(OFF, Ordering::Release);
}

/// Whether this process has a handler. A child of _Fork() or clone() has none, and another thread may have
/// had the lock when it was made.
fn is_on() -> bool {
    if STATE.load(Ordering::Acquire) != ON {
        return false;
    }
    if !counters::are_own() {
        STATE.store(OFF, Ordering::Release);
        return false;
    }
    true
}

/// The tests make the handler themselves.
#[cfg(test)]
pub(crate) fn be_on_for_tests() {
    assert!(counters::make(false));
    STATE.store(ON, Ordering::Release);
}

/// Whether a send of so many bytes may lend.
pub(crate) fn is_for_us(len: usize) -> bool {
    len >= LEAST && settings::sends() && STATE.load(Ordering::Relaxed) != OFF
}

/// Whether a read of so many bytes may be ahead.
pub(crate) fn may_be_ahead(len: usize) -> bool {
    len >= LEAST && settings::receives() && STATE.load(Ordering::Relaxed) != OFF
}

/// The program makes an SDP socket: its connection must be made with room for lending.
pub(crate) fn on_socket(fd: c_int) {
    if STATE.load(Ordering::Relaxed) != OFF {
        keep_errno(|| set_counter(fd, 0));
    }
}

pub(crate) fn set_option<T>(fd: c_int, name: c_int, value: &T) -> bool {
    let at = core::ptr::from_ref(value).cast();
    // SAFETY: The value lives through the call. A counter that it names stays.
    unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, name, at, len_of::<T>()) == 0 }
}

fn set_counter(fd: c_int, counter: u64) -> bool {
    let setup = uapi::sdp_borrow {
        counter,
        eventfd: -1,
        flags: uapi::SDP_BORROW_NO_LINGER.unsigned_abs(),
        least: LEAST_LENT,
        window_bytes: 0,
        window_runs: 0,
        reserved: 0,
    };
    set_option(fd, uapi::SDP_BORROW, &setup)
}

/// SDP's answer about the descriptor; `None` if it is no SDP socket.
pub(crate) fn ask(fd: c_int) -> Option<uapi::sdp_borrow_info> {
    // SAFETY: It consists of numbers.
    let mut info = unsafe { core::mem::zeroed::<uapi::sdp_borrow_info>() };
    let mut len = len_of::<uapi::sdp_borrow_info>();
    let at = core::ptr::from_mut(&mut info).cast();
    let (level, name) = (libc::IPPROTO_TCP, uapi::SDP_BORROW_INFO);
    // SAFETY: Both live through the call.
    let result = unsafe { libc::getsockopt(fd, level, name, at, &raw mut len) };
    (result == 0 && len == len_of::<uapi::sdp_borrow_info>()).then_some(info)
}

/// The process has what it needs to lend: descriptors, counters, the handler.
fn is_ready() -> bool {
    match STATE.load(Ordering::Acquire) {
        ON => is_on(),
        IDLE => {
            // One thread does it; the others copy meanwhile.
            let first = STATE.compare_exchange(IDLE, OFF, Ordering::AcqRel, Ordering::Relaxed);
            if first.is_err() {
                return false;
            }
            let Ok(hides) = guard::open() else {
                return false;
            };
            if !hides {
                settings::receive_no_more();
            }
            if !counters::make(settings::receives()) || !handler::start() {
                guard::close();
                return false;
            }
            STATE.store(ON, Ordering::Release);
            true
        }
        _ => false,
    }
}

/// Ends the protection of ranges that have ended, and says whether the next call, of `len` bytes, may lend.
fn collect(ledger: &mut Ledger, kind: Kind, len: usize) -> bool {
    let mut first = 0;
    while let Some(at) = ledger.over(first) {
        match handler::give_back(ledger, at) {
            Ok(()) | Err(libc::EAGAIN) => {}
            // The program has closed the descriptor. The handler has its own.
            Err(_) => {
                STATE.store(OFF, Ordering::Release);
                return false;
            }
        }
        first = at.saturating_add(1);
    }
    ledger.may_lend(kind, len, now())
}

/// Monotonic time, in ns.
fn now() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: The time lives through the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let seconds = now.tv_sec.unsigned_abs();
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(now.tv_nsec.unsigned_abs())
}

/// Whether the long ones among the parts are memory that can be protected.
///
/// # Safety
///
/// `parts` has `count` elements.
unsafe fn are_plain(parts: *const iovec, count: usize) -> bool {
    // SAFETY: As the caller says.
    let parts = unsafe { core::slice::from_raw_parts(parts, count) };
    let mut long = parts
        .iter()
        .filter(|part| part.iov_len >= LEAST_LENT as usize);
    long.all(|part| guard::may_be_lent(part.iov_base.addr(), part.iov_len))
}

/// Whether the process can and should lend the parts, or receive ahead into them, now.
///
/// # Safety
///
/// `parts` has `count` elements.
pub(crate) unsafe fn may_lend(kind: Kind, parts: *const iovec, count: usize) -> bool {
    // Getting ready may find that nothing can be received ahead.
    if !is_ready() || kind == Kind::Received && !settings::receives() {
        return false;
    }
    // SAFETY: As the caller says.
    let (plain, len) = unsafe { (are_plain(parts, count), total(parts, count)) };
    plain && LEDGER.try_with(|ledger| collect(ledger, kind, len)) == Some(true)
}

/// Whether no range refers to a counter that another socket had before. The kernel is about to clear it,
/// and such a range would look as if it were open.
pub(crate) fn is_forgotten(kind: Kind, counter: u64) -> bool {
    let forgotten = LEDGER.try_with(|ledger| {
        while let Some(at) = ledger.counted_by(kind, counter) {
            // Bytes that never came stay away from the program as long as it has not touched them.
            if !ledger.get(at).is_over() || handler::give_back(ledger, at).is_err() {
                return false;
            }
        }
        true
    });
    forgotten == Some(true)
}

/// Prepares a send of the parts that lends; `false`: it must be an ordinary one.
///
/// # Safety
///
/// `parts` has `count` elements.
unsafe fn is_prepared(fd: c_int, parts: *const iovec, count: usize) -> bool {
    let Some(info) = ask(fd).filter(|info| info.adverts > 0) else {
        return false;
    };
    // SAFETY: As the caller says.
    let can = unsafe { may_lend(Kind::Sent, parts, count) };
    if !can || info.counter != 0 {
        return can;
    }
    let Some(counter) = counters::take() else {
        return false;
    };
    let taken = is_forgotten(Kind::Sent, counter) && set_counter(fd, counter);
    if !taken {
        counters::give_back(counter);
    }
    taken
}

/// Sends the parts as sendmsg(2) does. `None`: nothing may be lent now.
///
/// # Safety
///
/// The parts are the program's, as for sendmsg(2).
pub(crate) unsafe fn send(
    fd: c_int,
    parts: *const iovec,
    count: usize,
    flags: c_int,
) -> Option<ssize_t> {
    if flags & (libc::MSG_OOB | libc::MSG_ZEROCOPY) != 0 {
        return None;
    }
    // SAFETY: The caller vouches for the parts.
    if !keep_errno(|| unsafe { is_prepared(fd, parts, count) }) {
        return None;
    }
    let mut ranges = [uapi::sdp_borrow_range {
        start: 0,
        len: 0,
        id: 0,
    }; RANGES];
    let mut report = uapi::sdp_borrowed {
        counter: 0,
        ranges: ranges.as_mut_ptr().expose_provenance() as u64,
        room: 16,
        count: 0,
    };
    let mut control = uapi::BorrowControl::of(&mut report);
    // SAFETY: All zeroes is an empty message.
    let mut message = unsafe { core::mem::zeroed::<msghdr>() };
    message.msg_iov = parts.cast_mut();
    message.msg_iovlen = count;
    message.msg_control = core::ptr::from_mut(&mut control).cast();
    message.msg_controllen = size_of::<uapi::BorrowControl>();
    // SAFETY: The caller vouches for the parts; the kernel writes to the report and its ranges.
    let sent = unsafe { next::sendmsg(fd, &raw const message, flags) };
    if sent < 0 {
        return Some(sent);
    }
    // SAFETY: Both are alive; the kernel has written to them.
    let (report, ranges) = unsafe {
        (
            (&raw const report).read_volatile(),
            (&raw const ranges).read_volatile(),
        )
    };
    if let Some(lent) = ranges.get(..report.count as usize) {
        if let Some(last) = lent.last() {
            keep_errno(|| {
                if !protect(report.counter, lent) {
                    take_back(fd, report.counter, last.id);
                }
            });
        }
    }
    Some(sent)
}

/// Protects what was lent. If that fails, parts of it may be protected; they are in the ledger.
fn protect(counter: u64, lent: &[uapi::sdp_borrow_range]) -> bool {
    let Some(ended) = counters::ended(counter) else {
        return false;
    };
    let done = LEDGER.try_with(|ledger| {
        lent.iter().all(|lent| {
            let range = Range {
                start: usize::try_from(lent.start).unwrap_or(0),
                len: lent.len as usize,
                counted: Some(Counted::Sent(ended)),
                id: lent.id,
                offset: 0,
                late: false,
            };
            ledger.insert(range) && guard::protect(Kind::Sent, range.start, range.len).is_ok()
        })
    });
    if done == Some(false) {
        // A program with memory that cannot be protected is left alone as well.
        LEDGER.try_with(|ledger| ledger.on_disturbed(Kind::Sent));
    }
    done == Some(true)
}

/// Waits for the peer, and then takes back what it has not read: the kernel sends a copy of it.
fn take_back(fd: c_int, counter: u64, id: u32) {
    // Signals must not end it. They are handled afterwards.
    let _quiet = Quiet::new();
    let wait = |option, timeout_ms| {
        let wait = uapi::sdp_borrow_wait { id, timeout_ms };
        set_option(fd, option, &wait)
    };
    if wait(uapi::SDP_BORROW_WAIT, WAIT_MS) || wait(uapi::SDP_BORROW_CANCEL, FOREVER) {
        return;
    }
    // Another thread has closed the descriptor; the counter goes on.
    let Some(ended) = counters::ended(counter) else {
        return;
    };
    while ended.load(Ordering::Acquire).wrapping_sub(id) >= 1 << 31 {
        // SAFETY: It takes a number.
        unsafe { libc::usleep(50) };
    }
}
