// SPDX-License-Identifier: MIT
//! Memory of every kind as the place that bytes come from, without a copy. And the one kind that no
//! bytes can go to.

use std::ptr;

use libc::MSG_WAITALL;
use libc::{c_int, c_void, EFAULT, MAP_ANONYMOUS, MAP_HUGETLB, MAP_PRIVATE, MAP_SHARED};

use super::remapped::{HugePages, Mapping, MemoryFile};
use super::zcopy::{client, counted, server, MIB};
use crate::case::Case;
use crate::payload::bytes;
use crate::role::Role;

/// A mebibyte of a file, mapped for reading alone.
struct ReadOnly(*mut u8);

impl ReadOnly {
    fn new(file: &MemoryFile, flags: c_int) -> Self {
        // SAFETY: a new mapping.
        let at = unsafe { libc::mmap(ptr::null_mut(), MIB, libc::PROT_READ, flags, file.0, 0) };
        assert!(at != libc::MAP_FAILED, "mmap");
        ReadOnly(at.cast())
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is as long, and nobody writes to the file.
        unsafe { std::slice::from_raw_parts(self.0, MIB) }
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        // SAFETY: ours, and not used any more.
        unsafe { libc::munmap(self.0.cast::<c_void>(), MIB) };
    }
}

fn receive(t: &Role, count: usize) {
    let s = server(t);
    for turn in 0..count {
        let mut room = vec![0; MIB];
        assert_eq!(s.recv(&mut room, MSG_WAITALL), Ok(MIB));
        t.holds("the bytes", room == bytes(turn as u64, MIB));
    }
    t.meet("end");
}

/// All of `total` bytes were sent, and none of them was copied.
fn uncopied(of: &dyn Fn(&str) -> i64, total: usize) {
    let gone = of("zcopy_bytes_sent") + of("written_bytes_sent") + of("gathered_bytes_sent");
    assert_eq!(gone, total as i64);
    assert_eq!(of("pin_failures") + of("bcopy_bytes_sent") + of("copied_bytes_written"), 0);
}

pub const CASES: &[Case] = &[
    Case::two(
        "mapped_read_only_and_sent",
        |t| receive(t, 2),
        |t| {
            let s = client(t);
            counted(
                t,
                || {
                    for (turn, flags) in [MAP_SHARED, MAP_PRIVATE].into_iter().enumerate() {
                        let file = MemoryFile::new();
                        file.write(&bytes(turn as u64, MIB));
                        t.send_all(&s, ReadOnly::new(&file, flags).bytes());
                    }
                },
                |of| uncopied(of, 2 * MIB),
            );
            t.meet("end");
        },
    ),
    Case::two(
        "mapped_from_a_file_and_sent",
        |t| receive(t, 2),
        |t| {
            let s = client(t);
            counted(
                t,
                || {
                    for (turn, flags) in [MAP_SHARED, MAP_PRIVATE].into_iter().enumerate() {
                        let file = MemoryFile::new();
                        let mut memory = Mapping::new(flags, file.0);
                        memory.room().copy_from_slice(&bytes(turn as u64, MIB));
                        t.send_all(&s, memory.room());
                    }
                },
                |of| uncopied(of, 2 * MIB),
            );
            t.meet("end");
        },
    ),
    Case::two(
        "mapped_by_huge_pages_and_sent",
        |t| receive(t, 1),
        |t| {
            let _pages = HugePages::new(t, 1);
            let s = client(t);
            let mut memory = Mapping::new(MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
            memory.room().copy_from_slice(&bytes(0, MIB));
            counted(t, || t.send_all(&s, memory.room()), |of| uncopied(of, MIB));
            t.meet("end");
        },
    ),
    Case::two(
        "mapped_read_only_and_received_into",
        |t| {
            let s = server(t);
            let file = MemoryFile::new();
            let memory = ReadOnly::new(&file, MAP_SHARED);
            t.err("recv", s.recv_raw(memory.0, MIB, 0), EFAULT);
            let came = t.recv_exactly(&s, MIB);
            t.holds("the bytes are still there", came == bytes(0, MIB));
            t.holds("nothing was written", file.content() == vec![7; MIB]);
            t.meet("end");
        },
        |t| {
            let s = client(t);
            t.send_all(&s, &bytes(0, MIB));
            t.meet("end");
        },
    ),
];
