// SPDX-License-Identifier: GPL-2.0

//! Scenarios of two engines that talk to each other.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

mod link;

use link::{config, Side, World};
use sdp_engine::engine::{
    conn::{Config, Ended, Queue, State},
    timer::Timer,
};
use Side::{A, B};

const PLAIN: Queue = Queue {
    more: false,
    urgent: false,
};
const URGENT: Queue = Queue {
    more: false,
    urgent: true,
};

/// Everything at its smallest.
fn tiny() -> Config {
    config(3, 3, 3, 40)
}

fn grants() -> Vec<Config> {
    let mut all = Vec::new();
    for initial in 3..=5 {
        for depth in initial..=initial + 3 {
            all.push(config(depth, initial, 3, 40));
        }
    }
    all
}

#[test]
fn bytes_cross_with_every_mix_of_small_grants() {
    for a in grants() {
        for b in grants() {
            let mut world = World::new(a, b);
            for (side, len) in [(A, 1000), (B, 1), (A, 39), (B, 2000), (B, 41)] {
                assert!(world.write(side, len, PLAIN));
            }
            world.run_out();
            world.assert_transferred();
            assert_eq!(world.ended(), [None, None]);
        }
    }
}

/// The first messages may cost updates, until there are enough buffers to do without.
#[test]
fn questions_and_answers_carry_all_credits() {
    for initial in 3..=5 {
        for depth in 8..=12 {
            let cfg = config(depth, initial, 14, 40);
            let mut world = World::established(cfg, cfg);
            let turns = |world: &mut World, count: usize| {
                let sent =
                    |world: &World| world.peer(A).messages_sent + world.peer(B).messages_sent;
                let before = sent(world);
                for _ in 0..count {
                    for side in [A, B] {
                        world.write(side, 10, PLAIN);
                        world.run_out();
                    }
                }
                sent(world) - before
            };
            turns(&mut world, 8);
            assert_eq!(turns(&mut world, 50), 100, "{cfg:?}");
            // Two questions at a time cost updates, and then it is as before.
            for _ in 0..4 {
                world.write(A, 80, PLAIN);
                world.run_out();
            }
            turns(&mut world, 8);
            assert_eq!(turns(&mut world, 50), 100, "{cfg:?}");
        }
    }
}

//= test: UPDATE-4
#[test]
fn an_idle_pair_is_silent() {
    for a in grants() {
        for b in grants() {
            let mut world = World::established(a, b);
            for round in 0..50 {
                world.write(A, 10, PLAIN);
                world.run_out();
                world.write(B, 10, PLAIN);
                world.run_out();
                let sent = world.peer(A).messages_sent + world.peer(B).messages_sent;
                // Each message costs at most one update, and each update at
                // most one answer.
                assert!(sent <= (round + 1) * 6, "{sent} messages, {a:?} {b:?}");
                for side in [A, B] {
                    assert_eq!(world.peer(side).timer, None);
                    assert!(world.peer(side).conn.credits() >= 3);
                }
            }
        }
    }
}

//= test: UPDATE-2
#[test]
fn a_reader_that_stops_shuts_the_window_and_opens_it_again() {
    for cfg in grants() {
        let mut world = World::established(cfg, cfg);
        world.write(A, 5000, PLAIN);
        world.run();
        let sent = world.peer(A).sent;
        assert!(sent < 5000);
        assert!(world.peer(A).conn.stats().credit_stalls > 0);
        assert_eq!(world.peer(B).posted, 2);
        assert_eq!(world.run(), 0);
        // The other direction is not concerned.
        world.write(B, 500, PLAIN);
        world.run();
        world.read(A, 100);
        world.run();
        assert!(world.peer(A).delivered > 100);
        let delivered = world.peer(B).delivered;
        // One buffer at a time.
        while world.read(B, 1) {
            world.run();
        }
        assert!(world.peer(B).delivered > delivered);
        world.run_out();
        world.assert_transferred();
    }
}

/// The shell has no memory to post messages, and gets some when the program has closed already.
#[test]
fn what_is_not_posted_for_want_of_memory_is_sent_later() {
    for cfg in grants() {
        for closes in [false, true] {
            let mut world = World::established(cfg, cfg);
            world.write(A, 100, PLAIN);
            world.act(A, |peer| peer.conn.allow_posts(false));
            let sent = world.peer(A).messages_sent;
            let stalls = world.peer(A).conn.stats().stalls();
            world.write(A, 5000, PLAIN);
            world.write(B, 500, PLAIN);
            if closes {
                world.shutdown(A);
            }
            world.run();
            world.read(A, 100);
            assert_eq!(world.peer(A).messages_sent, sent);
            assert_eq!(world.peer(A).conn.stats().stalls(), stalls);
            assert_eq!(world.ended(), [None, None]);
            assert!(!world.peer(B).eof);
            world.act(A, |peer| peer.conn.allow_posts(true));
            world.shutdown(A);
            world.run_out();
            world.shutdown(B);
            world.run_out();
            world.assert_transferred();
            assert!(world.peer(B).eof);
            assert_eq!(world.ended(), [Some(Ended::Finished); 2]);
        }
    }
}

