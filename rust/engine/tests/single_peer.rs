// SPDX-License-Identifier: GPL-2.0

//! One engine and the exchanges that it owes to any peer.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

mod script;

use script::{config, hello, hello_ack, Did, Script};
use sdp_engine::engine::{
    conn::{Config, Connection, Ended, Output, Queue, State, Zcopy},
    error::{PeerError, Refused, ShellError},
    timer::Timer,
    types::Ip,
    wire::{
        avail::SrcAvail,
        hello::{Hello, HelloAck},
        mode::{Half, Mode, ModeChange},
        Body, Mid,
    },
};

const ADVERT: SrcAvail = SrcAvail {
    len: 1000,
    r_key: 7,
    va: 0,
};

fn updates(did: &[Did]) -> usize {
    did.iter()
        .filter(|did| {
            matches!(did, Did::Sent(repr) if repr.body == Body::Data && repr.payload_len == 0)
        })
        .count()
}

//= test: ROBUST-5
#[test]
fn a_connection_is_small() {
    let size = size_of::<Connection>();
    println!("Connection: {size} bytes");
    assert!(size <= 1280);
}

//= test: HELLO-8, HELLO-9
#[test]
fn the_hello_says_what_was_configured() {
    let mut conn = Connection::connecting(config());
    let v6 = Ip::V6([0xfd; 16]);
    assert_eq!(
        conn.hello(v6, v6, 1),
        Err(ShellError::ReceivesNotPosted),
        "nothing is posted"
    );
    assert_eq!(conn.receives_wanted(), 4);
    conn.on_receives_posted(4);
    let hello = Hello::parse(&conn.hello(v6, v6, 1).unwrap()).unwrap();
    assert_eq!(hello.bufs, 4);
    assert_eq!(hello.local_rcv_size, 116);
    assert_eq!(hello.desired_remote_rcv_size, 116);
    assert_eq!(hello.max_adverts, 1);
    assert_eq!((hello.src, hello.dst, hello.local_port), (v6, v6, 1));
    assert_eq!(conn.hello(v6, v6, 1), Err(ShellError::WrongState));
    assert_eq!(conn.hello_ack(), Err(ShellError::WrongState));
}

//= test: HELLO-8, HELLO-12
#[test]
fn the_hello_ack_says_what_was_configured() {
    let mut conn = Connection::accepting(config(), &hello(5));
    assert_eq!(conn.hello_ack(), Err(ShellError::ReceivesNotPosted));
    conn.on_receives_posted(6);
    let ack = HelloAck::parse(&conn.hello_ack().unwrap()).unwrap();
    assert_eq!(
        (ack.bufs, ack.actual_rcv_size, ack.max_adverts),
        (6, 116, 1)
    );
    assert_eq!(conn.hello_ack(), Err(ShellError::WrongState));
    assert_eq!(conn.credits(), 5);
}

#[test]
fn a_configuration_out_of_range_is_refused() {
    let good = config();
    let bad = [
        Config {
            rcv_size: 36,
            ..good
        },
        Config {
            rx_initial: 2,
            ..good
        },
        Config {
            rx_depth: 3,
            ..good
        },
        Config {
            rx_depth: 40000,
            ..good
        },
        Config {
            tx_depth: 2,
            ..good
        },
        Config {
            max_send_payload: 0,
            ..good
        },
        Config {
            max_adverts: 0,
            ..good
        },
        Config {
            max_adverts: 5,
            ..good
        },
        Config {
            zcopy: Zcopy {
                read_depth: 0,
                ..script::zcopy().zcopy
            },
            ..good
        },
        Config {
            zcopy: Zcopy {
                read_depth: 9,
                ..script::zcopy().zcopy
            },
            ..good
        },
        Config {
            zcopy: Zcopy {
                write_depth: 0,
                ..script::zcopy().zcopy
            },
            ..good
        },
        Config {
            zcopy: Zcopy {
                max_write: 0,
                ..script::zcopy().zcopy
            },
            ..good
        },
    ];
    for cfg in bad {
        let mut conn = Connection::accepting(cfg, &hello(4));
        conn.on_receives_posted(10);
        assert_eq!(conn.hello_ack(), Err(ShellError::BadConfig), "{cfg:?}");
    }
}

//= test: HELLO-13
#[test]
fn a_peer_with_tiny_buffers_is_refused() {
    let met = |actual_rcv_size| {
        let cfg = Config {
            max_send_payload: 12800,
            ..config()
        };
        let mut conn = Connection::connecting(cfg);
        conn.on_receives_posted(4);
        let ip = Ip::V4([10, 0, 0, 1]);
        conn.hello(ip, ip, 1).unwrap();
        let ack = HelloAck {
            bufs: 4,
            minor: 2,
            max_adverts: 1,
            actual_rcv_size,
        };
        let told = conn.handle_hello_ack(&ack.emit());
        assert_eq!(told, Connection::check_rcv_size(actual_rcv_size, 12800));
        (told.err(), conn.ended())
    };
    let error = PeerError::HelloRcvSize;
    assert_eq!(met(115), (Some(error), Some(Ended::Violation(error))));
    assert_eq!(met(116), (None, None));
}

