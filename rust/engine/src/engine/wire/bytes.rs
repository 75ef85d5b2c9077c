// SPDX-License-Identifier: GPL-2.0

//! Big-endian fields in and out of byte slices, without a way to miss.

use super::HEADER_MAX;

/// Takes fields off the front of a slice.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    pub(super) fn skip<const N: usize>(&mut self) -> Option<()> {
        self.take::<N>().map(|_| ())
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}

/// Puts fields one after the other into zeroed bytes.
pub(super) struct Writer<const CAP: usize> {
    bytes: [u8; CAP],
    len: usize,
}

impl<const CAP: usize> Writer<CAP> {
    pub(super) fn new() -> Self {
        Self {
            bytes: [0; CAP],
            len: 0,
        }
    }

    /// A field that does not fit is left out; the lengths of all messages are
    /// constants, and the golden vectors show that each fits.
    pub(super) fn put<const N: usize>(&mut self, field: [u8; N]) -> &mut Self {
        if let Some(place) = self
            .bytes
            .get_mut(self.len..)
            .and_then(|rest| rest.first_chunk_mut::<N>())
        {
            *place = field;
            self.len = self.len.saturating_add(N);
        }
        self
    }

    pub(super) fn finish(&self) -> [u8; CAP] {
        self.bytes
    }
}

/// The header of one message to send: BSDH and extended header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    bytes: [u8; HEADER_MAX],
    /// `BSDH_LEN <= len <= HEADER_MAX`
    len: u8,
}

impl Header {
    pub(super) fn from_writer(writer: &Writer<HEADER_MAX>) -> Self {
        Self {
            bytes: writer.bytes,
            len: u8::try_from(writer.len).unwrap_or(u8::MAX),
        }
    }

    /// The bytes on the wire in front of the payload.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes
            .get(..usize::from(self.len))
            .unwrap_or(&self.bytes)
    }
}
