// SPDX-License-Identifier: GPL-2.0

//! Receive buffers that change their size, asked and answered.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

mod script;

use script::{
    config,
    lent::{change, RUN, SINK},
    Did, Script,
};
use sdp_engine::engine::{
    conn::{Config, Connection, Mode, Queue, SinkBuffer, SinkWhy},
    error::{PeerError, Refused},
    wire::{hello::Hello, mode::Half, Body, Mid},
};

fn growing() -> Script {
    let cfg = Config {
        rcv_size_max: 200,
        ..config()
    };
    Script::with(cfg, 20, 1)
}

//= test: RESIZE-1, RESIZE-2, HDR-3
#[test]
fn larger_buffers_are_granted_when_the_smaller_ones_are_used_up() {
    let mut s = growing();
    s.send(Body::ChRcvBuf(150), 0).unwrap();
    assert_eq!(s.conn.rcv_size(), 166);
    // Three of the old size are posted.
    for _ in 0..3 {
        assert!(!s.sent().contains(&Body::ChRcvBufAck(150)));
        s.send(Body::Data, 100).unwrap();
        s.conn.on_buffer_consumed();
    }
    assert!(s.sent().contains(&Body::ChRcvBufAck(150)));
    assert_eq!(s.send(Body::Data, 150).unwrap().payload_len, 150);
    s.conn.on_buffer_consumed();
    s.drain();
    assert_eq!(s.send(Body::Data, 151).err(), Some(PeerError::TooLong));
    // Before the answer it is not allowed.
    let mut s = growing();
    s.send(Body::ChRcvBuf(150), 0).unwrap();
    s.drain();
    assert_eq!(s.send(Body::Data, 101).err(), Some(PeerError::TooLong));
}

#[test]
fn a_question_that_is_held_back_is_answered_later() {
    let mut s = growing();
    let before = s.conn.rcv_size();
    s.conn.hold_rcv_size(true);
    s.send(Body::ChRcvBuf(150), 0).unwrap();
    for _ in 0..6 {
        assert!(!s.sent().contains(&Body::ChRcvBufAck(150)));
        s.send(Body::Data, 100).unwrap();
        s.conn.on_buffer_consumed();
    }
    assert_eq!(s.conn.rcv_size(), before);
    // Once it is allowed it goes on as if it had been asked now.
    s.conn.hold_rcv_size(false);
    assert_eq!(s.conn.rcv_size(), 166);
    let mut answered = false;
    for _ in 0..6 {
        answered |= s.sent().contains(&Body::ChRcvBufAck(150));
        if answered {
            break;
        }
        s.send(Body::Data, 100).unwrap();
        s.conn.on_buffer_consumed();
    }
    assert!(answered);
    assert_eq!(s.send(Body::Data, 150).unwrap().payload_len, 150);
}

//= test: RESIZE-10
#[test]
fn buffers_grow_to_a_limit_and_shrink_to_their_first_size() {
    grow_and_shrink(config());
    grow_and_shrink(script::zcopy());
}

fn grow_and_shrink(cfg: Config) {
    let cfg = Config {
        rcv_size_max: 200,
        ..cfg
    };
    let mut s = Script::with(cfg, 20, 1);
    for (desired, size) in [
        (u32::MAX, 200),
        (150, 166),
        (184, 200),
        (100, 116),
        (0, 116),
    ] {
        s.send(Body::ChRcvBuf(desired), 0).unwrap();
        for _ in 0..8 {
            s.drain();
            s.send(Body::Data, 0).unwrap();
        }
        s.drain();
        assert_eq!(s.conn.rcv_size(), size, "{desired}");
    }
    assert_eq!(s.send(Body::Data, 101).err(), Some(PeerError::TooLong));
}

//= test: RESIZE-10
#[test]
fn larger_buffers_that_are_posted_are_filled_before_messages_shrink() {
    let mut s = growing();
    s.send(Body::ChRcvBuf(150), 0).unwrap();
    for _ in 0..8 {
        s.drain();
        s.send(Body::Data, 0).unwrap();
    }
    s.drain();
    s.send(Body::ChRcvBuf(100), 0).unwrap();
    // Not before the answer, which says how many are posted.
    assert_eq!(s.conn.rcv_size(), 166);
    let posted = s.conn.posted();
    assert_eq!(s.sent(), [Body::ChRcvBufAck(100)]);
    assert_eq!(s.conn.rcv_size(), 116);
    for _ in 0..posted {
        // A buffer that is offered holds one message.
        assert_eq!(s.conn.sink_len_min(), 150);
        assert_eq!(s.send(Body::Data, 150).unwrap().payload_len, 150);
        s.conn.on_buffer_consumed();
        s.drain();
    }
    assert_eq!(s.send(Body::Data, 100).unwrap().payload_len, 100);
    s.conn.on_buffer_consumed();
    s.drain();
    assert_eq!(s.send(Body::Data, 101).err(), Some(PeerError::TooLong));
}

