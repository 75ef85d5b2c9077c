// SPDX-License-Identifier: MIT
//! Mappings that change while bytes are in flight to them: at the end the bytes must be in the
//! current pages. On SDP the old pages are pinned by then, and the counters show which bytes were
//! copied.

use std::fs;
use std::ops::Range;
use std::ptr;
use std::slice;

use libc::{c_int, c_void, MAP_ANONYMOUS, MAP_FIXED, MAP_HUGETLB, MAP_PRIVATE, MAP_SHARED};

use super::zcopy::{anonymous, counted, forget, recv_into_changing, send_to_changing, server, MIB};
use crate::case::Case;
use crate::errno::checked_int;
use crate::pages::PAGE;
use crate::payload::bytes;
use crate::role::Role;

/// A mapping of a mebibyte, or of the huge page that holds it.
pub(super) struct Mapping {
    at: *mut u8,
    len: usize,
}

impl Mapping {
    const HUGE: usize = 2 * MIB;

    pub(super) fn new(flags: c_int, fd: c_int) -> Self {
        let len = if flags & MAP_HUGETLB == 0 { MIB } else { Self::HUGE };
        Mapping { at: map(ptr::null_mut(), len, flags, fd), len }
    }

    /// Maps the same addresses again.
    fn again(at: usize, flags: c_int) {
        let place = at as *mut c_void;
        assert!(map(place, Self::HUGE, flags | MAP_FIXED, -1) as usize == at, "mmap");
    }

    pub(super) fn place(&self) -> usize {
        self.at as usize
    }

    pub(super) fn room(&mut self) -> &mut [u8] {
        // SAFETY: the mapping has at least so many bytes, readable and writable.
        unsafe { slice::from_raw_parts_mut(self.at, MIB) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: a mapping of ours, which no code uses any more.
        unsafe { libc::munmap(self.at.cast(), self.len) };
    }
}

fn map(at: *mut c_void, len: usize, flags: c_int, fd: c_int) -> *mut u8 {
    // SAFETY: a new mapping, or one in the place of one of ours.
    let new = unsafe { libc::mmap(at, len, libc::PROT_READ | libc::PROT_WRITE, flags, fd, 0) };
    assert!(new != libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
    new.cast()
}

/// A file in memory, of a mebibyte.
pub(super) struct MemoryFile(pub(super) c_int);

impl MemoryFile {
    pub(super) fn new() -> Self {
        // SAFETY: the name is a string that ends.
        let fd = checked_int(unsafe { libc::memfd_create(c"room".as_ptr(), 0) });
        let file = MemoryFile(fd.expect("memfd_create"));
        file.write(&vec![7; MIB]);
        file
    }

    pub(super) fn write(&self, data: &[u8]) {
        // SAFETY: reads from the slice.
        let n = unsafe { libc::pwrite(self.0, data.as_ptr().cast(), data.len(), 0) };
        assert_eq!(n, data.len() as isize, "pwrite");
    }

    pub(super) fn content(&self) -> Vec<u8> {
        let mut data = vec![0; MIB];
        // SAFETY: writes to the vector.
        let n = unsafe { libc::pread(self.0, data.as_mut_ptr().cast(), MIB, 0) };
        assert_eq!(n, MIB as isize, "pread");
        data
    }

    /// Removes pages of the file; reading them gives zero.
    fn punch(&self, range: &Range<usize>) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: integers only.
        let punched = unsafe {
            libc::fallocate(self.0, mode, range.start as libc::off_t, range.len() as libc::off_t)
        };
        assert_eq!(punched, 0, "fallocate");
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        // SAFETY: ours, and not used any more.
        unsafe { libc::close(self.0) };
    }
}

/// Huge pages, while this exists.
pub(super) struct HugePages(String);

impl HugePages {
    const PATH: &str = "/proc/sys/vm/nr_hugepages";

    pub(super) fn new(t: &Role, count: usize) -> Self {
        let before = HugePages(fs::read_to_string(Self::PATH).expect("nr_hugepages"));
        // The kernel has to free memory for them, and may need several tries.
        let there = t.until(|| {
            fs::write(Self::PATH, count.to_string()).expect("nr_hugepages");
            fs::read_to_string(Self::PATH).expect("nr_hugepages").trim() == count.to_string()
        });
        assert!(there, "{count} huge pages");
        before
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        fs::write(Self::PATH, &self.0).expect("nr_hugepages");
    }
}

/// Merging of equal pages at the maximum rate, while this exists.
struct Merging;

impl Merging {
    fn set(name: &str, value: &str) {
        fs::write(format!("/sys/kernel/mm/ksm/{name}"), value).expect(name);
    }

