// SPDX-License-Identifier: MIT
//! When zero copy is used: thresholds of one side, limited locked memory, two writers without a
//! reader. On SDP the counters show the result.

use libc::{c_int, MSG_NOSIGNAL, MSG_WAITALL, RLIMIT_MEMLOCK, SOL_TCP};

use super::zcopy::{
    await_reader, client, counted, received, received_uncopied, recv_awaited, sent_uncopied,
    server, Counters, MIB,
};
use crate::case::Case;
use crate::child;
use crate::payload::bytes;
use crate::role::Role;
use crate::sock::Sock;
use crate::uapi;
use crate::world::Family;

/// Number of turns; both sides use the same.
const TURNS: u64 = 3;

/// Switches zero copy off, except for the direction of `option`.
fn set(t: &Role, s: &Sock, option: Option<c_int>) {
    if t.family == Family::Sdp {
        s.set(SOL_TCP, uapi::SDP_ZCOPY_THRESH, &0).expect("no threshold");
        if let Some(option) = option {
            s.set(SOL_TCP, option, &4096).expect("a threshold");
        }
    }
}

/// A reader from a listener with this threshold, or none.
fn reader(t: &Role, option: Option<c_int>, check: impl FnOnce(&dyn Fn(&str) -> i64)) {
    let listener = t.socket();
    set(t, &listener, option);
    listener.bind(&t.here(0)).expect("bind");
    listener.listen(1).expect("listen");
    t.tell("port", t.port_of(&listener));
    let s = listener.accept().expect("accept");
    counted(
        t,
        || {
            t.meet("counted");
            for turn in 0..TURNS {
                let mut room = vec![0; MIB];
                let got = recv_awaited(t, || s.recv(&mut room, MSG_WAITALL));
                t.eq("recv", got, Ok(MIB));
                t.holds("the bytes", room == bytes(turn, MIB));
            }
        },
        |of| {
            assert_eq!(received(of), TURNS as i64 * MIB as i64);
            check(of);
        },
    );
    t.meet("end");
}

fn writer(t: &Role, option: Option<c_int>, check: impl FnOnce(&dyn Fn(&str) -> i64)) {
    let port = t.hear("port");
    let s = t.socket();
    set(t, &s, option);
    s.connect(&t.there(port)).expect("connect");
    counted(
        t,
        || {
            t.meet("counted");
            for turn in 0..TURNS {
                await_reader(t);
                t.eq("send", s.send(&bytes(turn, MIB), MSG_NOSIGNAL), Ok(MIB));
            }
            t.meet("end");
        },
        check,
    );
}

/// Without the privilege to lock memory, like an ordinary user.
fn unprivileged(work: impl FnOnce()) {
    let child = child::spawn(|| {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: reads a struct; integers only.
        let done = unsafe {
            libc::setrlimit(RLIMIT_MEMLOCK, &raw const none)
                | libc::setresgid(65_534, 65_534, 65_534)
                | libc::setresuid(65_534, 65_534, 65_534)
        };
        assert_eq!(done, 0, "another user");
        work();
    });
    child.join();
}

/// Both send and then read; the amount fits into the buffers of a connection.
fn send_first(t: &Role, s: &Sock, own: u64, other: u64) {
    const LEN: usize = 100_000;
    let before = Counters::now(t);
    t.meet("counted");
    t.eq("send", s.send(&bytes(own, LEN), MSG_NOSIGNAL), Ok(LEN));
    let came = t.recv_exactly(s, LEN);
    t.holds("the bytes", came == bytes(other, LEN));
    if t.family == Family::Sdp {
        // At least one of the two had its bytes copied into buffers.
        let given_way = before.since(t, "adverts_declined") + before.since(t, "adverts_recalled");
        t.tell("given way", given_way);
        assert!(t.hear::<i64>("given way") + given_way > 0, "one side gives way");
        assert_eq!(before.since(t, "adverts_withdrawn"), 0);
    }
    t.meet("end");
}

/// Number of a socket's counters.
const COUNTS: usize = size_of::<uapi::sdp_traffic>() / size_of::<u64>();

/// The names of these counts, in their order.
fn traffic_names() -> impl Iterator<Item = &'static str> {
    let header = include_str!("../../../include/uapi/linux/sdp.h").lines();
    header
        .skip_while(|line| *line != "struct sdp_traffic {")
        .take_while(|line| *line != "};")
        .filter_map(|line| line.trim().strip_prefix("__u64 ")?.strip_suffix(';'))
}