/// The peer has made its buffers larger for a stream, and nothing is under way any more.
fn streamed_once() -> Script {
    streamed_once_with(config())
}

fn streamed_once_with(cfg: Config) -> Script {
    let mut s = Script::asking_with(cfg, 1000);
    s.queue(2000);
    s.drain();
    s.send(Body::ChRcvBufAck(1016), 0).unwrap();
    s.bufs = 8;
    for _ in 0..30 {
        s.drain();
        s.send(Body::Data, 0).unwrap();
    }
    s.queue(1000);
    s.drain();
    s.send(Body::Data, 0).unwrap();
    s.drain();
    assert_eq!(s.conn.max_payload(), 1000);
    s
}

//= test: RESIZE-9, RESIZE-11
#[test]
fn an_idle_side_gives_larger_buffers_back() {
    for cfg in [config(), script::zcopy()] {
        gives_back(streamed_once_with(cfg));
    }
}

fn gives_back(mut s: Script) {
    s.conn.on_idle();
    assert_eq!(s.sent(), [Body::ChRcvBuf(100)]);
    // Messages behind the question fit the answer.
    assert_eq!(s.conn.max_payload(), 100);
    s.send(Body::ChRcvBufAck(100), 0).unwrap();
    assert_eq!(s.conn.max_payload(), 100);
    let mut spent = 0;
    for _ in 0..20 {
        let sent = s.sent();
        assert!(sent.iter().all(|body| *body == Body::Data));
        spent += sent.len();
        s.send(Body::Data, 0).unwrap();
    }
    assert!((8..24).contains(&spent), "{spent} messages");
    assert!(s.conn.is_sound());
    // A later stream asks again.
    s.drain();
    s.conn.on_idle();
    assert_eq!(s.sent(), []);
    s.queue(2000);
    assert!(s.sent().contains(&Body::ChRcvBuf(516)));
}

//= test: RESIZE-11
#[test]
fn buffers_are_not_used_up_while_there_are_bytes_to_send() {
    let mut s = streamed_once();
    s.conn.on_idle();
    assert_eq!(s.sent(), [Body::ChRcvBuf(100)]);
    s.queue(10);
    s.drain();
    s.send(Body::ChRcvBufAck(100), 0).unwrap();
    s.queue(10);
    let lens: Vec<u32> = s
        .drain()
        .iter()
        .filter_map(|did| match did {
            Did::Sent(repr) => Some(repr.payload_len),
            _ => None,
        })
        .collect();
    assert_eq!(lens, [10]);
}

//= test: RESIZE-9
#[test]
fn a_peer_that_keeps_its_size_is_asked_once() {
    let mut s = streamed_once();
    s.conn.on_idle();
    assert_eq!(s.sent(), [Body::ChRcvBuf(100)]);
    s.bufs = 20;
    s.send(Body::ChRcvBufAck(1016), 0).unwrap();
    for _ in 0..30 {
        s.send(Body::Data, 0).unwrap();
        s.queue(10);
        s.drain();
    }
    assert_eq!(s.conn.max_payload(), 1000);
    s.conn.on_idle();
    assert_eq!(s.sent(), []);
}

//= test: RESIZE-3
#[test]
fn one_question_at_a_time_either_way() {
    let mut s = growing();
    s.send(Body::ChRcvBuf(150), 0).unwrap();
    assert_eq!(
        s.send(Body::ChRcvBuf(150), 0).err(),
        Some(PeerError::ChRcvBufOutstanding)
    );
    let mut s = growing();
    s.conn.ask_rcv_size(500).unwrap();
    // Not sent, it can be changed.
    s.conn.ask_rcv_size(400).unwrap();
    assert_eq!(s.sent(), [Body::ChRcvBuf(400)]);
    assert_eq!(s.conn.ask_rcv_size(500), Err(Refused::Busy));
    s.send(Body::ChRcvBufAck(100), 0).unwrap();
    assert_eq!(
        s.send(Body::ChRcvBufAck(100), 0).err(),
        Some(PeerError::Unsolicited(Mid::ChRcvBufAck))
    );
    // Failed, and then ended.
    assert_eq!(s.conn.ask_rcv_size(500), Err(Refused::Ended));
    s.drain();
    assert_eq!(s.conn.ask_rcv_size(500), Err(Refused::Ended));
}

