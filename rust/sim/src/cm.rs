// SPDX-License-Identifier: GPL-2.0

//! The connection manager: datagrams outside the connection.

use crate::side::Side;
use std::collections::VecDeque;

/// One datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Mad {
    Req(Box<[u8; 92]>),
    Rep(Box<[u8; 196]>),
    Rtu,
    Rej,
    Dreq,
    Drep,
}

impl Mad {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Mad::Req(_) => "REQ (Hello)",
            Mad::Rep(_) => "REP (HelloAck)",
            Mad::Rtu => "RTU",
            Mad::Rej => "REJ",
            Mad::Dreq => "DREQ",
            Mad::Drep => "DREP",
        }
    }
}

/// Datagrams in flight. They may arrive in any order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Cm {
    pub(crate) mads: VecDeque<(Side, Mad)>,
}

impl Cm {
    pub(crate) fn send(&mut self, to: Side, mad: Mad) {
        self.mads.push_back((to, mad));
    }
}
