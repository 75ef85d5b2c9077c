// SPDX-License-Identifier: GPL-2.0

//! The one door to the engine of a connection.
//!
//! All files may ask the engine. Its inputs are the methods here, each a method of
//! [`Connection`] of the same name. Those that the run loop needs are visible in
//! `endpoint` alone: only the run loop takes outputs, hands in messages and completions,
//! and says what it has posted.
//!
//! Locks: under the endpoint's lock, and within [`Sock::drive`](crate::object::Sock::drive),
//! which carries out the outputs that an input leads to.

use crate::{
    engine::{
        conn::{
            Connection,
            Delivery,
            Output,
            Queue,
            Remote,
            Run,
            SinkBuffer, //
        },
        error::{
            PeerError,
            Refused, //
        },
        timer::Timer,
        types::{
            RunId,
            SinkId, //
        }, //
    },
    options::Options, //
};
use core::ops::Deref;

/// The engine of one connection.
pub(crate) struct Engine(Connection);

impl Deref for Engine {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}

macro_rules! inputs {
    ($vis:vis, $($name:ident($($arg:ident: $kind:ty),*) $(-> $result:ty)?;)*) => {
        impl Engine {
            $(
                $vis fn $name(&mut self $(, $arg: $kind)*) $(-> $result)? {
                    self.0.$name($($arg),*)
                }
            )*
        }
    };
}

inputs! {
    pub(crate),
    // The connection manager.
    handle_disconnected();
    handle_established();
    handle_disconnect_requested();
    handle_hello_ack(private_data: &[u8]) -> Result<(), PeerError>;
    limit_reads(depth: u8, peer_reads: bool);
    handle_link_failed();
    handle_unanswered();

    // System calls.
    queue(len: u32, how: Queue) -> Result<(), Refused>;
    push();
    withdraw_more();
    release_chunk();
    set_nodelay(on: bool);
    set_cork(on: bool);
    on_buffer_consumed();
    shutdown_send();
    close_receive();
    abort();
    on_idle();

    // Zero copy.
    queue_run(run: Run) -> Result<RunId, Refused>;
    withdraw(run: RunId) -> Result<(), Refused>;
    recall();
    copy_queued();
    on_copied(run: RunId, len: u32) -> Result<(), Refused>;
    request_pipelined() -> Result<(), Refused>;
    set_req_pipe(on: bool);
    set_reading(on: bool);
    start_read(max: u32) -> Result<Remote, Refused>;
    start_split_read(first: u32, second: u32) -> Result<(Remote, Remote), Refused>;
    handle_read_completed();
    decline();
    offer_sink(sink: SinkBuffer) -> Result<SinkId, Refused>;
    cancel_sinks();
    hold_offers(may: bool) -> bool;
}

// The run loop.
inputs! {
    pub(super),
    handle_message(head: &[u8], len: u32) -> Result<Delivery, PeerError>;
    handle_send_completed();
    handle_write_completed();
    handle_timeout(timer: Timer);
    on_receives_posted(n: u16);
    limit_payload(max: u32);
    allow_posts(on: bool);
    poll_output() -> Option<Output>;
    hold_rcv_size(on: bool);
}

impl Engine {
    /// The engine of a connection that begins; what it has been told so far has led to no
    /// output.
    pub(crate) fn new(connection: Connection) -> Self {
        Self(connection)
    }

    /// Applies what the program has set.
    pub(crate) fn apply(&mut self, options: &Options) {
        options.tell(&mut self.0);
    }

    /// For the link, which may have to keep the size of receive buffers.
    pub(super) fn whole(&mut self) -> &mut Connection {
        &mut self.0
    }
}
