// SPDX-License-Identifier: MIT
//! Memory of every kind as the source of bytes: zero copy if a device can read it, otherwise a
//! copy. One kind cannot be a destination of bytes.

use std::ptr;

use libc::MSG_WAITALL;
use libc::{c_int, c_void, EFAULT, MAP_ANONYMOUS, MAP_HUGETLB, MAP_PRIVATE, MAP_SHARED};

use super::remapped::{HugePages, Mapping, MemoryFile};
use super::zcopy::{await_reader, client, counted, recv_awaited, sent_uncopied, server, MIB};
use crate::case::Case;
use crate::pages::PAGE;
use crate::payload::bytes;
use crate::role::Role;
use crate::sock::Sock;

/// A mebibyte of a file, mapped read-only.
struct ReadOnly(*mut u8);

impl ReadOnly {
    fn new(file: &MemoryFile, flags: c_int) -> Self {
        // SAFETY: a new mapping.
        let at = unsafe { libc::mmap(ptr::null_mut(), MIB, libc::PROT_READ, flags, file.0, 0) };
        assert!(at != libc::MAP_FAILED, "mmap");
        ReadOnly(at.cast())
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is as long, and no code writes to the file.
        unsafe { std::slice::from_raw_parts(self.0, MIB) }
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        // SAFETY: ours, and not used any more.
        unsafe { libc::munmap(self.0.cast::<c_void>(), MIB) };
    }
}

/// The buffer of a perf event that never occurs. It is mapped like device memory, not like a
/// program's or a file's pages. Its first page has its size, all others are zero.
struct DeviceMemory {
    at: *mut u8,
    event: c_int,
}

/// The beginning of `struct perf_event_attr`.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    rest: [u64; 6],
}

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_DUMMY: u64 = 9;

impl DeviceMemory {
    const LEN: usize = 17 * PAGE;

    fn new() -> Self {
        let size = size_of::<Attributes>();
        let size = u32::try_from(size).expect("a small number");
        let (kind, config) = (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY);
        let attributes = Attributes { kind, size, config, ..Attributes::default() };
        let call = libc::SYS_perf_event_open;
        // SAFETY: the attributes live through the call.
        let event = unsafe { libc::syscall(call, &raw const attributes, 0, -1, -1, 0) };
        let event = c_int::try_from(event).expect("a descriptor");
        assert!(event >= 0, "perf_event_open: {}", std::io::Error::last_os_error());
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping.
        let at = unsafe { libc::mmap(ptr::null_mut(), Self::LEN, access, MAP_SHARED, event, 0) };
        assert!(at != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        DeviceMemory { at: at.cast(), event }
    }

    /// All pages except the first, to which the kernel writes.
    fn zeroes(&self) -> &[u8] {
        // SAFETY: inside of the mapping, and no code writes there.
        unsafe { std::slice::from_raw_parts(self.at.add(PAGE), Self::LEN - PAGE) }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: ours, and not used any more.
        unsafe {
            libc::munmap(self.at.cast::<c_void>(), Self::LEN);
            libc::close(self.event);
        }
    }
}

fn receive(t: &Role, count: usize) {
    let s = server(t);
    for turn in 0..count {
        let mut room = vec![0; MIB];
        // Bytes for a slow reader are copied to the send buffer.
        assert_eq!(recv_awaited(t, || s.recv(&mut room, MSG_WAITALL)), Ok(MIB));
        t.holds("the bytes", room == bytes(turn as u64, MIB));
    }
    t.meet("end");
}

/// All of `total` bytes were sent without a copy.
fn uncopied(of: &dyn Fn(&str) -> i64, total: usize) {
    assert_eq!(sent_uncopied(of) + of("gathered_bytes_sent"), total as i64);
    assert_eq!(of("pin_failures") + of("bcopy_bytes_sent") + of("copied_bytes_written"), 0);
}

/// Sends a file of a mebibyte from a shared mapping, and another from a private one.
fn send_files(t: &Role, send: impl Fn(&Sock, &MemoryFile, c_int, &[u8])) {
    let s = client(t);
    counted(
        t,
        || {
            for (turn, flags) in [MAP_SHARED, MAP_PRIVATE].into_iter().enumerate() {
                send(&s, &MemoryFile::new(), flags, &bytes(turn as u64, MIB));
            }
        },
        |of| uncopied(of, 2 * MIB),
    );
    t.meet("end");
}

pub const CASES: &[Case] = &[
    Case::two(
        "mapped_read_only_and_sent",
        |t| receive(t, 2),
        |t| {
            send_files(t, |s, file, flags, data| {
                file.write(data);
                await_reader(t);
                t.send_all(s, ReadOnly::new(file, flags).bytes());
            });
        },
    ),
    Case::two(
        "mapped_from_a_file_and_sent",
        |t| receive(t, 2),
        |t| {
            send_files(t, |s, file, flags, data| {
                let mut memory = Mapping::new(flags, file.0);
                memory.room().copy_from_slice(data);
                await_reader(t);
                t.send_all(s, memory.room());
            });
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
            await_reader(t);
            counted(t, || t.send_all(&s, memory.room()), |of| uncopied(of, MIB));
            t.meet("end");
        },
    ),
    Case::two(
        "mapped_like_a_device_and_sent",
        |t| {
            let s = server(t);
            let came = t.recv_exactly(&s, 16 * PAGE);
            t.holds("the bytes", came == vec![0; 16 * PAGE]);
            t.meet("end");
        },
        |t| {
            let s = client(t);
            let memory = DeviceMemory::new();
            counted(
                t,
                || {
                    t.send_all(&s, memory.zeroes());
                    // Copied bytes are counted when they are sent.
                    t.meet("end");
                },
                |of| {
                    // No device can read there.
                    assert!(of("pin_failures") > 0, "it was pinned");
                    let copied = of("bcopy_bytes_sent") + of("copied_bytes_written");
                    assert_eq!(copied, 16 * PAGE as i64);
                },
            );
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
