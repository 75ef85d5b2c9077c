// SPDX-License-Identifier: MIT
//! Mappings of special kinds, and programs that may have no more of them.

use std::ptr::null_mut;

use crate::memory::{fill, map, touch, Memory, LEN};
use crate::{Lent, Way};

/// Of a page that one entry of the page tables maps.
const HUGE: usize = 2 << 20;

const MSEAL: libc::c_long = 462;

pub const WAYS: &[Way] = &[
    Way { send: send_of_huge_page, ..Way::new("huge_page", |_| touch(memory())) },
    Way::new("sealed", |lent| {
        // SAFETY: the memory, which stays.
        let sealed = unsafe { libc::syscall(MSEAL, lent.memory.at(0), LEN, 0) };
        assert_eq!(sealed, 0, "{}", std::io::Error::last_os_error());
        fill(lent);
    }),
    Way {
        before: make_executable,
        ..Way::new("executable", |lent| {
            touch(lent.memory);
            let at = lent.memory.at(0).addr();
            for page in [0, LEN / 2, LEN - 1] {
                assert!(rights(at + page).contains("rwxp"), "{}", rights(at + page));
            }
        })
    },
    Way::new("limit_of_addresses", |lent| with_limit(libc::RLIMIT_AS, || touch(lent.memory))),
    Way::new("limit_of_data", |lent| with_limit(libc::RLIMIT_DATA, || touch(lent.memory))),
];

thread_local! {
    static PLACE: std::cell::Cell<*mut u8> = const { std::cell::Cell::new(null_mut()) };
}

fn memory() -> Memory {
    Memory(PLACE.get())
}

/// Sends the same bytes from a huge page.
fn send_of_huge_page(lent: &Lent) -> isize {
    let around = map(null_mut(), 2 * HUGE).cast::<u8>();
    let at = around.wrapping_add(around.align_offset(HUGE));
    PLACE.set(at);
    // SAFETY: room for all of the memory.
    unsafe {
        assert_eq!(libc::madvise(at.cast(), HUGE, libc::MADV_HUGEPAGE), 0);
        std::ptr::copy_nonoverlapping(lent.memory.0, at, LEN);
    }
    let all = std::fs::read_to_string("/proc/self/smaps_rollup").expect("smaps_rollup");
    let huge = all.lines().find(|line| line.starts_with("AnonHugePages:")).expect("a line");
    assert!(!huge.ends_with(" 0 kB"), "{huge}");
    // SAFETY: as above.
    unsafe { libc::send(lent.sock, at.cast(), LEN, 0) }
}

fn make_executable(lent: &Lent) {
    let access = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: the memory.
    assert_eq!(unsafe { libc::mprotect(lent.memory.at(0), LEN, access) }, 0);
}

/// The line about the mapping that an address is in.
fn rights(address: usize) -> String {
    let all = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let is_in = |line: &&str| {
        let bounds = line.split(' ').next().and_then(|bounds| bounds.split_once('-'));
        let number = |text| usize::from_str_radix(text, 16).expect("an address");
        bounds.is_some_and(|(from, to)| (number(from)..number(to)).contains(&address))
    };
    all.lines().find(is_in).expect("a mapping").to_owned()
}

/// The program uses more than the limit meanwhile.
fn with_limit(limit: libc::__rlimit_resource_t, f: impl FnOnce()) {
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: room for the answer; limits.
    unsafe {
        assert_eq!(libc::getrlimit(limit, &raw mut before), 0);
        let low = libc::rlimit { rlim_cur: LEN as u64, ..before };
        assert_eq!(libc::setrlimit(limit, &raw const low), 0);
        f();
        assert_eq!(libc::setrlimit(limit, &raw const before), 0);
    }
}
