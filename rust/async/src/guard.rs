// SPDX-License-Identifier: MIT

//! Protection by userfaultfd(2): against writing, or against reading as well.
//!
//! A mapping is registered for one of the two: for the one that is needed first.
//!
//! EAGAIN is the answer while another thread moves memory by mremap(), until the handler has read of
//! it. So nobody here tries again: the handler reads first, and the others go on without lending.

use crate::ledger::Kind;
use crate::rights::{self, ioctl, Descriptors, Vma};
use core::ops::Range;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use libc::{c_int, c_ulong, c_void};

pub(crate) const PAGE: usize = 4096;

const UFFDIO_REGISTER: c_ulong = 0xc020_aa00;
const UFFDIO_WAKE: c_ulong = 0x8010_aa02;
const UFFDIO_WRITEPROTECT: c_ulong = 0xc018_aa06;
const UFFDIO_RWPROTECT: c_ulong = 0xc018_aa09;

const REGISTER_WP: u64 = 1 << 1;
const REGISTER_RWP: u64 = 1 << 3;
/// Of both requests.
const PROTECT: u64 = 1;

const FAULT_FLAG_RWP: u64 = 1 << 3;

impl Kind {
    const fn request(self) -> c_ulong {
        match self {
            Self::Sent => UFFDIO_WRITEPROTECT,
            Self::Received => UFFDIO_RWPROTECT,
        }
    }

    const fn mode(self) -> u64 {
        match self {
            Self::Sent => REGISTER_WP,
            Self::Received => REGISTER_RWP,
        }
    }
}

static UFFD: AtomicI32 = AtomicI32::new(-1);
static MAPS: AtomicI32 = AtomicI32::new(-1);
static MEMORY: AtomicI32 = AtomicI32::new(-1);
/// A file without bytes, of the handler thread.
static EMPTY: AtomicI32 = AtomicI32::new(-1);
/// Memory of [`SCRATCH_LEN`] bytes in which the handler thread makes copies. A program may map memory
/// where it knows that there is none, for example where it has moved some away, so nothing is mapped for
/// a copy. A socket lends no more bytes at a time.
static SCRATCH: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
pub(crate) const SCRATCH_LEN: usize = 4 << 20;
/// An address in the stack of the process's first thread, which grows.
static STACK: AtomicUsize = AtomicUsize::new(0);

#[repr(C)]
struct Span {
    start: u64,
    len: u64,
}

#[repr(C)]
struct Register {
    range: Span,
    mode: u64,
    ioctls: u64,
}

/// Of both requests.
#[repr(C)]
struct Protect {
    range: Span,
    mode: u64,
}

/// One message of the userfaultfd.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Message {
    event: u8,
    reserved: [u8; 7],
    words: [u64; 3],
}

/// What it says.
pub(crate) enum News {
    /// A thread waits for this page.
    Fault(usize, Kind),
    /// `len` bytes have moved.
    Moved {
        from: usize,
        to: usize,
        len: usize,
    },
    Other,
}

#[expect(clippy::cast_possible_truncation, reason = "addresses have 64 bits")]
impl Message {
    fn news(&self) -> News {
        let [first, second, third] = self.words;
        match self.event {
            0x12 => {
                let hidden = first & FAULT_FLAG_RWP != 0;
                let kind = if hidden { Kind::Received } else { Kind::Sent };
                News::Fault(second as usize & !(PAGE - 1), kind)
            }
            0x14 => News::Moved {
                from: first as usize,
                to: second as usize,
                len: third as usize,
            },
            _ => News::Other,
        }
    }
}

fn span(start: usize, len: usize) -> Span {
    Span {
        start: start as u64,
        len: len as u64,
    }
}

fn uffd() -> c_int {
    UFFD.load(Ordering::Acquire)
}

/// Opens the descriptors; the reason if something is missing. Whether memory can be protected against
/// reading as well.
pub(crate) fn open() -> Result<bool, rights::Missing> {
    let opened = rights::open()?;
    // SAFETY: It takes a number.
    let name = unsafe { libc::getauxval(libc::AT_EXECFN) };
    STACK.store(usize::try_from(name).unwrap_or(0), Ordering::Relaxed);
    MEMORY.store(opened.memory, Ordering::Release);
    MAPS.store(opened.maps, Ordering::Release);
    UFFD.store(opened.uffd, Ordering::Release);
    Ok(opened.hides)
}

