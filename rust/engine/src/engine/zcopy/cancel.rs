// SPDX-License-Identifier: GPL-2.0

//! Taking advertisements back: ours, either kind.
//!
//! A cancel concerns all outstanding adverts of its kind, so one at a time is
//! enough, and it ends when none is outstanding any more.
//!
//! rules: SRCCANCEL, SINKCANCEL

machine! {
    /// SrcAvailCancel or SinkAvailCancel, as its sender sees it.
    pub enum Cancel {
        /// Nothing is to be taken back.
        No,
        /// To be sent.
        Wanted,
        /// Sent, and what it concerns is not resolved.
        Sent,
    }

    /// Something outstanding is to be taken back.
    on_wanted: No => Wanted;
    /// The message was posted.
    on_sent: Wanted => Sent;
    /// Nothing is outstanding any more.
    on_resolved: Wanted | Sent => No;
}
