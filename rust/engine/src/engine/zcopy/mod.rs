// SPDX-License-Identifier: GPL-2.0

//! Advertisements of buffers.
//!
//! | | sent by us | held by us |
//! |---|---|---|
//! | SrcAvail | `run`, `runs` | `held` |
//! | SinkAvail | `offers` | `targets` |

pub(crate) mod cancel;
mod fifo;
pub(crate) mod held;
pub(crate) mod offers;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod targets;

/// Places for advertisements of each kind.
pub const ADVERTS_MAX: usize = 4;
