// SPDX-License-Identifier: MIT

//! The thread that lets the program through. Writers to lent memory wait a moment for the peer, and then
//! get other pages. Readers and writers of bytes that are received ahead wait until these have come; if
//! the connection has broken, they get a SIGBUS.
//!
//! It has a table of descriptors of its own, so that a program which closes all of its descriptors
//! does not end the protection. It uses no memory but its own stack and that of this library, which is
//! never lent, allocates nothing, and handles no signal.

use crate::guard::{self, News, PAGE};
use crate::ledger::{Kind, Ledger, Quiet, State, LEDGER};
use crate::settings;
use core::sync::atomic::{AtomicU32, Ordering};
use libc::{c_int, c_uint, c_void};
use std::time::{Duration, Instant};

/// Faults that can wait at a time; the oldest is ended for another one.
const WAITING: usize = 64;

/// Time between two looks at the counters while somebody waits: in the first millisecond, and later.
const LOOK: Duration = Duration::from_micros(20);
const LATER_LOOK: Duration = Duration::from_micros(500);
const FIRST: Duration = Duration::from_millis(1);

/// What the thread has come to.
static PROGRESS: AtomicU32 = AtomicU32::new(STARTING);
const STARTING: u32 = 0;
const READY: u32 = 1;
const FAILED: u32 = 2;

/// Starts it; `false` if that is impossible.
pub(crate) fn start() -> bool {
    let mut thread = 0;
    let _quiet = Quiet::new();
    PROGRESS.store(STARTING, Ordering::Release);
    // SAFETY: `main` takes no argument, and the thread is never joined.
    let made = unsafe {
        libc::pthread_create(
            &raw mut thread,
            core::ptr::null(),
            main,
            core::ptr::null_mut(),
        )
    };
    if made != 0 {
        return false;
    }
    // SAFETY: The thread was just made.
    unsafe { libc::pthread_detach(thread) };
    loop {
        match PROGRESS.load(Ordering::Acquire) {
            // SAFETY: It has no arguments.
            STARTING => unsafe { libc::sched_yield() },
            progress => return progress == READY,
        };
    }
}

extern "C" fn main(_: *mut c_void) -> *mut c_void {
    let own = guard::make_scratch() && own_descriptors();
    if own && settings::receives() && !guard::make_grave() {
        settings::receive_no_more();
    }
    // Without it a sleep of a few microseconds takes fifty more.
    // SAFETY: It takes numbers.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    PROGRESS.store(if own { READY } else { FAILED }, Ordering::Release);
    if own {
        Handler::new().run();
    }
    core::ptr::null_mut()
}

/// Leaves the descriptors of the program; keeps those that are needed.
fn own_descriptors() -> bool {
    // SAFETY: It takes flags.
    if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
        return false;
    }
    let mut own = guard::descriptors().all();
    own.sort_unstable();
    let mut first = 0;
    for fd in own {
        close_range(first, fd.saturating_sub(1));
        first = fd.saturating_add(1);
    }
    close_range(first, c_int::MAX);
    true
}

fn close_range(first: c_int, last: c_int) {
    if last < first {
        return;
    }
    if let (Ok(first), Ok(last)) = (c_uint::try_from(first), c_uint::try_from(last)) {
        // SAFETY: The descriptors are this thread's alone, and nobody uses them.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
}

/// A thread that waits for a page.
#[derive(Clone, Copy)]
struct Fault {
    page: usize,
    kind: Kind,
    since: Instant,
}

struct Handler {
    faults: [Option<Fault>; WAITING],
}

impl Handler {
    const fn new() -> Self {
        Self {
            faults: [None; WAITING],
        }
    }

    fn run(&mut self) -> ! {
        let uffd = guard::descriptors().uffd;
        loop {
            sleep_until_news(uffd, self.pause());
            while let Some(news) = guard::read() {
                match news {
                    News::Fault(page, kind) => self.take_in(page, kind),
                    News::Moved { from, to, len } => self.on_moved(from, to, len),
                    News::Other => {}
                }
            }
            for slot in &mut self.faults {
                if slot.as_mut().is_some_and(|fault| judge(fault, false)) {
                    *slot = None;
                }
            }
        }
    }

    /// Time until the next look at the counters; `None`: nobody waits.
    fn pause(&self) -> Option<Duration> {
        let ages = self.faults.iter().flatten().map(|f| f.since.elapsed());
        let youngest = ages.min()?;
        Some(if youngest < FIRST { LOOK } else { LATER_LOOK })
    }

    fn take_in(&mut self, page: usize, kind: Kind) {
        let mut fault = Fault {
            page,
            kind,
            since: Instant::now(),
        };
        if judge(&mut fault, false) {
            return;
        }
        LEDGER.with(|ledger| ledger.on_disturbed(kind));
        if let Some(slot) = self.faults.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(fault);
            return;
        }
        // There are too many. The first one that can be ended makes room; if none can, the kernel
        // reports the fault anew.
        for slot in &mut self.faults {
            if slot.as_mut().is_some_and(|old| judge(old, true)) {
                *slot = Some(fault);
                return;
            }
        }
        guard::wake(page, PAGE);
    }

    /// The program has moved memory. It goes on at once, but its first write to a page that is
    /// lent comes here.
    fn on_moved(&mut self, from: usize, to: usize, len: usize) {
        LEDGER.with(|ledger| ledger.on_moved(from, to, len));
        // Whoever waits at the old place tries again.
        guard::wake(from, len);
        for slot in &mut self.faults {
            if slot.is_some_and(|fault| (from..from.saturating_add(len)).contains(&fault.page)) {
                *slot = None;
            }
        }
    }
}

