// SPDX-License-Identifier: MIT

//! Whether memory that the program points at can be read. A program may pass an invalid pointer to
//! a system call; then the kernel must return EFAULT.

use crate::errno;
use libc::c_int;

/// The size that the kernel reads here: a set of signals.
const WORD: usize = 8;

/// An invalid way to change the signal mask, so that it stays unchanged.
const NO_WAY: c_int = !0;

/// Whether the `len` bytes there can be read; `len` is at least eight, and at most a page. Changes
/// errno.
pub(crate) fn is_readable(address: usize, len: usize) -> bool {
    let last = len
        .checked_sub(WORD)
        .and_then(|before| address.checked_add(before));
    // For the kernel, null means no set.
    address != 0 && is_word_readable(address) && last.is_some_and(is_word_readable)
}

fn is_word_readable(address: usize) -> bool {
    // SAFETY: The kernel reads the new set before it checks `how`, which is invalid. The result is
    // EFAULT if the set cannot be read, and EINVAL otherwise.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            NO_WAY,
            address,
            core::ptr::null_mut::<u8>(),
            WORD,
        )
    };
    result == 0 || errno::get() != libc::EFAULT
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a panic is how a test fails")]

    use super::*;
    use core::ptr::null_mut;

    #[test]
    fn what_is_there_is_readable_and_nothing_else() {
        const PAGE: usize = 4096;
        // SAFETY: New memory that no other code uses; its second page is unmapped again.
        let start = unsafe {
            let two = libc::mmap(
                null_mut(),
                2 * PAGE,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(two, libc::MAP_FAILED);
            let second = two.cast::<u8>().add(PAGE).cast();
            assert_eq!(libc::mprotect(second, PAGE, libc::PROT_NONE), 0);
            two.addr()
        };
        let end = start + PAGE;
        for len in [8, 16, 28] {
            assert!(is_readable(start, len) && is_readable(start + 1, len));
            assert!(is_readable(end - len, len));
            for missing in [1, 7, len - 1, len] {
                assert!(!is_readable(end - len + missing, len), "{missing} of {len}");
            }
            for nothing in [0, 1, usize::MAX, usize::MAX - 16] {
                assert!(!is_readable(nothing, len));
            }
        }
        // SAFETY: This test has mapped the memory.
        unsafe { libc::munmap(core::ptr::without_provenance_mut(start), 2 * PAGE) };
    }

    #[test]
    fn signals_stay_as_they_are() {
        let mask = || std::fs::read_to_string("/proc/thread-self/status").expect("it is there");
        let blocked = |text: String| {
            let line = text.lines().find(|line| line.starts_with("SigBlk"));
            line.map(String::from)
        };
        let (before, all) = (blocked(mask()), u64::MAX);
        assert!(is_readable((&raw const all).addr(), 8));
        assert_eq!(blocked(mask()), before);
    }
}
