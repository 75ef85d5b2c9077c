// SPDX-License-Identifier: GPL-2.0

//! Messages as bytes.
//!
//! Two levels. A view ([`Message`]) is a message with lengths and flags that have
//! been checked, and with fields that can be read. A representation ([`Repr`],
//! [`hello::Hello`], [`hello::HelloAck`]) can only be valid, and emits bytes.
//! Neither knows the state of a connection: whether a message is legal now is
//! not decided here.
//!
//! rules: HDR, HELLO

pub mod avail;
pub mod bsdh;
mod bytes;
pub mod hello;
mod message;
mod mid;
pub mod mode;
mod print;
mod repr;

pub use bsdh::{Bsdh, Flags, BSDH_LEN};
pub use bytes::Header;
pub use message::Message;
pub use mid::Mid;
pub use repr::{Body, Repr};

/// The longest header of a message: a BSDH and the longest extended header,
/// SinkAvail's.
pub const HEADER_MAX: usize = BSDH_LEN + avail::SINK_AVAIL_LEN;
