// SPDX-License-Identifier: GPL-2.0

//! The byte stream in Data messages. Counts bytes and holds none.

pub(crate) mod rx;
pub(crate) mod tx;