//= test: HELLO-14
#[test]
fn a_peer_that_begins_with_large_buffers_is_met_with_large_ones() {
    let met_up_to = |rcv_size_max, local_rcv_size, keep: bool| {
        let cfg = Config {
            rcv_size_max,
            rx_depth: 40,
            ..config()
        };
        let hello = Hello {
            local_rcv_size,
            ..hello(4)
        };
        let mut conn = Connection::accepting(cfg, &hello);
        if keep {
            conn.keep_rcv_size();
        }
        conn.on_receives_posted(4);
        let ack = HelloAck::parse(&conn.hello_ack().unwrap()).unwrap();
        assert_eq!(ack.actual_rcv_size, conn.rcv_size());
        conn.rcv_size()
    };
    let met = |local_rcv_size, keep| met_up_to(1160, local_rcv_size, keep);
    assert_eq!(met(37, false), 116);
    assert_eq!(met(116, false), 116);
    assert_eq!(met(1000, false), 1000);
    assert_eq!(met(32784, false), 1160);
    assert_eq!(met(u32::MAX, false), 1160);
    // Without memory for them.
    assert_eq!(met(32784, true), 116);
    // Messages of that size are taken.
    let cfg = Config {
        rcv_size_max: 1160,
        ..config()
    };
    let hello = Hello {
        local_rcv_size: 32784,
        ..hello(20)
    };
    let mut script = Script::new(Connection::accepting(cfg, &hello), 20);
    script.conn.on_receives_posted(4);
    script.conn.hello_ack().unwrap();
    let delivery = script.send(Body::Data, 1144).unwrap();
    assert_eq!(delivery.payload_len, 1144);
    // Before the program accepts.
    assert_eq!(met_up_to(65568, u32::MAX, false), 32800);
}

//= test: HDR-3
#[test]
fn a_message_fits_the_peers_buffer_and_our_gather_list() {
    let with = |rcv_size: u32, max_send_payload| {
        let cfg = Config {
            max_send_payload,
            ..config()
        };
        let hello = Hello {
            local_rcv_size: rcv_size,
            ..hello(4)
        };
        Connection::accepting(cfg, &hello).max_payload()
    };
    assert_eq!(with(37, 1000), 21);
    assert_eq!(with(1016, 2000), 1000);
    assert_eq!(with(1016, 500), 500);
    assert_eq!(with(u32::MAX, 65536), 65536);
    assert_eq!(with(65536, 65536), 65520);
}

//= test: EST-2
#[test]
fn the_passive_side_is_silent_until_established() {
    let mut script = Script::hello_ack_sent();
    script.queue(10);
    assert_eq!(script.drain(), []);
    script.conn.handle_established();
    assert_eq!(script.conn.state(), State::Established);
    assert_eq!(script.sent(), [Body::Data]);
    script.conn.handle_established();
    assert_eq!(script.conn.state(), State::Established);
}

#[test]
fn a_second_hello_ack_changes_nothing() {
    let mut script = Script::established();
    assert_eq!(
        script.conn.handle_hello_ack(&hello_ack(3)),
        Err(PeerError::HandshakeRepeated(Mid::HelloAck))
    );
    assert_eq!(script.conn.credits(), 20);
    assert!(script.conn.state().is_connected());
}

//= test: CREDIT-3, CREDIT-4, CREDIT-5, CREDIT-6, UPDATE-1
#[test]
fn each_number_of_credits_allows_what_the_table_says() {
    // Three: one message with payload.
    let mut script = Script::granted(3);
    script.queue(100);
    script.queue(100);
    assert!(matches!(script.step(), Some(Did::Sent(repr)) if repr.payload_len == 100));
    assert_eq!(script.step(), None);
    assert_eq!(script.conn.credits(), 2);
    assert_eq!(script.conn.stats().credit_stalls, 1);
    // Two: a control message.
    script.send(Body::ChRcvBuf(5), 0).unwrap();
    assert_eq!(script.conn.credits(), 2);
    assert!(matches!(script.step(), Some(Did::Sent(repr)) if repr.body == Body::ChRcvBufAck(100)));
    assert_eq!(script.conn.credits(), 1);
    // One: nothing, as the message just sent has granted everything.
    assert_eq!(script.step(), None);
    // One: a grant, once there is something to grant.
    script.bufs = 1;
    for _ in 0..2 {
        let mut repr = script.next(Body::Data, 50);
        repr.bufs = 3;
        script.send_repr(&repr).unwrap();
        assert_eq!(script.conn.credits(), 1);
    }
    let did = std::iter::from_fn(|| script.step()).collect::<Vec<_>>();
    assert_eq!(updates(&did), 1);
    assert_eq!(did.len(), 1);
    assert_eq!(script.conn.credits(), 0);
    // None: nothing at all.
    let mut repr = script.next(Body::ChRcvBuf(5), 0);
    repr.bufs = 2;
    script.send_repr(&repr).unwrap();
    assert_eq!(script.conn.credits(), 0);
    assert_eq!(script.step(), None);
}

//= test: CREDIT-5, CLOSE-1, CLOSE-2
#[test]
fn disconn_waits_for_two_credits_and_for_all_bytes() {
    let mut script = Script::granted(4);
    script.queue(300);
    script.conn.shutdown_send();
    assert_eq!(script.sent(), [Body::Data, Body::Data]);
    assert_eq!(script.conn.credits(), 2);
    // Two credits would do for DisConn, but a byte is in front of it.
    assert_eq!(script.conn.unsent(), 100);
    script.bufs = 3;
    script.send(Body::Data, 0).unwrap();
    assert_eq!(script.sent(), [Body::Data, Body::DisConn]);
    assert_eq!(
        script.conn.queue(1, Queue::default()),
        Err(Refused::SendClosed)
    );
    // With one credit it is not sent.
    let mut script = Script::granted(3);
    script.queue(1);
    script.drain();
    script.bufs = 2;
    script.send(Body::ChRcvBuf(5), 0).unwrap();
    assert_eq!(script.sent(), [Body::ChRcvBufAck(100)]);
    assert_eq!(script.conn.credits(), 1);
    script.conn.shutdown_send();
    assert_eq!(script.drain(), []);
    script.send(Body::Data, 0).unwrap();
    assert_eq!(script.sent(), [Body::DisConn]);
}

