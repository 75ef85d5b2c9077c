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
    /// Stream bytes that the peer has read from our memory.
    pub read_bytes_sent: u64,
    /// Stream bytes that we have read from the peer's memory.
    pub read_bytes_received: u64,
    /// Stream bytes that we have written into the peer's memory.
    pub written_bytes_sent: u64,
    /// Stream bytes that the peer has written into our memory.
    pub written_bytes_received: u64,
    /// SrcAvail messages sent.
    pub src_avails_sent: u32,
    /// SrcAvail messages received.
    pub src_avails_received: u32,
    /// SrcAvail messages declined as soon as they came.
    pub src_avails_declined: u32,
    /// SinkAvail messages sent.
    pub sink_avails_sent: u32,
    /// SinkAvail messages received.
    pub sink_avails_received: u32,
    /// SinkAvail messages among them that were stale.
    pub sink_avails_stale: u32,
    /// SendSm messages sent.
    pub send_sms_sent: u32,
    /// SendSm messages received that were about something outstanding.
    pub send_sms_received: u32,
    /// SendSm and RdmaRdCompl received about what was over.
    pub stale_answers: u32,
    /// SrcAvailCancel and SinkAvailCancel sent.
    pub cancels_sent: u32,
    /// SrcAvailCancel and SinkAvailCancel received.
    pub cancels_received: u32,
}
