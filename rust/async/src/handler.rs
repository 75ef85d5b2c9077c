// SPDX-License-Identifier: MIT

//! The thread that lets the program through. Writers to lent memory wait a moment for the peer, and then
//! get other pages. Readers and writers of bytes that are received ahead wait until these have come; if
//! the connection has broken, they get a SIGBUS.
//!
//! It has a table of descriptors of its own, so that a program which closes all of its descriptors
//! does not end the protection. It uses no memory except its own stack and this library's, which is
//! never lent, allocates nothing, and handles no signal.

use crate::exchange::{self, bury, exchange};
use crate::guard::{self, News, PAGE};
use crate::ledger::{Kind, Ledger, Quiet, State, LEDGER};
use crate::settings;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, Ordering};
use libc::{c_int, c_uint, c_void};
use std::time::{Duration, Instant};

/// Faults that can wait at a time; the oldest is ended for another one.
const WAITING: usize = 64;

/// Time between two looks at the counters while a thread waits: in the first millisecond, and later.
const LOOK: Duration = Duration::from_micros(20);
const LATER_LOOK: Duration = Duration::from_micros(500);
const FIRST: Duration = Duration::from_millis(1);

/// The progress of the thread.
static PROGRESS: AtomicU32 = AtomicU32::new(STARTING);
const STARTING: u32 = 0;
const READY: u32 = 1;
const FAILED: u32 = 2;

/// Bytes of its stack. The C library's default is the limit that a shell has set (`ulimit -s`), and may be
/// less than the handler needs.
const STACK_LEN: usize = 1 << 20;

/// Makes the thread; the error if that is impossible.
fn make() -> Result<libc::pthread_t, c_int> {
    let done = |result| if result == 0 { Ok(()) } else { Err(result) };
    let mut attributes = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut thread = 0;
    // SAFETY: The attributes are destroyed if they were made. `main` takes no argument, and the thread
    // is never joined.
    unsafe {
        done(libc::pthread_attr_init(attributes.as_mut_ptr()))?;
        let made = done(libc::pthread_attr_setstacksize(
            attributes.as_mut_ptr(),
            STACK_LEN,
        ))
        .and_then(|()| {
            let argument = core::ptr::null_mut();
            done(libc::pthread_create(
                &raw mut thread,
                attributes.as_ptr(),
                main,
                argument,
            ))
        });
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        made.map(|()| thread)
    }
}

/// Starts it; `false` if that is impossible.
pub(crate) fn start() -> bool {
    let _quiet = Quiet::new();
    PROGRESS.store(STARTING, Ordering::Release);
    let Ok(thread) = make() else {
        return false;
    };
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
    let own = own_descriptors();
    if own && settings::receives() && !exchange::make_grave() {
        settings::receive_no_more();
    }
    exchange::use_all_keys();
    LEDGER.with(exchange::touch_all);
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
        // SAFETY: The descriptors are this thread's alone, and no code uses them.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
}

/// A thread waits for a page.
#[derive(Clone, Copy)]
struct Fault {
    page: usize,
    /// `None`: the page is missing.
    kind: Option<Kind>,
    since: Instant,
    /// The kernel has just said so. A thread that was interrupted by a signal does not wait any more.
    fresh: bool,
}

impl Fault {
    fn new(page: usize, kind: Option<Kind>) -> Self {
        Self {
            page,
            kind,
            since: Instant::now(),
            fresh: true,
        }
    }
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
            while let Some(news) = LEDGER.with(next_news) {
                match news {
                    News::Fault(page, kind) => self.take_in(Fault::new(page, Some(kind))),
                    News::Missing(page) => self.take_in(Fault::new(page, None)),
                    News::Moved { from, len, .. } => self.on_moved(from, len),
                    News::Other => {}
                }
            }
            for slot in &mut self.faults {
                if slot.as_ref().is_some_and(|fault| judge(fault, false)) {
                    *slot = None;
                }
            }
        }
    }

    /// Time until the next look at the counters; `None`: no thread waits.
    fn pause(&self) -> Option<Duration> {
        let ages = self.faults.iter().flatten().map(|f| f.since.elapsed());
        let youngest = ages.min()?;
        Some(if youngest < FIRST { LOOK } else { LATER_LOOK })
    }

    fn take_in(&mut self, mut fault: Fault) {
        if judge(&fault, false) {
            return;
        }
        fault.fresh = false;
        let same = |old: &Fault| old.page == fault.page && old.kind == fault.kind;
        if self.faults.iter().flatten().any(same) {
            return;
        }
        if let Some(kind) = fault.kind {
            LEDGER.with(|ledger| ledger.on_disturbed(kind));
        }
        if let Some(slot) = self.faults.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(fault);
            return;
        }
        // There are too many. The first one that can be ended makes room; if none can, the kernel
        // reports the fault again.
        for slot in &mut self.faults {
            if slot.as_ref().is_some_and(|old| judge(old, true)) {
                *slot = Some(fault);
                return;
            }
        }
        guard::wake(fault.page, PAGE);
    }

    /// The program has moved memory. It goes on at once, but its first write to a page that is
    /// lent comes here.
    fn on_moved(&mut self, from: usize, len: usize) {
        // Threads that wait at the old place try again.
        guard::wake(from, len);
        for slot in &mut self.faults {
            if slot.is_some_and(|fault| (from..from.saturating_add(len)).contains(&fault.page)) {
                *slot = None;
            }
        }
    }
}