//= test: CREDIT-8
#[test]
fn send_slots_are_kept_back_like_credits() {
    let mut script = Script::established();
    script.conn.set_nodelay(true);
    script.queue(1000);
    let sent = std::iter::from_fn(|| script.step()).count();
    assert_eq!(sent, 6);
    assert_eq!(script.conn.stats().slot_stalls, 1);
    assert_eq!(script.conn.uncompleted(), 600);
    script.send(Body::ChRcvBuf(5), 0).unwrap();
    assert!(matches!(script.step(), Some(Did::Sent(repr)) if repr.body == Body::ChRcvBufAck(100)));
    assert_eq!(script.step(), None);
    for _ in 0..2 {
        script.complete();
    }
    assert!(matches!(script.step(), Some(Did::Sent(repr)) if repr.payload_len == 100));
    assert_eq!(script.step(), None);
    assert_eq!(script.conn.uncompleted(), 500);
}

#[test]
fn what_waits_for_an_earlier_message_goes_when_it_is_pushed() {
    let releases: [fn(&mut Connection); 2] = [|conn| conn.push(), |conn| conn.set_nodelay(true)];
    for release in releases {
        let mut script = Script::established();
        script.queue(10);
        assert!(script.step().is_some());
        script.queue(10);
        assert_eq!((script.step(), script.conn.timers().next()), (None, None));
        release(&mut script.conn);
        assert!(matches!(script.step(), Some(Did::Sent(repr)) if repr.payload_len == 10));
    }
}

#[test]
fn what_is_corked_goes_when_the_cork_is_drawn_or_it_is_pushed() {
    let releases: [fn(&mut Connection); 3] = [
        |conn| conn.push(),
        |conn| conn.set_nodelay(true),
        |conn| conn.set_cork(false),
    ];
    for (more, release) in [false, true]
        .into_iter()
        .flat_map(|more| releases.map(|release| (more, release)))
    {
        let mut script = Script::established();
        script.conn.set_cork(!more);
        let how = Queue {
            more,
            urgent: false,
        };
        script.conn.queue(10, how).unwrap();
        assert_eq!(script.step(), None);
        assert_eq!(script.conn.timers().next(), Some(Timer::Cork));
        release(&mut script.conn);
        assert!(matches!(script.step(), Some(Did::Sent(repr)) if repr.payload_len == 10));
        assert_eq!(script.conn.timers().next(), None);
    }
}

//= test: DATA-5
#[test]
fn nagle_waits_for_completion_and_not_for_the_acknowledgement() {
    let mut script = Script::established();
    script.queue(10);
    assert!(script.step().is_some());
    script.queue(10);
    assert_eq!(script.step(), None);
    script.complete();
    assert!(matches!(script.step(), Some(Did::Sent(repr)) if repr.payload_len == 10));
}

//= test: DATA-5
#[test]
fn the_rest_of_a_write_does_not_wait_for_its_full_messages() {
    let mut script = Script::established();
    let step = |script: &mut Script| match script.step() {
        Some(Did::Sent(repr)) => Some(repr.payload_len),
        _ => None,
    };
    script.queue(230);
    let lens = [(); 4].map(|()| step(&mut script));
    assert_eq!(lens, [Some(100), Some(100), Some(30), None]);
    // The next one does, for the 30 bytes and for nothing else.
    script.queue(130);
    assert_eq!(step(&mut script), Some(100));
    assert_eq!(step(&mut script), None);
    script.complete();
    script.complete();
    assert_eq!(step(&mut script), None);
    script.complete();
    assert_eq!(step(&mut script), Some(30));
}

//= test: DATA-5
#[test]
fn what_the_shell_cannot_gather_more_of_counts_as_full() {
    let mut script = Script::established();
    script.conn.limit_payload(40);
    script.queue(60);
    let lens = [(); 2].map(|()| match script.step() {
        Some(Did::Sent(repr)) => repr.payload_len,
        _ => 0,
    });
    assert_eq!(lens, [40, 20]);
}

/// Queues a chunk, and returns the lengths of the messages that leave.
fn chunk(script: &mut Script, len: u32, more: bool) -> Vec<u32> {
    let how = Queue {
        more,
        urgent: false,
    };
    script.conn.queue(len, how).unwrap();
    if more {
        script.conn.release_chunk();
    }
    let mut lens = Vec::new();
    while let Some(did) = script.step() {
        if let Did::Sent(repr) = did {
            lens.push(repr.payload_len);
        }
    }
    lens
}

#[test]
fn the_chunks_of_a_write_leave_at_once() {
    let mut script = Script::established();
    assert_eq!(chunk(&mut script, 20, true), [20]);
    assert_eq!(chunk(&mut script, 30, true), [30]);
    assert_eq!(chunk(&mut script, 50, false), [50]);
    // They fill a message, so the next write does not wait for them.
    assert_eq!(chunk(&mut script, 10, false), [10]);
    assert_eq!(chunk(&mut script, 10, false), []);
}

//= test: DATA-5
#[test]
fn a_write_in_chunks_with_a_rest_is_small() {
    let mut script = Script::established();
    assert_eq!(chunk(&mut script, 80, true), [80]);
    assert_eq!(chunk(&mut script, 30, false), [30]);
    assert_eq!(chunk(&mut script, 10, false), []);
    script.complete();
    assert_eq!(chunk(&mut script, 0, false), []);
    script.complete();
    assert_eq!(chunk(&mut script, 0, false), [10]);
}

