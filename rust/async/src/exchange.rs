// SPDX-License-Identifier: MIT

//! The exchange of a page in flight for a copy, and the end of a page that lost its bytes. For the
//! handler thread, which has the ledger's lock.
//!
//! Only a page that a thread waits for is exchanged, directly after the kernel has said so. Other pages of
//! the range may have been freed, and have other owners by now, who drop them and use them again at any time.
//!
//! The mapping stays what it is: its rights, its keys, its locks, its advice and its seal. So its page is
//! dropped, and the copy put there. Threads that touch it meanwhile wait, because the mapping is
//! registered for missing pages as well, until nothing of it is in flight any more. The owner of a pin keeps the old page. No address
//! space is needed, so no limit of memory stops the exchange half-way.

use crate::guard::{self, News};
use crate::ledger::{touch_stack, Kind, Ledger};
use crate::rights::{self, PAGE};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use libc::{c_int, c_ulong, c_void};

const UFFDIO_COPY: c_ulong = 0xc028_aa03;
const UFFDIO_ZEROPAGE: c_ulong = 0xc020_aa04;
const UFFDIO_POISON: c_ulong = 0xc020_aa08;

/// Waits before the next try, for example to find memory for a copy.
pub(crate) fn rest() {
    // SAFETY: It takes a number.
    unsafe { libc::usleep(1000) };
}

/// This thread may write to memory with any protection key. Otherwise the kernel would not let it drop pages
/// of memory that is sealed and has a key. It looks at the program's memory through the kernel alone.
pub(crate) fn use_all_keys() {
    #[cfg(target_arch = "x86_64")]
    {
        const OSPKE: u32 = 1 << 4;
        // SAFETY: Each processor of this architecture has the instruction.
        let found = unsafe { core::arch::x86_64::__cpuid_count(7, 0) };
        if found.ecx & OSPKE != 0 {
            // SAFETY: The system uses protection keys. More rights take nothing from this thread.
            unsafe {
                core::arch::asm!("wrpkru", in("eax") 0, in("ecx") 0, in("edx") 0,
                    options(nomem, nostack, preserves_flags));
            };
        }
    }
}

/// `struct uffdio_copy`
#[repr(C)]
struct Copy {
    to: u64,
    from: u64,
    len: u64,
    mode: u64,
    copied: i64,
}

/// `struct uffdio_zeropage` and `struct uffdio_poison`
#[repr(C)]
struct Fill {
    start: u64,
    len: u64,
    mode: u64,
    filled: i64,
}

/// Room for the copy of a page. It is this library's own, so it is never lent.
#[repr(C, align(4096))]
struct Room(UnsafeCell<[u8; PAGE]>);

// SAFETY: The holder of the ledger's lock alone uses it.
unsafe impl Sync for Room {}

static ROOM: Room = Room(UnsafeCell::new([0; PAGE]));

/// The page that may be missing now; 0 for none. Its bytes are in the room.
static HOLE: AtomicUsize = AtomicUsize::new(0);

/// In a child: puts the copy where its parent was about to put it. The copies of the page, of the room and of this note
/// belong together, because a thread that changes memory which fork() has copied waits for its end.
pub(crate) fn mend_child() {
    let page = HOLE.swap(0, Ordering::SeqCst);
    let at = core::ptr::without_provenance_mut::<u8>(page);
    let mut there = 1u8;
    // SAFETY: It reads no memory, and there is room for the answer.
    let known = page != 0 && unsafe { libc::mincore(at.cast(), PAGE, &raw mut there) } == 0;
    if known && there & 1 == 0 {
        // SAFETY: The page is mapped, and was protected against writing by this library alone. The child has
        // one thread.
        unsafe { core::ptr::copy_nonoverlapping(ROOM.0.get().cast::<u8>(), at, PAGE) };
    }
}

/// A file without bytes, of the handler thread.
static EMPTY: AtomicI32 = AtomicI32::new(-1);

/// Exchanges a page that a thread waits for, if it is protected, and wakes the thread. After an error
/// the page is as it was, and the thread waits.
pub(crate) fn exchange(ledger: &mut Ledger, page: usize) -> Result<(), c_int> {
    if guard::is_protected(page) {
        guard::register_missing(Kind::Sent, page)?;
        // Another thread may have dropped the page. Then a new one there is its own.
        if !guard::copy(ROOM.0.get().cast(), page, PAGE) || !guard::is_protected(page) {
            guard::wake(page, PAGE);
            return Ok(());
        }
        HOLE.store(page, Ordering::SeqCst);
        let filled = drop_page(page).map(|()| {
            #[cfg(test)]
            note_and_pause();
            fill(ledger, page);
        });
        HOLE.store(0, Ordering::SeqCst);
        filled?;
    }
    guard::wake(page, PAGE);
    Ok(())
}

/// Time for which the tests leave a page missing, in us.
#[cfg(test)]
pub(crate) static PAUSE_US: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

/// Pages that were exchanged in this process.
#[cfg(test)]
pub(crate) static EXCHANGES: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

#[cfg(test)]
fn note_and_pause() {
    EXCHANGES.fetch_add(1, Ordering::Relaxed);
    // SAFETY: It takes a number.
    unsafe { libc::usleep(PAUSE_US.load(Ordering::Relaxed)) };
}

fn drop_page(page: usize) -> Result<(), c_int> {
    let at = core::ptr::without_provenance_mut::<c_void>(page);
    // SAFETY: The bytes of the page are kept by the caller, or will never come, and a thread that touches
    // it waits.
    if unsafe { libc::madvise(at, PAGE, libc::MADV_DONTNEED_LOCKED) } == 0 {
        Ok(())
    } else {
        Err(rights::errno())
    }
}

