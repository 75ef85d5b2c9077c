// SPDX-License-Identifier: MIT

//! Memory that still waits for its bytes: each way to read or to write it waits for them, and none finds
//! other ones. They need Linux 7.3, and pass without a look at anything before.

use super::ring::Ring;
use super::{handler, set, Memory, Peer, There, LEN, MOVES};
use crate::counters::Receipts;
use crate::guard::{self, PAGE};
use crate::ledger::{Counted, Kind, Range, LEDGER};
use crate::settings::Way;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::MutexGuard;
use std::time::Duration;

/// The bytes in the memory before, and the bytes that come.
const OLD: u8 = 0x55;
const NEW: u8 = 0x77;

/// Long enough for a thread to get anywhere.
const WHILE: Duration = Duration::from_millis(50);

fn ready() -> Option<MutexGuard<'static, Option<There>>> {
    let running = handler()?;
    if *running != Some(There::All) {
        eprintln!("no protection against reading here: nothing is tested");
        return None;
    }
    set(Way::Copy);
    Some(running)
}

/// A device that will write to the memory.
struct Device {
    ring: Ring,
    start: usize,
    receipts: &'static Receipts,
}

impl Device {
    /// Pins all of the memory, and keeps the program from it.
    fn begin(memory: &Memory) -> Self {
        let ring = Ring::with(memory.start(), LEN);
        let receipts = Box::leak(Box::new(Receipts::new()));
        let range = Range {
            start: memory.start(),
            len: LEN,
            counted: Some(Counted::Received(receipts)),
            id: 1,
            offset: 0,
            late: false,
        };
        assert!(LEDGER.with(|ledger| ledger.insert(range)));
        while guard::protect(Kind::Received, range.start, range.len) == Err(libc::EAGAIN) {
            std::thread::yield_now();
        }
        Self {
            ring,
            start: memory.start(),
            receipts,
        }
    }