//= test: RESIZE-6
#[test]
fn an_answer_that_leaves_a_byte_to_a_message_is_a_violation() {
    let answered = |size| {
        let mut s = Script::asking(2000);
        s.conn.ask_rcv_size(500).unwrap();
        s.drain();
        s.send(Body::ChRcvBufAck(size), 0).err()
    };
    // A 128th of what we could send is 15.
    for size in [0, 16, 17, 30] {
        assert_eq!(answered(size), Some(PeerError::ResizeTooSmall), "{size}");
    }
    assert_eq!(answered(31), None);
}

//= test: RESIZE-5
#[test]
fn an_answer_is_taken_so_that_a_message_fits_whichever_way_it_counts() {
    let answered = |size| {
        let cfg = Config {
            max_send_payload: 1000,
            ..config()
        };
        let mut s = Script::with(cfg, 20, 1);
        assert_eq!(s.conn.max_payload(), 100);
        s.conn.ask_rcv_size(500).unwrap();
        s.drain();
        s.bufs = 0;
        s.send(Body::ChRcvBufAck(size), 0).unwrap();
        s.conn.max_payload()
    };
    // Unchanged, without the header and with it.
    assert_eq!(answered(100), 100);
    assert_eq!(answered(116), 100);
    // Larger.
    assert_eq!(answered(500), 484);
    assert_eq!(answered(u32::MAX), 1000);
    // Smaller, without a question for it.
    assert_eq!(answered(60), 44);
}

//= test: RESIZE-7
#[test]
fn smaller_buffers_that_are_still_posted_are_filled_before_messages_grow() {
    let lens = |s: &mut Script| -> Vec<u32> {
        let did = s.drain();
        let sent = did.iter().filter_map(|did| match did {
            Did::Sent(repr) => Some(repr.payload_len),
            _ => None,
        });
        sent.filter(|len| *len > 0).collect()
    };
    let mut s = Script::asking(1000);
    s.conn.ask_rcv_size(500).unwrap();
    s.drain();
    // On its way when the peer answers, into the first of its six buffers.
    s.queue(30);
    assert!(s.step().is_some());
    s.bufs = 6;
    s.send(Body::ChRcvBufAck(500), 0).unwrap();
    s.queue(130);
    assert_eq!(lens(&mut s), [100, 30]);
    s.bufs = 20;
    s.send(Body::Data, 0).unwrap();
    // Of the three that are left one takes another question.
    s.queue(1000);
    assert_eq!(lens(&mut s), [100, 100, 484, 316]);
    assert_eq!(s.conn.max_payload(), 484);
    // A smaller answer in the meantime stands.
    let mut s = Script::asking(1000);
    s.conn.ask_rcv_size(500).unwrap();
    s.drain();
    s.send(Body::ChRcvBufAck(500), 0).unwrap();
    s.conn.ask_rcv_size(500).unwrap();
    s.drain();
    s.send(Body::ChRcvBufAck(60), 0).unwrap();
    for _ in 0..30 {
        s.queue(44);
        s.drain();
        s.send(Body::Data, 0).unwrap();
    }
    assert_eq!(s.conn.max_payload(), 44);
}

/// The peer has received messages that its MSeqAck does not say yet, because it waits for a Read.
//= test: RESIZE-7, SEQ-5
#[test]
fn a_held_acknowledgement_hides_messages_that_have_used_up_buffers() {
    for cancels in [false, true] {
        let cfg = Config {
            max_send_payload: 1000,
            ..script::zcopy()
        };
        let mut s = Script::with(cfg, 20, 1);
        s.conn.queue_run(RUN).unwrap();
        // The question goes by itself.
        assert!(s.sent().iter().any(|body| body.mid() == Mid::ChRcvBuf));
        let mut answer = s.next(Body::ChRcvBufAck(500), 0);
        if cancels {
            s.conn.recall();
            assert_eq!(s.sent(), [Body::SrcAvailCancel]);
        }
        // Six buffers of the old size are left, behind the cancel too.
        answer.bufs = 6;
        s.send_repr(&answer).unwrap();
        s.bufs = 20;
        s.send(Body::RdmaRdCompl(999), 0).unwrap();
        s.queue(2000);
        let did = s.drain();
        let small = did.iter().take_while(|did| match did {
            Did::Sent(repr) => repr.payload_len <= 100,
            _ => true,
        });
        let small = small.filter(|did| matches!(did, Did::Sent(_))).count();
        assert_eq!(small, 6, "{cancels}: {did:?}");
    }
}

