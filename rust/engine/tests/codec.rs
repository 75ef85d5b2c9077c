// SPDX-License-Identifier: GPL-2.0

//! Any bytes into the codec and into a connection.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

mod script;

use proptest::prelude::*;
use script::Script;
use sdp_engine::engine::{
    conn::State,
    types::{Ip, Mseq},
    wire::{
        avail::{SinkAvail, SrcAvail},
        hello::{Hello, HelloAck},
        mode::{Half, Mode, ModeChange},
        Body, Flags, Message, Mid, Repr,
    },
};

fn body() -> impl Strategy<Value = Body> {
    let change = (
        prop_oneof![Just(Half::Receive), Just(Half::Send)],
        prop_oneof![
            Just(Mode::Buffered),
            Just(Mode::Combined),
            Just(Mode::Pipelined)
        ],
    )
        .prop_map(|(half, mode)| Body::ModeChange(ModeChange { half, mode }));
    prop_oneof![
        Just(Body::DisConn),
        Just(Body::AbortConn),
        Just(Body::SendSm),
        Just(Body::SrcAvailCancel),
        Just(Body::SinkAvailCancel),
        Just(Body::SinkCancelAck),
        Just(Body::SuspCommAck),
        Just(Body::Data),
        Just(Body::Handshake(Mid::Hello)),
        Just(Body::Handshake(Mid::HelloAck)),
        any::<u32>().prop_map(Body::RdmaWrCompl),
        any::<u32>().prop_map(Body::RdmaRdCompl),
        any::<u32>().prop_map(Body::ChRcvBuf),
        any::<u32>().prop_map(Body::ChRcvBufAck),
        any::<u64>().prop_map(Body::SuspComm),
        (0x10u8..0xfd).prop_map(Body::Unknown),
        change,
        (any::<u32>(), any::<u32>(), any::<u64>())
            .prop_map(|(len, r_key, va)| Body::SrcAvail(SrcAvail { len, r_key, va })),
        (any::<u32>(), any::<u32>(), any::<u64>(), any::<u32>()).prop_map(
            |(len, r_key, va, non_discards)| {
                Body::SinkAvail(SinkAvail {
                    len,
                    r_key,
                    va,
                    non_discards,
                })
            }
        ),
    ]
}

fn flags() -> impl Strategy<Value = Flags> {
    any::<(bool, bool, bool)>().prop_map(|(oob_pres, oob_pend, req_pipe)| Flags {
        oob_pres,
        oob_pend,
        req_pipe,
    })
}

fn repr() -> impl Strategy<Value = Repr> {
    (
        flags(),
        any::<u16>(),
        any::<u32>(),
        any::<u32>(),
        body(),
        0u32..100_000,
    )
        .prop_map(|(flags, bufs, mseq, ack, body, payload_len)| Repr {
            flags,
            bufs,
            mseq: Mseq::new(mseq),
            mseq_ack: Mseq::new(ack),
            body,
            payload_len: match body {
                Body::Data | Body::SrcAvail(_) | Body::SinkAvail(_) | Body::Unknown(_) => {
                    payload_len
                }
                _ => 0,
            },
        })
}

fn ip(bytes: [u8; 16], v6: bool) -> Ip {
    if v6 {
        Ip::V6(bytes)
    } else {
        Ip::V4([bytes[0], bytes[1], bytes[2], bytes[3]])
    }
}

/// The messages of a peer that knows the numbers but not the rules.
fn plausible() -> impl Strategy<Value = (Body, u32, bool, u16)> {
    (body(), 0u32..110, any::<bool>(), 0u16..30)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_message_survives_the_wire(repr in repr()) {
        let header = repr.emit();
        let len = u32::from(repr.payload_offset()) + repr.payload_len;
        let mut head = header.as_bytes().to_vec();
        prop_assert_eq!(head.len(), usize::from(repr.payload_offset()));
        head.resize(36, 0xa5);
        let parsed = Repr::parse(&Message::check(&head, len).unwrap());
        prop_assert_eq!(parsed, Ok(repr));
    }

    #[test]
    fn what_parses_is_emitted_byte_for_byte(head in prop::collection::vec(any::<u8>(), 0..40), fix in any::<bool>()) {
        let mut head = head;
        let len = head.len();
        if fix && len >= 16 {
            head[0] = Mid::KNOWN[usize::from(head[0]) % 18].to_wire();
            head[1] &= 7;
            head[4..8].copy_from_slice(&u32::try_from(len).unwrap().to_be_bytes());
        }
        let cut = &head[..len.min(36)];
        let parsed = Message::check(cut, u32::try_from(len).unwrap())
            .and_then(|message| Repr::parse(&message));
        if let Ok(repr) = parsed {
            let header = repr.emit();
            prop_assert!(cut.starts_with(header.as_bytes()));
        }
    }

    #[test]
    fn hellos_survive_the_wire(
        bufs in any::<u16>(),
        small in (0u8..16, 0u8..16, 1u8..),
        sizes in (any::<u32>(), 37u32..),
        port in any::<u16>(),
        addresses in any::<([u8; 16], [u8; 16], bool)>(),
        ext in any::<u16>(),
    ) {
        let hello = Hello {
            bufs,
            minor: small.0,
            capabilities: small.1,
            max_adverts: small.2,
            desired_remote_rcv_size: sizes.0,
            local_rcv_size: sizes.1,
            local_port: port,
            src: ip(addresses.0, addresses.2),
            dst: ip(addresses.1, addresses.2),
            ext_max_adverts: ext,
        };
        prop_assert_eq!(Hello::parse(&hello.emit()), Ok(hello));
        let ack = HelloAck {
            bufs,
            minor: small.0,
            max_adverts: small.2,
            actual_rcv_size: sizes.1,
        };
        prop_assert_eq!(HelloAck::parse(&ack.emit()), Ok(ack));
    }

    #[test]
    fn any_bytes_as_a_hello_are_a_value_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(hello) = Hello::parse(&bytes) {
            prop_assert!(hello.max_adverts > 0);
        }
        if let Ok(ack) = HelloAck::parse(&bytes) {
            prop_assert!(ack.max_adverts > 0);
        }
    }

    /// A peer may say anything, in numbers that fit and in numbers that do
    /// not: the connection stays sound, and an error ends it.
    #[test]
    fn a_connection_survives_any_peer(
        messages in prop::collection::vec(plausible(), 1..60),
        garbage in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut script = Script::established();
        script.queue(300);
        for (body, payload, read, bufs) in messages {
            script.bufs = bufs;
            let result = script.send(body, payload);
            prop_assert!(script.conn.is_sound());
            match result {
                Ok(delivery) if read && delivery.payload_len > 0 => {
                    script.conn.on_buffer_consumed();
                }
                Ok(_) => {}
                Err(_) => {
                    script.drain();
                    prop_assert!(script.conn.ended().is_some());
                }
            }
            script.drain();
            prop_assert!(usize::from(script.conn.posted() + script.conn.held()) <= 10);
        }
        let head = &garbage[..garbage.len().min(36)];
        let _ = script.conn.handle_message(head, u32::try_from(garbage.len()).unwrap());
        script.drain();
        prop_assert!(script.conn.is_sound());
        prop_assert_ne!(script.conn.state(), State::HelloSent);
    }
}
