// SPDX-License-Identifier: GPL-2.0

//! Pins of the calling program's memory, for one use or from the translation cache.
//!
//! Contexts: the system call of the program, may sleep. No locks, but `lock_sock`.

use crate::{
    object::Sock,
    prelude::*,
    rdma::{
        pages::{
            Purpose,
            UserPages, //
        },
        translations::{
            self,
            Given, //
        },
    },
};
use kernel::sync::Arc;

impl Sock {
    /// Pins up to `len` bytes at `addr`, of `room` that the program has given. Fewer than `least` are of
    /// no use.
    pub(super) fn pin(
        &self,
        addr: usize,
        (len, room): (usize, usize),
        least: u32,
        purpose: Purpose,
    ) -> Result<Arc<UserPages>> {
        let net = self.net();
        if !net.caches() {
            return self.pinned(|| UserPages::pin(addr, len, purpose));
        }
        let given = Given {
            addr,
            len,
            room,
            least: least as usize,
            purpose,
            held: &net.held,
        };
        let (pages, found) = self.pinned(|| translations::pin(&given))?;
        if found {
            self.count(|t| &t.cache_hits, 1);
        } else {
            self.count(|t| &t.cache_misses, 1);
        }
        Ok(pages)
    }

    /// Pins up to `len` bytes at `addr`, which nothing else may have pinned.
    pub(super) fn pin_alone(
        &self,
        addr: usize,
        len: usize,
        purpose: Purpose,
    ) -> Result<Arc<UserPages>> {
        translations::evict_range(addr, len);
        self.pinned(|| UserPages::pin(addr, len, purpose))
    }

    /// Calls `pin`. If the user may lock no more memory, what the cache has of it goes first.
    fn pinned<R>(&self, pin: impl Fn() -> Result<R>) -> Result<R> {
        loop {
            match pin() {
                Err(e) if e == ENOBUFS && translations::evict_of_user() => {}
                pinned => return pinned.inspect_err(|_| self.count(|t| &t.pin_failures, 1)),
            }
        }
    }
}
