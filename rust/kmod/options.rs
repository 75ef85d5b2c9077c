// SPDX-License-Identifier: GPL-2.0

//! The options of a socket below SOL_SOCKET: what a program has set.
//!
//! `sock/setsockopt.rs` has the calls that set them. Locks: under the endpoint's lock.

use crate::{
    engine::{
        conn::Connection,
        policy::threshold::Threshold,
        types::Ip, //
    },
    ffi,
    remembered::Remembered, //
};

/// Length of the name of a congestion control.
pub(crate) const CONGESTION_LEN: usize = ffi::SDP_CONGESTION_LEN as usize;

/// Options that a program has set. Accepted connections inherit them.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    pub(crate) nodelay: bool,
    pub(crate) cork: bool,
    pub(crate) quickack: bool,
    pub(crate) v6only: bool,
    /// TCP_USER_TIMEOUT in milliseconds, or 0.
    pub(crate) user_timeout: u32,
    /// TCP_INQ.
    pub(crate) inq: bool,
    pub(crate) keep_idle: Option<u32>,
    pub(crate) keep_interval: Option<u32>,
    pub(crate) keep_count: Option<u32>,
    /// TCP_MAXSEG as it was set, or 0.
    pub(crate) max_segment: i32,
    /// TCP_CONGESTION, padded with zeros. Without effect, because the device's
    /// transport controls the flow.
    pub(crate) congestion: [u8; CONGESTION_LEN],
    pub(crate) remembered: Remembered,
    /// Thresholds of writers and readers; `None`: the namespace's.
    pub(crate) zcopy_source: Option<Threshold>,
    pub(crate) zcopy_sink: Option<Threshold>,
    /// Connections are made so that memory can be borrowed (SDP_BORROW).
    pub(crate) borrows: bool,
}

impl Options {
    pub(crate) const fn new() -> Self {
        Self {
            nodelay: false,
            cork: false,
            quickack: true,
            v6only: false,
            user_timeout: 0,
            inq: false,
            keep_idle: None,
            keep_interval: None,
            keep_count: None,
            max_segment: 0,
            congestion: *b"rdma\0\0\0\0\0\0\0\0\0\0\0\0",
            remembered: Remembered::new(),
            zcopy_source: None,
            zcopy_sink: None,
            borrows: false,
        }
    }

    /// The class of service of a connection with `peer`: IP_TOS or IPV6_TCLASS.
    pub(crate) fn service_class(&self, peer: Ip) -> u8 {
        let class = match peer {
            Ip::V4(_) => self.remembered.get(ffi::SOL_IP, ffi::IP_TOS),
            Ip::V6(_) => self.remembered.get(ffi::SOL_IPV6, ffi::IPV6_TCLASS),
        };
        class
            .and_then(|class| u8::try_from(class).ok())
            .unwrap_or(0)
    }

    /// Seconds that a connection waits for its first bytes (TCP_DEFER_ACCEPT).
    pub(crate) fn deferral_secs(&self) -> u32 {
        let secs = self.remembered.get(ffi::SOL_TCP, ffi::TCP_DEFER_ACCEPT);
        secs.and_then(|secs| u32::try_from(secs).ok()).unwrap_or(0)
    }

    /// TCP_DEFER_ACCEPT of a connection is 0.
    pub(crate) fn forget_deferral(&mut self) {
        let _ = self.remembered.set(ffi::SOL_TCP, ffi::TCP_DEFER_ACCEPT, 0);
    }

    /// Applies the options to a new connection.
    pub(crate) fn tell(&self, engine: &mut Connection) {
        engine.set_nodelay(self.nodelay);
        engine.set_cork(self.cork);
    }
}