    /// Brings the first `len` bytes.
    fn bring(&self, len: usize) {
        // SAFETY: The name is a string that ends.
        let fd = unsafe { libc::memfd_create(c"bytes".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(fd >= 0);
        // SAFETY: Just made.
        let mut file = unsafe { std::fs::File::from_raw_fd(fd) };
        file.write_all(&[NEW; LEN]).expect("room");
        self.ring.read(file.as_raw_fd(), self.start, len);
    }

    /// Brings all bytes, and says so.
    fn end(self) {
        self.bring(LEN);
        self.ring.unpin();
        self.receipts.ended.store(1, Ordering::Release);
    }

    /// Brings some, and no more.
    fn fail(self, filled: usize) {
        if filled > 0 {
            self.bring(filled);
        }
        self.ring.unpin();
        let filled = u32::try_from(filled).expect("a length");
        self.receipts.filled.store(filled, Ordering::Release);
        self.receipts.failed.store(1, Ordering::Release);
    }
}

/// `f` does not end before the bytes have come.
fn waits<R: Send>(device: Device, f: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| {
        let thread = scope.spawn(f);
        std::thread::sleep(WHILE);
        assert!(!thread.is_finished(), "it waits");
        device.end();
        thread.join().expect("it ends")
    })
}

fn has_come(memory: &Memory, but: core::ops::Range<usize>) {
    for at in (0..LEN).filter(|at| !but.contains(at)) {
        assert_eq!(memory.byte(at), NEW, "byte {at}");
    }
}

#[test]
fn a_load_finds_the_bytes() {
    let Some(_one) = ready() else { return };
    let memory = Memory::new(OLD);
    let device = Device::begin(&memory);
    assert_eq!(waits(device, || memory.byte(5 * PAGE + 7)), NEW);
    has_come(&memory, 0..0);
}

#[test]
fn a_store_comes_behind_the_bytes() {
    let Some(_one) = ready() else { return };
    let memory = Memory::new(OLD);
    let device = Device::begin(&memory);
    waits(device, || memory.write(PAGE, 0x11));
    assert_eq!(memory.byte(PAGE), 0x11);
    has_come(&memory, PAGE..PAGE + 1);
}

#[test]
fn calls_that_read_the_memory_wait() {
    let Some(_one) = ready() else { return };
    let memory = Memory::new(OLD);
    let (mut reader, writer) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let device = Device::begin(&memory);
    let fd = writer.as_raw_fd();
    let at = memory.start() + 3 * PAGE + 100;
    let written = waits(device, move || {
        // SAFETY: Inside of the memory.
        unsafe { libc::write(fd, core::ptr::without_provenance(at), PAGE) }
    });
    assert_eq!(usize::try_from(written), Ok(PAGE));
    let mut seen = vec![0; PAGE];
    reader.read_exact(&mut seen).expect("the bytes");
    assert!(seen.iter().all(|byte| *byte == NEW));
}

#[test]
fn calls_that_write_to_the_memory_come_behind_the_bytes() {
    let Some(_one) = ready() else { return };
    let zeros = std::fs::File::open("/dev/zero").expect("/dev/zero");
    let memory = Memory::new(OLD);
    let device = Device::begin(&memory);
    let (fd, at) = (zeros.as_raw_fd(), memory.start() + PAGE);
    let read = waits(device, move || {
        // SAFETY: Inside of the memory.
        unsafe { libc::pread(fd, core::ptr::without_provenance_mut(at), PAGE, 0) }
    });
    assert_eq!(usize::try_from(read), Ok(PAGE));
    assert!((PAGE..2 * PAGE).all(|at| memory.byte(at) == 0));
    has_come(&memory, PAGE..2 * PAGE);
}

#[test]
fn the_vdso_waits() {
    let Some(_one) = ready() else { return };
    let memory = Memory::new(OLD);
    let device = Device::begin(&memory);
    let at = memory.start() + 5 * PAGE;
    waits(device, move || {
        // SAFETY: Inside of the memory, and aligned.
        let done = unsafe {
            libc::clock_gettime(libc::CLOCK_REALTIME, core::ptr::without_provenance_mut(at))
        };
        assert_eq!(done, 0);
    });
    has_come(&memory, 5 * PAGE..5 * PAGE + 16);
}

#[test]
fn another_process_waits() {
    let Some(_one) = ready() else { return };
    let nothing = core::ptr::null();
    // SAFETY: It reads nothing.
    let known = unsafe { libc::process_vm_readv(libc::getpid(), nothing, 0, nothing, 0, 0) };
    if known < 0 {
        eprintln!("no process_vm_readv here: nothing is tested");
        return;
    }
    let memory = Memory::new(OLD);
    let device = Device::begin(&memory);
    let from = memory.start() + 2 * PAGE;
    let seen = waits(device, move || {
        let mut room = vec![0u8; PAGE];
        let local = libc::iovec {
            iov_base: room.as_mut_ptr().cast(),
            iov_len: PAGE,
        };
        let remote = libc::iovec {
            iov_base: core::ptr::without_provenance_mut(from),
            iov_len: PAGE,
        };
        // The kernel looks the pages up as for any other process.
        // SAFETY: Both live through the call.
        let n = unsafe {
            let (local, remote) = (&raw const local, &raw const remote);
            libc::process_vm_readv(libc::getpid(), local, 1, remote, 1, 0)
        };
        assert_eq!(
            usize::try_from(n),
            Ok(PAGE),
            "{}",
            std::io::Error::last_os_error()
        );
        room
    });
    assert!(seen.iter().all(|byte| *byte == NEW));
}

#[test]
fn a_pin_for_another_device_waits() {
    let Some(_one) = ready() else { return };
    let memory = Memory::new(OLD);
    let device = Device::begin(&memory);
    let start = memory.start();
    waits(device, move || {
        let ring = Ring::with(start, LEN);
        ring.unpin();
    });
    has_come(&memory, 0..0);
}

#[test]
fn a_fork_waits_and_the_child_has_the_bytes() {
    let Some(_one) = ready() else { return };
    let memory = Memory::new(OLD);
    let device = Device::begin(&memory);
    let at = memory.start() + PAGE;
    let status = waits(device, move || {
        // SAFETY: The child looks at its memory and ends.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                let byte = core::ptr::without_provenance::<u8>(at).read_volatile();
                libc::_exit(byte.into());
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            status
        }
    });
    assert_eq!(libc::WEXITSTATUS(status), NEW.into());
    has_come(&memory, 0..0);
}

