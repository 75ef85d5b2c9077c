// SPDX-License-Identifier: MIT
//! Memory that moves, goes away or changes its protection, and memory of allocators.

use std::ptr::null_mut;

use libc::c_int;

use crate::memory::{map, Memory, LEN, OLD};
use crate::{Ahead, Way};

pub const WAYS: &[Way] = &[
    Way::new("madvise_dontneed", |ahead| {
        // SAFETY: pages of the memory.
        let done = unsafe { libc::madvise(ahead.memory.at(0), LEN, libc::MADV_DONTNEED) };
        assert_eq!(done, 0, "madvise");
        assert!((0..ahead.len).all(|at| ahead.memory.byte(at) == 0), "thrown away");
    }),
    Way::new("unmapped", |ahead| {
        // SAFETY: nothing uses it afterwards.
        assert_eq!(unsafe { libc::munmap(ahead.memory.at(0), LEN) }, 0);
    }),
    Way::new("mapped_anew", |ahead| {
        map(ahead.memory.at(0), LEN);
        assert!((0..ahead.len).all(|at| ahead.memory.byte(at) == 0), "new memory");
    }),
    Way::new("mremap", |ahead| {
        let place = map(null_mut(), LEN);
        let moves = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: both are this program's.
        let to = unsafe { libc::mremap(ahead.memory.at(0), LEN, LEN, moves, place) };
        assert_eq!(to, place, "{}", std::io::Error::last_os_error());
        Memory(to.cast()).has_come(0..ahead.len);
    }),
    Way::new("mprotect", |ahead| {
        for access in [libc::PROT_NONE, libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE] {
            // SAFETY: pages of the memory.
            let done = unsafe { libc::mprotect(ahead.memory.at(0), LEN, access) };
            assert_eq!(done, 0);
        }
        ahead.memory.has_come(0..ahead.len);
    }),
    Way {
        name: "unaligned",
        receive: |sock, memory| receive(sock, memory, 0),
        touch: has_come_behind,
    },
    Way {
        name: "unaligned_waitall",
        receive: |sock, memory| receive(sock, memory, libc::MSG_WAITALL),
        touch: has_come_behind,
    },
];

/// Where the bytes begin.
const BEHIND: usize = 100;

fn receive(sock: c_int, memory: Memory, flags: c_int) -> isize {
    let len = LEN - 2 * BEHIND;
    // SAFETY: the memory has so many bytes.
    let n = unsafe { libc::recv(sock, memory.at(BEHIND), len, flags) };
    assert_eq!(n, len as isize, "with head and tail");
    n
}

fn has_come_behind(ahead: &Ahead) {
    let end = BEHIND + ahead.len;
    let old = |at: usize| ahead.memory.byte(at) == OLD;
    assert!((0..BEHIND).all(old) && (end..LEN).all(old), "not touched");
    let wrong = (0..ahead.len).find(|at| ahead.memory.byte(BEHIND + at) != Memory::drawn(*at));
    assert_eq!(wrong, None);
}
