// SPDX-License-Identifier: MIT
//! Signals that are counted and have no other effect.

use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use libc::{c_int, c_void, siginfo_t};

use crate::errno::checked_unit;

static COUNTS: [AtomicUsize; 65] = [const { AtomicUsize::new(0) }; 65];
/// `si_code` and `si_fd` of the last signal that carried them.
static LAST_CODE: AtomicI32 = AtomicI32::new(0);
static LAST_FD: AtomicI32 = AtomicI32::new(-1);

extern "C" fn count(signal: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    COUNTS[signal as usize].fetch_add(1, Ordering::SeqCst);
    // SAFETY: with SA_SIGINFO the kernel passes a valid `siginfo_t`.
    let code = unsafe { (*info).si_code };
    LAST_CODE.store(code, Ordering::SeqCst);
    if code > 0 {
        // For POLL_* codes the union holds { long si_band; int si_fd; } after three ints and
        // padding to eight bytes.
        // SAFETY: a `siginfo_t` is 128 bytes long and aligned for an int.
        let fd = unsafe { *info.cast::<i32>().add(6) };
        LAST_FD.store(fd, Ordering::SeqCst);
    }
}

/// Counts this signal from now on; interrupted calls are restarted if `restart` is set.
#[track_caller]
pub fn catch(signal: c_int, restart: bool) {
    // SAFETY: all zeroes is a valid action, completed below; the handler only touches atomics.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | if restart { libc::SA_RESTART } else { 0 };
        checked_unit(libc::sigaction(signal, &raw const action, ptr::null_mut()))
            .expect("sigaction");
    }
}

pub fn caught(signal: c_int) -> usize {
    COUNTS[signal as usize].load(Ordering::SeqCst)
}

pub fn last_code() -> i32 {
    LAST_CODE.load(Ordering::SeqCst)
}

pub fn last_fd() -> i32 {
    LAST_FD.load(Ordering::SeqCst)
}

/// Blocks the signal on this thread; returns the previous mask.
#[track_caller]
pub fn block(signal: c_int) -> libc::sigset_t {
    // SAFETY: both sets are initialised by the calls that get their addresses.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        let mut old: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        checked_unit(libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut old))
            .expect("sigmask");
        old
    }
}
