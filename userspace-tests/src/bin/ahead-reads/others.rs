// SPDX-License-Identifier: MIT
//! Threads, signal handlers and other processes that touch the memory.

use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use libc::{c_int, iovec};

use crate::child::in_child;
use crate::memory::{Memory, AT, SPAN};
use crate::Way;

pub const WAYS: &[Way] = &[
    Way::new("another_thread", |ahead| {
        let (memory, len) = (ahead.memory, ahead.len);
        std::thread::spawn(move || memory.has_come(0..len)).join().expect("it ends");
    }),
    Way::new("many_threads", |ahead| {
        let (memory, len) = (ahead.memory, ahead.len);
        std::thread::scope(|scope| {
            for part in 0..4 {
                scope.spawn(move || memory.has_come(part * len / 4..(part + 1) * len / 4));
            }
        });
    }),
    Way::new("signal_handler", |ahead| {
        HANDLED.store(ahead.memory.0, Ordering::Release);
        // SAFETY: the handler looks at the memory.
        unsafe {
            libc::signal(libc::SIGUSR1, on_signal as *const () as usize);
            libc::raise(libc::SIGUSR1);
        }
        assert_eq!(SEEN.load(Ordering::Acquire), Memory::drawn(AT).into());
    }),
    Way::new("forked_child", |ahead| {
        in_child(|_| ahead.memory.has_come(0..ahead.len));
        ahead.memory.has_come(0..ahead.len);
    }),
    Way::new("process_vm_readv", |ahead| {
        let mut room = [0u8; SPAN];
        let local = iovec { iov_base: room.as_mut_ptr().cast(), iov_len: SPAN };
        let remote = iovec { iov_base: ahead.memory.at(AT), iov_len: SPAN };
        // A forked child would wait before it is there. The kernel looks the pages up in the same way.
        // SAFETY: both are this program's memory.
        let n = unsafe {
            let (local, remote) = (&raw const local, &raw const remote);
            libc::process_vm_readv(libc::getpid(), local, 1, remote, 1, 0)
        };
        let error = std::io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::ENOSYS) {
            // Not in this kernel.
            return ahead.memory.has_come(0..ahead.len);
        }
        assert_eq!(n, SPAN as isize, "{error}");
        assert!((0..SPAN).all(|at| room[at] == Memory::drawn(AT + at)));
    }),
];

/// The memory of the handler, and the byte that it finds.
static HANDLED: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());
static SEEN: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_signal(_: c_int) {
    let memory = Memory(HANDLED.load(Ordering::Acquire));
    SEEN.store(memory.byte(AT).into(), Ordering::Release);
}
