// SPDX-License-Identifier: GPL-2.0

//! Counters of a namespace, shown in `/proc/net/sdpstats`; counters of its traffic
//! are kept for each socket as well ([`Traffic`]).
//!
//! Relaxed atomics: any context, no lock. A namespace's counters have a copy for each
//! processor, because all of its connections change them.

use crate::{
    engine::conn::Why,
    ffi, //
};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
};

/// Kinds with counters of 0 as their value of zeros.
///
/// # Safety
///
/// It has counters and nothing else.
pub(crate) unsafe trait Counters: Send + Sync {}

/// Counters with a copy for each processor. A reference to them is one to the copy of the
/// processor that was the caller's a moment ago, so it is for changes only.
///
/// # Invariants
///
/// It points to memory of the per-processor allocator for `T`, which was zero at first.
pub(crate) struct PerCpu<T: Counters>(NonNull<T>);

// SAFETY: Counters belong to no thread, and the memory to no other owner.
unsafe impl<T: Counters> Send for PerCpu<T> {}
// SAFETY: Counters belong to no thread.
unsafe impl<T: Counters> Sync for PerCpu<T> {}

impl<T: Counters> PerCpu<T> {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: Plain allocation.
        let base = unsafe { ffi::sdp_percpu_alloc(size_of::<T>(), align_of::<T>()) };
        // INVARIANT: just allocated, zeroed.
        Ok(Self(NonNull::new(base.cast()).ok_or(ENOMEM)?))
    }

    /// The value of a counter; changes of other processors may be missing.
    pub(crate) fn sum(&self, which: impl Fn(&T) -> &Counter) -> i64 {
        let mut sum = 0i64;
        let mut cpu = -1;
        loop {
            // SAFETY: The memory is the allocator's, by the invariant.
            let copy = unsafe { ffi::sdp_percpu_next(self.0.as_ptr().cast(), &mut cpu) };
            let Some(copy) = NonNull::new(copy.cast::<T>()) else {
                return sum;
            };
            // SAFETY: A copy of counters, which live as long as `self`.
            sum = sum.wrapping_add(which(unsafe { copy.as_ref() }).get());
        }
    }
}

impl<T: Counters> core::ops::Deref for PerCpu<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: The memory is the allocator's, by the invariant, and each copy lives
        // as long as `self`. Atomics may be changed from another processor.
        unsafe { &*ffi::sdp_percpu_here(self.0.as_ptr().cast()).cast() }
    }
}

impl<T: Counters> Drop for PerCpu<T> {
    fn drop(&mut self) {
        // SAFETY: Allocated by `new`.
        unsafe { ffi::sdp_percpu_free(self.0.as_ptr().cast()) };
    }
}

