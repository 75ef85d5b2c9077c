// SPDX-License-Identifier: MIT

//! Protection by userfaultfd(2): against writing, or against reading as well.
//!
//! A mapping is registered for one of the two: for the one that is needed first.
//!
//! EAGAIN is the answer while another thread moves memory by mremap(), until the handler has read of
//! it. So no caller here tries again: the handler reads first, and the others go on without lending.

use crate::ledger::Kind;
use crate::rights::{self, ioctl, Descriptors, Vma};
use core::ops::Range;
use core::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use libc::{c_int, c_ulong, c_void};

pub(crate) use rights::PAGE;

const UFFDIO_REGISTER: c_ulong = 0xc020_aa00;
const UFFDIO_UNREGISTER: c_ulong = 0x8010_aa01;
const UFFDIO_WAKE: c_ulong = 0x8010_aa02;
const UFFDIO_WRITEPROTECT: c_ulong = 0xc018_aa06;
const UFFDIO_RWPROTECT: c_ulong = 0xc018_aa09;

const REGISTER_MISSING: u64 = 1;
const REGISTER_WP: u64 = 1 << 1;
const REGISTER_RWP: u64 = 1 << 3;
/// Of both requests.
const PROTECT: u64 = 1;

const FAULT_FLAG_WP: u64 = 1 << 1;
const FAULT_FLAG_RWP: u64 = 1 << 3;

/// Of a page's word in the list of pages: it is protected.
const PAGE_IS_PROTECTED: u64 = 1 << 57;

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
static PAGES: AtomicI32 = AtomicI32::new(-1);
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

/// The content of a message.
pub(crate) enum News {
    /// A thread waits for this page.
    Fault(usize, Kind),
    /// A thread waits for this page, which is not there.
    Missing(usize),
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
                let page = second as usize & !(PAGE - 1);
                if first & FAULT_FLAG_RWP != 0 {
                    News::Fault(page, Kind::Received)
                } else if first & FAULT_FLAG_WP != 0 {
                    News::Fault(page, Kind::Sent)
                } else {
                    News::Missing(page)
                }
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
    for (known, fd) in FILES.iter().zip(opened.all()) {
        known.store(file_of(fd).unwrap_or(0), Ordering::Release);
    }
    PAGES.store(opened.pages, Ordering::Release);
    MEMORY.store(opened.memory, Ordering::Release);
    MAPS.store(opened.maps, Ordering::Release);
    UFFD.store(opened.uffd, Ordering::Release);
    Ok(opened.hides)
}

/// The files of the descriptors. The program may have closed all descriptors that it does not know, and
/// have others of these numbers.
static FILES: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// The identity of a descriptor: the number of its inode. Each userfaultfd has one of its own.
fn file_of(fd: c_int) -> Option<u64> {
    let mut found = core::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: There is room for the answer, and zeroes are one.
    let found = unsafe { (libc::fstat(fd, found.as_mut_ptr()) == 0).then(|| found.assume_init()) };
    found.map(|found| found.st_dev.rotate_left(32) ^ found.st_ino)
}

/// Closes them: in a child, where they are about the parent's memory.
pub(crate) fn close() {
    for (known, fd) in FILES.iter().zip(descriptors().all()) {
        if file_of(fd) == Some(known.load(Ordering::Acquire)) {
            // SAFETY: The descriptor is this library's.
            unsafe { libc::close(fd) };
        }
    }
    for slot in [&UFFD, &MAPS, &MEMORY, &PAGES] {
        slot.store(-1, Ordering::Release);
    }
}

pub(crate) fn descriptors() -> Descriptors {
    Descriptors {
        uffd: uffd(),
        maps: MAPS.load(Ordering::Acquire),
        memory: MEMORY.load(Ordering::Acquire),
        pages: PAGES.load(Ordering::Acquire),
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
pub(crate) fn is_plain(start: usize, len: usize) -> bool {
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

/// A request with a struct to the userfaultfd.
pub(crate) fn request<T>(number: c_ulong, argument: &mut T) -> Result<(), c_int> {
    ioctl(uffd(), number, argument)
}

fn set_mode(range: Span, mode: u64) -> Result<(), c_int> {
    let mut register = Register {
        range,
        mode,
        ioctls: 0,
    };
    request(UFFDIO_REGISTER, &mut register)
}

/// Has threads wait for this page also when it is missing. This holds for its mapping, which stays one: a program
/// cannot move memory of several mappings by one mremap().
pub(crate) fn register_missing(kind: Kind, page: usize) -> Result<(), c_int> {
    let vma = mapping(page).ok_or(libc::EINVAL)?;
    let len = vma.end.saturating_sub(vma.start);
    set_mode(span(vma.start, len), kind.mode() | REGISTER_MISSING)
}

/// The mapping that a page is in.
pub(crate) fn mapping(page: usize) -> Option<Range<usize>> {
    rights::vma(MAPS.load(Ordering::Acquire), page).map(range)
}

/// Leaves a mapping alone, and wakes those that wait for a page of it.
pub(crate) fn unregister(mapping: &Range<usize>) -> Result<(), c_int> {
    request(UFFDIO_UNREGISTER, &mut span(mapping.start, mapping.len()))
}

/// Reads the entry of a page in `/proc/self/pagemap`; 0 if that fails.
fn word(page: usize) -> u64 {
    let mut word = [0u8; 8];
    let at = libc::off_t::try_from(page / PAGE * word.len()).unwrap_or(0);
    let (to, fd) = (word.as_mut_ptr().cast(), PAGES.load(Ordering::Acquire));
    // SAFETY: There is room for a word.
    unsafe { libc::pread(fd, to, word.len(), at) };
    u64::from_ne_bytes(word)
}

/// Whether a page is protected, against writing or against both.
pub(crate) fn is_protected(page: usize) -> bool {
    word(page) & PAGE_IS_PROTECTED != 0
}

/// Registers all mappings that the range lies in.
fn register(kind: Kind, start: usize, len: usize) -> Result<(), c_int> {
    for vma in mappings(start, len) {
        let vma = vma.filter(|vma| vma.plain).ok_or(libc::EINVAL)?;
        set_mode(
            span(vma.start, vma.end.saturating_sub(vma.start)),
            kind.mode(),
        )?;
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
pub(crate) fn copy(to: *mut c_void, from: usize, len: usize) -> bool {
    let Ok(at) = libc::off_t::try_from(from) else {
        return false;
    };
    // SAFETY: The target is the caller's, and has so many bytes.
    let n = unsafe { libc::pread(MEMORY.load(Ordering::Acquire), to, len, at) };
    usize::try_from(n) == Ok(len)
}

/// Reads one message; `None` if there is none now.
pub(crate) fn read() -> Option<News> {
    let mut message = Message::default();
    let size = size_of::<Message>();
    let at = core::ptr::from_mut(&mut message).cast();
    // SAFETY: The message has so many bytes, and any bytes are valid.
    let n = unsafe { libc::read(uffd(), at, size) };
    (usize::try_from(n) == Ok(size)).then(|| message.news())
}
