// SPDX-License-Identifier: MIT

//! Remembers for one second that the kernel has no SDP.
//!
//! Each `socket(27, ...)` on a kernel without the family starts `modprobe`. A program that opens
//! thousands of connections must not pay for that each time. After a second the kernel is asked
//! again, so that a program notices when the module is loaded.

use core::sync::atomic::{AtomicI64, Ordering};

const MEMORY_SECONDS: i64 = 1;

/// When to ask the kernel again, in seconds of its clock since boot.
#[derive(Debug)]
pub(crate) struct Absence(AtomicI64);

impl Absence {
    /// Nothing is known: the kernel is asked.
    pub(crate) const fn unknown() -> Self {
        Self(AtomicI64::new(i64::MIN))
    }

    /// The kernel reported at `now` that it does not know the family.
    pub(crate) fn seen_at(&self, now: i64) {
        self.0
            .store(now.saturating_add(MEMORY_SECONDS), Ordering::Relaxed);
    }

    /// Whether asking again at `now` is too early.
    pub(crate) fn holds_at(&self, now: i64) -> bool {
        now <= self.0.load(Ordering::Relaxed)
    }
}

/// The kernel's clock, in whole seconds since boot.
pub(crate) fn now() -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writes. The coarse clock exists since Linux 2.6.32 and is read
    // without a system call. If the call failed, `time` would stay zero, and the kernel would be
    // asked each time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    time.tv_sec
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked_at_first() {
        assert!(!Absence::unknown().holds_at(0));
        assert!(!Absence::unknown().holds_at(i64::MAX));
    }

    #[test]
    fn absence_is_remembered_and_then_forgotten() {
        let absence = Absence::unknown();
        absence.seen_at(100);
        assert!(absence.holds_at(100));
        assert!(absence.holds_at(101));
        assert!(!absence.holds_at(102));
    }
}
