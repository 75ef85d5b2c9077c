// SPDX-License-Identifier: MIT
//! System calls that send the memory, and those that write to it.

use std::ffi::CStr;

use io_uring::{opcode, types, IoUring};
use libc::{c_int, iovec, mmsghdr, msghdr};

use crate::memory::{AT, LEN, PAGE, SPAN};
use crate::{Lent, Way};

pub const WAYS: &[Way] = &[
    Way::with("sent_by_write", |lent| {
        // SAFETY: the memory has so many bytes.
        unsafe { libc::write(lent.sock, lent.memory.at(0), LEN) }
    }),
    Way::with("sent_by_sendto", |lent| {
        // SAFETY: as above.
        unsafe { libc::sendto(lent.sock, lent.memory.at(0), LEN, 0, std::ptr::null(), 0) }
    }),
    Way::with("sent_by_writev", |lent| {
        let parts = parts(lent);
        // SAFETY: the parts are memory.
        unsafe { libc::writev(lent.sock, parts.as_ptr(), 2) }
    }),
    Way::with("sent_by_sendmsg", |lent| {
        let mut parts = parts(lent);
        let message = message(&mut parts);
        // SAFETY: as above.
        unsafe { libc::sendmsg(lent.sock, &raw const message, 0) }
    }),
    Way::with("sent_by_sendmmsg", |lent| {
        let mut parts = parts(lent);
        let mut messages = mmsghdr { msg_hdr: message(&mut parts), msg_len: 0 };
        // SAFETY: as above.
        let n = unsafe { libc::sendmmsg(lent.sock, &raw mut messages, 1, 0) };
        assert_eq!(n, 1);
        messages.msg_len as isize
    }),
    Way::new("read", |lent| {
        let zeros = open(c"/dev/zero");
        // SAFETY: inside of the memory.
        let n = unsafe { libc::read(zeros, lent.memory.at(AT), SPAN) };
        came(lent, n, |_| 0);
    }),
    Way::new("pread", |lent| {
        let file = std::fs::read("/proc/self/exe").expect("this program");
        // SAFETY: inside of the memory.
        let n = unsafe { libc::pread(open(c"/proc/self/exe"), lent.memory.at(AT), SPAN, 0) };
        came(lent, n, |offset| file[offset]);
    }),
    Way::new("recvmsg", |lent| {
        let (one, two) = std::os::unix::net::UnixStream::pair().expect("socketpair");
        std::io::Write::write_all(&mut &one, &[0x77; SPAN]).expect("write");
        let mut part = iovec { iov_base: lent.memory.at(AT), iov_len: SPAN };
        let mut message = message(std::slice::from_mut(&mut part));
        let socket = std::os::fd::AsRawFd::as_raw_fd(&two);
        // SAFETY: inside of the memory.
        let n = unsafe { libc::recvmsg(socket, &raw mut message, libc::MSG_WAITALL) };
        came(lent, n, |_| 0x77);
    }),
    Way::new("clock_gettime", |lent| {
        let at = lent.memory.at(5 * PAGE);
        // SAFETY: inside of the memory, on a page's start. The vdso writes there.
        let done = unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, at.cast()) };
        assert_eq!(done, 0);
    }),
    // As with ptrace: the kernel does not wait there.
    Way::new("write_to_proc_self_mem", |lent| {
        // SAFETY: a string that ends.
        let file = unsafe { libc::open(c"/proc/self/mem".as_ptr(), libc::O_RDWR) };
        let data = [0x66u8; SPAN];
        let to = lent.memory.at(AT) as libc::off_t;
        // SAFETY: the data has so many bytes.
        let n = unsafe { libc::pwrite(file, data.as_ptr().cast(), SPAN, to) };
        assert_eq!((n, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EIO)));
        crate::memory::touch(lent.memory);
    }),
    Way::new("io_uring_read", |lent| {
        let mut ring = IoUring::new(4).expect("io_uring");
        let to = lent.memory.at(AT).cast();
        let entry = opcode::Read::new(types::Fd(open(c"/dev/zero")), to, SPAN as u32).build();
        came(lent, submit(&mut ring, &entry), |_| 0);
    }),
];

fn open(name: &CStr) -> c_int {
    // SAFETY: a string that ends.
    let fd = unsafe { libc::open(name.as_ptr(), libc::O_RDONLY) };
    assert!(fd >= 0, "{name:?}");
    fd
}

fn came(lent: &Lent, n: isize, byte: impl Fn(usize) -> u8) {
    assert_eq!(n, SPAN as isize, "{}", std::io::Error::last_os_error());
    lent.memory.has(byte);
}

fn parts(lent: &Lent) -> [iovec; 2] {
    let first = LEN / 2 + 1000;
    [
        iovec { iov_base: lent.memory.at(0), iov_len: first },
        iovec { iov_base: lent.memory.at(first), iov_len: LEN - first },
    ]
}

fn message(parts: &mut [iovec]) -> msghdr {
    // SAFETY: an empty message.
    let mut message = unsafe { std::mem::zeroed::<msghdr>() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len();
    message
}

fn submit(ring: &mut IoUring, entry: &io_uring::squeue::Entry) -> isize {
    // SAFETY: it names memory that stays.
    unsafe { ring.submission().push(entry) }.expect("room in the ring");
    ring.submit_and_wait(1).expect("io_uring_enter");
    let result = ring.completion().next().expect("a completion").result();
    result as isize
}

thread_local! {
    /// A ring that has the memory pinned for writing.
    static RING: std::cell::RefCell<Option<IoUring>> = const { std::cell::RefCell::new(None) };
}

/// Has a ring pin the memory before it is sent: no protection would stop its writes.
pub fn pin(lent: &Lent) {
    lent.memory.draw(0);
    let ring = IoUring::new(4).expect("io_uring");
    let all = iovec { iov_base: lent.memory.at(0), iov_len: LEN };
    // SAFETY: the memory stays.
    unsafe { ring.submitter().register_buffers(&[all]) }.expect("registered buffers");
    RING.set(Some(ring));
}

/// Writes by that ring.
pub fn read_fixed(lent: &Lent) {
    let mut ring = RING.take().expect("pinned before");
    let to = lent.memory.at(AT).cast();
    let entry = opcode::ReadFixed::new(types::Fd(open(c"/dev/zero")), to, SPAN as u32, 0).build();
    came(lent, submit(&mut ring, &entry), |_| 0);
}
