// SPDX-License-Identifier: GPL-2.0

//! Advertisements of buffers.

pub(crate) mod src_avail;
