// SPDX-License-Identifier: MIT
//! Readiness: poll, select, and epoll in level, edge and one-shot mode.

use libc::{
    c_short, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLRDHUP,
    POLLERR, POLLHUP, POLLIN, POLLOUT, POLLPRI, POLLRDHUP, POLLRDNORM, POLLWRNORM, SHUT_RD,
    SHUT_RDWR, SHUT_WR,
};

use std::sync::mpsc;

use crate::blocked::{pid, tid};
use crate::case::Case;
use crate::errno::Errno;
use crate::poller::{poll_many, ppoll, select, Epoll, Events};
use crate::role::{Role, ENOUGH, LIMIT, SIOCINQ};
use crate::signal;
use crate::sock::Sock;

const ALL: c_short = POLLIN | POLLOUT | POLLPRI | POLLRDHUP | POLLRDNORM | POLLWRNORM;
const EVERYTHING: i32 = EPOLLIN | EPOLLOUT | EPOLLRDHUP | libc::EPOLLPRI;

fn now(t: &Role, label: &str, s: &Sock) {
    t.see(label, s.poll(ALL, 0));
}

/// An epoll instance that watches the one socket.
fn watch(s: &Sock, events: i32) -> Epoll {
    let epoll = Epoll::new().expect("epoll");
    epoll.watch(s, events).expect("watch");
    epoll
}

fn nothing(t: &Role, label: &str, epoll: &Epoll) {
    t.eq(label, epoll.wait_one(0), Ok(Events(0)));
}

fn reset(s: &Sock) {
    s.set_linger(true, 0).expect("SO_LINGER");
    s.close().expect("close");
}

/// Waits with this instance on another thread until the connection has ended.
fn wait_for_the_end(epoll: &Epoll, patience: i32, tell: &mpsc::Sender<i32>) {
    tell.send(tid()).expect("told");
    while let Ok(Events(events)) = epoll.wait_one(patience) {
        if events == 0 || events & EPOLLHUP != 0 {
            return;
        }
    }
}

/// Instances that wait for other events than data, and the one that waits for it.
fn reader_beside_others(t: &Role, s: &Sock, others: &[i32], own: i32) {
    let others: Vec<Epoll> = others.iter().map(|events| watch(s, *events)).collect();
    let reader = watch(s, own);
    for (number, other) in others.iter().enumerate() {
        t.see(&format!("instance {number}"), other.wait_one(0));
    }
    let patience = t.patience();
    let (tell, told) = mpsc::channel();
    let came = std::thread::scope(|scope| {
        for other in &others {
            let tell = tell.clone();
            scope.spawn(move || wait_for_the_end(other, patience, &tell));
        }
        for _ in &others {
            let thread = told.recv().expect("a thread");
            t.await_asleep(pid(), thread, &[libc::SYS_epoll_wait, libc::SYS_epoll_pwait]);
        }
        t.tell_sleeping("waiting");
        let came = reader.wait_one(patience);
        // Ends the threads before anything can fail.
        s.shutdown(SHUT_RDWR).expect("shutdown");
        came
    });
    t.see("what came", came);
}

fn writer_of_a_byte(t: &Role, s: &Sock) {
    t.hear_asleep("waiting", &[libc::SYS_epoll_wait, libc::SYS_epoll_pwait]);
    t.send_all(s, b"x");
    t.await_events(s, POLLRDHUP);
}