/// Puts the copy where the page was, or where the program has moved it meanwhile. The copy is the only one,
/// so this does not end before it is there, or the program has thrown the page away.
fn fill(ledger: &mut Ledger, mut page: usize) {
    loop {
        let mut copy = Copy {
            to: page as u64,
            from: ROOM.0.get().addr() as u64,
            len: PAGE as u64,
            mode: 0,
            copied: 0,
        };
        match guard::request(UFFDIO_COPY, &mut copy) {
            // The last ones: its mapping is gone, or another page is there.
            Ok(()) | Err(libc::ENOENT | libc::EEXIST | libc::EINVAL | libc::ESRCH) => return,
            Err(libc::EAGAIN) => match follow(ledger, page) {
                Some(place) => {
                    page = place;
                    HOLE.store(page, Ordering::SeqCst);
                }
                None => return,
            },
            // There is no memory now.
            Err(_) => rest(),
        }
    }
}

/// Memory is being moved. Returns where the page is afterwards; `None` if something else was moved there.
fn follow(ledger: &mut Ledger, mut page: usize) -> Option<usize> {
    while let Some(news) = guard::read() {
        match news {
            News::Moved { from, to, len } => {
                ledger.on_moved(from, to, len);
                guard::wake(from, len);
                if page.wrapping_sub(from) < len {
                    page = page.wrapping_sub(from).wrapping_add(to);
                } else if page.wrapping_sub(to) < len {
                    return None;
                }
            }
            // It is reported again.
            News::Fault(other, _) | News::Missing(other) => guard::wake(other, PAGE),
            News::Other => {}
        }
    }
    // SAFETY: It has no arguments.
    unsafe { libc::sched_yield() };
    Some(page)
}

/// Bytes that are filled with empty pages at a time.
const EMPTY_LEN: usize = 64 * PAGE;

/// A thread waits for a page that is missing, and that no exchange is about: it becomes an empty one, as
/// everywhere. If nothing of its mapping is in flight any more, the mapping is left alone from then on.
/// `false` if memory is being moved, which the ledger may not know yet: later.
pub(crate) fn is_emptied(ledger: &mut Ledger, page: usize) -> bool {
    let mapping = guard::mapping(page).unwrap_or(page..page);
    // Those behind it are probably touched next. Empty pages take no memory.
    let len = mapping.end.saturating_sub(page).clamp(PAGE, EMPTY_LEN);
    let mut fill = Fill {
        start: page as u64,
        len: len as u64,
        mode: 0,
        filled: 0,
    };
    match guard::request(UFFDIO_ZEROPAGE, &mut fill) {
        // The first one was filled, and there is one behind it.
        Err(libc::EAGAIN) if fill.filled > 0 => {}
        Err(libc::EAGAIN | libc::ENOMEM) => return false,
        _ => {}
    }
    let idle = !ledger.has_lost() && !ledger.has_open_in(&mapping);
    if idle && guard::unregister(&mapping).is_ok() {
        // The kernel has woken those that waited before. Others may have begun to wait meanwhile, and are
        // reported when the mapping is not registered any more.
        guard::wake(mapping.start, mapping.len());
    }
    guard::wake(page, PAGE);
    true
}

/// Bytes of the stack: more than the handler uses, and less than it has.
const STACK: usize = 64 << 10;

/// Touches what the handler and the holder of the ledger's lock use: a mapping of the program can become one with the mapping of
/// this library or with the handler's stack, and no thread fills a page for which the handler waits itself.
pub(crate) fn touch_all(ledger: &mut Ledger) {
    HOLE.store(0, Ordering::SeqCst);
    // SAFETY: The holder of the lock alone uses it.
    unsafe { ROOM.0.get().cast::<u8>().write_volatile(0) };
    core::hint::black_box(ledger.has_lost());
    touch_stack::<STACK>();
}

/// Makes the file that [`bury`] needs; `false` if that is impossible. For the handler thread: no
/// other thread closes its descriptors.
pub(crate) fn make_grave() -> bool {
    // SAFETY: The name is a string that ends.
    let fd = unsafe { libc::memfd_create(c"sdp_async".as_ptr(), libc::MFD_CLOEXEC) };
    EMPTY.store(fd, Ordering::Release);
    fd >= 0
}

/// Exchanges a protected page for one behind the end of a file: who touches it, now or later, gets a
/// SIGBUS, and a system call EFAULT. Where the mapping is sealed, or the program has as much memory as its
/// limits allow, the page is poisoned instead, and the kernel logs each touch as a fault of the
/// hardware. After an error the page is still protected, or threads wait for it.
pub(crate) fn bury(page: usize) -> Result<(), c_int> {
    if guard::is_plain(page, PAGE) {
        let at = core::ptr::without_provenance_mut::<c_void>(page);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
        let file = EMPTY.load(Ordering::Acquire);
        // SAFETY: The page is the program's memory, and a thread that needs its bytes waits. They will
        // never come, so nothing is lost. The exchange is atomic for other threads.
        if unsafe { libc::mmap(at, PAGE, access, flags, file, 0) } == libc::MAP_FAILED {
            poison(Kind::Received, page)?;
        }
    }
    guard::wake(page, PAGE);
    Ok(())
}

/// Makes a page one that ends in a SIGBUS, without another mapping.
pub(crate) fn poison(kind: Kind, page: usize) -> Result<(), c_int> {
    guard::register_missing(kind, page)?;
    drop_page(page)?;
    let mut fill = Fill {
        start: page as u64,
        len: PAGE as u64,
        mode: 0,
        filled: 0,
    };
    guard::request(UFFDIO_POISON, &mut fill)
}
