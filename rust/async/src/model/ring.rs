// SPDX-License-Identifier: MIT

//! An io_uring with one buffer that is pinned for writing, as the module pins what a device writes to. A
//! read into it goes to the pages themselves, whatever the program's mapping says.

use core::sync::atomic::{AtomicU32, Ordering};
use libc::{c_int, c_long, c_void};

const READ_FIXED: u8 = 4;
const REGISTER_BUFFERS: c_int = 0;
const UNREGISTER_BUFFERS: c_int = 1;
const GETEVENTS: c_int = 1;
const OFFSET_SQES: libc::off_t = 0x1000_0000;

/// `struct io_sqring_offsets`, and `struct io_cqring_offsets` with other names behind `entries`.
#[repr(C)]
#[derive(Default)]
struct Offsets {
    head: u32,
    tail: u32,
    mask: u32,
    entries: u32,
    /// `flags`, `overflow`
    fifth: u32,
    /// `dropped`, `cqes`
    sixth: u32,
    /// `array`, `flags`
    seventh: u32,
    reserved: u32,
    address: u64,
}

#[repr(C)]
#[derive(Default)]
struct Parameters {
    numbers: [u32; 10],
    sq: Offsets,
    cq: Offsets,
}

#[repr(C)]
#[derive(Default)]
struct Entry {
    opcode: u8,
    flags: u8,
    priority: u16,
    fd: c_int,
    offset: u64,
    address: u64,
    len: u32,
    rest: [u32; 9],
}

const _: () = assert!(size_of::<Parameters>() == 120);
const _: () = assert!(size_of::<Entry>() == 64);

pub(super) struct Ring {
    fd: c_int,
    parameters: Parameters,
    queues: *mut u8,
    entries: *mut Entry,
}

fn call(number: c_long, arguments: [usize; 6]) -> usize {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: The callers name memory that lives through the call.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    usize::try_from(result).unwrap_or_else(|_| panic!("{}", std::io::Error::last_os_error()))
}

fn number(fd: c_int) -> usize {
    usize::try_from(fd).expect("a descriptor")
}

impl Ring {
    /// A ring that has pinned this memory.
    pub(super) fn with(start: usize, len: usize) -> Self {
        let mut parameters = Parameters::default();
        let at = (&raw mut parameters).addr();
        let fd = call(libc::SYS_io_uring_setup, [4, at, 0, 0, 0, 0]);
        let fd = c_int::try_from(fd).expect("a descriptor");
        let map = |offset| {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
            // SAFETY: New memory; one page has all of so short a ring.
            let at = unsafe { libc::mmap(core::ptr::null_mut(), 4096, access, flags, fd, offset) };
            assert_ne!(at, libc::MAP_FAILED);
            at
        };
        let ring = Self {
            fd,
            parameters,
            queues: map(0).cast(),
            entries: map(OFFSET_SQES).cast(),
        };
        let buffer = libc::iovec {
            iov_base: core::ptr::without_provenance_mut::<c_void>(start),
            iov_len: len,
        };
        ring.register(REGISTER_BUFFERS, (&raw const buffer).addr(), 1);
        ring
    }

    fn register(&self, what: c_int, at: usize, count: usize) {
        let arguments = [number(self.fd), number(what), at, count, 0, 0];
        call(libc::SYS_io_uring_register, arguments);
    }

    fn word(&self, offset: u32) -> &AtomicU32 {
        let offset = usize::try_from(offset).expect("an offset");
        // SAFETY: The kernel says that a word is there.
        unsafe { AtomicU32::from_ptr(self.queues.add(offset).cast()) }
    }

    /// Reads `len` bytes from the beginning of the file to the beginning of the buffer.
    pub(super) fn read(&self, file: c_int, start: usize, len: usize) {
        let entry = Entry {
            opcode: READ_FIXED,
            fd: file,
            address: start as u64,
            len: u32::try_from(len).expect("a length"),
            ..Entry::default()
        };
        // SAFETY: The first entry, which no request uses: they come one after the other.
        unsafe { self.entries.write_volatile(entry) };
        let tail = self.word(self.parameters.sq.tail);
        let place = tail.load(Ordering::Relaxed) & 3;
        self.word(self.parameters.sq.seventh + 4 * place)
            .store(0, Ordering::Relaxed);
        tail.fetch_add(1, Ordering::Release);
        let done = call(
            libc::SYS_io_uring_enter,
            [number(self.fd), 1, 1, number(GETEVENTS), 0, 0],
        );
        assert_eq!(done, 1, "one request");
        let head = self.word(self.parameters.cq.head);
        assert_ne!(
            self.word(self.parameters.cq.tail).load(Ordering::Acquire),
            head.load(Ordering::Relaxed)
        );
        let place = head.load(Ordering::Relaxed)
            & self.word(self.parameters.cq.mask).load(Ordering::Relaxed);
        // A completion has sixteen bytes; the third word is the result.
        let result = self
            .word(self.parameters.cq.sixth + 16 * place + 8)
            .load(Ordering::Relaxed);
        assert_eq!(usize::try_from(result), Ok(len), "the bytes");
        head.fetch_add(1, Ordering::Release);
    }

    /// The memory is not pinned any more.
    pub(super) fn unpin(&self) {
        self.register(UNREGISTER_BUFFERS, 0, 0);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: Mapped and opened by `with`.
        unsafe {
            libc::munmap(self.queues.cast(), 4096);
            libc::munmap(self.entries.cast(), 4096);
            libc::close(self.fd);
        }
    }
}
