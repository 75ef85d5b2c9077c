// SPDX-License-Identifier: MIT

//! Memory of the C library's allocator, or of the one that is preloaded. It drops freed pages, and uses them again,
//! when it likes.

use crate::pattern::{fill, wrong, Sent, Stamp};
use crate::random::Random;
use crate::{Shared, Wire};
use libc::{c_int, size_t};
use std::sync::Mutex;

const MOST_OBJECTS: usize = 64;

/// Memory of malloc().
struct Object {
    at: *mut libc::c_void,
    len: usize,
    stamp: Stamp,
}

// SAFETY: It belongs to no thread.
unsafe impl Send for Object {}

impl Object {
    fn empty(len: usize) -> Self {
        // SAFETY: It takes numbers.
        let at = unsafe { libc::calloc(len, 1) };
        assert!(!at.is_null(), "calloc");
        let object = Self { at, len, stamp: 0 };
        object.check("calloc()");
        object
    }

    fn write(&mut self, random: &mut Random) {
        self.stamp = random.next() | 1;
        // SAFETY: All of the object.
        unsafe { fill(self.at.addr(), self.len, self.stamp, random.below(2) == 0) };
    }

    fn check(&self, deed: &str) {
        // SAFETY: All of the object.
        if let Some(at) = unsafe { wrong(self.at.addr(), self.len, self.stamp) } {
            panic!("an object of {} bytes, after {deed}: byte {at}", self.len);
        }
    }

    fn free(self) {
        // SAFETY: Of malloc().
        unsafe { libc::free(self.at) };
    }

    /// It gets longer, and keeps what it has.
    fn grow(&mut self) {
        let longer = 3 * self.len;
        // SAFETY: Of malloc().
        let at = unsafe { libc::realloc(self.at, longer) };
        assert!(!at.is_null(), "realloc");
        self.at = at;
        self.check("realloc()");
    }
}

/// Buffers that were sent, which another thread frees.
pub(crate) struct Heap {
    sent: Mutex<Vec<Object>>,
}

impl Heap {
    pub(crate) const fn new() -> Self {
        Self {
            sent: Mutex::new(Vec::new()),
        }
    }
}

/// Sends a buffer, and has no use for it afterwards.
pub(crate) fn send<W: Wire>(shared: &Shared<'_, W>, thread: usize, random: &mut Random) {
    let _not_scarce = shared.scarce.read().expect("no thread has failed");
    let mut buffer = Object::empty((72 << 10) + random.below(22) * (8 << 10));
    buffer.write(random);
    let sent = Sent::Whole(buffer.stamp);
    shared.wire.send(thread, buffer.at.addr(), buffer.len, sent);
    match random.below(4) {
        0 => {}
        1 => {
            buffer.check("a send");
            buffer.write(random);
            buffer.check("a write after a send");
        }
        2 => buffer.grow(),
        _ => {
            let mut others = shared.heap.sent.lock().expect("no thread has failed");
            if others.len() < MOST_OBJECTS {
                others.push(buffer);
                return;
            }
        }
    }
    buffer.free();
}

/// Frees buffers of other threads, and gives what is free to the kernel.
pub(crate) fn take_over<W>(shared: &Shared<'_, W>) {
    let _not_scarce = shared.scarce.read().expect("no thread has failed");
    let all = core::mem::take(&mut *shared.heap.sent.lock().expect("no thread has failed"));
    for object in all {
        object.check("a while with another thread");
        object.free();
    }
    // SAFETY: The function of that name, where there is one, has this type.
    unsafe {
        let trim = libc::dlsym(libc::RTLD_DEFAULT, c"malloc_trim".as_ptr());
        if !trim.is_null() {
            let trim =
                core::mem::transmute::<*mut libc::c_void, extern "C" fn(size_t) -> c_int>(trim);
            trim(0);
        }
    }
}

/// Objects of one thread.
pub(crate) struct Own(Vec<Object>);

impl Own {
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(MOST_OBJECTS))
    }

    /// A few deeds with them.
    pub(crate) fn use_objects<W>(&mut self, shared: &Shared<'_, W>, random: &mut Random) {
        let _not_scarce = shared.scarce.read().expect("no thread has failed");
        for _ in 0..4 {
            if self.0.len() == MOST_OBJECTS || random.below(3) == 0 && !self.0.is_empty() {
                let object = self.0.swap_remove(random.below(self.0.len()));
                object.check("a while");
                object.free();
                continue;
            }
            let len = if random.below(4) == 0 {
                64 << 10
            } else {
                1 << 10
            };
            let mut object = Object::empty(8 * (1 + random.below(len / 4)));
            object.write(random);
            self.0.push(object);
        }
    }

    pub(crate) fn end(self) {
        for object in self.0 {
            object.check("a while");
            object.free();
        }
    }
}
