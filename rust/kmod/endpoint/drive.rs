// SPDX-License-Identifier: GPL-2.0

//! The way into the endpoint for all that concerns the engine.
//!
//! Contexts: may sleep.

use crate::{
    endpoint::Inner,
    object::Sock, //
};

impl Sock {
    /// Changes the endpoint, carries out the engine's outputs, and delivers the
    /// wake-ups. May sleep.
    pub(crate) fn drive<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        self.drive_if(|inner| (f(inner), true))
    }

    /// As `drive`, if `f` says so. Otherwise nothing has changed for the engine, or the caller
    /// drives later.
    pub(crate) fn drive_if<R>(&self, f: impl FnOnce(&mut Inner) -> (R, bool)) -> R {
        self.visit(|inner| {
            let attends = inner.begin_attending(self);
            let (result, due) = f(inner);
            if due {
                inner.settle(self);
            }
            inner.end_attending(self, attends);
            result
        })
    }

    pub(crate) fn consume(&self, n: u32) {
        self.drive_if(|inner| ((), inner.consume(n)));
    }
}
