// SPDX-License-Identifier: MIT
//! System calls that receive, and those that read or write the memory.

use std::ffi::CStr;

use io_uring::{opcode, types, IoUring};
use libc::{c_int, iovec, msghdr};

use crate::memory::{Memory, AT, LEN, PAGE, SPAN};
use crate::{Ahead, Way};

pub fn recv(sock: c_int, memory: Memory) -> isize {
    // SAFETY: the memory has so many bytes.
    unsafe { libc::recv(sock, memory.at(0), LEN, 0) }
}

pub const WAYS: &[Way] = &[
    Way::with("received_by_read", |sock, memory| {
        // SAFETY: the memory has so many bytes.
        unsafe { libc::read(sock, memory.at(0), LEN) }
    }),
    Way::with("received_by_recvfrom", |sock, memory| {
        let (nobody, nowhere) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: as above.
        unsafe { libc::recvfrom(sock, memory.at(0), LEN, 0, nobody, nowhere) }
    }),
    Way::with("received_by_readv", |sock, memory| {
        let part = iovec { iov_base: memory.at(0), iov_len: LEN };
        // SAFETY: the part is memory.
        unsafe { libc::readv(sock, &raw const part, 1) }
    }),
    Way::with("received_by_recvmsg", |sock, memory| {
        let mut part = iovec { iov_base: memory.at(0), iov_len: LEN };
        let mut message = message(std::slice::from_mut(&mut part));
        // SAFETY: as above.
        let n = unsafe { libc::recvmsg(sock, &raw mut message, 0) };
        assert_eq!((message.msg_controllen, message.msg_flags), (0, 0), "as on TCP");
        n
    }),
    Way::with("received_by_waitall", |sock, memory| {
        // SAFETY: as above.
        unsafe { libc::recv(sock, memory.at(0), LEN, libc::MSG_WAITALL) }
    }),
    Way::new("write", |ahead| {
        let mut pipe = [0; 2];
        // SAFETY: room for two descriptors; inside of the memory.
        let n = unsafe {
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            libc::write(pipe[1], ahead.memory.at(AT), SPAN)
        };
        equal(n, SPAN);
        let mut seen = [0u8; SPAN];
        // SAFETY: room for so many bytes.
        equal(unsafe { libc::read(pipe[0], seen.as_mut_ptr().cast(), SPAN) }, SPAN);
        assert!((0..SPAN).all(|at| seen[at] == Memory::drawn(AT + at)), "the bytes that came");
    }),
    Way::new("pread", |ahead| {
        // SAFETY: inside of the memory.
        let n = unsafe { libc::pread(open(c"/dev/zero"), ahead.memory.at(AT), SPAN, 0) };
        zeroed(ahead, n);
    }),
    Way::new("clock_gettime", |ahead| {
        let at = ahead.memory.at(5 * PAGE);
        // SAFETY: inside of the memory, on a page's start. The vdso writes there.
        let done = unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, at.cast()) };
        assert_eq!(done, 0);
        ahead.memory.has_come(0..5 * PAGE);
        ahead.memory.has_come(5 * PAGE + 16..ahead.len);
    }),
    Way::new("io_uring_read", |ahead| {
        let to = ahead.memory.at(AT).cast();
        let entry = opcode::Read::new(types::Fd(open(c"/dev/zero")), to, SPAN as u32).build();
        zeroed(ahead, submit(&entry));
    }),
    Way::new("io_uring_write", |ahead| {
        let mut pipe = [0; 2];
        // SAFETY: room for two descriptors.
        assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
        let from = ahead.memory.at(AT).cast();
        let entry = opcode::Write::new(types::Fd(pipe[1]), from, SPAN as u32).build();
        equal(submit(&entry), SPAN);
        let mut seen = [0u8; SPAN];
        // SAFETY: room for so many bytes.
        equal(unsafe { libc::read(pipe[0], seen.as_mut_ptr().cast(), SPAN) }, SPAN);
        assert!((0..SPAN).all(|at| seen[at] == Memory::drawn(AT + at)), "the bytes that came");
    }),
];

fn open(name: &CStr) -> c_int {
    // SAFETY: a string that ends.
    let fd = unsafe { libc::open(name.as_ptr(), libc::O_RDONLY) };
    assert!(fd >= 0, "{name:?}");
    fd
}

fn equal(n: isize, want: usize) {
    assert_eq!(usize::try_from(n), Ok(want), "{}", std::io::Error::last_os_error());
}

/// Zeroes are behind the peer's bytes.
fn zeroed(ahead: &Ahead, n: isize) {
    equal(n, SPAN);
    assert!((AT..AT + SPAN).all(|at| ahead.memory.byte(at) == 0), "the program's own bytes");
    ahead.memory.has_come(0..AT);
    ahead.memory.has_come(AT + SPAN..ahead.len);
}

fn message(parts: &mut [iovec]) -> msghdr {
    // SAFETY: an empty message.
    let mut message = unsafe { std::mem::zeroed::<msghdr>() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len();
    message
}

fn submit(entry: &io_uring::squeue::Entry) -> isize {
    let mut ring = IoUring::new(4).expect("io_uring");
    // SAFETY: it names memory that stays.
    unsafe { ring.submission().push(entry) }.expect("room in the ring");
    ring.submit_and_wait(1).expect("io_uring_enter");
    let result = ring.completion().next().expect("a completion").result();
    result as isize
}