#[test]
fn only_an_idle_connection_cuts_writes() {
    let mut script = Script::established();
    assert_eq!(script.conn.chunk_most(1000), Some(100));
    // As long as bytes are in flight there is enough to do.
    script.queue(100);
    assert_eq!(script.conn.chunk_most(1000), None);
    assert!(script.step().is_some());
    assert_eq!(script.conn.chunk_most(1000), None);
    script.complete();
    assert_eq!(script.conn.chunk_most(1000), Some(100));
    script.conn.set_cork(true);
    assert_eq!(script.conn.chunk_most(1000), None);
    script.conn.set_cork(false);
    script.conn.shutdown_send();
    assert_eq!(script.conn.chunk_most(1000), None);
    assert_eq!(Script::hello_sent().conn.chunk_most(1000), None);
    // A chunk costs a credit.
    for (bufs, cuts) in [(11, false), (12, true)] {
        let script = Script::granted(bufs);
        assert_eq!(script.conn.chunk_most(1000).is_some(), cuts, "{bufs}");
    }
}

#[test]
fn writes_are_not_cut_before_larger_buffers_were_asked_for() {
    let mut script = Script::asking(1000);
    assert_eq!(script.conn.chunk_most(249), Some(100));
    assert_eq!(script.conn.chunk_most(250), None);
    script.queue(500);
    script.drain();
    script.send(Body::ChRcvBufAck(1016), 0).unwrap();
    while script.in_flight > 0 {
        script.complete();
    }
    assert!(script.conn.chunk_most(10_000).is_some());
}

#[test]
fn a_send_buffer_is_short_if_more_bytes_would_have_been_sent() {
    let mut script = Script::established();
    let credits = u32::from(script.conn.credits());
    let wanted = script.conn.send_buffer_wanted().unwrap();
    assert_eq!(wanted, 2 * 100 * credits.min(config().tx_depth.into()));
    // Messages in flight count as well.
    script.queue(100);
    assert_eq!(script.conn.send_buffer_wanted(), None);
    script.drain();
    assert_eq!(script.conn.send_buffer_wanted(), Some(wanted));
    // The peer or the send queue takes no more.
    script.queue(100 * 100);
    script.drain();
    assert_eq!(script.conn.send_buffer_wanted(), None);
}

//= test: UPDATE-3
//= test: RESIZE-5, RESIZE-8
#[test]
fn a_stream_asks_once_for_larger_buffers() {
    let mut script = Script::asking(1000);
    script.queue(199);
    assert_eq!(script.sent(), [Body::Data, Body::Data]);
    script.queue(500);
    assert_eq!(
        script.sent().first(),
        Some(&Body::ChRcvBuf(516)),
        "before the bytes that would profit"
    );
    script.send(Body::ChRcvBufAck(1016), 0).unwrap();
    script.queue(10_000);
    assert!(!script
        .sent()
        .iter()
        .any(|body| matches!(body, Body::ChRcvBuf(_))));
}

//= test: RESIZE-1
#[test]
fn a_shell_without_memory_keeps_its_buffers_and_says_so() {
    let cfg = Config {
        rcv_size_max: 1016,
        ..config()
    };
    let mut script = Script::with(cfg, 20, 1);
    script.send(Body::ChRcvBuf(1000), 0).unwrap();
    assert_eq!(script.conn.rcv_size(), 1016);
    script.conn.keep_rcv_size();
    assert_eq!(script.conn.rcv_size(), 116);
    assert_eq!(script.sent(), [Body::ChRcvBufAck(100)]);
}

#[test]
fn a_message_carries_no_more_than_the_shell_can_gather() {
    let mut script = Script::established();
    script.queue(5);
    assert!(script.step().is_some());
    script.queue(250);
    let mut step = |gather, want| {
        script.conn.limit_payload(gather);
        let len = script.step().map(|did| match did {
            Did::Sent(repr) => repr.payload_len,
            _ => 0,
        });
        assert_eq!(len, want, "{gather}");
    };
    // Such a message is full: Nagle's rule lets it go.
    step(60, Some(60));
    step(30, Some(30));
    step(u32::MAX, Some(100));
    step(u32::MAX, None);
    step(60, Some(60));
}

#[test]
fn updates_are_sent_in_every_state_that_receives() {
    // Closed by the peer: it grants us credits, and each grant costs it one.
    let mut script = Script::established();
    script.send(Body::DisConn, 0).unwrap();
    assert_eq!(script.conn.state(), State::PeerClosed);
    script.drain();
    for _ in 0..100 {
        script.send(Body::Data, 0).unwrap();
        script.send(Body::Data, 0).unwrap();
        assert_eq!(updates(&script.drain()), 1);
    }
    // Closed by us: the peer's bytes go on.
    let mut script = Script::established();
    script.conn.shutdown_send();
    script.drain();
    assert_eq!(script.conn.state(), State::LocalClosed);
    for _ in 0..100 {
        script.send(Body::Data, 10).unwrap();
        script.conn.on_buffer_consumed();
        script.drain();
    }
    assert!(script.conn.stats().credit_updates_sent > 10);
}

