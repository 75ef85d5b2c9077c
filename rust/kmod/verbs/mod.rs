// SPDX-License-Identifier: GPL-2.0

//! Owned wrappers of ib_core objects: devices, queue pairs, DMA buffers, memory
//! regions.
//!
//! Nothing here knows a rule of SDP.

pub(crate) mod buffer;
pub(crate) mod cq;
pub(crate) mod device;
pub(crate) mod domain;
pub(crate) mod kept;
pub(crate) mod lease;
pub(crate) mod mr;
pub(crate) mod pages;
pub(crate) mod qp;
pub(crate) mod region;
pub(crate) mod slots;