/// Closes them: in a child, where they are about the parent's memory.
pub(crate) fn close() {
    descriptors().close();
    for slot in [&UFFD, &MAPS, &MEMORY] {
        slot.store(-1, Ordering::Release);
    }
}

pub(crate) fn descriptors() -> Descriptors {
    Descriptors {
        uffd: uffd(),
        maps: MAPS.load(Ordering::Acquire),
        memory: MEMORY.load(Ordering::Acquire),
        hides: false,
    }
}

/// The mappings of a range, from the first to the last; `None` for a hole.
struct Mappings {
    at: usize,
    end: usize,
}

impl Iterator for Mappings {
    type Item = Option<Vma>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.end {
            return None;
        }
        let found = rights::vma(MAPS.load(Ordering::Acquire), self.at);
        self.at = found.map_or(self.end, |vma| vma.end);
        Some(found)
    }
}

fn mappings(start: usize, len: usize) -> Mappings {
    Mappings {
        at: start,
        end: start.saturating_add(len),
    }
}

fn range(vma: Vma) -> Range<usize> {
    vma.start..vma.end
}

/// Whether all of the range is private memory without a file.
fn is_plain(start: usize, len: usize) -> bool {
    mappings(start, len).all(|vma| vma.is_some_and(|vma| vma.plain))
}

/// Whether a range may be lent: it is plain, and neither in the stack of this thread nor in the one
/// that grows.
pub(crate) fn may_be_lent(start: usize, len: usize) -> bool {
    let here = core::ptr::from_ref(&start).addr();
    let stack = STACK.load(Ordering::Relaxed);
    mappings(start, len).all(|vma| {
        vma.is_some_and(|vma| {
            vma.plain && !range(vma).contains(&here) && !range(vma).contains(&stack)
        })
    })
}

/// Registers all mappings that the range lies in.
fn register(kind: Kind, start: usize, len: usize) -> Result<(), c_int> {
    for vma in mappings(start, len) {
        let vma = vma.filter(|vma| vma.plain).ok_or(libc::EINVAL)?;
        let mut register = Register {
            range: span(vma.start, vma.end.saturating_sub(vma.start)),
            mode: kind.mode(),
            ioctls: 0,
        };
        ioctl(uffd(), UFFDIO_REGISTER, &mut register)?;
    }
    Ok(())
}

fn set(kind: Kind, start: usize, len: usize, mode: u64) -> Result<(), c_int> {
    let mut request = Protect {
        range: span(start, len),
        mode,
    };
    ioctl(uffd(), kind.request(), &mut request)
}

/// Protects a range, in memory that is registered if it can be. After an error part of it may be
/// protected.
pub(crate) fn protect(kind: Kind, start: usize, len: usize) -> Result<(), c_int> {
    match set(kind, start, len, PROTECT) {
        Err(libc::ENOENT) => {
            register(kind, start, len)?;
            set(kind, start, len, PROTECT)
        }
        result => result,
    }
}

/// Ends the protection of a range, and wakes those that wait for it. Where part of the range is gone
/// or was exchanged, the rest is released. An error: nothing has changed.
pub(crate) fn release(kind: Kind, start: usize, len: usize) -> Result<(), c_int> {
    match set(kind, start, len, 0) {
        Err(libc::ENOENT) => {}
        result => return result,
    }
    for at in (start..start.saturating_add(len)).step_by(PAGE) {
        match set(kind, at, PAGE, 0) {
            Ok(()) | Err(libc::ENOENT) => {}
            error => return error,
        }
    }
    wake(start, len);
    Ok(())
}

/// Wakes those that wait for a range; they try again.
pub(crate) fn wake(start: usize, len: usize) {
    let mut range = span(start, len);
    let _ = ioctl(uffd(), UFFDIO_WAKE, &mut range);
}

/// Copies the program's memory. Another thread may unmap it at any time, so the kernel does it.
fn copy(to: *mut c_void, from: usize, len: usize) -> bool {
    let Ok(at) = libc::off_t::try_from(from) else {
        return false;
    };
    // SAFETY: The target is the caller's, and has so many bytes.
    let n = unsafe { libc::pread(MEMORY.load(Ordering::Acquire), to, len, at) };
    usize::try_from(n) == Ok(len)
}

