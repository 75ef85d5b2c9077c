// SPDX-License-Identifier: MIT

//! A set of descriptors, for later reports about them.

use core::sync::atomic::{AtomicU64, Ordering};
use libc::c_int;

const BITS: usize = u64::BITS as usize;

/// Descriptors below 65,536; higher ones are ignored.
pub(crate) struct Descriptors([AtomicU64; 1024]);

impl Descriptors {
    pub(crate) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; 1024])
    }

    fn place(&self, fd: c_int) -> Option<(&AtomicU64, u64)> {
        let fd = usize::try_from(fd).ok()?;
        let word = self.0.get(fd.checked_div(BITS)?)?;
        Some((word, 1 << fd.checked_rem(BITS)?))
    }

    pub(crate) fn insert(&self, fd: c_int) {
        if let Some((word, bit)) = self.place(fd) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Removes it; returns whether it was in the set.
    pub(crate) fn remove(&self, fd: c_int) -> bool {
        self.contains(fd)
            && self
                .place(fd)
                .is_some_and(|(word, bit)| word.fetch_and(!bit, Ordering::Relaxed) & bit != 0)
    }

    pub(crate) fn contains(&self, fd: c_int) -> bool {
        self.place(fd)
            .is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_comes_out_once() {
        let set = Descriptors::new();
        for fd in [0, 63, 64, 65_535] {
            assert!(!set.contains(fd));
            set.insert(fd);
            assert!(set.contains(fd));
        }
        assert!(!set.contains(1));
        for fd in [0, 63, 64, 65_535] {
            assert!(set.remove(fd));
            assert!(!set.remove(fd));
        }
        for fd in [-1, 65_536, c_int::MAX] {
            set.insert(fd);
            assert!(!set.contains(fd) && !set.remove(fd));
        }
    }
}
