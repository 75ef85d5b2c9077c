// SPDX-License-Identifier: GPL-2.0

//! The bytes that the peer sends, as far as their end is concerned.
//!
//! rules: DATA, CLOSE

use crate::engine::{error::PeerError, wire::Mid};

/// The treatment of payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Payload {
    Deliver,
    /// The application is gone; the stream is reset, as TCP does.
    Unwanted,
}

/// The direction that we receive.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReceiveStream {
    /// The peer's DisConn has come.
    finished: bool,
    /// No application will read any more.
    closed: bool,
}

impl ReceiveStream {
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Whether a message which belongs to the peer's byte stream may still
    /// come.
    pub(crate) fn check_open(&self, mid: Mid) -> Result<(), PeerError> {
        //= spec: CLOSE-3
        if self.finished {
            return Err(PeerError::AfterDisConn(mid));
        }
        Ok(())
    }

    pub(crate) fn on_payload(&self) -> Payload {
        //= spec: DATA-4
        if self.closed {
            Payload::Unwanted
        } else {
            Payload::Deliver
        }
    }

    pub(crate) fn on_disconn(&mut self) {
        self.finished = true;
    }
}
