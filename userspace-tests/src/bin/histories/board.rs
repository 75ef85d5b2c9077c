// SPDX-License-Identifier: MIT
//! Memory that all processes of a history share: what each end has done so far, and its faults.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicU8, Ordering};

use crate::sys;

/// More than a plan ever has.
pub const CONVERSATIONS: usize = 8;
const TEXT: usize = 400;

/// What an end has come to; 0 before its process runs.
pub const WAITING: u32 = 1;
pub const CONNECTED: u32 = 2;
pub const OVER: u32 = 3;

/// An end, as it tells itself. All zeros at first.
pub struct EndState {
    pub phase: AtomicU32,
    pub listening: AtomicBool,
    /// Bytes given to calls that send, also to the one that has not returned.
    pub attempted: AtomicU64,
    /// Bytes that calls have taken.
    pub accepted: AtomicU64,
    pub received: AtomicU64,
    /// All was written, and the direction was closed.
    pub wrote_all: AtomicBool,
    /// The end of the peer's stream was read.
    pub read_all: AtomicBool,
    /// The first error of a call that sends, receives, or connects.
    pub send_error: AtomicI32,
    pub receive_error: AtomicI32,
    pub connect_error: AtomicI32,
    /// The end closed the direction itself.
    pub shut: AtomicBool,
    /// When its connection was there.
    pub connected_us: AtomicU64,
    /// The peer may read on: the pieces that have to find room without it have found room.
    pub has_room: AtomicBool,
    /// When it last got on, and when something last happened to the history.
    pub moved_us: AtomicU64,
    pub disturbed_us: AtomicU64,
    fault_len: AtomicU32,
    fault: [AtomicU8; TEXT],
}

impl EndState {
    /// Keeps the first fault that is reported.
    pub fn fault(&self, text: &str) {
        if self.fault_len.load(Ordering::SeqCst) != 0 {
            return;
        }
        let len = text.len().min(TEXT);
        for (place, byte) in self.fault.iter().zip(text.bytes()) {
            place.store(byte, Ordering::SeqCst);
        }
        self.fault_len.store(len as u32, Ordering::SeqCst);
    }

    pub fn fault_text(&self) -> Option<String> {
        let len = self.fault_len.load(Ordering::SeqCst) as usize;
        let bytes: Vec<_> =
            self.fault[..len].iter().map(|byte| byte.load(Ordering::SeqCst)).collect();
        (len > 0).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// One line about it.
    pub fn line(&self) -> String {
        let error = |place: &AtomicI32| crate::errno::Errno(place.load(Ordering::SeqCst));
        format!(
            "phase {} attempted {} accepted {} wrote_all {} received {} read_all {} errors: \
             connect {} send {} receive {}",
            self.phase.load(Ordering::SeqCst),
            self.attempted.load(Ordering::SeqCst),
            self.accepted.load(Ordering::SeqCst),
            self.wrote_all.load(Ordering::SeqCst),
            self.received.load(Ordering::SeqCst),
            self.read_all.load(Ordering::SeqCst),
            error(&self.connect_error),
            error(&self.send_error),
            error(&self.receive_error),
        )
    }
}

/// The states of both ends of each conversation.
pub type Ends = [[EndState; 2]; CONVERSATIONS];

/// The shared memory, which is cleared for each history.
pub struct Board(*mut Ends);

impl Board {
    pub fn new() -> Self {
        Board(sys::shared_memory(size_of::<Ends>()).cast())
    }

    /// Called while no other process uses it.
    pub fn clear(&mut self) {
        // SAFETY: the memory is that large; zeros are valid for atomics.
        unsafe { ptr::write_bytes(self.0, 0, 1) };
    }

    /// Something happens to all of them.
    pub fn disturb(&self) {
        for conversation in 0..CONVERSATIONS {
            for end in 0..2 {
                self.end(conversation, end).disturbed_us.store(sys::now_us(), Ordering::SeqCst);
            }
        }
    }

    pub fn end(&self, conversation: usize, end: usize) -> &EndState {
        // SAFETY: it is mapped until the process ends, and all its parts are atomics.
        let ends = unsafe { &*self.0 };
        &ends[conversation][end]
    }
}
