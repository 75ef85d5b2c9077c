// SPDX-License-Identifier: GPL-2.0

//! The extended headers of SrcAvail and SinkAvail.
//!
//! rules: HDR

use super::{
    bytes::{Reader, Writer},
    HEADER_MAX,
};

/// Length of the extended header of SrcAvail.
pub const SRC_AVAIL_LEN: usize = 16;
/// Length of the extended header of SinkAvail.
pub const SINK_AVAIL_LEN: usize = 20;

/// A buffer that a data source offers for RDMA Read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SrcAvail {
    /// Length of the whole buffer, inline bytes included.
    pub len: u32,
    /// Key of the buffer.
    pub r_key: u32,
    /// Address of its first byte, opaque.
    pub va: u64,
}

/// A buffer that a data sink offers for RDMA Write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SinkAvail {
    /// Length of the buffer.
    pub len: u32,
    /// Key of the buffer.
    pub r_key: u32,
    /// Address of its first byte, opaque.
    pub va: u64,
    /// Messages with payload that arrived without using up an advertisement.
    pub non_discards: u32,
}

impl SrcAvail {
    pub(super) fn take(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            len: reader.u32()?,
            r_key: reader.u32()?,
            va: reader.u64()?,
        })
    }

    pub(super) fn put(&self, to: &mut Writer<HEADER_MAX>) {
        to.put(self.len.to_be_bytes())
            .put(self.r_key.to_be_bytes())
            .put(self.va.to_be_bytes());
    }
}

impl SinkAvail {
    pub(super) fn take(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            len: reader.u32()?,
            r_key: reader.u32()?,
            va: reader.u64()?,
            non_discards: reader.u32()?,
        })
    }

    pub(super) fn put(&self, to: &mut Writer<HEADER_MAX>) {
        to.put(self.len.to_be_bytes())
            .put(self.r_key.to_be_bytes())
            .put(self.va.to_be_bytes())
            .put(self.non_discards.to_be_bytes());
    }
}
