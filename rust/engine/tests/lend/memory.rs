// SPDX-License-Identifier: GPL-2.0

//! Memory that is lent to the peer.

use std::collections::HashMap;

#[derive(Debug)]
struct Region {
    va: u64,
    bytes: Vec<u8>,
    writable: bool,
}

/// Regions of one side by key.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    regions: HashMap<u32, Region>,
    next_key: u32,
}

impl Memory {
    /// Registers memory. Keys and addresses are never used twice.
    pub(crate) fn register(&mut self, bytes: Vec<u8>, writable: bool) -> (u32, u64) {
        self.next_key += 1;
        let key = self.next_key;
        let va = u64::from(key) << 32;
        let region = Region {
            va,
            bytes,
            writable,
        };
        self.regions.insert(key, region);
        (key, va)
    }

    pub(crate) fn give_back(&mut self, key: u32) -> Vec<u8> {
        self.regions
            .remove(&key)
            .unwrap_or_else(|| panic!("key {key} is given back twice"))
            .bytes
    }

    fn place(&mut self, key: u32, va: u64, len: usize) -> (&mut Region, usize) {
        let region = self
            .regions
            .get_mut(&key)
            .unwrap_or_else(|| panic!("key {key} was given back"));
        let from = usize::try_from(va.checked_sub(region.va).unwrap()).unwrap();
        assert!(from + len <= region.bytes.len(), "outside of the region");
        (region, from)
    }

    pub(crate) fn read(&mut self, key: u32, va: u64, len: usize) -> Vec<u8> {
        let (region, from) = self.place(key, va, len);
        assert!(!region.writable, "a Read of memory lent for writing");
        region.bytes[from..from + len].to_vec()
    }

    pub(crate) fn write(&mut self, key: u32, va: u64, bytes: &[u8]) {
        let (region, from) = self.place(key, va, bytes.len());
        assert!(region.writable, "a Write to memory lent for reading");
        region.bytes[from..from + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }
}
