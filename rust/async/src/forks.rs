// SPDX-License-Identifier: MIT

//! fork() of the C library. The child's pages are copies of this moment, so bytes that the program believes to
//! have must be there. Its memory is not lent.

use crate::ledger::{Kind, Quiet, State, LEDGER};
use crate::lend::{keep_errno, switch_off};
use crate::{counters, exchange, guard, next};
use core::sync::atomic::{AtomicU32, Ordering};
use libc::{c_int, pid_t};

/// pthread_atfork(3). Not by a reference, because the function of glibc is not in the library of that
/// name, and no other C library has the one that it calls: a program of musl would not start.
pub(crate) fn watch() -> bool {
    type Handler = unsafe extern "C" fn();
    type Register = unsafe extern "C" fn(Handler, Handler, Handler, *mut libc::c_void) -> c_int;
    // SAFETY: The name is a string that ends.
    let register = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__register_atfork".as_ptr()) };
    if register.is_null() {
        return false;
    }
    // SAFETY: The function of that name has this type.
    let register = unsafe { core::mem::transmute::<*mut libc::c_void, Register>(register) };
    // SAFETY: The handlers take no arguments. They stay, so they are of no library that could be unloaded.
    unsafe { register(before_fork, after_fork, in_child, core::ptr::null_mut()) == 0 }
}

/// Calls of fork() that are under way. They keep no lock: a thread that has one of the C library's may wait for a
/// page in flight, and fork() waits for that lock.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Whether bytes that are still to come would be missing in a child.
pub(crate) fn may_be_copied() -> bool {
    FORKS.load(Ordering::SeqCst) > 0
}

/// Begins a fork(): waits for such bytes as a recv() does that is not ahead. A thread that takes the lock later
/// finds that a fork() is under way. Signals are blocked while the result exists, if there is one.
fn begin() -> Option<Quiet> {
    FORKS.fetch_add(1, Ordering::SeqCst);
    // Also where nothing is lent any more: the handler is there.
    while counters::are_own() {
        let quiet = Quiet::new();
        if !LEDGER.with(|ledger| ledger.has(Kind::Received, |state| state == State::Open)) {
            return Some(quiet);
        }
        drop(quiet);
        // SAFETY: It takes a number.
        unsafe { libc::usleep(50) };
    }
    None
}

/// Ends one in the parent. A siglongjmp() out of a fork() is one that does not end.
fn end() {
    let less = |forks: u32| forks.checked_sub(1);
    let _ = FORKS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
}

/// fork(2) of a program that may lend.
///
/// With the handler the process has two threads at least, so the C library takes locks for a fork(), before its
/// first hook and after its last one. A signal handler that forked meanwhile would wait for them for ever, so
/// signals come before the whole call or after it.
pub(crate) fn fork() -> pid_t {
    let quiet = keep_errno(begin);
    // SAFETY: It takes nothing.
    let child = unsafe { next::fork() };
    if child != 0 {
        end();
    }
    keep_errno(|| drop(quiet));
    child
}

/// The hooks also serve the functions of the C library that fork by themselves, as daemon(3) does.
unsafe extern "C" fn before_fork() {
    keep_errno(|| drop(begin()));
}

unsafe extern "C" fn after_fork() {
    end();
}

unsafe extern "C" fn in_child() {
    FORKS.store(0, Ordering::SeqCst);
    exchange::mend_child();
    // The child has its own copies of the pages. The descriptors are about the parent's.
    switch_off();
    keep_errno(guard::close);
}