#[test]
fn a_shut_window_answers_the_peers_update_after_a_while() {
    let mut script = Script::established();
    while script.conn.posted() >= 3 {
        script.send(Body::Data, 1).unwrap();
        script.drain();
    }
    script.send(Body::Data, 0).unwrap();
    assert_eq!(script.drain(), []);
    assert_eq!(script.conn.timers().next(), Some(Timer::CreditUpdate));
    // A message of ours grants as well.
    script.queue(1);
    script.drain();
    assert_eq!(script.conn.timers().next(), None);
    script.send(Body::Data, 0).unwrap();
    script.drain();
    assert_eq!(script.conn.timers().next(), Some(Timer::CreditUpdate));
    script.conn.handle_timeout(Timer::CreditUpdate);
    assert_eq!(updates(&script.drain()), 1);
    assert_eq!(script.conn.timers().next(), None);
    // Without any credit the peer is not kept waiting.
    script.send(Body::Data, 0).unwrap();
    assert_eq!(script.drain(), []);
    script.send(Body::Data, 0).unwrap();
    assert_eq!(updates(&script.drain()), 1);
}

//= test: UPDATE-4
#[test]
fn a_shut_window_answers_mere_updates_later_each_time() {
    let mut script = Script::established();
    while script.conn.posted() >= 3 {
        script.send(Body::Data, 1).unwrap();
        script.drain();
    }
    let answer = |script: &mut Script| {
        script.send(Body::Data, 0).unwrap();
        assert_eq!(script.drain(), []);
        let waits = script.conn.wants(Timer::CreditUpdate).unwrap();
        script.conn.handle_timeout(Timer::CreditUpdate);
        assert_eq!(updates(&script.drain()), 1);
        waits
    };
    let doubling = [1_000, 2_000, 4_000, 8_000, 16_000, 16_000];
    assert_eq!([(); 6].map(|()| answer(&mut script)), doubling);
    // Whatever else happens ends that: what the peer sends, what we send, and
    // what the application reads.
    script.send(Body::ChRcvBuf(100), 0).unwrap();
    script.drain();
    assert_eq!([(); 2].map(|()| answer(&mut script)), [1_000, 2_000]);
    script.queue(1);
    script.drain();
    assert_eq!([(); 2].map(|()| answer(&mut script)), [1_000, 2_000]);
    script.conn.on_buffer_consumed();
    assert_eq!(answer(&mut script), 1_000);
}

//= test: URGENT-2
#[test]
fn an_urgent_byte_is_announced_once_and_again_where_it_is() {
    let mut script = Script::established();
    let urgent = Queue {
        urgent: true,
        ..Queue::default()
    };
    script.conn.queue(350, urgent).unwrap();
    let flags = |did: Vec<Did>| -> Vec<(bool, bool)> {
        did.iter()
            .filter_map(|did| match did {
                Did::Sent(repr) => Some((repr.flags.oob_pend, repr.flags.oob_pres)),
                _ => None,
            })
            .collect()
    };
    let (first, between, last) = ((true, false), (false, false), (true, true));
    assert_eq!(flags(script.drain()), [first, between, between, last]);
    // A newer one is news.
    script.conn.queue(1, urgent).unwrap();
    assert_eq!(flags(script.drain()), [last]);
}

//= test: UPDATE-2
#[test]
fn news_of_an_urgent_byte_is_no_mere_update_for_a_shut_window() {
    let mut script = Script::established();
    while script.conn.posted() >= 3 {
        script.send(Body::Data, 1).unwrap();
        script.drain();
    }
    let urgent = |script: &mut Script| {
        let mut repr = script.next(Body::Data, 0);
        repr.flags.oob_pend = true;
        script.send_repr(&repr).unwrap().urgent_pending
    };
    assert!(urgent(&mut script));
    assert_eq!(updates(&script.drain()), 1);
    assert_eq!(script.conn.stats().credit_updates_received, 0);
    // A known mark is no news.
    assert!(!urgent(&mut script));
    assert_eq!(script.drain(), []);
    assert_eq!(script.conn.timers().next(), Some(Timer::CreditUpdate));
    assert_eq!(script.conn.stats().credit_updates_received, 1);
}

#[test]
fn a_connection_that_has_failed_wants_no_more_buffers() {
    let mut script = Script::established();
    script.send(Body::Data, 1).unwrap();
    assert_eq!(script.conn.receives_wanted(), 1);
    script.conn.handle_link_failed();
    // Before its end as well.
    assert_eq!(script.conn.ended(), None);
    assert_eq!(script.conn.receives_wanted(), 0);
    assert_eq!(script.drain(), [Did::Disconnect]);
    assert_eq!(script.conn.receives_wanted(), 0);
}

#[test]
fn a_connection_that_both_have_closed_wants_no_more_buffers() {
    // The peer first, and then we.
    let mut script = Script::established();
    script.send(Body::DisConn, 0).unwrap();
    assert_eq!(script.conn.receives_wanted(), 1);
    script.conn.shutdown_send();
    assert!(script.conn.poll_output().is_some());
    assert_eq!(script.conn.receives_wanted(), 1);
    script.conn.handle_send_completed();
    assert_eq!(script.conn.state(), State::BothClosed);
    assert_eq!(script.conn.receives_wanted(), 0);
    // The other way round, until the DREQ and behind it.
    let mut script = Script::established();
    script.conn.shutdown_send();
    assert!(script.conn.poll_output().is_some());
    script.conn.handle_send_completed();
    script.send(Body::DisConn, 0).unwrap();
    assert_eq!(script.conn.receives_wanted(), 0);
    assert_eq!(script.conn.poll_output(), Some(Output::Disconnect));
    assert_eq!(script.conn.receives_wanted(), 0);
}