macro_rules! counters {
    (
        $(#[$head:meta])*
        $kind:ident {
            $($(#[$doc:meta])* $name:ident,)*
        }
    ) => {
        $(#[$head])*
        ///
        /// One counter each; never reset.
        pub(crate) struct $kind {
            $($(#[$doc])* pub(crate) $name: Counter,)*
        }

        // SAFETY: As the macro has it.
        unsafe impl Counters for $kind {}

        impl PerCpu<$kind> {
            /// Calls `show` with every counter's name and value.
            pub(crate) fn each(&self, mut show: impl FnMut(&'static str, i64)) {
                $(show(stringify!($name), self.sum(|counters| &counters.$name));)*
            }
        }
    };
}

/// The same, for counters that programs get as a struct of the same names.
macro_rules! reported {
    (
        $(#[$head:meta])*
        $kind:ident as $report:path {
            $($(#[$doc:meta])* $name:ident,)*
        }
    ) => {
        counters! {
            $(#[$head])*
            $kind {
                $($(#[$doc])* $name,)*
            }
        }

        impl $kind {
            pub(crate) const fn new() -> Self {
                Self { $($name: Counter::new(),)* }
            }

            /// For getsockopt(2).
            pub(crate) fn report(&self) -> $report {
                use $report as Report;
                Report { $($name: self.$name.get().unsigned_abs(),)* }
            }
        }
    };
}

counters! {
    /// Events of connections and messages.
    Stats {
        /// Connections established that we asked for.
        active_opens,
        /// Connections that were established from a peer's Hello.
        passive_opens,
        /// Connect attempts that failed.
        failed_opens,
        /// Hellos sent again, because the peer had an old connection with the queue pair's number.
        stale_retries,
        /// Sockets that gave SDP up for TCP.
        tcp_fallbacks,
        /// Of these, sockets with a peer that answered over TCP and not over SDP.
        silent_peers,
        /// Of these, sockets that did not ask, because the peer had been silent.
        silent_peers_skipped,
        /// Calls for which the TCP half was refused to a process.
        tcp_refused,
        /// Connections established right now.
        established,
        /// Connections right now that their program has closed.
        orphans,
        /// Of these, ended at once because there were too many, or too little memory.
        orphans_reset,
        /// Hellos that were refused: malformed, no listener.
        hellos_refused,
        /// Connections not made because a policy of IPsec has TCP's packets transformed or dropped.
        ipsec_refused,
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
        /// Stream bytes taken over in the pages they lay in: sendfile, splice.
        spliced_bytes,
        /// Stream bytes given to pipes in the pages they were received in: splice.
        given_bytes,
        /// Stream bytes that a DMA engine copied to readers.
        offloaded_bytes,
        /// Stream bytes that the processor copied in the engine's place.
        offload_missed_bytes,
        /// Times a sender had to wait for room.
        send_waits,
        /// Times a receiver had to wait for data.
        receive_waits,
        /// Times a call that would have slept found completions by polling.
        polled_waits,
        /// Keepalive probes sent.
        keepalive_probes,
        /// Receive buffers that could not be allocated.
        rx_alloc_failures,
        /// Times a sender had to wait because all sockets together held too much.
        memory_waits,
        /// Connections not made because their user has that many of a device.
        user_share_exceeded,
        /// Stream bytes of long calls copied because zero copy is off here.
        copied_off_bytes,
        /// As before, because the peer is excepted.
        copied_excepted_bytes,
        /// As before, because the device cannot do without.
        copied_device_bytes,
        /// As before, because the peer cannot.
        copied_peer_bytes,
    }
}

reported! {
    /// Which way the bytes of the stream went, and what became of offers.
    Traffic as ffi::sdp_traffic {
        /// Stream bytes sent by BCopy.
        bcopy_bytes_sent,
        /// Stream bytes received by BCopy.
        bcopy_bytes_received,
        /// Stream bytes that the peer read from where the writer has them.
        zcopy_bytes_sent,
        /// Stream bytes read to where the reader wants them.
        zcopy_bytes_received,
        /// Stream bytes written by RDMA from where the writer has them.
        written_bytes_sent,
        /// Stream bytes that the peer wrote to where the reader wants them.
        written_bytes_received,
        /// Stream bytes written by RDMA from a copy.
        copied_bytes_written,
        /// Stream bytes sent as Data from where the writer has them.
        gathered_bytes_sent,
        /// Stream bytes read into buffers of the kernel.
        fetched_bytes_received,
        /// Bytes copied because the reader's memory had changed meanwhile.
        changed_bytes,
        /// Stretches of memory offered to peers to be read.
        adverts_sent,
        /// Stretches of memory that peers offered to be read.
        adverts_received,
        /// Offers with a rest that peers wanted as Data.
        adverts_declined,
        /// Offers taken back because no peer read, or as peers had room to be
        /// written to.
        adverts_recalled,
        /// Offers withdrawn: a signal, a timeout.
        adverts_withdrawn,
        /// Offers not made in the end: the bytes went as Data.
        adverts_unused,
        /// Answers of peers about offers that had ended.
        answers_stale,
        /// Stretches of memory offered to peers to be written.
        sinks_sent,
        /// Of these, written to.
        sinks_used,
        /// Of these, used up by a message with payload.
        sinks_discarded,
        /// Of these, taken back or crossed, unused.
        sinks_returned,
        /// Stretches of memory that peers offered to be written.
        sinks_received,
        /// Of these, offered too late.
        sinks_stale,
        /// Calls cut short by a signal while they had something offered.
        cancels_by_signal,
        /// As before, by the end of their time.
        cancels_by_timeout,
        /// As before, by a signal that kills.
        cancels_by_kill,
        /// Registrations with a memory region that was there.
        region_hits,
        /// Registrations for which one was made.
        region_misses,
        /// Times that there was none.
        region_shortages,
        /// Stretches of memory that could not be pinned or mapped, and were copied.
        pin_failures,
        /// Microseconds that calls waited for the peer with their memory pinned.
        peer_wait_us,
        /// Stretches of memory that the translation cache had.
        cache_hits,
        /// Stretches of memory that it could have had.
        cache_misses,
        /// Stream bytes copied because a long call may not wait for the peer.
        copied_nowait_bytes,
        /// As before, because the memory cannot be pinned.
        copied_memory_bytes,
        /// As before, because regions or memory to pin have run out.
        copied_limit_bytes,
        /// As before, because the peer takes no offer at that time.
        copied_busy_bytes,
        /// Bytes of offers requested as Data, because a call may not wait for a Read.
        declined_bytes,
    }
}

impl Traffic {
    /// The counter for the end of an offer to read.
    pub(crate) fn of_return(why: Why) -> Option<fn(&Traffic) -> &Counter> {
        match why {
            Why::Through | Why::Over => None,
            Why::SendSm => Some(|t| &t.adverts_declined),
            Why::Recalled => Some(|t| &t.adverts_recalled),
            Why::Withdrawn => Some(|t| &t.adverts_withdrawn),
            Why::NotOffered => Some(|t| &t.adverts_unused),
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
