// SPDX-License-Identifier: GPL-2.0

//! The checked view of one received message.
//!
//! rules: HDR

use super::{Bsdh, BSDH_LEN, HEADER_MAX};
use crate::engine::error::PeerError;

/// A message with a sound base header and the length that it says.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    bsdh: Bsdh,
    /// The bytes behind the BSDH, as far as the caller has passed them.
    rest: &'a [u8],
}

impl<'a> Message<'a> {
    /// `head` is the beginning of the message, at least its first
    /// [`HEADER_MAX`] bytes or all of it; `wire_len` is its whole length.
    pub fn check(head: &'a [u8], wire_len: u32) -> Result<Self, PeerError> {
        let whole = usize::try_from(wire_len).unwrap_or(usize::MAX);
        if head.len() < whole.min(HEADER_MAX) {
            return Err(PeerError::Truncated);
        }
        // Bytes past the end of the message are none of its business.
        let head = head.get(..whole.min(head.len())).unwrap_or(head);
        let bsdh = Bsdh::parse(head)?;
        //= spec: HDR-2
        if bsdh.len != wire_len {
            return Err(PeerError::LenMismatch);
        }
        let rest = head.get(BSDH_LEN..).ok_or(PeerError::Truncated)?;
        Ok(Self { bsdh, rest })
    }

    /// The base header.
    pub fn bsdh(&self) -> &Bsdh {
        &self.bsdh
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }
}