/// The larger size waits for smaller buffers to be used up.
#[test]
fn a_size_that_is_granted_is_not_asked_for_again() {
    let mut s = Script::asking(4000);
    s.conn.ask_rcv_size(3000).unwrap();
    s.drain();
    s.send(Body::ChRcvBufAck(3000), 0).unwrap();
    assert_eq!(s.conn.max_payload(), 100);
    s.queue(900);
    assert!(s.sent().iter().all(|body| *body == Body::Data));
}

/// The peer would fill messages of the new size, and a SinkAvail must hold one.
//= test: SINK-2
#[test]
fn offers_that_wait_behind_an_answer_are_not_too_short_for_it() {
    let cfg = Config {
        rcv_size_max: 200,
        ..script::zcopy()
    };
    let mut s = Script::with(cfg, 20, 4);
    s.send(change(Half::Receive, Mode::Pipelined), 0).unwrap();
    s.drain();
    // No credit for a SinkAvail.
    s.bufs = 1;
    s.send(Body::Data, 0).unwrap();
    let short = SinkBuffer { len: 100, ..SINK };
    let id = s.conn.offer_sink(short).unwrap();
    s.send(Body::ChRcvBuf(150), 0).unwrap();
    let mut did = s.drain();
    for _ in 0..12 {
        did.extend(s.drain());
        s.send(Body::Data, 0).unwrap();
    }
    let bodies = did.iter().filter_map(|did| match did {
        Did::Sent(repr) => Some(repr.body.mid()),
        _ => None,
    });
    let bodies: Vec<Mid> = bodies.collect();
    assert!(bodies.contains(&Mid::ChRcvBufAck), "{did:?}");
    assert!(!bodies.contains(&Mid::SinkAvail), "{did:?}");
    assert!(did.contains(&Did::SinkReturned(id, SinkWhy::Crossed)));
}

//= test: RESIZE-8
#[test]
fn a_write_that_does_not_fit_a_small_buffer_asks_for_larger_ones() {
    let with_credits = |bufs| {
        let cfg = Config {
            max_send_payload: 4000,
            ..config()
        };
        Script::with(cfg, bufs, 1)
    };
    let mut s = with_credits(20);
    s.queue(100);
    assert_eq!(s.sent(), [Body::Data]);
    s.queue(101);
    assert_eq!(s.sent(), [Body::ChRcvBuf(516), Body::Data, Body::Data]);
    // Nothing changes, and it is not asked again, but a stream asks for more.
    s.send(Body::ChRcvBufAck(100), 0).unwrap();
    s.queue(900);
    assert!(s.sent().iter().all(|body| *body == Body::Data));
    s.queue(2000);
    assert!(s.sent().contains(&Body::ChRcvBuf(2016)));
    s.bufs = 0;
    s.send(Body::ChRcvBufAck(2016), 0).unwrap();
    s.bufs = 20;
    s.send(Body::Data, 0).unwrap();
    s.drain();
    assert_eq!(s.conn.max_payload(), 2000);
    // A write that just fits one of these is no reason for twice as large ones. A longer one is: its
    // first part is queued alone.
    s.queue(2000);
    assert_eq!(s.sent(), [Body::Data]);
    let more = Queue {
        more: true,
        ..Queue::default()
    };
    s.conn.queue(2000, more).unwrap();
    assert_eq!(s.sent(), [Body::ChRcvBuf(4016), Body::Data]);
    // The question does not take the credit that the first message could have.
    let mut s = with_credits(3);
    s.queue(201);
    assert_eq!(s.sent(), [Body::Data, Body::ChRcvBuf(516)]);
}

