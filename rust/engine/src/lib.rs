// SPDX-License-Identifier: GPL-2.0

//! Host crate around the SDP protocol engine; the kernel module mounts the same
//! `engine` directory at its own root.
//!
//! # Example
//!
//! Two engines, each with a shell that copies everything: handshake, bytes, close. A
//! real shell also sets an alarm by [`Deadlines`](engine::timer::Deadlines).
//!
//! ```
//! use sdp_engine::engine::conn::{Config, Connection, Ended, Output, Queue, Zcopy};
//! use sdp_engine::engine::{types::Ip, wire::hello::Hello, wire::HEADER_MAX};
//! use std::collections::VecDeque;
//!
//! struct Side { engine: Connection, unsent: VecDeque<u8>, read: Vec<u8> }
//!
//! impl Side {
//!     fn new(engine: Connection) -> Self {
//!         let mut side = Side { engine, unsent: VecDeque::new(), read: Vec::new() };
//!         side.drain();
//!         side
//!     }
//!
//!     /// The drain rule. Returns messages for the other side, and whether a DREQ goes.
//!     fn drain(&mut self) -> (Vec<Vec<u8>>, bool) {
//!         let mut messages = Vec::new();
//!         loop {
//!             self.engine.on_receives_posted(self.engine.receives_wanted());
//!             match self.engine.poll_output() {
//!                 Some(Output::Send { header, payload_len, .. }) => {
//!                     let payload = self.unsent.drain(..payload_len as usize);
//!                     messages.push(header.as_bytes().iter().copied().chain(payload).collect());
//!                 }
//!                 Some(Output::Disconnect) => return (messages, true),
//!                 Some(other) => unreachable!("{other:?} without zero copy"),
//!                 None => return (messages, false),
//!             }
//!         }
//!     }
//!
//!     fn write(&mut self, bytes: &[u8]) {
//!         self.engine.queue(bytes.len() as u32, Queue::default()).unwrap();
//!         self.unsent.extend(bytes);
//!     }
//!
//!     fn receive(&mut self, message: &[u8]) {
//!         let head = &message[..message.len().min(HEADER_MAX)];
//!         let delivery = self.engine.handle_message(head, message.len() as u32).unwrap();
//!         if delivery.payload_len > 0 {
//!             self.read.extend(&message[delivery.payload_offset.into()..]);
//!             self.engine.on_buffer_consumed();
//!         }
//!     }
//! }
//!
//! /// Carries messages from one side to the other, and then their completions back.
//! fn carry(from: &mut Side, to: &mut Side) {
//!     let (messages, disconnect) = from.drain();
//!     for message in messages {
//!         to.receive(&message);
//!         from.engine.handle_send_completed();
//!     }
//!     if disconnect {
//!         to.engine.handle_disconnect_requested();
//!         from.engine.handle_disconnected();
//!     }
//! }
//!
//! let cfg = Config {
//!     rcv_size: 1024, rx_depth: 16, rx_initial: 4, tx_depth: 8, max_send_payload: 1008,
//!     max_adverts: 1, rcv_size_max: 1024, zcopy: Zcopy::OFF,
//! };
//! let ip = Ip::V4([10, 0, 0, 1]);
//! let mut a = Side::new(Connection::connecting(cfg));
//! let hello = a.engine.hello(ip, ip, 4242).unwrap(); // travels in the CM's REQ
//! let mut b = Side::new(Connection::accepting(cfg, &Hello::parse(&hello).unwrap()));
//! let ack = b.engine.hello_ack().unwrap(); // in its REP
//! a.engine.handle_hello_ack(&ack).unwrap();
//! b.engine.handle_established(); // the RTU
//! a.write(&[7; 5000]);
//! b.write(b"pong");
//! a.engine.shutdown_send();
//! b.engine.shutdown_send();
//! for _ in 0..20 {
//!     carry(&mut a, &mut b);
//!     carry(&mut b, &mut a);
//! }
//! assert_eq!((a.read, b.read), (b"pong".to_vec(), vec![7; 5000]));
//! assert_eq!([a.engine.ended(), b.engine.ended()], [Some(Ended::Finished); 2]);
//! ```
#![no_std]

#[cfg(test)]
extern crate std;

pub mod engine;