/// Maps the memory for copies; `false` if that is impossible.
pub(crate) fn make_scratch() -> bool {
    // A page on each side that nothing may use. Without these it could become one mapping with memory of
    // the program, and be registered with that; a move of registered memory waits for this handler.
    let whole = SCRATCH_LEN.saturating_add(2 * PAGE);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: New memory.
    let around = unsafe { libc::mmap(core::ptr::null_mut(), whole, libc::PROT_NONE, flags, -1, 0) };
    if around == libc::MAP_FAILED {
        return false;
    }
    let at = around.wrapping_byte_add(PAGE);
    SCRATCH.store(at, Ordering::Release);
    // SAFETY: A part of the memory just mapped.
    unsafe { libc::mprotect(at, SCRATCH_LEN, libc::PROT_READ | libc::PROT_WRITE) == 0 }
}

/// Exchanges the pages of a protected range for copies, all at once. Whoever has pinned the old pages
/// keeps them, with the bytes of this moment. After an error the range is as it was, or protected. For the
/// handler thread.
pub(crate) fn flip(start: usize, len: usize) -> Result<(), c_int> {
    if len > SCRATCH_LEN {
        return Err(libc::E2BIG);
    }
    if !is_plain(start, len) {
        return Err(libc::EINVAL);
    }
    let old = core::ptr::without_provenance_mut::<c_void>(start);
    // Pages may have been dropped since, and written again, by a thread that knows of no loan. Only pages
    // that are there can be protected.
    // SAFETY: It changes nothing that the program can see.
    unsafe { libc::madvise(old, len, libc::MADV_POPULATE_READ) };
    set(Kind::Sent, start, len, PROTECT)?;
    let place = SCRATCH.load(Ordering::Acquire);
    // The pages move, and the mapping of the scratch memory stays.
    let moves = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
    let done = copy(place, start, len)
        // Another thread may have unmapped some of it meanwhile.
        && is_plain(start, len)
        // SAFETY: The range is the program's memory, and no thread can write to it, because it is
        // protected. The copy has the same bytes, so the exchange, which is atomic for other
        // threads, changes nothing that they can see.
        && unsafe { libc::mremap(place, len, len, moves, old) } != libc::MAP_FAILED;
    if done {
        wake(start, len);
        Ok(())
    } else {
        // SAFETY: The scratch memory, which nobody else uses.
        unsafe { libc::madvise(place, len, libc::MADV_DONTNEED) };
        Err(libc::EFAULT)
    }
}

/// Makes the file that [`bury`] needs; `false` if that is impossible. For the handler thread, whose
/// descriptors nobody else closes.
pub(crate) fn make_grave() -> bool {
    // SAFETY: The name is a string that ends.
    let fd = unsafe { libc::memfd_create(c"sdp_async".as_ptr(), libc::MFD_CLOEXEC) };
    EMPTY.store(fd, Ordering::Release);
    fd >= 0
}

/// Exchanges a protected page for one behind the end of a file: who touches it, now or later, gets a
/// SIGBUS, and a system call EFAULT. UFFDIO_POISON would need a moment in which the page is
/// missing, so other threads would find zeroes, and the kernel would log a fault of the hardware.
/// After an error the page is still protected.
pub(crate) fn bury(page: usize) -> Result<(), c_int> {
    if is_plain(page, PAGE) {
        let at = core::ptr::without_provenance_mut::<c_void>(page);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
        let file = EMPTY.load(Ordering::Acquire);
        // SAFETY: The page is the program's memory, and a thread that needs its bytes waits. They will
        // never come, so nothing is lost. The exchange is atomic for other threads.
        if unsafe { libc::mmap(at, PAGE, access, flags, file, 0) } == libc::MAP_FAILED {
            return Err(rights::errno());
        }
    }
    wake(page, PAGE);
    Ok(())
}

/// Reads one message; `None` if there is none now.
pub(crate) fn read() -> Option<News> {
    let mut message = Message::default();
    let size = size_of::<Message>();
    let at = core::ptr::from_mut(&mut message).cast();
    // SAFETY: The message has so many bytes, any of which are valid.
    let n = unsafe { libc::read(uffd(), at, size) };
    (usize::try_from(n) == Ok(size)).then(|| message.news())
}