//= test: HDR-3, RESIZE-5
#[test]
fn a_message_can_have_more_bytes_than_16_bits_can_count() {
    const LARGE: u32 = 65536;
    let cfg = Config {
        max_send_payload: LARGE,
        rcv_size_max: LARGE + 32,
        ..config()
    };
    let hello = Hello {
        local_rcv_size: 528,
        ..script::hello(20)
    };
    let mut s = Script::new(Connection::accepting(cfg, &hello), 20);
    s.conn.on_receives_posted(4);
    s.conn.hello_ack().unwrap();
    s.conn.handle_established();
    s.send(Body::ChRcvBuf(LARGE + 16), 0).unwrap();
    for _ in 0..8 {
        s.drain();
        s.send(Body::Data, 0).unwrap();
    }
    s.drain();
    assert_eq!(s.conn.rcv_size(), LARGE + 32);
    // A peer that counts its header twice.
    for len in [LARGE - 1, LARGE, LARGE + 16] {
        assert_eq!(s.send(Body::Data, len).unwrap().payload_len, len);
        s.conn.on_buffer_consumed();
        s.drain();
    }
    // The same to the peer.
    s.conn.ask_rcv_size(LARGE + 16).unwrap();
    s.drain();
    s.bufs = 0;
    s.send(Body::ChRcvBufAck(LARGE + 16), 0).unwrap();
    s.bufs = 20;
    s.send(Body::Data, 0).unwrap();
    s.drain();
    s.queue(2 * LARGE + 1);
    let did = s.drain();
    let lens = did.iter().filter_map(|did| match did {
        Did::Sent(repr) => Some(repr.payload_len),
        _ => None,
    });
    assert_eq!(lens.collect::<Vec<_>>(), [LARGE, LARGE, 1]);
    assert_eq!(s.conn.uncompleted(), 0);
    assert_eq!(
        s.send(Body::Data, LARGE + 17).err(),
        Some(PeerError::TooLong)
    );
}

//= test: RESIZE-12
#[test]
fn growth_is_declined_where_the_stream_has_ended_before() {
    let mut s = growing();
    s.send(Body::ChRcvBuf(150), 0).unwrap();
    s.send(Body::Data, 100).unwrap();
    s.conn.on_buffer_consumed();
    s.drain();
    // The next buffers are larger, and smaller ones are in front of them.
    assert_eq!(s.conn.rcv_size(), 166);
    s.conn.on_idle();
    assert_eq!(s.sent(), [Body::ChRcvBufAck(100)]);
    assert_eq!(s.conn.rcv_size(), 116);
    assert!(s.conn.is_sound());
    assert_eq!(s.send(Body::Data, 100).unwrap().payload_len, 100);
    s.conn.on_buffer_consumed();
    // The peer may ask again.
    s.send(Body::ChRcvBuf(150), 0).unwrap();
    for _ in 0..12 {
        s.drain();
        s.send(Body::Data, 0).unwrap();
    }
    assert_eq!(s.send(Body::Data, 150).unwrap().payload_len, 150);
}

/// Posted buffers at the height of a stream that is read at once.
fn streamed(s: &mut Script) -> u16 {
    for _ in 0..100 {
        while s.conn.granted() > 2 {
            s.send(Body::Data, 100).unwrap();
            s.conn.on_buffer_consumed();
        }
        s.drain();
    }
    s.conn.posted()
}

#[test]
fn the_window_of_a_stream_is_as_deep_when_its_buffers_have_grown() {
    let cfg = Config {
        rx_depth: 40,
        rcv_size_max: 1160,
        ..config()
    };
    for grow in [true, false] {
        let mut s = Script::with(cfg, 20, 1);
        assert_eq!(streamed(&mut s), 40);
        s.send(Body::ChRcvBuf(1000), 0).unwrap();
        if !grow {
            s.conn.keep_rcv_size();
        }
        assert_eq!(streamed(&mut s), 40);
    }
}

#[test]
fn spare_buffers_are_those_that_are_lacking_and_half_of_the_posted() {
    let mut conn = Connection::connecting(Config {
        rx_initial: 6,
        ..config()
    });
    assert_eq!((conn.receives_wanted(), conn.spares_wanted()), (6, 6));
    conn.on_receives_posted(4);
    assert_eq!((conn.receives_wanted(), conn.spares_wanted()), (2, 4));
    conn.on_receives_posted(2);
    assert_eq!((conn.receives_wanted(), conn.spares_wanted()), (0, 3));
}

#[test]
fn without_memory_few_buffers_are_needed() {
    let cfg = Config {
        rx_initial: 6,
        ..config()
    };
    let mut conn = Connection::connecting(cfg);
    assert_eq!((conn.receives_wanted(), conn.receives_needed()), (6, 4));
    conn.on_receives_posted(conn.receives_needed());
    assert_eq!((conn.receives_wanted(), conn.receives_needed()), (2, 0));
}
