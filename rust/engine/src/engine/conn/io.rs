// SPDX-License-Identifier: GPL-2.0

//! What goes in and out of a connection, on one screen.

use crate::engine::{
    error::{PeerError, ShellError},
    flow::slots,
    wire::{hello::RCV_SIZE_MIN, Header, Mid},
};

/// What the shell offers to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Size of our receive buffers in bytes, BSDH included.
    pub rcv_size: u16,
    /// The most receive buffers with payload, posted or not yet read. At most
    /// two more are asked for.
    pub rx_depth: u16,
    /// Receive buffers that are posted before Hello or HelloAck, at least 3.
    pub rx_initial: u16,
    /// Messages that the send queue can hold, at least 3. More than 64 are not
    /// used.
    pub tx_depth: u16,
    /// The most payload bytes that one SEND can gather.
    pub max_send_payload: u16,
    /// Advertisements that the peer may have outstanding. Only 1 is supported.
    pub max_adverts: u8,
}

impl Config {
    /// The most messages that are ever in flight.
    pub const TX_DEPTH_MAX: u16 = slots::CAPACITY;

    pub(super) fn check(&self) -> Result<(), ShellError> {
        let good = u32::from(self.rcv_size) >= RCV_SIZE_MIN
            && self.rx_initial >= 3
            && self.rx_depth >= self.rx_initial
            && self.rx_depth <= u16::MAX >> 1
            && self.tx_depth >= 3
            && self.max_send_payload > 0
            && self.max_adverts == 1;
        if good {
            Ok(())
        } else {
            Err(ShellError::BadConfig)
        }
    }
}

/// How bytes are queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Queue {
    /// More will be queued at once, so a message that is not full can wait.
    pub more: bool,
    /// The last byte is urgent.
    pub urgent: bool,
}

/// An effect that the shell is to carry out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// Post one signalled SEND.
    Send {
        /// What it begins with.
        header: Header,
        /// Then so many bytes, the next ones of the send stream.
        payload_len: u32,
        /// Ask the peer's adapter for a solicited event.
        solicited: bool,
    },
    /// Send a CM DREQ. Nothing is sent after it.
    Disconnect,
}

/// What a received message means for the application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delivery {
    /// Its kind.
    pub mid: Mid,
    /// Where the stream bytes begin.
    pub payload_offset: u16,
    /// How many there are. With 0 the buffer is free.
    pub payload_len: u16,
    /// An urgent byte was announced which the application does not know of.
    pub urgent_pending: bool,
    /// The last of the stream bytes is the urgent one.
    pub urgent_byte: bool,
    /// The peer's byte stream ends behind everything delivered so far.
    pub peer_closed: bool,
}

/// Why a connection is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// Both byte streams were transferred to their ends.
    Finished,
    /// The peer ended the connection before that.
    Reset,
    /// We did.
    Aborted,
    /// The peer violated the protocol.
    Violation(PeerError),
    /// The transport failed.
    LinkFailed,
    /// The peer took no part in the close.
    TimedOut,
}
