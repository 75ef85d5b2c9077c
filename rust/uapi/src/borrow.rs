// SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note

//! The control messages of a `sendmsg()` that lends memory, and of a `recvmsg()` that receives ahead.

use crate::{sdp_borrow_range, sdp_borrowed, SDP_AHEAD, SDP_BORROW};
use core::ffi::c_int;

/// `SOL_TCP`, the level of SDP's options and control messages.
const LEVEL: c_int = 6;

/// A `struct cmsghdr` of `SDP_BORROW` with its data: the address of the report. It is all that
/// `msg_control` has, with its size as `msg_controllen`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BorrowControl {
    len: usize,
    level: c_int,
    kind: c_int,
    report: u64,
}

impl BorrowControl {
    /// The message for a report at this address: the kernel writes a [`sdp_borrowed`] there.
    #[must_use]
    pub const fn at(report: u64) -> Self {
        Self {
            len: size_of::<Self>(),
            level: LEVEL,
            kind: SDP_BORROW,
            report,
        }
    }

    /// The message for this report, which must live, at its place, until the call has returned.
    #[must_use]
    pub fn of(report: &mut sdp_borrowed) -> Self {
        Self::at(core::ptr::from_mut(report).expose_provenance() as u64)
    }
}

/// Room for the answer of `SDP_AHEAD`: all that `msg_control` has, with its size as
/// `msg_controllen`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct AheadControl {
    len: usize,
    level: c_int,
    kind: c_int,
    range: sdp_borrow_range,
}

impl Default for AheadControl {
    fn default() -> Self {
        Self {
            len: 0,
            level: 0,
            kind: 0,
            range: sdp_borrow_range {
                start: 0,
                len: 0,
                id: 0,
            },
        }
    }
}

impl AheadControl {
    /// The pages that still wait for bytes, if there are some.
    #[must_use]
    pub fn range(&self) -> Option<sdp_borrow_range> {
        let is_it = (self.len, self.level, self.kind) == (size_of::<Self>(), LEVEL, SDP_AHEAD);
        is_it.then_some(self.range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CMSG_LEN(8) and CMSG_DATA of the C library on machines with 64 bits.
    #[test]
    fn it_is_a_control_message_with_one_address() {
        let message = BorrowControl::at(0x1234_5678_9abc_def0);
        assert_eq!((message.len, size_of::<BorrowControl>()), (24, 24));
        assert_eq!(core::mem::offset_of!(BorrowControl, level), 8);
        assert_eq!(core::mem::offset_of!(BorrowControl, kind), 12);
        assert_eq!(core::mem::offset_of!(BorrowControl, report), 16);
        assert_eq!((message.level, message.kind), (6, 89));
        assert_eq!(message.report, 0x1234_5678_9abc_def0);
    }

    /// The same for CMSG_LEN(16), which is CMSG_SPACE(16).
    #[test]
    fn an_answer_has_one_range() {
        assert_eq!(AheadControl::default().range().map(|range| range.id), None);
        assert_eq!(core::mem::offset_of!(AheadControl, range), 16);
        let range = sdp_borrow_range {
            start: 1,
            len: 2,
            id: 3,
        };
        let answer = AheadControl {
            len: 32,
            level: 6,
            kind: 93,
            range,
        };
        assert_eq!(answer.range().map(|range| range.id), Some(3));
        let other = AheadControl { kind: 36, ..answer };
        assert_eq!(other.range().map(|range| range.id), None);
    }
}
