// SPDX-License-Identifier: GPL-2.0

//! Counts how often each kind of lent memory was used, so that histories without any are noticed.

use sdp_engine::engine::stats::Stats;

const NAMES: [&str; 14] = [
    "bytes of ours that the peer reads",
    "bytes of the peer that are read",
    "bytes written into the peer's memory",
    "bytes that the peer writes",
    "SrcAvail sent",
    "SrcAvail received",
    "SrcAvail declined at once",
    "SinkAvail sent",
    "SinkAvail received",
    "stale SinkAvail",
    "SendSm sent",
    "SendSm received",
    "cancel sent",
    "cancel received",
];

/// Sums over connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loans([u64; NAMES.len()]);

impl Loans {
    pub(crate) fn of(stats: &Stats) -> Self {
        Self([
            stats.read_bytes_sent,
            stats.read_bytes_received,
            stats.written_bytes_sent,
            stats.written_bytes_received,
            stats.src_avails_sent.into(),
            stats.src_avails_received.into(),
            stats.src_avails_declined.into(),
            stats.sink_avails_sent.into(),
            stats.sink_avails_received.into(),
            stats.sink_avails_stale.into(),
            stats.send_sms_sent.into(),
            stats.send_sms_received.into(),
            stats.cancels_sent.into(),
            stats.cancels_received.into(),
        ])
    }

    /// Adds the counts of others.
    pub fn add(&mut self, other: &Loans) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }

    /// The kinds that occurred less often than `least`.
    pub fn rarer_than(&self, least: u64) -> Vec<&'static str> {
        let counted = NAMES.iter().zip(self.0);
        counted
            .filter(|(_, count)| *count < least)
            .map(|(name, _)| *name)
            .collect()
    }
}
