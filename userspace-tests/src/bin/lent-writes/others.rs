// SPDX-License-Identifier: MIT
//! Threads, signal handlers and other processes that write to the memory.

use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_int, c_void, iovec};

use crate::child::{ended_well, in_child};
use crate::memory::{touch, Memory, AT, SPAN};
use crate::Way;

pub const WAYS: &[Way] = &[
    Way::new("another_thread", |lent| {
        let memory = lent.memory;
        std::thread::spawn(move || touch(memory)).join().expect("it ends");
    }),
    Way::new("many_threads", |lent| {
        let memory = lent.memory;
        std::thread::scope(|scope| {
            for part in 0..4 {
                scope.spawn(move || {
                    for offset in (part..SPAN).step_by(4) {
                        memory.store(AT + offset, 0xDD);
                    }
                });
            }
        });
        memory.has(|_| 0xDD);
    }),
    Way::new("signal_handler", |lent| {
        HANDLED.store(lent.memory.0, Ordering::Release);
        // SAFETY: the handler touches the memory only.
        unsafe {
            libc::signal(libc::SIGUSR1, on_signal as *const () as usize);
            libc::raise(libc::SIGUSR1);
        }
        lent.memory.has(|_| 0xEE);
    }),
    // The child's memory is its own. Then the parent writes.
    Way::new("forked_child", |lent| {
        in_child(|_| touch(lent.memory));
        lent.memory.has(|offset| !crate::memory::other(AT + offset));
        touch(lent.memory);
    }),
    // The parent writes first.
    Way::new("parent_of_a_forked_child", |lent| {
        let memory = lent.memory;
        touch(memory);
        in_child(|_| memory.has(|_| 0xEE));
    }),
    Way::new("child_without_own_memory", |lent| {
        const STACK: usize = 1 << 16;
        HANDLED.store(lent.memory.0, Ordering::Release);
        let stack = crate::memory::map(null_mut(), STACK);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: the child runs on a stack of its own, and this thread waits for it.
        let child = unsafe {
            let top = stack.cast::<u8>().add(STACK).cast();
            libc::clone(on_clone, top, flags, null_mut())
        };
        ended_well(child);
        lent.memory.has(|_| 0xEE);
    }),
    Way::new("process_vm_writev", |lent| {
        let data = [0x44u8; SPAN];
        // SAFETY: it writes nothing.
        if unsafe { libc::process_vm_writev(0, null(), 0, null(), 0, 0) } < 0 && is_missing() {
            return;
        }
        let to = iovec { iov_base: lent.memory.at(AT), iov_len: SPAN };
        let from = iovec { iov_base: data.as_ptr().cast_mut().cast(), iov_len: SPAN };
        in_child(|parent| {
            // SAFETY: the parent's memory is there.
            let n =
                unsafe { libc::process_vm_writev(parent, &raw const from, 1, &raw const to, 1, 0) };
            let error = std::io::Error::last_os_error();
            assert_eq!(n, SPAN as isize, "{error}");
        });
        lent.memory.has(|_| 0x44);
    }),
    // Protected memory is not there for a debugger: the kernel does not wait on its behalf.
    Way::new("ptrace", |lent| {
        in_child(|parent| {
            let trace = |request, at: *mut c_void, data: usize| {
                // SAFETY: the parent's memory is there.
                unsafe { libc::ptrace(request, parent, at, data) }
            };
            assert_eq!(trace(libc::PTRACE_ATTACH, null_mut(), 0), 0);
            // SAFETY: it takes numbers.
            let stopped = unsafe { libc::waitpid(parent, null_mut(), libc::__WALL) };
            assert_eq!(stopped, parent);
            assert_eq!(trace(libc::PTRACE_POKEDATA, lent.memory.at(AT), 0x3333), -1);
            assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EIO));
            // The last number is a signal for the parent.
            assert_eq!(trace(libc::PTRACE_DETACH, null_mut(), 0), 0);
        });
        touch(lent.memory);
    }),
];

/// The memory of the handler and of the child below.
static HANDLED: AtomicPtr<u8> = AtomicPtr::new(null_mut());

/// Whether the last call does not exist in this kernel.
fn is_missing() -> bool {
    std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS)
}

extern "C" fn on_signal(_: c_int) {
    let memory = Memory(HANDLED.load(Ordering::Acquire));
    for offset in 0..SPAN {
        memory.store(AT + offset, 0xEE);
    }
}

extern "C" fn on_clone(_: *mut c_void) -> c_int {
    on_signal(0);
    0
}
