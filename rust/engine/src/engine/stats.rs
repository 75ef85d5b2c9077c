// SPDX-License-Identifier: GPL-2.0

//! The counters of a connection.

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
    /// SendSm messages received about outstanding adverts.
    pub send_sms_received: u32,
    /// SendSm and RdmaRdCompl received about adverts that had ended.
    pub stale_answers: u32,
    /// SrcAvailCancel and SinkAvailCancel sent.
    pub cancels_sent: u32,
    /// SrcAvailCancel and SinkAvailCancel received.
    pub cancels_received: u32,
    /// Messages received of an unknown kind.
    pub unknown_received: u32,
}

/// The adverts sent up to some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advertised {
    /// SrcAvail messages.
    pub sources: u32,
    /// SinkAvail messages.
    pub sinks: u32,
}

/// The peer's adverts and answers up to some moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answered {
    /// Answers about adverts that had ended.
    pub stale: u32,
    /// SinkAvail messages.
    pub sinks: u32,
    /// Of these, those that were stale.
    pub sinks_stale: u32,
}

impl Stats {
    /// Stream bytes that have left, whichever way.
    pub fn bytes_sent(&self) -> u64 {
        self.payload_bytes_sent
            .wrapping_add(self.read_bytes_sent)
            .wrapping_add(self.written_bytes_sent)
    }

    /// Stream bytes that have come, whichever way.
    pub fn bytes_received(&self) -> u64 {
        self.payload_bytes_received
            .wrapping_add(self.read_bytes_received)
            .wrapping_add(self.written_bytes_received)
    }

    /// Times that payload waited: for a credit, and for a slot.
    pub fn stalls(&self) -> (u32, u32) {
        (self.credit_stalls, self.slot_stalls)
    }

    /// For a shell that keeps sums of its own.
    pub fn advertised(&self) -> Advertised {
        Advertised {
            sources: self.src_avails_sent,
            sinks: self.sink_avails_sent,
        }
    }

    /// As [`advertised`](Self::advertised).
    pub fn answered(&self) -> Answered {
        Answered {
            stale: self.stale_answers,
            sinks: self.sink_avails_received,
            sinks_stale: self.sink_avails_stale,
        }
    }
}

impl Advertised {
    /// The part after `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            sources: self.sources.wrapping_sub(earlier.sources),
            sinks: self.sinks.wrapping_sub(earlier.sinks),
        }
    }
}

impl Answered {
    /// The part after `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            stale: self.stale.wrapping_sub(earlier.stale),
            sinks: self.sinks.wrapping_sub(earlier.sinks),
            sinks_stale: self.sinks_stale.wrapping_sub(earlier.sinks_stale),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Stats;

    #[test]
    fn sums_go_on_where_counters_begin_anew() {
        let mut stats = Stats {
            src_avails_sent: u32::MAX,
            stale_answers: u32::MAX,
            sink_avails_received: 7,
            ..Stats::default()
        };
        let (advertised, answered) = (stats.advertised(), stats.answered());
        stats.src_avails_sent = 1;
        stats.sink_avails_sent = 3;
        stats.stale_answers = 0;
        stats.sink_avails_received = 9;
        stats.sink_avails_stale = 1;
        let sent = stats.advertised().since(advertised);
        assert_eq!((sent.sources, sent.sinks), (2, 3));
        let heard = stats.answered().since(answered);
        assert_eq!((heard.stale, heard.sinks, heard.sinks_stale), (1, 2, 1));
    }

    #[test]
    fn all_ways_count() {
        let stats = Stats {
            payload_bytes_sent: 1,
            read_bytes_sent: 20,
            written_bytes_sent: 300,
            payload_bytes_received: 4,
            read_bytes_received: 50,
            written_bytes_received: 600,
            ..Stats::default()
        };
        assert_eq!(stats.bytes_sent(), 321);
        assert_eq!(stats.bytes_received(), 654);
    }
}