    fn scans() -> u64 {
        let text = fs::read_to_string("/sys/kernel/mm/ksm/full_scans").expect("full_scans");
        text.trim().parse().expect("a number")
    }

    fn start() -> Self {
        Self::set("pages_to_scan", "10000");
        Self::set("sleep_millisecs", "1");
        Self::set("run", "1");
        Merging
    }
}

impl Drop for Merging {
    fn drop(&mut self) {
        // Stops merging and separates the merged pages.
        Self::set("run", "2");
        Self::set("run", "0");
        Self::set("pages_to_scan", "100");
        Self::set("sleep_millisecs", "20");
    }
}

/// Has the kernel move pages; pages of this memory as well if they are movable.
fn compact() {
    let scanned = || {
        let text = fs::read_to_string("/proc/vmstat").expect("vmstat");
        let line = text.lines().find_map(|line| line.strip_prefix("compact_migrate_scanned "));
        line.expect("a counter of compaction").parse::<u64>().expect("a number")
    };
    let before = scanned();
    fs::write("/proc/sys/vm/compact_memory", "1").expect("compact_memory");
    assert!(scanned() > before, "nothing was looked at");
}

/// Moves mapped pages to `to`, replacing the mapping there.
pub(super) fn relocate(from: usize, len: usize, to: usize) {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: both are mappings of ours.
    let new = unsafe { libc::mremap(from as *mut c_void, len, len, flags, to as *mut c_void) };
    assert!(new as usize == to, "mremap");
}

/// The program's own handler of page faults (`linux/userfaultfd.h`).
struct Faults(c_int);

#[repr(C)]
struct Api {
    version: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
struct Register {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct Filling {
    dst: u64,
    src: u64,
    len: u64,
    mode: u64,
    filled: i64,
}

#[repr(C)]
#[derive(Default)]
struct Message {
    event: u8,
    reserved: [u8; 7],
    flags: u64,
    address: u64,
    ptid: u64,
}

const UFFD_API: u64 = 0xaa;
const UFFDIO_API: libc::Ioctl = 0xc018_aa3f;
const UFFDIO_REGISTER: libc::Ioctl = 0xc020_aa00;
const UFFDIO_COPY: libc::Ioctl = 0xc028_aa03;
const REGISTER_MODE_MISSING: u64 = 1;
const EVENT_PAGEFAULT: u8 = 0x12;

impl Faults {
    /// Handles faults of missing pages in `len` bytes at `at`.
    fn of(at: usize, len: usize) -> Self {
        // SAFETY: a system call with an integer.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) };
        assert!(fd >= 0, "userfaultfd: {}", std::io::Error::last_os_error());
        let faults = Faults(c_int::try_from(fd).expect("a descriptor"));
        faults.tell(UFFDIO_API, &mut Api { version: UFFD_API, features: 0, ioctls: 0 });
        let (start, len) = (at as u64, len as u64);
        let mut range = Register { start, len, mode: REGISTER_MODE_MISSING, ioctls: 0 };
        faults.tell(UFFDIO_REGISTER, &mut range);
        faults
    }

    fn tell<T>(&self, request: libc::Ioctl, what: &mut T) {
        // SAFETY: the request's own struct.
        let done = unsafe { libc::ioctl(self.0, request, &raw mut *what) };
        assert!(done == 0, "userfaultfd: {}", std::io::Error::last_os_error());
    }

