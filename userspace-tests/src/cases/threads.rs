// SPDX-License-Identifier: MIT
//! Several threads on one socket.

use std::sync::atomic::{AtomicUsize, Ordering};

use libc::{
    c_int, SYS_accept4, SYS_poll, SYS_recvfrom, SYS_sendto, ECONNRESET, EINVAL, EPIPE,
    MSG_NOSIGNAL, MSG_PEEK, MSG_WAITALL, POLLIN, SHUT_RD, SHUT_RDWR, SHUT_WR, SOL_TCP,
};

use crate::blocked::{pid, tid};
use crate::case::Case;
use crate::errno::{checked_unit, Errno};
use crate::payload::{bytes, Digest};
use crate::role::Role;
use crate::sock::Sock;
use crate::uapi;
use crate::world::Family;

/// Sends a pattern on one thread while receiving to the end on another.
fn exchange(t: &Role, s: &Sock, own: u64, other: u64) {
    let data = bytes(own, 500_000);
    let came = std::thread::scope(|scope| {
        scope.spawn(|| {
            t.send_all(s, &data);
            s.shutdown(SHUT_WR).expect("shutdown");
        });
        t.recv_to_end(s)
    });
    t.eq("data", Digest::of(&came), Digest::of(&bytes(other, 500_000)));
}

/// The number of occurrences of each byte value.
fn census(data: &[u8]) -> Vec<usize> {
    let mut counts = vec![0; 256];
    for &byte in data {
        counts[usize::from(byte)] += 1;
    }
    counts
}

/// Writers on one socket: each sends blocks of its own byte.
fn many_writers(t: &Role, s: &Sock, writers: u8, blocks: usize, size: usize) {
    std::thread::scope(|scope| {
        for writer in 0..writers {
            scope.spawn(move || {
                let block = vec![writer; size];
                for _ in 0..blocks {
                    t.send_all(s, &block);
                }
            });
        }
    });
    s.shutdown(SHUT_WR).expect("shutdown");
}