#[test]
fn nothing_is_timed_and_no_message_exchanged_before_and_after_a_connection() {
    let observed = |script: &Script| {
        (
            script.conn.state().is_connected(),
            script.conn.timers().next(),
        )
    };
    let mut script = Script::hello_sent();
    script.conn.set_cork(true);
    script.queue(10);
    assert_eq!(observed(&script), (false, None));
    script.conn.handle_hello_ack(&hello_ack(20)).unwrap();
    assert_eq!(observed(&script), (true, Some(Timer::Cork)));
    // Failed, and then ended.
    script.conn.handle_link_failed();
    assert_eq!(observed(&script), (true, None));
    assert_eq!(script.drain(), [Did::Disconnect]);
    assert_eq!(observed(&script), (false, None));
}

#[test]
fn a_timer_that_is_not_wanted_does_nothing() {
    let mut script = Script::established();
    for timer in [Timer::Cork, Timer::PeerClose, Timer::CreditUpdate] {
        script.conn.handle_timeout(timer);
    }
    assert_eq!(script.drain(), []);
    assert_eq!(script.conn.state(), State::Established);
    assert_eq!(Timer::Cork.millis(), 200);
    assert_eq!(Timer::PeerClose.millis(), 60_000);
}

#[test]
fn a_src_avail_is_declined_and_its_inline_bytes_are_delivered() {
    let mut script = Script::established();
    let delivery = script.send(Body::SrcAvail(ADVERT), 60).unwrap();
    assert_eq!((delivery.payload_offset, delivery.payload_len), (32, 60));
    assert_eq!(script.sent()[0], Body::SendSm);
    // The rest as Data, and then another one.
    script.send(Body::Data, 100).unwrap();
    script.conn.on_buffer_consumed();
    script.drain();
    script.send(Body::SrcAvail(ADVERT), 1).unwrap();
    assert_eq!(script.sent()[0], Body::SendSm);
    assert_eq!(script.conn.stats().src_avails_declined, 2);
}

#[test]
fn a_cancel_is_answered_at_most_once() {
    // In front of our SendSm: that one answers both.
    let mut script = Script::established();
    script.send(Body::SrcAvail(ADVERT), 1).unwrap();
    script.send(Body::SrcAvailCancel, 0).unwrap();
    let sent = script.sent();
    assert_eq!(sent.iter().filter(|body| **body == Body::SendSm).count(), 1);
    // Behind it: nothing is held any more.
    script.send(Body::SrcAvail(ADVERT), 1).unwrap();
    assert_eq!(script.sent()[0], Body::SendSm);
    script.send(Body::SrcAvailCancel, 0).unwrap();
    assert!(!script.sent().contains(&Body::SendSm));
    // With none at all: nothing either.
    script.send(Body::SrcAvailCancel, 0).unwrap();
    assert!(!script.sent().contains(&Body::SendSm));
}

//= test: CREDIT-5, CREDIT-6
#[test]
fn an_answer_goes_with_the_last_credit_and_never_with_none() {
    let mut script = Script::granted(3);
    script.queue(1);
    script.drain();
    script.bufs = 0;
    script.send(Body::SrcAvail(ADVERT), 1).unwrap();
    assert_eq!(script.conn.credits(), 0);
    assert!(!script.sent().contains(&Body::SendSm));
    // It grants again what the SrcAvail has used up, as an update would.
    script.bufs = 1;
    script.send(Body::Data, 0).unwrap();
    assert_eq!(script.conn.credits(), 1);
    assert_eq!(script.sent(), [Body::SendSm]);
    assert_eq!(script.conn.credits(), 0);
}

//= test: MODE-1, MODE-4
#[test]
fn buffered_mode_is_accepted() {
    let mut script = Script::established();
    let change = ModeChange {
        half: Half::Receive,
        mode: Mode::Buffered,
    };
    script.send(Body::ModeChange(change), 0).unwrap();
    assert_eq!(script.send(Body::Data, 5).unwrap().payload_len, 5);
}

//= test: RESIZE-1, RESIZE-4
#[test]
fn a_resize_is_answered_with_the_size_that_is_there() {
    let mut script = Script::established();
    for desired in [0, 50, 100_000, u32::MAX] {
        script.send(Body::ChRcvBuf(desired), 0).unwrap();
        assert_eq!(script.sent()[0], Body::ChRcvBufAck(100));
    }
}

//= test: SUSPEND-1
#[test]
fn suspension_is_answered_by_leaving() {
    let mut script = Script::established();
    script.queue(10);
    script.send(Body::SuspComm(0x11388), 0).unwrap();
    assert_eq!(script.sent(), [Body::Data, Body::DisConn]);
    assert_eq!(script.conn.timers().next(), Some(Timer::PeerClose));
    // Bytes that still come are delivered.
    assert_eq!(script.send(Body::Data, 3).unwrap().payload_len, 3);
    assert!(script.send(Body::DisConn, 0).unwrap().peer_closed);
    assert_eq!(script.drain().last(), Some(&Did::Disconnect));
    script.conn.handle_disconnected();
    assert_eq!(script.conn.ended(), Some(Ended::Finished));
}

//= test: ABORT-4
#[test]
fn abort_conn_after_disconn_is_a_reset() {
    let mut script = Script::established();
    script.send(Body::DisConn, 0).unwrap();
    script.drain();
    script.send(Body::AbortConn, 0).unwrap();
    assert_eq!(script.drain(), [Did::Disconnect]);
    assert_eq!(script.conn.ended(), Some(Ended::Reset));
}

