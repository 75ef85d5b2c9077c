// SPDX-License-Identifier: GPL-2.0

//! What the parts of a socket report to the socket that has them.
//!
//! The parts know no socket. Each has a trait for what goes up, which is implemented here.
//!
//! Contexts: may sleep. Without the endpoint's lock.

use crate::{
    object::{
        Sock,
        SockRef, //
    },
    prelude::KBox,
    wake::Woken,
    zcopy::promise::Promise, //
};

impl Woken for Sock {
    fn keep_promise(&self, promise: KBox<Promise>) {
        Sock::keep_promise(self, promise);
    }

    fn wake_settled(&self) {
        self.settled().wake();
    }

    fn lose_pending(listener: &SockRef) {
        Sock::lose_pending(listener);
    }
}