#[test]
fn many_threads_find_the_bytes() {
    let Some(_one) = ready() else { return };
    let memory = Memory::new(OLD);
    for _ in 0..20 {
        // SAFETY: The memory of this test, to which nothing comes.
        unsafe { core::ptr::write_bytes(memory.0, OLD, LEN) };
        let device = Device::begin(&memory);
        std::thread::scope(|scope| {
            for part in 0..4 {
                let memory = &memory;
                scope.spawn(move || {
                    for at in (part * PAGE..LEN).step_by(4 * PAGE) {
                        assert_eq!(memory.byte(at), NEW);
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(2));
            device.end();
        });
        has_come(&memory, 0..0);
    }
}

#[test]
fn moved_memory_has_the_bytes() {
    let Some(_one) = ready() else { return };
    let (memory, place) = (Memory::new(OLD), Memory::new(0));
    let device = Device::begin(&memory);
    let half = LEN / 2;
    // SAFETY: Both are this test's.
    unsafe {
        let to = place.0.add(half).cast();
        assert_eq!(
            libc::mremap(memory.0.add(half).cast(), half, half, MOVES, to),
            to
        );
    }
    assert_eq!(waits(device, || place.byte(half + 9)), NEW);
    assert!((half..LEN).all(|at| place.byte(at) == NEW));
    assert!((0..half).all(|at| memory.byte(at) == NEW));
    assert_eq!(place.byte(0), 0);
}

#[test]
fn dropped_memory_is_empty_and_later_bytes_do_not_come_there() {
    let Some(_one) = ready() else { return };
    let memory = Memory::new(OLD);
    let device = Device::begin(&memory);
    // SAFETY: Pages of the memory.
    let dropped = unsafe { libc::madvise(memory.0.add(PAGE).cast(), PAGE, libc::MADV_DONTNEED) };
    assert_eq!(dropped, 0);
    assert_eq!(memory.byte(PAGE), 0, "at once");
    memory.write(PAGE, 0x11);
    device.end();
    assert_eq!((memory.byte(PAGE), memory.byte(PAGE + 1)), (0x11, 0));
    has_come(&memory, PAGE..2 * PAGE);
}

#[test]
fn memory_that_is_mapped_anew_is_left_alone() {
    let Some(_one) = ready() else { return };
    let memory = Memory::new(OLD);
    let device = Device::begin(&memory);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: Pages of the memory.
    let at = unsafe { libc::mmap(memory.0.add(PAGE).cast(), 2 * PAGE, access, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    memory.write(PAGE, 0x11);
    // A page that would be buried while it is still protected.
    device.fail(0);
    assert_eq!((memory.byte(PAGE), memory.byte(2 * PAGE)), (0x11, 0));
}

#[test]
fn changed_access_does_not_open_it() {
    let Some(_one) = ready() else { return };
    let memory = Memory::new(OLD);
    let device = Device::begin(&memory);
    for access in [libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE] {
        // SAFETY: Pages of the memory.
        assert_eq!(unsafe { libc::mprotect(memory.0.cast(), LEN, access) }, 0);
    }
    assert_eq!(waits(device, || memory.byte(3 * PAGE)), NEW);
    has_come(&memory, 0..0);
}

#[test]
fn lent_memory_can_be_received_into_elsewhere() {
    let Some(_one) = ready() else { return };
    let (sent, received) = (Memory::new(0x33), Memory::new(OLD));
    let peer = Peer::hold(&sent);
    let device = Device::begin(&received);
    sent.write(0, 1);
    assert_eq!(waits(device, || received.byte(LEN - 1)), NEW);
    assert!(peer.read().iter().all(|byte| *byte == 0x33));
}

#[test]
fn a_mapping_is_for_one_of_the_two() {
    let Some(_one) = ready() else { return };
    let memory = Memory::new(0x33);
    let peer = Peer::hold(&memory);
    let refused = guard::protect(Kind::Received, memory.start(), LEN);
    assert_eq!(refused, Err(libc::EBUSY));
    memory.write(0, 1);
    assert!(peer.read().iter().all(|byte| *byte == 0x33));
}

/// SIGBUSes of the process, each at a page that is empty afterwards.
static BROKEN: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_bus(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    BROKEN.fetch_add(1, Ordering::AcqRel);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: The kernel says where; the page is a test's memory, and has no bytes.
    unsafe {
        let page = ((*info).si_addr().addr() & !(PAGE - 1)) as *mut libc::c_void;
        libc::mmap(page, PAGE, access, flags, -1, 0);
    }
}

/// The number of SIGBUSes that `f` leads to.
fn buses(f: impl FnOnce()) -> usize {
    // SAFETY: The handler touches nothing but the page.
    unsafe {
        let mut action = core::mem::zeroed::<libc::sigaction>();
        action.sa_sigaction = on_bus as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(
            libc::sigaction(libc::SIGBUS, &raw const action, core::ptr::null_mut()),
            0
        );
    }
    let before = BROKEN.load(Ordering::Acquire);
    f();
    BROKEN.load(Ordering::Acquire) - before
}

#[test]
fn bytes_that_never_come_end_in_a_sigbus() {
    let Some(_one) = ready() else { return };
    let memory = Memory::new(OLD);
    let device = Device::begin(&memory);
    // Three pages have come, and a part of the fourth.
    device.fail(3 * PAGE + 100);
    let came = buses(|| assert!((0..3 * PAGE).all(|at| memory.byte(at) == NEW)));
    assert_eq!(came, 0);
    assert_eq!(buses(|| assert_eq!(memory.byte(3 * PAGE), 0)), 1);
    assert_eq!(buses(|| memory.write(LEN - 1, 1)), 1);
    assert_eq!(memory.byte(LEN - 1), 1);
}

#[test]
fn a_thread_that_waits_already_gets_the_sigbus() {
    let Some(_one) = ready() else { return };
    let memory = Memory::new(OLD);
    let device = Device::begin(&memory);
    let seen = buses(|| {
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| memory.byte(7 * PAGE));
            std::thread::sleep(WHILE);
            assert!(!reader.is_finished(), "it waits");
            device.fail(0);
            assert_eq!(reader.join().expect("it ends"), 0);
        });
    });
    assert_eq!(seen, 1);
}

#[test]
fn calls_fail_at_bytes_that_never_come() {
    let Some(_one) = ready() else { return };
    let memory = Memory::new(OLD);
    let (_reader, writer) = std::os::unix::net::UnixStream::pair().expect("a pair");
    let device = Device::begin(&memory);
    device.fail(0);
    let seen = buses(|| {
        let at = memory.0.cast::<libc::c_void>();
        // SAFETY: Inside of the memory.
        let n = unsafe { libc::write(writer.as_raw_fd(), at, PAGE) };
        let error = std::io::Error::last_os_error().raw_os_error();
        assert_eq!((n, error), (-1, Some(libc::EFAULT)));
    });
    assert_eq!(seen, 0);
    assert_eq!(
        buses(|| assert_eq!(memory.byte(0), 0)),
        1,
        "a touch does not"
    );
}

#[test]
fn memory_that_was_thrown_away_can_be_used_after_a_failure() {
    let Some(_one) = ready() else { return };
    let memory = Memory::new(OLD);
    Device::begin(&memory).fail(0);
    // SAFETY: Pages of the memory.
    let dropped = unsafe { libc::madvise(memory.0.cast(), LEN, libc::MADV_DONTNEED) };
    assert_eq!(dropped, 0);
    assert_eq!(buses(|| memory.write(0, 1)), 0);
    let device = Device::begin(&memory);
    assert_eq!(waits(device, || memory.byte(PAGE)), NEW);
    assert_eq!(buses(|| has_come(&memory, 0..0)), 0);
}

#[test]
fn a_signal_is_handled_while_a_thread_waits() {
    static HANDLED: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn on_signal(_: libc::c_int) {
        HANDLED.fetch_add(1, Ordering::AcqRel);
    }
    let Some(_one) = ready() else { return };
    // SAFETY: The handler counts.
    unsafe { libc::signal(libc::SIGUSR2, on_signal as *const () as usize) };
    let memory = Memory::new(OLD);
    let device = Device::begin(&memory);
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            // SAFETY: It has no arguments.
            tell.send(unsafe { libc::pthread_self() })
                .expect("a listener");
            memory.byte(0)
        });
        let thread = told.recv().expect("the thread");
        std::thread::sleep(WHILE);
        // SAFETY: The thread waits for the memory.
        assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGUSR2) }, 0);
        std::thread::sleep(WHILE);
        assert_eq!(HANDLED.load(Ordering::Acquire), 1);
        assert!(!reader.is_finished(), "it still waits");
        device.end();
        assert_eq!(reader.join().expect("it ends"), NEW);
    });
}
