// SPDX-License-Identifier: MIT
//! Memory that moves, goes away or changes its protection, and is then written to.

use std::ptr::null_mut;

use libc::c_void;

use crate::memory::{fill, map, touch, Memory, AT, LEN, PAGE, SPAN};
use crate::{Lent, Way};

pub const WAYS: &[Way] = &[
    Way::new("madvise_dontneed", |lent| {
        advise(lent, libc::MADV_DONTNEED);
        assert_eq!(lent.memory.byte(5 * PAGE), 0);
        fill(lent);
    }),
    // The kernel may drop them, and may do so later.
    Way::new("madvise_free", |lent| {
        advise(lent, libc::MADV_FREE);
        fill(lent);
    }),
    Way::new("mremap", |lent| {
        let to = move_to(lent.memory.at(0), LEN, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED);
        touch(Memory(to.cast()));
    }),
    Way::new("mremap_of_a_part", |lent| {
        let moves = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let to = move_to(lent.memory.at(20 * PAGE), 8 * PAGE, moves).cast::<u8>();
        for offset in 0..8 * PAGE {
            // SAFETY: the moved memory.
            unsafe { to.add(offset).write_volatile(1) };
        }
        touch(lent.memory);
        for offset in 28 * PAGE..LEN {
            lent.memory.store(offset, 2);
        }
    }),
    Way::new("mremap_dontunmap", |lent| {
        let moves = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
        let to = move_to(lent.memory.at(0), LEN, moves);
        touch(Memory(to.cast()));
        fill(lent);
    }),
    Way::new("mremap_to_grow", |lent| {
        // SAFETY: all of the memory; nothing else uses it afterwards.
        let to = unsafe { libc::mremap(lent.memory.at(0), LEN, 64 * LEN, libc::MREMAP_MAYMOVE) };
        assert_ne!(to, libc::MAP_FAILED);
        touch(Memory(to.cast()));
    }),
    Way::new("unmapped", |lent| {
        // SAFETY: nothing uses it afterwards.
        assert_eq!(unsafe { libc::munmap(lent.memory.at(0), LEN) }, 0);
    }),
    Way::new("unmapped_in_part", |lent| {
        // SAFETY: nothing uses these pages afterwards.
        assert_eq!(unsafe { libc::munmap(lent.memory.at(20 * PAGE), 4 * PAGE) }, 0);
        touch(lent.memory);
    }),
    Way::new("mapped_anew", |lent| {
        map(lent.memory.at(0), LEN);
        fill(lent);
    }),
    Way::new("mprotect", |lent| {
        let access = [libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE];
        for access in access {
            // SAFETY: pages of the memory.
            let done = unsafe { libc::mprotect(lent.memory.at(4 * PAGE), 4 * PAGE, access) };
            assert_eq!(done, 0);
        }
        fill(lent);
    }),
    Way::new("locked", |lent| {
        // SAFETY: the memory.
        assert_eq!(unsafe { libc::mlock(lent.memory.at(0), LEN) }, 0);
        fill(lent);
    }),
    Way { send: send_of_heap, ..Way::new("realloc", grow_heap) },
];

fn advise(lent: &Lent, advice: i32) {
    // SAFETY: pages of the memory.
    assert_eq!(unsafe { libc::madvise(lent.memory.at(0), LEN, advice) }, 0, "madvise");
}

/// Moves pages to a place that was mapped before.
fn move_to(from: *mut c_void, len: usize, flags: i32) -> *mut c_void {
    let place = map(null_mut(), len);
    // SAFETY: both are this program's.
    let to = unsafe { libc::mremap(from, len, len, flags, place) };
    assert_eq!(to, place, "{}", std::io::Error::last_os_error());
    to
}

thread_local! {
    static HEAP: std::cell::Cell<*mut u8> = const { std::cell::Cell::new(null_mut()) };
}

/// Sends the same bytes from memory of the C library.
fn send_of_heap(lent: &Lent) -> isize {
    // SAFETY: room for all of the memory.
    unsafe {
        let heap = libc::malloc(LEN).cast::<u8>();
        std::ptr::copy_nonoverlapping(lent.memory.0, heap, LEN);
        HEAP.set(heap);
        libc::send(lent.sock, heap.cast(), LEN, 0)
    }
}

fn grow_heap(_: &Lent) {
    // SAFETY: of `send_of_heap`.
    unsafe {
        let heap = libc::realloc(HEAP.get().cast(), 16 * LEN).cast::<u8>();
        touch(Memory(heap));
        for offset in AT + SPAN..LEN {
            heap.add(offset).write_volatile(9);
        }
        libc::free(heap.cast());
    }
}