    /// Waits for a fault and fills the page with ones.
    fn serve(&self) {
        let mut message = Message::default();
        let len = size_of::<Message>();
        // SAFETY: writes to the message.
        let n = unsafe { libc::read(self.0, (&raw mut message).cast(), len) };
        assert_eq!((n, message.event), (len as isize, EVENT_PAGEFAULT), "a fault");
        let ones = [1_u8; PAGE];
        let dst = message.address & !(PAGE as u64 - 1);
        let (src, len) = (ones.as_ptr() as u64, PAGE as u64);
        self.tell(UFFDIO_COPY, &mut Filling { dst, src, len, mode: 0, filled: 0 });
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        // SAFETY: ours, and not used any more.
        unsafe { libc::close(self.0) };
    }
}

/// Receives while `change` changes the memory; `changed` bytes of it are in other pages afterwards.
fn recv_changed(t: &Role, room: &mut [u8], changed: usize, change: impl FnOnce() + Send) {
    let s = server(t);
    room.fill(1);
    counted(
        t,
        || recv_into_changing(t, &s, room, change),
        |of| assert_eq!(of("changed_bytes"), changed as i64),
    );
    t.meet("end");
}

pub const CASES: &[Case] = &[
    Case::two(
        "remapped_huge_pages_are_replaced",
        |t| {
            let _pages = HugePages::new(t, 2);
            let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB;
            let mut memory = Mapping::new(flags, -1);
            let at = memory.place();
            recv_changed(t, memory.room(), MIB, move || Mapping::again(at, flags));
        },
        send_to_changing,
    )
    .late_packets(),
    Case::two(
        "remapped_huge_pages_stay",
        |t| {
            let _pages = HugePages::new(t, 1);
            let mut memory = Mapping::new(MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
            recv_changed(t, memory.room(), 0, || {});
        },
        send_to_changing,
    )
    .late_packets(),
    Case::two(
        "remapped_file_loses_its_pages",
        |t| {
            let file = MemoryFile::new();
            let mut memory = Mapping::new(MAP_SHARED, file.0);
            let hole = 5 * PAGE..20 * PAGE;
            recv_changed(t, memory.room(), hole.len(), || file.punch(&hole));
            t.holds("the bytes are in the file", file.content() == bytes(6, MIB));
        },
        send_to_changing,
    )
    .late_packets(),
    Case::two(
        "remapped_file_is_shared",
        |t| {
            let file = MemoryFile::new();
            let mut memory = Mapping::new(MAP_SHARED, file.0);
            recv_changed(t, memory.room(), 0, || file.write(&[3; PAGE]));
            t.holds("the bytes are in the file", file.content() == bytes(6, MIB));
        },
        send_to_changing,
    )
    .late_packets(),
    Case::two(
        "remapped_private_pages_of_a_file_are_given_back",
        |t| {
            let file = MemoryFile::new();
            let mut memory = Mapping::new(MAP_PRIVATE, file.0);
            let at = memory.place();
            recv_changed(t, memory.room(), 12 * PAGE, || forget(at + PAGE, 12 * PAGE));
            t.holds("the file is as it was", file.content() == vec![7; MIB]);
        },
        send_to_changing,
    )
    .late_packets(),
    Case::two(
        "remapped_pages_are_moved_away",
        |t| {
            let mut memory = Mapping::new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
            let elsewhere = Mapping::new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
            let (at, to) = (memory.place() + 9 * PAGE, elsewhere.place());
            recv_changed(t, memory.room(), 8 * PAGE, || {
                relocate(at, 8 * PAGE, to);
                anonymous(at, 8 * PAGE);
            });
        },
        send_to_changing,
    )
    .late_packets(),
    Case::two(
        "remapped_pages_change_their_places",
        |t| {
            let mut memory = Mapping::new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
            let elsewhere = Mapping::new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
            let (at, aside) = (memory.place(), elsewhere.place());
            // Bytes copied to the first half would otherwise overwrite the second's.
            let half = MIB / 2;
            recv_changed(t, memory.room(), MIB, || {
                relocate(at, half, aside);
                relocate(at + half, half, at);
                relocate(aside, half, at + half);
            });
        },
        send_to_changing,
    )
    .late_packets(),
    Case::two(
        "remapped_pages_are_the_programs_own_faults",
        |t| {
            let mut memory = Mapping::new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
            let at = memory.place() + 30 * PAGE;
            let faults = Faults::of(at, 4 * PAGE);
            let served = std::thread::scope(|scope| {
                // The faults of `fill` and of the returned pages.
                let handler = scope.spawn(|| (0..8).map(|_| faults.serve()).count());
                recv_changed(t, memory.room(), 4 * PAGE, || forget(at, 4 * PAGE));
                handler.join().expect("the handler")
            });
            t.eq("faults", served, 8);
        },
        send_to_changing,
    )
    .late_packets(),
    Case::two(
        "remapped_pages_could_be_migrated",
        |t| {
            let mut memory = Mapping::new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
            recv_changed(t, memory.room(), 0, compact);
        },
        send_to_changing,
    )
    .late_packets(),
    Case::two(
        "remapped_pages_could_be_merged",
        |t| {
            let mut memory = Mapping::new(MAP_PRIVATE | MAP_ANONYMOUS, -1);
            let at = memory.place() as *mut c_void;
            // SAFETY: advice on a mapping of ours.
            assert_eq!(unsafe { libc::madvise(at, MIB, libc::MADV_MERGEABLE) }, 0, "madvise");
            recv_changed(t, memory.room(), 0, || {
                let _merging = Merging::start();
                let before = Merging::scans();
                assert!(t.until(|| Merging::scans() >= before + 2), "scanned twice");
            });
        },
        send_to_changing,
    )
    .late_packets(),
];