/// Reads the next message of the userfaultfd. A move by mremap() is entered in the ledger at once, before
/// another thread can take its lock: once the message is read, the kernel lets that thread release
/// protections at the old addresses, and pages that have moved there would lose theirs.
fn next_news(ledger: &mut Ledger) -> Option<News> {
    let news = guard::read();
    if let Some(News::Moved { from, to, len }) = news {
        ledger.on_moved(from, to, len);
    }
    news
}

/// Ends the wait for a page if that is possible now, after a while or if it is `urgent`. Returns
/// whether it need not be looked at any more: no thread waits, or the kernel reports it again.
fn judge(fault: &Fault, urgent: bool) -> bool {
    LEDGER.with(|ledger| {
        let page = fault.page;
        let Some(kind) = fault.kind else {
            return judge_missing(ledger, page);
        };
        let Some(at) = ledger.find(page, kind) else {
            return judge_unknown(ledger, fault, kind);
        };
        let range = ledger.get(at);
        match range.state() {
            // No open range has the page, or it had been found.
            State::Over => give_back(ledger, at).is_ok() && judge_unknown(ledger, fault, kind),
            State::Failed(filled) if range.is_filled(page, filled) => is_released(kind, page),
            State::Failed(_) => is_buried(page),
            State::Open if kind == Kind::Received => false,
            State::Open if range.late && fault.fresh => is_exchanged(ledger, page),
            State::Open
                if !urgent && !range.late && fault.since.elapsed() < settings::patience() =>
            {
                false
            }
            State::Open => {
                ledger.set_late(at);
                is_asked_again(page)
            }
        }
    })
}

/// Wakes the threads that wait for a page. Threads that still need it are reported again.
fn is_asked_again(page: usize) -> bool {
    guard::wake(page, PAGE);
    true
}

/// Exchanges a page for which a thread waits at this moment. Without memory it waits, and this is tried
/// again.
fn is_exchanged(ledger: &mut Ledger, page: usize) -> bool {
    let done = exchange(ledger, page).is_ok();
    if !done {
        exchange::rest();
    }
    done
}

/// The same for a page that is missing. Some of them never come.
fn judge_missing(ledger: &mut Ledger, page: usize) -> bool {
    let range = ledger.find(page, Kind::Received).map(|at| ledger.get(at));
    match range.map(|range| (range, range.state())) {
        Some((range, State::Failed(filled))) if !range.is_filled(page, filled) => is_buried(page),
        _ => exchange::is_emptied(ledger, page),
    }
}

/// The same for a page that no range has. It may be one that was moved, if the ledger does not know
/// where all of them are.
fn judge_unknown(ledger: &mut Ledger, fault: &Fault, kind: Kind) -> bool {
    let page = fault.page;
    if !ledger.has_lost() {
        return is_released(kind, page);
    }
    match kind {
        Kind::Sent if fault.fresh => is_exchanged(ledger, page),
        Kind::Sent => is_asked_again(page),
        Kind::Received if ledger.has(kind, |state| state == State::Open) => false,
        Kind::Received if ledger.has(kind, |state| state != State::Over) => is_buried(page),
        Kind::Received => is_released(kind, page),
    }
}

/// The bytes of a page will never come: who waits for it gets a SIGBUS.
fn is_buried(page: usize) -> bool {
    match bury(page) {
        Ok(()) => true,
        Err(libc::EAGAIN) => false,
        // Without memory: the program ends here, or in its handler.
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

/// Removes a range that has ended; after an error it stays.
pub(crate) fn give_back(ledger: &mut Ledger, at: usize) -> Result<(), c_int> {
    let range = ledger.get(at);
    let kind = if range.is_of(Kind::Received) {
        Kind::Received
    } else {
        Kind::Sent
    };
    // Pages that another range holds stay protected, also where it is not known which ones these are. The
    // others of this one are released when they are touched.
    if !ledger.is_shared(at) && !ledger.has_lost() {
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