//= test: ABORT-2
#[test]
fn our_abort_conn_goes_before_the_dreq_and_only_with_credits() {
    let mut script = Script::established();
    script.conn.shutdown_send();
    script.drain();
    script.conn.abort();
    assert!(matches!(script.step(), Some(Did::Sent(repr)) if repr.body == Body::AbortConn));
    assert_eq!(script.step(), None);
    assert_eq!(script.conn.ended(), None);
    script.complete();
    assert_eq!(script.step(), Some(Did::Disconnect));
    assert_eq!(script.conn.ended(), Some(Ended::Aborted));

    let mut script = Script::granted(2);
    script.conn.shutdown_send();
    script.drain();
    script.conn.abort();
    assert_eq!(script.drain(), [Did::Disconnect]);
}

//= test: ABORT-6
#[test]
fn the_wait_for_abort_conn_has_an_end() {
    let mut script = Script::established();
    script.conn.shutdown_send();
    script.drain();
    script.conn.abort();
    assert!(script.step().is_some());
    // The peer takes no message: no completion ever comes.
    assert_eq!(script.conn.timers().next(), Some(Timer::PeerClose));
    script.conn.handle_timeout(Timer::PeerClose);
    assert_eq!(script.step(), Some(Did::Disconnect));
    assert_eq!(script.conn.ended(), Some(Ended::Aborted));
}

//= test: CLOSE-9
#[test]
fn a_closed_connection_is_not_kept_by_what_the_peer_has_us_answer() {
    let mut script = Script::established();
    script.conn.close_receive();
    script.conn.shutdown_send();
    script.drain();
    script.send(Body::ChRcvBuf(50), 0).unwrap();
    assert_eq!(script.sent(), [Body::ChRcvBufAck(100)]);
    script.conn.handle_timeout(Timer::PeerClose);
    assert_eq!(script.drain().last(), Some(&Did::Disconnect));
    assert_eq!(script.conn.ended(), Some(Ended::TimedOut));
}

//= test: ABORT-5
#[test]
fn a_link_failure_does_not_wait_for_abort_conn() {
    let mut script = Script::established();
    script.conn.shutdown_send();
    script.drain();
    script.conn.abort();
    assert!(script.step().is_some());
    script.conn.handle_link_failed();
    assert_eq!(script.step(), Some(Did::Disconnect));
    assert_eq!(script.conn.ended(), Some(Ended::Aborted));
}

#[test]
fn a_connection_that_nobody_answers_ends_as_such() {
    let mut script = Script::established();
    script.queue(10);
    script.conn.handle_unanswered();
    assert!(script.conn.send_closed());
    // The queue pair fails with it; the first reason is told.
    script.conn.handle_link_failed();
    assert_eq!(script.step(), Some(Did::Disconnect));
    assert_eq!(script.conn.ended(), Some(Ended::Unanswered));
    // Behind both ends nothing is left to be answered.
    let mut script = Script::established();
    script.send(Body::DisConn, 0).unwrap();
    script.conn.shutdown_send();
    script.drain();
    script.conn.handle_unanswered();
    assert_eq!(script.drain(), [Did::Disconnect]);
    assert_eq!(script.conn.ended(), Some(Ended::Finished));
}

#[test]
fn each_direction_says_when_it_is_closed() {
    let mut script = Script::established();
    let closed = |script: &Script| {
        let peer_closed = matches!(
            script.conn.state(),
            State::PeerClosed | State::BothClosing | State::BothClosed
        );
        (script.conn.send_closed(), peer_closed)
    };
    assert_eq!(closed(&script), (false, false));
    script.send(Body::DisConn, 0).unwrap();
    assert_eq!(closed(&script), (false, true));
    script.conn.shutdown_send();
    assert_eq!(closed(&script), (true, true));
    // A connection that has failed takes nothing more, before its end as well.
    let mut script = Script::established();
    script.conn.handle_link_failed();
    assert_eq!(script.conn.state(), State::Established);
    assert_eq!(closed(&script), (true, false));
    // And one that was never there.
    let mut script = Script::hello_sent();
    script.conn.handle_disconnect_requested();
    assert_eq!(closed(&script), (true, false));
}

//= test: CLOSE-8
#[test]
fn a_dreq_without_both_disconn_is_a_reset() {
    let prepare: [fn(&mut Script); 5] = [
        |_| {},
        |s| s.conn.shutdown_send(),
        |s| {
            s.conn.shutdown_send();
            s.drain();
        },
        |s| {
            s.send(Body::DisConn, 0).unwrap();
        },
        |s| {
            // Our DisConn is only queued.
            s.send(Body::DisConn, 0).unwrap();
            s.conn.shutdown_send();
        },
    ];
    for prepare in prepare {
        let mut script = Script::established();
        prepare(&mut script);
        script.conn.handle_disconnect_requested();
        assert_eq!(script.conn.ended(), Some(Ended::Reset));
        assert_eq!(script.drain(), []);
    }
}

#[test]
fn the_second_to_close_finishes_with_the_peers_dreq() {
    for completed in [false, true] {
        let mut script = Script::established();
        script.send(Body::DisConn, 0).unwrap();
        script.conn.shutdown_send();
        assert!(matches!(script.step(), Some(Did::Sent(repr)) if repr.body == Body::DisConn));
        if completed {
            script.complete();
            assert_eq!(script.conn.state(), State::BothClosed);
            assert_eq!(script.conn.timers().next(), Some(Timer::PeerClose));
        }
        assert_eq!(script.step(), None);
        script.conn.handle_disconnect_requested();
        assert_eq!(script.conn.ended(), Some(Ended::Finished));
    }
}