pub const CASES: &[Case] = &[
    Case::alone("poll_on_sockets_that_are_not_connected", |t| {
        now(t, "fresh", &t.socket());
        now(t, "bound", &t.bound());
        now(t, "listening", &t.listener(1));
        let fresh = t.socket();
        t.see("nothing asked", fresh.poll(0, 0));
    })
    .both_versions(),
    Case::connected(
        "poll_follows_a_connection_to_its_end",
        |t, s| {
            now(t, "idle", s);
            t.say("send");
            t.see("data", t.await_events(s, ALL & !(POLLPRI | POLLRDHUP)));
            t.recv_exactly(s, 3);
            now(t, "read", s);
            t.say("shut down");
            t.see("peer has shut down", t.await_events(s, POLLIN | POLLRDHUP));
            now(t, "all of it", s);
            s.shutdown(SHUT_WR).expect("shutdown");
            t.see("both have shut down", t.await_events(s, POLLHUP));
            now(t, "all of it again", s);
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, b"abc");
            t.wait("shut down");
            s.shutdown(SHUT_WR).expect("shutdown");
            t.await_events(s, POLLHUP);
            now(t, "both have shut down", s);
        },
    )
    .both_versions(),
    Case::connected(
        "poll_after_own_shutdowns",
        |t, s| {
            s.shutdown(SHUT_RD).expect("shutdown");
            now(t, "reading", s);
            s.shutdown(SHUT_WR).expect("shutdown");
            now(t, "both", s);
        },
        |_, _| {},
    ),
    Case::connected(
        "poll_after_own_shutdown_for_writing",
        |t, s| {
            s.shutdown(SHUT_WR).expect("shutdown");
            now(t, "writing", s);
        },
        |_, _| {},
    ),
    Case::connected(
        "poll_after_a_reset",
        |_, s| reset(s),
        |t, s| {
            t.see("reset", t.await_events(s, POLLERR | POLLHUP));
            // TCP reports the closed state just before the shutdown, on another processor.
            t.await_events(s, POLLRDHUP);
            now(t, "all of it", s);
            t.ok("SO_ERROR", s.error());
            now(t, "after SO_ERROR", s);
        },
    )
    .both_versions(),
    Case::connected(
        "poll_waits_for_data",
        |t, s| {
            t.tell_sleeping("polling");
            t.see("poll", s.poll(POLLIN, t.patience()));
        },
        |t, s| {
            t.hear_asleep("polling", &[libc::SYS_poll, libc::SYS_ppoll]);
            t.send_all(s, b"x");
        },
    )
    .both_versions(),
    Case::connected(
        "poll_waits_for_room",
        |t, s| {
            let sent = t.fill(s);
            t.tell("sent", sent);
            t.tell_sleeping("polling");
            t.see("poll", s.poll(POLLOUT, t.patience()));
        },
        |t, s| {
            let sent: usize = t.hear("sent");
            t.hear_asleep("polling", &[libc::SYS_poll, libc::SYS_ppoll]);
            t.recv_exactly(s, sent);
        },
    ),
    Case::connected(
        "poll_is_woken_by_hangup_without_asking_for_it",
        |t, s| {
            t.tell_sleeping("polling");
            t.see("poll", s.poll(0, t.patience()));
        },
        |t, s| {
            t.hear_asleep("polling", &[libc::SYS_poll, libc::SYS_ppoll]);
            reset(s);
        },
    ),
    Case::connected(
        "poll_times_out_without_an_event",
        |t, s| {
            let start = std::time::Instant::now();
            t.eq("poll", s.poll(POLLIN | POLLPRI, LIMIT as i32).map(|up| up.0), Ok(0));
            t.holds("waited", start.elapsed().as_millis() >= ENOUGH);
        },
        |_, _| {},
    ),
    Case::alone("poll_tells_sockets_apart", |t| {
        let pairs = [t.own_pair(), t.own_pair(), t.own_pair()];
        t.send_all(&pairs[1].1, b"x");
        t.await_events(&pairs[1].0, POLLIN);
        let wanted: Vec<_> = pairs.iter().map(|pair| (pair.0.fd(), POLLIN)).collect();
        t.see("poll", poll_many(&wanted, 0).expect("poll"));
    }),
    Case::connected(
        "ppoll_lets_a_blocked_signal_through",
        |t, s| {
            signal::catch(libc::SIGUSR1, true);
            let before = signal::block(libc::SIGUSR1);
            crate::blocked::kill(crate::blocked::pid(), libc::SIGUSR1).expect("kill");
            t.eq("held back", signal::caught(libc::SIGUSR1), 0);
            t.err("ppoll", ppoll(&[(s.fd(), POLLIN)], &before), libc::EINTR);
            t.eq("let through", signal::caught(libc::SIGUSR1), 1);
        },
        |_, _| {},
    ),
    Case::connected(
        "select_reports_reading_and_writing",
        |t, s| {
            t.eq("idle", select(s.fd(), 0), Ok((false, true, false)));
            t.say("send");
            t.await_events(s, POLLIN);
            t.eq("data", select(s.fd(), 0), Ok((true, true, false)));
            t.recv_exactly(s, 1);
            let sent = t.fill(s);
            t.eq("full", select(s.fd(), 0), Ok((false, false, false)));
            t.tell("sent", sent);
            t.say("close");
            t.await_events(s, POLLRDHUP);
            let (read, ..) = select(s.fd(), 0).expect("select");
            t.holds("end is readable", read);
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, b"x");
            let sent = t.hear("sent");
            t.recv_exactly(s, sent);
            t.wait("close");
            s.close().expect("close");
        },
    ),
    Case::alone("select_on_a_listener", |t| {
        let listener = t.listener(1);
        t.eq("idle", select(listener.fd(), 0), Ok((false, false, false)));
        let client = t.socket();
        client.connect(&t.here(t.port_of(&listener))).expect("connect");
        t.await_events(&listener, POLLIN);
        t.eq("pending", select(listener.fd(), 0), Ok((true, false, false)));
    }),
    Case::connected(
        "epoll_level_repeats_until_the_data_is_read",
        |t, s| {
            let epoll = watch(s, EPOLLIN);
            nothing(t, "idle", &epoll);
            t.say("send");
            t.see("first", t.await_epoll(&epoll));
            t.see("second", epoll.wait_one(0));
            t.recv_exactly(s, 1);
            t.see("a part is left", epoll.wait_one(0));
            t.recv_exactly(s, 1);
            nothing(t, "read", &epoll);
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, b"ab");
        },
    )
    .both_versions(),
    Case::connected(
        "epoll_edge_reports_new_data_once",
        |t, s| {
            let epoll = watch(s, EPOLLIN | EPOLLET);
            t.say("send");
            t.see("first", t.await_epoll(&epoll));
            nothing(t, "once", &epoll);
            t.recv_exactly(s, 1);
            nothing(t, "after a part", &epoll);
            t.say("send more");
            t.see("more", t.await_epoll(&epoll));
            nothing(t, "more, once", &epoll);
            t.eq("data", t.recv_exactly(s, 3), b"bcd".to_vec());
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, b"ab");
            t.wait("send more");
            t.send_all(s, b"cd");
        },
    )
    .both_versions(),
    Case::connected(
        "epoll_edge_reports_what_is_there_when_added",
        |t, s| {
            t.say("send");
            t.await_events(s, POLLIN);
            let epoll = watch(s, EPOLLIN | EPOLLOUT | EPOLLET);
            t.see("added", epoll.wait_one(0));
            nothing(t, "once", &epoll);
            epoll.rewatch(s, EPOLLIN | EPOLLET).expect("rewatch");
            t.see("changed", epoll.wait_one(0));
            nothing(t, "changed, once", &epoll);
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, b"ab");
        },
    ),
    Case::connected(
        "epoll_edge_reports_room_after_being_full",
        |t, s| {
            let epoll = watch(s, EPOLLOUT | EPOLLET);
            t.see("empty", epoll.wait_one(0));
            let sent = t.fill(s);
            // Room that appeared temporarily while filling may have left an edge.
            let _ = epoll.wait_one(0);
            nothing(t, "full", &epoll);
            t.tell("sent", sent);
            t.see("room", t.await_epoll(&epoll));
        },
        |t, s| {
            let sent: usize = t.hear("sent");
            t.recv_exactly(s, sent);
        },
    )
    .both_versions(),
    Case::connected(
        "epoll_edge_drives_a_whole_transfer",
        |t, s| {
            let epoll = watch(s, EPOLLIN | EPOLLET | EPOLLRDHUP);
            s.set_nonblocking(true).expect("O_NONBLOCK");
            let mut digest = crate::payload::Digest::default();
            let mut room = vec![0; 5000];
            'events: loop {
                t.await_epoll(&epoll);
                loop {
                    match s.recv(&mut room, 0) {
                        Ok(0) => break 'events,
                        Ok(count) => digest.add(&room[..count]),
                        Err(Errno(libc::EAGAIN)) => break,
                        Err(errno) => panic!("recv: {errno}"),
                    }
                }
            }
            t.see("data", digest.text());
        },
        |t, s| {
            let epoll = watch(s, EPOLLOUT | EPOLLET);
            s.set_nonblocking(true).expect("O_NONBLOCK");
            let data = crate::payload::bytes(1, 1_000_000);
            let mut sent = 0;
            while sent < data.len() {
                match s.send(&data[sent..], 0) {
                    Ok(count) => sent += count,
                    Err(Errno(libc::EAGAIN)) => drop(t.await_epoll(&epoll)),
                    Err(errno) => panic!("send: {errno}"),
                }
            }
            s.shutdown(SHUT_WR).expect("shutdown");
        },
    )
    .both_versions(),
    Case::connected(
        "epoll_oneshot_reports_once_until_rearmed",
        |t, s| {
            let epoll = watch(s, EPOLLIN | EPOLLONESHOT);
            t.say("send");
            t.see("first", t.await_epoll(&epoll));
            nothing(t, "disarmed", &epoll);
            t.say("send more");
            t.holds("more came", t.until(|| s.ioctl(SIOCINQ) == Ok(4)));
            nothing(t, "still disarmed", &epoll);
            epoll.rewatch(s, EPOLLIN | EPOLLONESHOT).expect("rewatch");
            t.see("armed", epoll.wait_one(0));
            nothing(t, "disarmed again", &epoll);
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, b"ab");
            t.wait("send more");
            t.send_all(s, b"cd");
        },
    )
    .both_versions(),
    Case::connected(
        "epoll_reports_half_close",
        |t, s| {
            let epoll = watch(s, EPOLLRDHUP | EPOLLET);
            nothing(t, "idle", &epoll);
            t.say("shut down");
            t.see("half closed", t.await_epoll(&epoll));
            nothing(t, "once", &epoll);
        },
        |t, s| {
            t.wait("shut down");
            s.shutdown(SHUT_WR).expect("shutdown");
        },
    )
    .both_versions(),
    Case::connected(
        "epoll_reports_hangup_after_both_shutdowns",
        |t, s| {
            s.shutdown(SHUT_WR).expect("shutdown");
            let epoll = watch(s, EPOLLIN | EPOLLET);
            nothing(t, "half closed", &epoll);
            t.say("shut down");
            t.holds("hung up", t.until(|| t.await_epoll(&epoll).0 & EPOLLHUP != 0));
        },
        |t, s| {
            t.wait("shut down");
            s.shutdown(SHUT_RDWR).expect("shutdown");
        },
    ),
    Case::connected(
        "epoll_reports_a_reset",
        |t, s| {
            let epoll = watch(s, EVERYTHING);
            t.say("reset");
            t.await_events(s, POLLERR | POLLHUP);
            // As in `poll_after_a_reset`.
            t.await_events(s, POLLRDHUP);
            t.see("events", epoll.wait_one(0));
        },
        |t, s| {
            t.wait("reset");
            reset(s);
        },
    ),
    Case::connected(
        "epoll_wait_is_woken_by_data",
        |t, s| {
            let epoll = watch(s, EPOLLIN);
            t.tell_sleeping("waiting");
            t.see("events", epoll.wait_one(t.patience()));
        },
        |t, s| {
            t.hear_asleep("waiting", &[libc::SYS_epoll_wait, libc::SYS_epoll_pwait]);
            t.send_all(s, b"x");
        },
    )
    .both_versions(),
    Case::connected(
        "epoll_exclusive_wakes_the_one_that_waits_for_data",
        |t, s| {
            let others = [EPOLLOUT | EPOLLET | EPOLLEXCLUSIVE; 3];
            reader_beside_others(t, s, &others, EPOLLIN | EPOLLEXCLUSIVE);
        },
        writer_of_a_byte,
    )
    .both_versions(),
    Case::connected(
        "epoll_exclusive_of_others_leaves_one_that_is_not_exclusive_awake",
        |t, s| {
            let others = [EPOLLOUT | EPOLLET | EPOLLEXCLUSIVE, EPOLLRDHUP | EPOLLET];
            reader_beside_others(t, s, &others, EPOLLIN | EPOLLET);
        },
        writer_of_a_byte,
    ),
    Case::two(
        "epoll_reports_connections_to_a_listener",
        |t| {
            let listener = t.listener(8);
            let level = watch(&listener, EPOLLIN);
            let edge = watch(&listener, EPOLLIN | EPOLLET);
            t.tell("port", t.port_of(&listener));
            t.see("level", t.await_epoll(&level));
            t.see("edge", t.await_epoll(&edge));
            nothing(t, "edge, once", &edge);
            listener.accept().expect("accept");
            nothing(t, "level, taken", &level);
            t.say("again");
            t.see("edge again", t.await_epoll(&edge));
            listener.accept().expect("accept");
        },
        |t| {
            let port = t.hear("port");
            let first = t.connected(port);
            t.wait("again");
            let second = t.connected(port);
            t.eq("end", t.recv_to_end(&first).len() + t.recv_to_end(&second).len(), 0);
        },
    ),
    Case::connected(
        "epoll_forgets_a_socket_when_told_or_closed",
        |t, s| {
            t.say("send");
            t.await_events(s, POLLIN);
            let epoll = watch(s, EPOLLIN);
            t.err("twice", epoll.watch(s, EPOLLIN), libc::EEXIST);
            t.ok("forget", epoll.forget(s));
            nothing(t, "forgotten", &epoll);
            t.err("forget again", epoll.forget(s), libc::ENOENT);
            epoll.watch(s, EPOLLIN).expect("watch");
            t.see("watched again", epoll.wait_one(0));
            s.close().expect("close");
            nothing(t, "closed", &epoll);
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, b"x");
        },
    ),
    Case::connected(
        "epoll_within_epoll_reports_the_socket",
        |t, s| {
            let inner = watch(s, EPOLLIN);
            let outer = Epoll::new().expect("epoll");
            let inner_fd = Sock::from_fd(inner.fd());
            outer.watch(&inner_fd, EPOLLIN).expect("watch");
            nothing(t, "idle", &outer);
            t.say("send");
            t.see("outer", t.await_epoll(&outer));
            t.see("inner", inner.wait_one(0));
            t.recv_exactly(s, 1);
            nothing(t, "read", &outer);
            // The descriptor belongs to `inner`.
            std::mem::forget(inner_fd);
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, b"x");
        },
    ),
    Case::alone("epoll_watches_many_sockets", |t| {
        let pairs: Vec<_> = (0..20).map(|_| t.own_pair()).collect();
        let epoll = Epoll::new().expect("epoll");
        for (server, _) in &pairs {
            epoll.watch(server, EPOLLIN).expect("watch");
        }
        nothing(t, "idle", &epoll);
        for (index, (_, client)) in pairs.iter().enumerate().filter(|(index, _)| index % 3 == 0) {
            t.send_all(client, &[index as u8]);
        }
        let ready = t.until(|| epoll.wait(0).map(|up| up.len()) == Ok(7));
        t.holds("the ones with data", ready);
        let events = epoll.wait(0).expect("epoll_wait");
        let right = pairs.iter().enumerate().all(|(index, (server, _))| {
            events.iter().any(|&(fd, _)| fd == server.fd()) == (index % 3 == 0)
        });
        t.holds("no others", right);
    }),
];
