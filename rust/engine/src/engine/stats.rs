// SPDX-License-Identifier: GPL-2.0

//! What a connection counts.

/// Counters of one connection. They wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Stream bytes handed to the shell for sending.
    pub payload_bytes_sent: u64,
    /// Stream bytes delivered to the shell.
    pub payload_bytes_received: u64,
    /// All messages sent.
    pub messages_sent: u32,
    /// All messages received.
    pub messages_received: u32,
    /// Data messages without payload sent: credit updates and announcements.
    pub credit_updates_sent: u32,
    /// Data messages without payload received.
    pub credit_updates_received: u32,
    /// Times that payload was ready and only a credit was missing.
    pub credit_stalls: u32,
    /// Times that payload was ready and only a send slot was missing.
    pub slot_stalls: u32,
    /// Urgent bytes sent.
    pub urgent_sent: u32,
    /// Urgent bytes received.
    pub urgent_received: u32,
    /// SrcAvail messages declined.
    pub src_avails_declined: u32,
}
