// SPDX-License-Identifier: GPL-2.0

//! Advertisements of buffers.
//!
//! | | sent by us | held by us |
//! |---|---|---|
//! | SrcAvail | `run`, `runs` | `held` |
//! | SinkAvail | `offers` | `targets` |
//!
//! # Glossary
//!
//! | word | meaning |
//! |---|---|
//! | advert | a SrcAvail or a SinkAvail |
//! | run | registered bytes of our send stream, offered in one SrcAvail |
//! | plain bytes | bytes of the send stream that no run has |
//! | held | a SrcAvail of the peer that has arrived and is not used up |
//! | remote bytes | bytes in the peer's memory that a held SrcAvail tells of |
//! | inline | bytes of a run that travel in its SrcAvail itself (Combined mode) |
//! | offer | a buffer of ours that the peer may write into, by one SinkAvail |
//! | target | a buffer of the peer that we may write into: a SinkAvail that has arrived |
//! | outstanding | of our adverts: sent, and the peer may still use it |
//! | recall, withdraw | take a run's SrcAvail back: its bytes go as Data, or not at all |
//! | decline | ask by SendSm for the rest of a held SrcAvail as Data |
//! | cancel | SrcAvailCancel or SinkAvailCancel, about all adverts of its kind |
//! | void | an advert that was sent before its sender knew of a message that ends it |
//! | stale | a SinkAvail with a count that shows that a message has used it up already, or an answer about an advert that has ended |
//! | discard | the use of a SinkAvail by a message with payload: see the rules DISCARD |
//! | told, untold | known, or not yet known, to the shell: the next output says it |
//! | returned | the peer no longer needs the registration |
//! | gone, through, dropped | no longer in the stream: sent or read to its end, or taken out |
//! | progress | something has moved since a timer was last asked about |

pub(crate) mod cancel;
mod fifo;
pub(crate) mod held;
pub(crate) mod offers;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod targets;

/// Places for advertisements of each kind.
pub const ADVERTS_MAX: usize = 4;
