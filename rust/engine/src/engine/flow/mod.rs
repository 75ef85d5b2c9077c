// SPDX-License-Identifier: GPL-2.0

//! Numbers: messages that may be sent, messages that may arrive. Knows no bytes and
//! no states.

pub(crate) mod credit;
pub(crate) mod mode;
pub(crate) mod receive;
pub(crate) mod slots;