/// It does not keep a connection that fails from telling the peer.
#[test]
fn a_connection_fails_without_memory_to_post() {
    let mut world = World::established(tiny(), tiny());
    world.act(A, |peer| peer.conn.allow_posts(false));
    world.act(A, |peer| peer.conn.abort());
    world.run();
    assert_eq!(world.ended(), [Some(Ended::Aborted), Some(Ended::Reset)]);
}

/// A DREQ alone that crosses the peer's DisConn would be a graceful end to the peer, with bytes that
/// were not read.
//= test: ABORT-2, ABORT-6
#[test]
fn an_abort_that_crosses_the_end_waits_for_memory_to_post() {
    for comes in [false, true] {
        let mut world = World::established(tiny(), tiny());
        world.shutdown(A);
        world.run();
        // B is the second one to close, so the DREQ is A's.
        world.write(B, 30, PLAIN);
        world.shutdown(B);
        world.act(A, |peer| peer.conn.allow_posts(false));
        world.act(A, |peer| peer.conn.abort());
        world.run();
        assert_eq!(world.ended(), [None, None]);
        assert!(world.peer(A).conn.wants(Timer::PeerClose).is_some());
        if comes {
            world.act(A, |peer| peer.conn.allow_posts(true));
        } else {
            world.act(A, |peer| peer.conn.handle_timeout(Timer::PeerClose));
        }
        world.run();
        let other = if comes { Ended::Reset } else { Ended::Finished };
        assert_eq!(world.ended(), [Some(Ended::Aborted), Some(other)]);
    }
}

/// Both windows shut, both sides still have bytes.
fn standoff(a: Config, b: Config) -> World {
    let mut world = World::established(a, b);
    world.write(A, 3000, PLAIN);
    world.write(B, 3000, PLAIN);
    world.run();
    for side in [A, B] {
        assert_eq!(world.peer(side).posted, 2);
    }
    world
}

#[test]
fn a_standoff_rests_and_resolves_when_either_side_reads() {
    for a in grants() {
        for b in grants() {
            for reader in [A, B] {
                let mut world = standoff(a, b);
                assert_eq!(world.run(), 0);
                world.read(reader, 100);
                world.run_out();
                world.assert_transferred();
            }
        }
    }
}

#[test]
fn close_works_while_both_windows_are_shut() {
    for a in grants() {
        for b in grants() {
            let mut world = World::established(a, b);
            // As much as fits without reading, and no byte more.
            world.write(A, 3000, PLAIN);
            world.write(B, 3000, PLAIN);
            world.run();
            let (a_sent, b_sent) = (world.peer(A).sent, world.peer(B).sent);
            let mut world = World::established(a, b);
            world.write(A, u32::try_from(a_sent).unwrap(), PLAIN);
            world.write(B, u32::try_from(b_sent).unwrap(), PLAIN);
            world.run();
            for side in [A, B] {
                assert_eq!(world.peer(side).conn.unsent(), 0);
            }
            world.shutdown(A);
            world.run();
            world.shutdown(B);
            // No application reads; only timers may be needed.
            while world.run() > 0 || world.peer(A).timer == Some(Timer::CreditUpdate) {
                world.fire(A);
            }
            for side in [A, B] {
                assert!(world.peer(side).eof, "{a:?} {b:?}");
            }
            assert_eq!(world.ended(), [Some(Ended::Finished); 2]);
            while world.read(A, 1) || world.read(B, 1) {}
            world.assert_transferred();
        }
    }
}

//= test: EST-1, CLOSE-4, CLOSE-8
#[test]
fn active_close_is_disconnected_by_the_side_that_closed_first() {
    for first in [A, B] {
        let mut world = World::established(tiny(), tiny());
        let second = first.other();
        world.write(first, 500, PLAIN);
        world.shutdown(first);
        assert_eq!(world.peer(first).conn.state(), State::LocalClosing);
        world.read(second, 100);
        world.run_out();
        assert_eq!(world.peer(first).conn.state(), State::LocalClosed);
        assert_eq!(world.peer(second).conn.state(), State::PeerClosed);
        assert!(world.peer(second).eof);
        // Half closed: the other direction goes on as long as it likes.
        for _ in 0..10 {
            world.write(second, 500, PLAIN);
            world.run_out();
        }
        world.shutdown(second);
        world.run_out();
        assert_eq!(world.ended(), [Some(Ended::Finished); 2]);
        assert!(world.peer(first).dreq_sent);
        assert!(!world.peer(second).dreq_sent);
        world.assert_transferred();
    }
}

