// SPDX-License-Identifier: GPL-2.0

//! The counters that `rdma statistic` shows of a device.

use crate::ffi;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $text:literal),* $(,)?) => {
        /// Counters that only grow.
        #[derive(Default)]
        pub(crate) struct Counters {
            $($(#[$doc])* pub(crate) $name: Counter,)*
        }

        impl Counters {
            pub(crate) const COUNT: usize = [$($text),*].len();

            /// Their values, in the order of `DESCRIPTIONS`.
            pub(crate) fn values(&self) -> [u64; Self::COUNT] {
                [$(self.$name.get()),*]
            }
        }

        /// Their names, in ib_core's form.
        pub(crate) static DESCRIPTIONS: Descriptions = Descriptions([
            $(ffi::rdma_stat_desc {
                name: concat!($text, "\0").as_ptr().cast(),
                flags: 0,
                priv_: core::ptr::null(),
            }),*
        ]);
    };
}

counters!(
    /// Requests that were executed.
    sends = "sends",
    writes = "rdma_writes",
    reads = "rdma_reads",
    registrations = "registrations",
    invalidations = "invalidations",
    /// Bytes of payload that were sent from this device, or read by it.
    bytes = "copied_bytes",
    /// Requests that were executed in the context of their poster.
    inline = "inline_requests",
    /// Bytes that a copy engine moved.
    offloaded = "offloaded_bytes",
    datagrams_sent = "datagrams_sent",
    datagrams_received = "datagrams_received",
    /// Datagrams dropped because there was no queue pair, no receive, or too little room.
    datagrams_dropped = "datagrams_dropped",
    /// Messages for which no receive was posted.
    not_ready = "rnr_naks_sent",
    rnr_retries_exceeded = "rnr_retries_exceeded",
    retries_exceeded = "retries_exceeded",
    /// Requests of peers that failed the check of keys, bounds, rights or domains.
    access_refused = "remote_access_refused",
    /// Requests of peers that are invalid here.
    requests_refused = "remote_invalid_requests",
    local_errors = "local_errors",
    flushed = "flushed_requests",
    cq_overruns = "cq_overruns",
    probes_sent = "probes_sent",
    probes_answered = "probes_answered",
);

pub(crate) struct Descriptions([ffi::rdma_stat_desc; Counters::COUNT]);

// SAFETY: The pointers are to constants.
unsafe impl Sync for Descriptions {}

impl Descriptions {
    pub(crate) fn as_ptr(&self) -> *const ffi::rdma_stat_desc {
        self.0.as_ptr()
    }
}

/// A counter that only grows.
pub(crate) struct Counter(Atomic<u64>);

impl Default for Counter {
    fn default() -> Self {
        Self(Atomic::new(0))
    }
}

impl Counter {
    pub(crate) fn add(&self, amount: u64) {
        self.0.add(amount, Relaxed);
    }

    pub(crate) fn one(&self) {
        self.add(1);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