/// Ends the wait for a page if that is possible now, after a while or if it is `urgent`. Returns
/// whether nobody waits for it any more.
fn judge(fault: &mut Fault, urgent: bool) -> bool {
    LEDGER.with(|ledger| {
        let Some(at) = ledger.find(fault.page, fault.kind) else {
            return judge_unknown(ledger, fault);
        };
        let range = ledger.get(at);
        match range.state() {
            // No open range has the page, or it had been found.
            State::Over => give_back(ledger, at).is_ok() && is_released(fault.kind, fault.page),
            State::Failed(filled) if range.is_filled(fault.page, filled) => {
                is_released(fault.kind, fault.page)
            }
            State::Failed(_) => is_buried(fault.page),
            State::Open if fault.kind == Kind::Received => false,
            State::Open if !urgent && fault.since.elapsed() < settings::patience() => false,
            State::Open => match guard::flip(range.start, range.len) {
                Ok(()) => {
                    ledger.remove(at);
                    true
                }
                Err(libc::EAGAIN) => false,
                // Some of the range may be gone, or be no plain memory any more, or it is too long. The
                // entry stays, for the other pages. Without memory for a copy the writer waits, and this
                // is tried again.
                Err(_) => {
                    fault.since = Instant::now();
                    guard::flip(fault.page, PAGE).is_ok()
                }
            },
        }
    })
}

/// The same for a page that no range has. It may be one that was moved, if the ledger does not know
/// where all of them are.
fn judge_unknown(ledger: &mut Ledger, fault: &Fault) -> bool {
    let kind = fault.kind;
    if !ledger.has_lost() {
        return is_released(kind, fault.page);
    }
    match kind {
        Kind::Sent => guard::flip(fault.page, PAGE).is_ok(),
        Kind::Received if ledger.has(kind, |state| state == State::Open) => false,
        Kind::Received if ledger.has(kind, |state| state != State::Over) => is_buried(fault.page),
        Kind::Received => is_released(kind, fault.page),
    }
}

/// The bytes of a page will never come: who waits for it gets a SIGBUS.
fn is_buried(page: usize) -> bool {
    match guard::bury(page) {
        Ok(()) => true,
        // Without memory for another mapping: the program ends here, or in its handler.
        Err(_) => {
            // SAFETY: It takes numbers.
            unsafe { libc::kill(libc::getpid(), libc::SIGBUS) };
            false
        }
    }
}

/// Ends the protection of a page that nothing holds; `false` if memory is being moved: later.
fn is_released(kind: Kind, page: usize) -> bool {
    match guard::release(kind, page, PAGE) {
        Err(libc::EAGAIN) => false,
        Err(_) => {
            guard::wake(page, PAGE);
            true
        }
        Ok(()) => true,
    }
}

/// Ends a range that is over; after an error it is still there.
pub(crate) fn give_back(ledger: &mut Ledger, at: usize) -> Result<(), c_int> {
    let range = ledger.get(at);
    let kind = if range.is_of(Kind::Received) {
        Kind::Received
    } else {
        Kind::Sent
    };
    // Pages that another range holds stay protected. The others of this one are released when they
    // are touched.
    if !ledger.is_shared(at) {
        guard::release(kind, range.start, range.len)?;
    }
    ledger.remove(at);
    Ok(())
}

fn sleep_until_news(uffd: c_int, limit: Option<Duration>) {
    let mut poll = libc::pollfd {
        fd: uffd,
        events: libc::POLLIN,
        revents: 0,
    };
    let time = limit.map(timespec);
    let at = time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: One element, and a time or none.
    unsafe { libc::ppoll(&raw mut poll, 1, at, core::ptr::null()) };
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: 0,
        tv_nsec: time.subsec_nanos().into(),
    }
}