/// The socket's counters agree with the host's.
fn agrees(t: &Role, s: &Sock, before: &Counters) {
    if t.family != Family::Sdp {
        return;
    }
    let own = || {
        let own = s.get_as(SOL_TCP, uapi::SDP_TRAFFIC, [0_u64; COUNTS]).expect("SDP_TRAFFIC");
        own.map(|count| count as i64)
    };
    let hosts = || traffic_names().map(|name| before.since(t, name)).collect::<Vec<_>>();
    assert!(t.until(|| own()[..] == hosts()), "{:?} and {:?}", own(), hosts());
    // On any path.
    assert!(own()[..9].iter().sum::<i64>() >= TURNS as i64 * MIB as i64, "{:?}", own());
}

pub const CASES: &[Case] = &[
    Case::two(
        "threshold_of_the_writer_alone",
        |t| {
            reader(t, None, |of| {
                assert_eq!(of("bcopy_bytes_received"), received(of), "all by messages");
                assert_eq!(of("sinks_sent"), 0);
            });
        },
        |t| {
            writer(t, Some(uapi::SDP_ZCOPY_SOURCE_THRESH), |of| {
                assert_eq!((sent_uncopied(of), of("sinks_received")), (0, 0));
            });
        },
    ),
    Case::two(
        "threshold_of_the_reader_alone",
        |t| {
            reader(t, Some(uapi::SDP_ZCOPY_SINK_THRESH), |of| {
                assert_eq!((of("adverts_received"), of("adverts_sent")), (0, 0));
            });
        },
        |t| {
            writer(t, None, |of| {
                assert_eq!((sent_uncopied(of), of("adverts_sent")), (0, 0));
            });
        },
    ),
    Case::two(
        "threshold_of_the_writer_and_of_the_reader",
        |t| {
            reader(t, Some(uapi::SDP_ZCOPY_SINK_THRESH), |of| {
                assert!(received_uncopied(of) > 0, "without copies");
            });
        },
        |t| {
            writer(t, Some(uapi::SDP_ZCOPY_SOURCE_THRESH), |of| {
                assert!(sent_uncopied(of) > 0, "without copies");
            });
        },
    ),
    Case::two(
        "threshold_and_a_limit_of_locked_memory",
        |t| {
            let s = server(t);
            counted(
                t,
                || {
                    t.meet("counted");
                    unprivileged(|| {
                        let mut room = vec![0; MIB];
                        assert_eq!(s.recv(&mut room, MSG_WAITALL), Ok(MIB));
                        assert!(room == bytes(1, MIB), "the bytes differ");
                    });
                },
                |of| {
                    assert_eq!(received(of), MIB as i64);
                    assert_eq!(received_uncopied(of), 0);
                },
            );
            t.meet("end");
        },
        |t| {
            let s = client(t);
            counted(
                t,
                || {
                    t.meet("counted");
                    unprivileged(|| {
                        assert_eq!(s.send(&bytes(1, MIB), MSG_NOSIGNAL), Ok(MIB));
                    });
                    t.meet("end");
                },
                |of| {
                    assert!(of("pin_failures") > 0, "it was tried");
                    assert_eq!((of("adverts_sent"), sent_uncopied(of)), (0, 0));
                },
            );
        },
    ),
    Case::two(
        "threshold_of_two_who_send_and_then_read",
        |t| send_first(t, &server(t), 1, 2),
        |t| send_first(t, &client(t), 2, 1),
    ),
    Case::two(
        "threshold_and_what_a_socket_counts",
        |t| {
            let before = Counters::now(t);
            let s = server(t);
            for turn in 0..TURNS {
                let mut room = vec![0; MIB];
                t.eq("recv", s.recv(&mut room, MSG_WAITALL), Ok(MIB));
                t.holds("the bytes", room == bytes(turn, MIB));
            }
            t.meet("sent");
            agrees(t, &s, &before);
            t.meet("end");
        },
        |t| {
            let before = Counters::now(t);
            let s = client(t);
            for turn in 0..TURNS {
                t.eq("send", s.send(&bytes(turn, MIB), MSG_NOSIGNAL), Ok(MIB));
            }
            t.meet("sent");
            agrees(t, &s, &before);
            t.meet("end");
        },
    ),
];