//= test: CLOSE-5
#[test]
fn the_dreq_waits_for_the_completion_of_our_disconn() {
    let mut script = Script::established();
    script.conn.shutdown_send();
    assert!(script.step().is_some());
    script.send(Body::DisConn, 0).unwrap();
    assert_eq!(script.conn.state(), State::BothClosing);
    assert_eq!(script.step(), None);
    script.complete();
    assert_eq!(script.step(), Some(Did::Disconnect));
    assert_eq!(script.conn.state(), State::Disconnecting);
    assert_eq!(script.conn.ended(), None);
    // Crossing DREQs are as good as a DREP.
    script.conn.handle_disconnect_requested();
    assert_eq!(script.conn.ended(), Some(Ended::Finished));
}

#[test]
fn a_link_that_fails_after_both_ends_of_stream_has_lost_nothing() {
    let mut script = Script::established();
    script.send(Body::DisConn, 0).unwrap();
    script.conn.shutdown_send();
    script.drain();
    assert_eq!(script.conn.state(), State::BothClosed);
    script.conn.handle_link_failed();
    assert_eq!(script.drain(), [Did::Disconnect]);
    assert_eq!(script.conn.ended(), Some(Ended::Finished));
    // The same with our DREQ out.
    let mut script = Script::established();
    script.conn.shutdown_send();
    script.drain();
    script.send(Body::DisConn, 0).unwrap();
    assert_eq!(script.drain(), [Did::Disconnect]);
    script.conn.handle_link_failed();
    assert_eq!(script.conn.ended(), Some(Ended::Finished));
}

//= test: URGENT-1, URGENT-4
#[test]
fn the_urgent_byte_is_marked_on_the_wire() {
    let mut script = Script::established();
    let urgent = Queue {
        more: false,
        urgent: true,
    };
    script.conn.queue(150, urgent).unwrap();
    script.queue(20);
    let flags: Vec<_> = script
        .drain()
        .iter()
        .map(|did| match did {
            Did::Sent(repr) => (repr.payload_len, repr.flags.oob_pend, repr.flags.oob_pres),
            _ => panic!("no end here"),
        })
        .collect();
    assert_eq!(
        flags,
        [(100, true, false), (50, true, true), (20, false, false)]
    );
    assert_eq!(script.conn.stats().urgent_sent, 1);
}

#[test]
fn an_urgent_write_of_nothing_makes_no_byte_urgent() {
    let mut script = Script::established();
    script.conn.set_cork(true);
    script.queue(10);
    let urgent = Queue {
        more: false,
        urgent: true,
    };
    script.conn.queue(0, urgent).unwrap();
    assert_eq!(script.drain(), []);
    script.conn.set_cork(false);
    let did = script.drain();
    assert!(matches!(
        did[..],
        [Did::Sent(repr)] if repr.payload_len == 10 && !repr.flags.oob_pend && !repr.flags.oob_pres
    ));
    assert_eq!(script.conn.stats().urgent_sent, 0);
}

//= test: HDR-11
#[test]
fn the_peer_is_woken_for_the_urgent_byte_and_for_what_it_waits_for() {
    let mut script = Script::established();
    let urgent = Queue {
        more: false,
        urgent: true,
    };
    script.conn.queue(150, urgent).unwrap();
    script.send(Body::SrcAvail(ADVERT), 1).unwrap();
    let outputs = std::iter::from_fn(|| script.conn.poll_output());
    let solicited: Vec<_> = outputs
        .map(|output| match output {
            Output::Send {
                payload_len,
                solicited,
                ..
            } => (payload_len, solicited),
            _ => panic!("no end here"),
        })
        .collect();
    // SendSm, and Data with an urgent last byte.
    assert_eq!(solicited, [(0, true), (100, false), (50, true)]);
}

#[test]
fn an_urgent_byte_is_delivered_with_its_news() {
    let mut script = Script::established();
    let mut repr = script.next(Body::Data, 4);
    repr.flags.oob_pend = true;
    let delivery = script.send_repr(&repr).unwrap();
    assert!(delivery.urgent_pending && !delivery.urgent_byte);
    let mut repr = script.next(Body::Data, 4);
    repr.flags.oob_pend = true;
    repr.flags.oob_pres = true;
    let delivery = script.send_repr(&repr).unwrap();
    assert!(!delivery.urgent_pending && delivery.urgent_byte);
    assert_eq!(script.conn.stats().urgent_received, 1);
}

#[test]
fn an_end_before_establishment_has_no_output() {
    for start in [
        Script::idle,
        Script::hello_sent,
        Script::hello_received,
        Script::hello_ack_sent,
    ] {
        let mut script = start();
        script.conn.abort();
        assert_eq!(script.conn.ended(), Some(Ended::Aborted));
        assert_eq!(script.drain(), []);
        let mut script = start();
        script.conn.handle_disconnect_requested();
        assert_eq!(script.conn.ended(), Some(Ended::Reset));
        let mut script = start();
        script.conn.handle_link_failed();
        assert_eq!(script.conn.ended(), Some(Ended::LinkFailed));
    }
}

#[test]
fn counters_count() {
    let mut script = Script::established();
    script.queue(150);
    script.drain();
    script.send(Body::Data, 70).unwrap();
    for _ in 0..2 {
        script.send(Body::Data, 0).unwrap();
    }
    let stats = *script.conn.stats();
    assert_eq!(stats.payload_bytes_sent, 150);
    assert_eq!(stats.messages_sent, 2);
    assert_eq!(stats.payload_bytes_received, 70);
    assert_eq!(stats.messages_received, 3);
    assert_eq!(stats.credit_updates_received, 2);
}
