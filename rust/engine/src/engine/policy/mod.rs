// SPDX-License-Identifier: GPL-2.0

//! Decisions that the rules leave open: plain functions of numbers.
//!
//! No rule of the protocol depends on anything here. A value may be tuned,
//! simulated or made adaptive without a look at the rest of the engine. Papers:
//!
//! - \[Z05\] Goldenberg, Kagan, Ravid, Tsirkin: *Zero Copy Sockets Direct
//!   Protocol over InfiniBand*, HotI 2005.
//! - \[AZ06\] Balaji, Bhagvat, Jin, Panda: *Asynchronous Zero-copy Communication
//!   for Synchronous Sockets in SDP over InfiniBand*, CAC 2006.
//! - \[SP11\] Denis: *A High Performance Superpipeline Protocol for InfiniBand*, Euro-Par 2011.

pub mod absence;
pub mod answers;
pub mod chunk;
pub mod copying;
pub mod holding;
pub mod message;
pub mod offering;
pub mod pace;
pub mod patience;
pub mod pipeline;
pub mod polling;
pub mod race;
pub mod round_trip;
pub mod send_buffer;
pub mod split;
pub mod threshold;