//= test: CLOSE-4
#[test]
fn simultaneous_close_is_disconnected_by_both() {
    let mut world = World::established(tiny(), tiny());
    world.write(A, 40, PLAIN);
    world.write(B, 40, PLAIN);
    world.shutdown(A);
    world.shutdown(B);
    world.run_out();
    assert_eq!(world.ended(), [Some(Ended::Finished); 2]);
    assert!(world.peer(A).dreq_sent && world.peer(B).dreq_sent);
    world.assert_transferred();
}

#[test]
fn the_side_that_asked_first_but_sent_last_does_not_disconnect() {
    let mut world = World::established(tiny(), tiny());
    // A's DisConn waits behind bytes that B does not take.
    world.write(A, 2000, PLAIN);
    world.run();
    world.shutdown(A);
    world.shutdown(B);
    world.run();
    assert_eq!(world.peer(A).conn.state(), State::BothClosing);
    world.run_out();
    assert_eq!(world.ended(), [Some(Ended::Finished); 2]);
    assert!(!world.peer(A).dreq_sent);
    assert!(world.peer(B).dreq_sent);
    world.assert_transferred();
}

#[test]
fn shutdown_before_establishment_is_kept() {
    let mut world = World::new(tiny(), tiny());
    world.write(B, 100, PLAIN);
    world.shutdown(B);
    assert_eq!(world.peer(B).conn.state(), State::HelloAckSent);
    assert_eq!(world.peer(B).messages_sent, 0);
    world.run_out();
    assert_eq!(world.peer(B).conn.state(), State::LocalClosed);
    world.shutdown(A);
    world.run_out();
    assert_eq!(world.ended(), [Some(Ended::Finished); 2]);
    world.assert_transferred();
}

//= test: EST-2
#[test]
fn a_message_may_come_before_the_rtu() {
    let mut world = World::new(tiny(), tiny());
    world.write(A, 10, PLAIN);
    world.carry(A);
    world.handle(B, 1);
    assert_eq!(world.peer(B).conn.state(), State::Established);
    world.run_out();
    world.assert_transferred();
}

#[test]
fn abort_resets_the_peer_in_every_stage_of_the_close() {
    let stages: [fn(&mut World); 5] = [
        |_| {},
        |world| world.shutdown(A),
        |world| {
            world.shutdown(A);
            world.run();
        },
        |world| {
            world.shutdown(B);
            world.run();
        },
        |world| {
            world.shutdown(B);
            world.run();
            world.shutdown(A);
        },
    ];
    for (stage, prepare) in stages.into_iter().enumerate() {
        let mut world = World::established(tiny(), tiny());
        prepare(&mut world);
        world.act(A, |peer| peer.conn.abort());
        world.run_out();
        // In the last stage the peer has all bytes and both ends of stream
        // before it can hear of the abort.
        let peer = if stage == 4 {
            Ended::Finished
        } else {
            Ended::Reset
        };
        assert_eq!(
            world.ended(),
            [Some(Ended::Aborted), Some(peer)],
            "stage {stage}"
        );
    }
}

//= test: DATA-4
#[test]
fn payload_after_close_resets_the_sender() {
    let mut world = World::established(tiny(), tiny());
    world.close(A);
    world.run();
    assert_eq!(world.ended(), [None, None]);
    world.write(B, 1, PLAIN);
    world.run_out();
    assert_eq!(world.ended(), [Some(Ended::Aborted), Some(Ended::Reset)]);
}

//= test: CLOSE-9
#[test]
fn a_silent_peer_is_given_up_after_close_but_not_after_shutdown() {
    let mut world = World::established(tiny(), tiny());
    world.shutdown(A);
    world.run();
    assert_eq!(world.peer(A).timer, None);
    world.close(A);
    assert_eq!(world.peer(A).timer, Some(Timer::PeerClose));
    world.run();
    world.fire(A);
    world.run();
    assert_eq!(world.ended(), [Some(Ended::TimedOut), Some(Ended::Reset)]);
}

//= test: CLOSE-9
#[test]
fn a_closed_socket_that_makes_progress_is_not_given_up() {
    let mut world = World::established(tiny(), tiny());
    world.write(A, 2000, PLAIN);
    world.close(A);
    for _ in 0..8 {
        world.run();
        assert_eq!(world.peer(A).timer, Some(Timer::PeerClose));
        world.fire(A);
        assert_eq!(world.peer(A).ended(), None);
        world.read(B, 2);
    }
    world.run();
    // Now no application reads.
    world.fire(A);
    world.fire(A);
    world.run();
    assert_eq!(world.ended()[0], Some(Ended::TimedOut));
}