/// Readers on one socket: together they get everything once.
fn many_readers(s: &Sock, readers: usize) -> Vec<u8> {
    std::thread::scope(|scope| {
        let read = || {
            let mut data = Vec::new();
            let mut room = vec![0; 3000];
            loop {
                match s.recv(&mut room, 0).expect("recv") {
                    0 => return data,
                    count => data.extend_from_slice(&room[..count]),
                }
            }
        };
        let threads: Vec<_> = (0..readers).map(|_| scope.spawn(read)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a reader")).collect()
    })
}

/// The call that sleeps while its socket goes from one peer to the next.
#[derive(Clone, Copy)]
enum Sleeper {
    /// A write. Its bytes are offered from `threshold` on, and copied with 0.
    Writer {
        threshold: c_int,
    },
    Reader,
}

/// How many peers the socket has in turn.
const PEERS: usize = 8;

/// Sets the policy by which this thread, and those that it starts, run: with `SCHED_IDLE` only while no other
/// one of the machine can.
fn run_by(policy: c_int) {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: `none` is valid for the call, and 0 stands for this thread.
    checked_unit(unsafe { libc::sched_setscheduler(0, policy, &none) }).expect("a policy");
}

/// Connects one socket to one peer after the other, each time while a thread sleeps in a call. That
/// thread runs last, so it mostly finds the next connection made when it goes on.
fn change_peers_amid(t: &Role, sleeper: Sleeper) {
    let port: u16 = t.hear("port");
    let sock = t.socket();
    if let (Sleeper::Writer { threshold }, true) = (sleeper, t.family == Family::Sdp) {
        sock.set(SOL_TCP, uapi::SDP_ZCOPY_THRESH, &threshold).expect("a threshold");
    }
    t.ok("connect", sock.connect(&t.there(port)));
    let long = vec![b'o'; 8 << 20];
    run_by(libc::SCHED_IDLE);
    for _ in 1..PEERS {
        let next = |_| {
            run_by(libc::SCHED_OTHER);
            sock.connect(&t.any(0).with_family(libc::AF_UNSPEC)).expect("disconnect");
            sock.connect(&t.there(port)).expect("the next peer");
        };
        let result = t.while_asleep(&[SYS_sendto, SYS_recvfrom], next, || match sleeper {
            Sleeper::Writer { .. } => sock.send(&long, MSG_NOSIGNAL),
            Sleeper::Reader => sock.recv(&mut [0; 64], MSG_WAITALL),
        });
        let cut = match (&result, sleeper) {
            (Ok(count), Sleeper::Writer { .. }) => *count < long.len(),
            (Ok(count), Sleeper::Reader) => *count == 1,
            // Of a call that has taken nothing: the error of the disconnect, unless connect() has taken that.
            (Err(errno), _) => [Errno(EPIPE), Errno(ECONNRESET)].contains(errno),
        };
        assert!(cut, "the call went on with the next peer: {result:?}");
    }
    t.send_all(&sock, b"n");
    sock.shutdown(SHUT_WR).expect("shutdown");
    t.eq("of the last peer", t.recv_to_end(&sock), vec![b'n'; 64]);
}

/// The peers of `change_peers_amid`. Each but the last reads nothing and sends one byte of old ones.
fn peers(t: &Role) {
    let listener = t.listener(2);
    t.tell("port", t.port_of(&listener));
    let _before: Vec<Sock> = (1..PEERS)
        .map(|_| {
            let sock = listener.accept().expect("accept");
            // The socket has gone on already, perhaps.
            let _ = sock.send(b"o", MSG_NOSIGNAL);
            sock
        })
        .collect();
    let last = listener.accept().expect("accept");
    t.send_all(&last, &[b'n'; 64]);
    last.shutdown(SHUT_WR).expect("shutdown");
    t.eq("of the socket", t.recv_to_end(&last), b"n".to_vec());
}

pub const CASES: &[Case] = &[
    Case::two("threads_leave_the_rest_of_a_copied_write_to_no_other_peer", peers, |t| {
        change_peers_amid(t, Sleeper::Writer { threshold: 0 });
    })
    .both_versions(),
    Case::two("threads_leave_the_rest_of_an_offered_write_to_no_other_peer", peers, |t| {
        change_peers_amid(t, Sleeper::Writer { threshold: 4096 });
    }),
    Case::two("threads_leave_the_rest_of_a_read_to_no_other_peer", peers, |t| {
        change_peers_amid(t, Sleeper::Reader);
    }),
    Case::connected(
        "threads_send_and_receive_at_once",
        |t, s| exchange(t, s, 1, 2),
        |t, s| exchange(t, s, 2, 1),
    )
    .both_versions(),
    Case::connected(
        "threads_share_the_writing",
        |t, s| many_writers(t, s, 2, 100, 1000),
        |t, s| {
            let counts = census(&t.recv_to_end(s));
            t.eq("first", counts[0], 100_000);
            t.eq("second", counts[1], 100_000);
        },
    )
    .both_versions(),
    Case::connected(
        "threads_share_the_writing_in_large_blocks",
        |t, s| many_writers(t, s, 4, 5, 50_001),
        |t, s| {
            let counts = census(&t.recv_to_end(s));
            t.eq("counts", counts[..5].to_vec(), vec![250_005, 250_005, 250_005, 250_005, 0]);
        },
    ),
    Case::connected(
        "threads_share_the_reading",
        |t, s| {
            let data = many_readers(s, 2);
            t.eq("counts", census(&data) == census(&bytes(3, 300_000)), true);
        },
        |t, s| {
            t.send_all(s, &bytes(3, 300_000));
            s.shutdown(SHUT_WR).expect("shutdown");
        },
    )
    .both_versions(),
    Case::connected(
        "threads_share_both_directions",
        |t, s| {
            std::thread::scope(|scope| {
                scope.spawn(|| many_writers(t, s, 3, 20, 5000));
                let data = many_readers(s, 3);
                t.eq("data", data.len(), 300_000);
            });
        },
        |t, s| {
            std::thread::scope(|scope| {
                scope.spawn(|| many_writers(t, s, 3, 20, 5000));
                let data = many_readers(s, 3);
                t.eq("data", data.len(), 300_000);
            });
        },
    ),
    Case::connected(
        "threads_that_wait_are_all_woken_by_the_end",
        |t, s| {
            let woken = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                let sleepers: Vec<_> = (0..3)
                    .map(|_| {
                        let (send, receive) = std::sync::mpsc::channel();
                        scope.spawn({
                            let woken = &woken;
                            move || {
                                send.send(tid()).expect("channel");
                                assert_eq!(s.recv(&mut [0; 8], 0), Ok(0));
                                woken.fetch_add(1, Ordering::SeqCst);
                            }
                        });
                        receive.recv().expect("a thread id")
                    })
                    .collect();
                for sleeper in sleepers {
                    t.await_asleep(pid(), sleeper, &[SYS_recvfrom]);
                }
                t.say("close");
            });
            t.eq("woken", woken.load(Ordering::SeqCst), 3);
        },
        |t, s| {
            t.wait("close");
            s.close().expect("close");
        },
    ),
    Case::connected(
        "shutdown_wakes_a_recv",
        |t, s| {
            let shut = |_| s.shutdown(SHUT_RD).expect("shutdown");
            let result = t.while_asleep(&[SYS_recvfrom], shut, || s.recv(&mut [0; 8], 0));
            t.eq("recv", result, Ok(0));
        },
        |_, _| {},
    )
    .both_versions(),
    Case::connected(
        "shutdown_cuts_a_recv_for_all_of_it_short",
        |t, s| {
            assert!(t.until(|| s.ioctl(crate::role::SIOCINQ) == Ok(50)), "data");
            let shut = |_| s.shutdown(SHUT_RD).expect("shutdown");
            let result =
                t.while_asleep(&[SYS_recvfrom], shut, || s.recv(&mut [0; 100], MSG_WAITALL));
            t.eq("recv", result, Ok(50));
        },
        |t, s| t.send_all(s, &[1; 50]),
    ),
    Case::connected(
        "shutdown_wakes_a_send",
        |t, s| {
            let _ = t.fill(s);
            let shut = |_| s.shutdown(SHUT_WR).expect("shutdown");
            let result = t.while_asleep(&[SYS_sendto], shut, || s.send(b"x", MSG_NOSIGNAL));
            t.err("send", result, EPIPE);
        },
        |_, _| {},
    )
    .both_versions(),
    // A long send goes without a copy by default.
    Case::connected(
        "shutdown_wakes_a_long_send",
        |t, s| {
            let _ = t.fill(s);
            let data = vec![1; 1 << 20];
            let shut = |_| s.shutdown(SHUT_WR).expect("shutdown");
            let result = t.while_asleep(&[SYS_sendto], shut, || s.send(&data, MSG_NOSIGNAL));
            // TCP has found room for some bytes in the meantime, or for none.
            t.holds("cut short", result.map_or_else(|e| e == Errno(EPIPE), |n| n < data.len()));
        },
        |_, _| {},
    )
    .both_versions(),
    Case::connected(
        "shutdown_wakes_a_poll",
        |t, s| {
            let shut = |_| s.shutdown(SHUT_RDWR).expect("shutdown");
            let result = t.while_asleep(&[SYS_poll], shut, || s.poll(POLLIN, t.patience()));
            t.holds("readable", result.expect("poll").0 & i32::from(POLLIN) != 0);
        },
        |_, _| {},
    ),
    Case::alone("shutdown_wakes_an_accept", |t| {
        let listener = t.listener(1);
        let shut = |_| listener.shutdown(SHUT_RD).expect("shutdown");
        let result = t.while_asleep(&[SYS_accept4], shut, || listener.accept());
        t.err("accept", result, EINVAL);
    })
    .both_versions(),
    Case::connected(
        "close_does_not_disturb_a_recv_on_a_copy",
        |t, s| {
            let copy = s.dup().expect("dup");
            let close = |_| {
                s.close().expect("close");
                t.say("send");
            };
            let result = t.while_asleep(&[SYS_recvfrom], close, || copy.recv(&mut [0; 8], 0));
            t.eq("recv", result, Ok(3));
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, b"abc");
        },
    ),
    Case::two(
        "threads_share_the_accepting",
        |t| {
            let listener = t.listener(32);
            t.tell("port", t.port_of(&listener));
            let socks: Vec<Sock> = std::thread::scope(|scope| {
                let accept = || (0..10).map(|_| listener.accept().expect("accept")).collect();
                let threads: Vec<std::thread::ScopedJoinHandle<'_, Vec<Sock>>> =
                    (0..2).map(|_| scope.spawn(accept)).collect();
                threads.into_iter().flat_map(|thread| thread.join().expect("accepting")).collect()
            });
            t.eq("accepted", socks.len(), 20);
            t.meet("done");
        },
        |t| {
            let port = t.hear("port");
            let _socks: Vec<Sock> = (0..20).map(|_| t.connected(port)).collect();
            t.meet("done");
        },
    ),
    Case::two(
        "threads_connect_at_once",
        |t| {
            let listener = t.listener(32);
            t.tell("port", t.port_of(&listener));
            let mut numbers: Vec<u8> = (0..16)
                .map(|_| t.recv_exactly(&listener.accept().expect("accept"), 1)[0])
                .collect();
            numbers.sort_unstable();
            t.eq("numbers", numbers, (0..16).collect());
        },
        |t| {
            let port = t.hear("port");
            std::thread::scope(|scope| {
                for number in 0..16_u8 {
                    scope.spawn(move || {
                        let sock = t.connected(port);
                        t.send_all(&sock, &[number]);
                        assert_eq!(t.recv_to_end(&sock).len(), 0);
                    });
                }
            });
        },
    ),
    Case::connected(
        "threads_peek_while_another_reads",
        |t, s| {
            let data = bytes(4, 100_000);
            std::thread::scope(|scope| {
                scope.spawn(|| loop {
                    match s.recv(&mut [0; 500], MSG_PEEK) {
                        Ok(0) => break,
                        Ok(_) => {}
                        Err(errno) => panic!("peek: {errno}"),
                    }
                });
                t.holds("data", t.recv_to_end(s) == data);
            });
        },
        |t, s| {
            t.send_all(s, &bytes(4, 100_000));
            s.shutdown(SHUT_WR).expect("shutdown");
        },
    ),
    Case::alone("threads_bind_the_same_port_and_one_wins", |t| {
        let port = t.free_port();
        let wins = AtomicUsize::new(0);
        let socks: Vec<Sock> = (0..8).map(|_| t.socket()).collect();
        std::thread::scope(|scope| {
            for sock in &socks {
                scope.spawn(|| {
                    if sock.bind(&t.here(port)).is_ok() {
                        wins.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        t.eq("wins", wins.load(Ordering::SeqCst), 1);
    }),
    Case::connected(
        "threads_close_while_others_call",
        |t, s| {
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| while s.send(&[1; 100], MSG_NOSIGNAL).is_ok() {});
                    scope.spawn(|| {
                        while s.name().is_ok()
                            && s.poll(POLLIN, 0)
                                .is_ok_and(|up| up.0 & i32::from(libc::POLLNVAL) == 0)
                        {
                        }
                    });
                }
                t.wait("busy");
                s.shutdown(SHUT_RDWR).expect("shutdown");
                s.close().expect("close");
            });
            t.holds("over", true);
        },
        |t, s| {
            t.recv_exactly(s, 10_000);
            t.say("busy");
            let mut room = [0; 65536];
            while s.recv(&mut room, 0).is_ok_and(|count| count > 0) {}
            t.holds("over", true);
        },
    ),
];
