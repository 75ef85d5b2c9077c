// SPDX-License-Identifier: GPL-2.0

//! The meaning of the context of a connection identifier.
//!
//! The context is a number, because an event may come for an identifier that has been
//! destroyed (`rdma::cm`). Then the number leads nowhere.
//!
//! Contexts: may sleep. Locks: `TABLE`, a leaf.

use crate::{
    handle::SockRef,
    prelude::*,
    rdma::noio::NoIo, //
};
use kernel::{
    rbtree::RBTree,
    sync::global_lock, //
};

/// The connection of an identifier.
struct Entry {
    sock: SockRef,
    generation: u64,
    /// The peer knows of the end, or will not be told any more.
    parted: bool,
}

pub(crate) struct Table {
    last: usize,
    entries: Option<RBTree<usize, Entry>>,
}

global_lock! {
    // SAFETY: Initialised in the module's init, before the first use.
    pub(crate) unsafe(uninit) static TABLE: Mutex<Table> = Table {
        last: 0,
        entries: None,
    };
}

/// The right to an identifier's context; after its drop the context leads nowhere.
pub(crate) struct Ticket(usize);

impl Ticket {
    pub(crate) fn new(sock: &SockRef, generation: u64) -> Result<Self> {
        let entry = Entry {
            sock: sock.clone(),
            generation,
            parted: false,
        };
        let _noio = NoIo::new();
        let mut table = TABLE.lock();
        let table = &mut *table;
        // The number of tickets never gets so large.
        table.last = table.last.wrapping_add(1);
        let number = table.last;
        table
            .entries
            .get_or_insert_with(RBTree::new)
            .try_create_and_insert(number, entry, GFP_KERNEL)?;
        Ok(Self(number))
    }

    /// For the identifier.
    pub(crate) fn context(&self) -> usize {
        self.0
    }

    /// See [`set_parted`].
    pub(crate) fn is_parted(&self) -> bool {
        let table = TABLE.lock();
        let entry = table.entries.as_ref().and_then(|e| e.get(&self.0));
        entry.is_none_or(|entry| entry.parted)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // Without the lock: it may be the socket's last reference.
        let entry = TABLE
            .lock()
            .entries
            .as_mut()
            .and_then(|entries| entries.remove(&self.0));
        drop(entry);
    }
}

/// The socket, and the number of its connection attempt, of an identifier with that
/// context.
pub(super) fn find(context: usize) -> Option<(SockRef, u64)> {
    let table = TABLE.lock();
    let entry = table.entries.as_ref()?.get(&context)?;
    Some((entry.sock.clone(), entry.generation))
}

/// The peer needs no further message from that identifier.
pub(super) fn set_parted(context: usize) {
    let mut table = TABLE.lock();
    let entries = table.entries.as_mut();
    if let Some(entry) = entries.and_then(|e| e.get_mut(&context)) {
        entry.parted = true;
    }
}