#[test]
fn a_missing_dreq_is_replaced_after_a_while() {
    let mut world = World::established(tiny(), tiny());
    world.shutdown(A);
    while world.carry(A) || world.handle(B, 1) || world.complete(A, 1) {}
    world.shutdown(B);
    while world.carry(B) || world.complete(B, 1) {}
    // A never handles B's DisConn.
    assert_eq!(world.peer(B).conn.state(), State::BothClosed);
    assert_eq!(world.peer(B).timer, Some(Timer::PeerClose));
    world.fire(B);
    assert!(world.peer(B).dreq_sent);
    assert_eq!(world.peer(B).ended(), None);
    world.run_out();
    assert_eq!(world.ended(), [Some(Ended::Finished); 2]);
}

#[test]
fn a_cork_runs_out() {
    let mut world = World::established(tiny(), tiny());
    world.act(A, |peer| peer.conn.set_cork(true));
    world.write(A, 10, PLAIN);
    world.run();
    assert_eq!(world.peer(A).messages_sent, 0);
    assert_eq!(world.peer(A).timer, Some(Timer::Cork));
    world.fire(A);
    world.run();
    assert_eq!(world.peer(B).delivered, 10);
    assert_eq!(world.peer(A).timer, None);
}

#[test]
fn a_promise_of_more_waits_for_the_rest() {
    let mut world = World::established(tiny(), tiny());
    let more = Queue {
        more: true,
        urgent: false,
    };
    world.write(A, 10, more);
    assert_eq!(world.peer(A).timer, Some(Timer::Cork));
    world.write(A, 10, PLAIN);
    assert_eq!(world.peer(A).timer, None);
    world.run();
    assert_eq!(world.peer(A).messages_sent, 1);
}

//= test: URGENT-3
#[test]
fn urgent_data_is_announced_through_a_shut_window() {
    let mut world = World::established(tiny(), tiny());
    world.write(A, 2000, PLAIN);
    world.run();
    world.write(A, 5, URGENT);
    world.run();
    assert_eq!(world.peer(B).urgent_announced, 1);
    assert_eq!(world.peer(B).urgent_received, []);
    world.run_out();
    assert_eq!(world.peer(B).urgent_announced, 1);
    assert_eq!(world.peer(B).urgent_received, [2005]);
    world.assert_transferred();
}

#[test]
fn link_failure_ends_both_sides() {
    let mut world = World::established(tiny(), tiny());
    world.act(A, |peer| peer.conn.handle_link_failed());
    world.run_out();
    assert_eq!(world.ended(), [Some(Ended::LinkFailed), Some(Ended::Reset)]);
}

#[test]
fn nothing_moves_after_the_end() {
    let mut world = World::established(tiny(), tiny());
    world.shutdown(A);
    world.shutdown(B);
    world.run_out();
    let sent = world.peer(A).messages_sent;
    assert!(!world.write(A, 1, PLAIN));
    world.act(A, |peer| {
        peer.conn.shutdown_send();
        peer.conn.close_receive();
        peer.conn.abort();
        peer.conn.handle_disconnect_requested();
        peer.conn.handle_disconnected();
        peer.conn.handle_link_failed();
        peer.conn.handle_established();
        peer.conn.handle_send_completed();
        peer.conn.handle_timeout(Timer::PeerClose);
        peer.conn.push();
    });
    assert_eq!(world.ended(), [Some(Ended::Finished); 2]);
    assert_eq!(world.peer(A).messages_sent, sent);
    assert_eq!(world.peer(A).conn.receives_wanted(), 0);
}

//= test: SEQ-1, SEQ-3
#[test]
fn thousands_of_messages_stay_in_step() {
    let mut world = World::established(config(8, 4, 6, 100), config(5, 3, 4, 60));
    for round in 0..3000 {
        world.write(A, 1 + round % 130, PLAIN);
        world.write(B, 1 + round % 70, PLAIN);
        if round % 7 == 0 {
            world.run();
            world.read(A, 3);
            world.read(B, 2);
        }
    }
    world.run_out();
    world.assert_transferred();
}

//= test: UPDATE-4
#[test]
fn announcements_into_two_shut_windows_are_not_answered_for_ever() {
    let mut world = World::established(tiny(), tiny());
    for side in [A, B] {
        world.write(side, 2000, PLAIN);
        world.write(side, 1, URGENT);
    }
    world.run();
    for side in [A, B] {
        assert_eq!(world.peer(side).urgent_announced, 1);
    }
    world.run_out();
    world.assert_transferred();
}
