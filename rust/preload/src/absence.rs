// SPDX-License-Identifier: MIT

//! A memory, for one second, of the kernel having no SDP.
//!
//! Each `socket(27, ...)` on a kernel without the family makes it start
//! `modprobe`. A program that opens thousands of connections on such a machine
//! must not pay for that; one that runs while the module is loaded shall notice.

use core::sync::atomic::{AtomicI64, Ordering};

const MEMORY_SECONDS: i64 = 1;

/// When to ask the kernel again, in seconds of its clock since boot.
#[derive(Debug)]
pub(crate) struct Absence(AtomicI64);

impl Absence {
    /// Nothing known: the kernel is asked.
    pub(crate) const fn unknown() -> Self {
        Self(AtomicI64::new(i64::MIN))
    }

    /// The kernel has said at `now` that it does not know the family.
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
    // SAFETY: `time` is valid for writes. The coarse clock exists since Linux
    // 2.6.32 and is read without entering the kernel; had it failed, `time`
    // would stay at zero, and the family would be asked for each time.
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
