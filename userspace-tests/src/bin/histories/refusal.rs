// SPDX-License-Identifier: MIT
//! Memory that the kernel refuses to a thread, and what of the thread's work is spared.
//!
//! The program's own memory, its threads and its children are no part of the test: the C library and Rust
//! end a process that gets none, and the kernel prints a trace where it has no stack for a new thread.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::Write;

thread_local! {
    /// The thread's own switch, kept open because opening it takes memory.
    static SWITCH: RefCell<Option<File>> = const { RefCell::new(None) };
}

/// From now on the kernel refuses memory to this thread, with the chances of the plan.
pub fn begin() {
    SWITCH.with_borrow_mut(|switch| {
        // The file exists on kernels that can refuse memory.
        *switch = OpenOptions::new().write(true).open("/proc/thread-self/make-it-fail").ok();
    });
    set(b"1");
}

/// Does something that gets the memory it asks for.
pub fn spare<T>(work: impl FnOnce() -> T) -> T {
    set(b"0");
    let done = work();
    set(b"1");
    done
}

fn set(word: &[u8]) {
    SWITCH.with_borrow_mut(|switch| {
        if let Some(switch) = switch {
            let _ = switch.write_all(word);
        }
    });
}
