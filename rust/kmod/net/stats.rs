// SPDX-License-Identifier: GPL-2.0

//! Counters of a namespace, shown in `/proc/net/sdpstats`.
//!
//! Relaxed atomics: any context, no lock.

use crate::engine::conn::Why;
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// One counter each; never reset.
        pub(crate) struct Stats {
            $($(#[$doc])* pub(crate) $name: Counter,)*
        }

        impl Stats {
            pub(crate) const fn new() -> Self {
                Self { $($name: Counter::new(),)* }
            }

            /// Calls `show` with every counter's name and value.
            pub(crate) fn each(&self, mut show: impl FnMut(&'static str, i64)) {
                $(show(stringify!($name), self.$name.get());)*
            }
        }
    };
}

counters! {
    /// Connections established that we asked for.
    active_opens,
    /// Connections that were established from a peer's Hello.
    passive_opens,
    /// Connect attempts that failed.
    failed_opens,
    /// Sockets that gave SDP up for TCP.
    tcp_fallbacks,
    /// Connections established right now.
    established,
    /// Hellos that were refused: malformed, no listener.
    hellos_refused,
    /// Hellos that were left for a retry: backlog full, no memory.
    hellos_dropped,
    /// Connections ended by the peer without DisConn.
    resets_received,
    /// Connections ended by us without DisConn.
    resets_sent,
    /// Messages that violated the protocol; each ended its connection.
    violations,
    /// Connections lost to completion errors.
    link_failures,
    /// Connections lost to device removal.
    device_removals,
    /// Data messages sent, payload only.
    data_msgs_sent,
    /// Data messages received, payload only.
    data_msgs_received,
    /// Messages without payload sent: credits, control.
    control_msgs_sent,
    /// Messages without payload received.
    control_msgs_received,
    /// Stream bytes sent by BCopy.
    bcopy_bytes_sent,
    /// Stream bytes received by BCopy.
    bcopy_bytes_received,
    /// Stream bytes that the peer read from where the writer has them.
    zcopy_bytes_sent,
    /// Stream bytes read to where the reader wants them.
    zcopy_bytes_received,
    /// Stream bytes sent as Data from where the writer has them.
    gathered_bytes_sent,
    /// Stream bytes taken over in the pages they lay in: sendfile, splice.
    spliced_bytes,
    /// Stream bytes read into buffers of the kernel.
    fetched_bytes_received,
    /// Stretches of memory offered to peers.
    adverts_sent,
    /// Stretches of memory that peers offered.
    adverts_received,
    /// Offers of which peers wanted a rest as Data.
    adverts_declined,
    /// Offers taken back because nobody read.
    adverts_recalled,
    /// Offers withdrawn: a signal, a timeout.
    adverts_withdrawn,
    /// Offers not made in the end: the bytes went as Data.
    adverts_unused,
    /// Registrations with a memory region that was there.
    region_hits,
    /// Registrations for which one was made.
    region_misses,
    /// Times that there was none.
    region_shortages,
    /// Stretches of memory that could not be pinned or mapped, and were copied.
    pin_failures,
    /// Bytes copied because the reader's memory had changed during a Read.
    changed_bytes,
    /// Times a sender had to wait for room.
    send_waits,
    /// Times a receiver had to wait for data.
    receive_waits,
    /// Keepalive probes sent.
    keepalive_probes,
    /// Receive buffers that could not be allocated.
    rx_alloc_failures,
}

impl Stats {
    /// An offer is over.
    pub(crate) fn count_return(&self, why: Why) {
        match why {
            Why::Through | Why::Over => {}
            Why::SendSm => self.adverts_declined.inc(),
            Why::Recalled => self.adverts_recalled.inc(),
            Why::Withdrawn => self.adverts_withdrawn.inc(),
            Why::NotOffered => self.adverts_unused.inc(),
        }
    }
}

/// A statistic.
pub(crate) struct Counter(Atomic<i64>);

impl Counter {
    const fn new() -> Self {
        Self(Atomic::new(0))
    }

    pub(crate) fn inc(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub(crate) fn dec(&self) {
        self.0.fetch_sub(1, Relaxed);
    }

    pub(crate) fn add(&self, n: u32) {
        self.0.fetch_add(i64::from(n), Relaxed);
    }

    pub(crate) fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}
