// SPDX-License-Identifier: MIT
//! One socket with several descriptors, in several processes.

use std::os::fd::AsRawFd;

use libc::{EAGAIN, MSG_DONTWAIT, POLLIN, POLLRDHUP, SHUT_WR};

use crate::case::Case;
use crate::child;
use crate::control::channel;
use crate::pipes::{pass_fd, take_fd};
use crate::sock::Sock;

pub const CASES: &[Case] = &[
    Case::connected(
        "copy_of_a_descriptor_keeps_the_connection_open",
        |t, s| {
            let copy = s.dup().expect("dup");
            s.close().expect("close");
            t.say("one is closed");
            t.wait("still open");
            t.send_all(&copy, b"from the copy");
            copy.close().expect("close");
        },
        |t, s| {
            t.wait("one is closed");
            t.eq("events", s.poll(POLLIN | POLLRDHUP, 0).map(|up| up.0), Ok(0));
            t.say("still open");
            t.eq("data", t.recv_to_end(s), b"from the copy".to_vec());
        },
    )
    .both_versions(),
    Case::connected(
        "copy_of_a_descriptor_shares_the_mode_but_not_the_flags",
        |t, s| {
            let copy = s.dup().expect("dup");
            s.set_nonblocking(true).expect("O_NONBLOCK");
            t.eq("copy nonblocking", copy.is_nonblocking(), Ok(true));
            s.fcntl(libc::F_SETFD, libc::FD_CLOEXEC).expect("F_SETFD");
            t.eq("copy cloexec", copy.is_cloexec(), Ok(false));
            let fd = s.fcntl(libc::F_DUPFD_CLOEXEC, 40).expect("F_DUPFD_CLOEXEC");
            let high = Sock::from_fd(fd);
            t.holds("number", fd >= 40);
            t.eq("high cloexec", high.is_cloexec(), Ok(true));
            t.ok("high name", high.name());
        },
        |_, _| {},
    ),
    Case::connected(
        "dup2_replaces_a_socket",
        |t, s| {
            let other = t.bound();
            let port = t.port_of(&other);
            // SAFETY: both descriptors are open and ours.
            let fd = unsafe { libc::dup2(s.fd(), other.fd()) };
            t.holds("same number", fd == other.fd());
            t.send_all(&other, b"through the new one");
            t.ok("the old one is closed", t.socket().bind(&t.here(port)));
        },
        |t, s| t.eq("data", t.recv_exactly(s, 19), b"through the new one".to_vec()),
    ),
    Case::connected(
        "shutdown_reaches_every_copy",
        |t, s| {
            let copy = s.dup().expect("dup");
            t.ok("shutdown", s.shutdown(SHUT_WR));
            t.err("send on the copy", copy.send(b"x", libc::MSG_NOSIGNAL), libc::EPIPE);
        },
        |t, s| t.eq("end", t.recv_to_end(s).len(), 0),
    ),
    Case::connected(
        "fork_gives_the_connection_to_both",
        |t, s| {
            let child = child::spawn(|| {
                s.send(b"child ", 0).expect("send");
            });
            child.join();
            t.send_all(s, b"parent");
            s.shutdown(SHUT_WR).expect("shutdown");
        },
        |t, s| t.eq("data", t.recv_to_end(s), b"child parent".to_vec()),
    )
    .both_versions(),
    Case::connected(
        "fork_lets_parent_and_child_take_turns",
        |t, s| {
            let child = child::spawn(|| {
                let mut room = [0; 1];
                for turn in 0..10 {
                    assert_eq!(s.recv(&mut room, 0), Ok(1));
                    assert_eq!(room[0], turn);
                    s.send(&[100 + turn], 0).expect("send");
                }
            });
            child.join();
            for turn in 10..20 {
                assert_eq!(t.recv_exactly(s, 1), [turn]);
                t.send_all(s, &[100 + turn]);
            }
        },
        |t, s| {
            for turn in 0..20_u8 {
                t.send_all(s, &[turn]);
                assert_eq!(t.recv_exactly(s, 1), [100 + turn]);
            }
            t.holds("all turns", true);
        },
    ),
    Case::two(
        "fork_lets_children_accept_from_one_listener",
        |t| {
            let listener = t.listener(8);
            t.tell("port", t.port_of(&listener));
            let serve = |_| {
                child::spawn(|| {
                    let sock = listener.accept().expect("accept");
                    let mut room = [0; 8];
                    let got = sock.recv(&mut room, 0).expect("recv");
                    sock.send(&room[..got], 0).expect("send");
                })
            };
            let children: Vec<child::Child> = (0..3).map(serve).collect();
            children.into_iter().for_each(child::Child::join);
            t.holds("all served", true);
        },
        |t| {
            let port = t.hear("port");
            for number in 0..3_u8 {
                let sock = t.connected(port);
                t.send_all(&sock, &[number; 8]);
                t.eq("echo", t.recv_to_end(&sock), vec![number; 8]);
            }
        },
    ),
    Case::connected(
        "exec_closes_a_socket_marked_for_it",
        |t, s| {
            s.fcntl(libc::F_SETFD, libc::FD_CLOEXEC).expect("F_SETFD");
            let fd = s.fd();
            let child = child::spawn(|| exec_test_of(fd));
            t.eq("gone in the new program", child.status(), 1);
            s.fcntl(libc::F_SETFD, 0).expect("F_SETFD");
            let child = child::spawn(|| exec_test_of(fd));
            t.eq("there without the mark", child.status(), 0);
        },
        |_, _| {},
    ),
    Case::connected(
        "descriptor_passed_to_another_process_works_there",
        |t, s| {
            let (ours, theirs) = channel().expect("a channel");
            let child = child::spawn(|| {
                let sock = Sock::from_fd(take_fd(theirs.as_raw_fd()));
                let mut room = [0; 16];
                assert_eq!(sock.recv(&mut room, libc::MSG_WAITALL), Ok(16));
                sock.send(&room, 0).expect("send");
            });
            pass_fd(ours.as_raw_fd(), s.fd());
            s.close().expect("close");
            child.join();
            t.holds("passed", true);
        },
        |t, s| {
            t.send_all(s, b"sixteen bytes ..");
            t.eq("echo", t.recv_to_end(s), b"sixteen bytes ..".to_vec());
        },
    )
    .both_versions(),
    Case::connected(
        "descriptor_in_flight_keeps_the_connection_open",
        |t, s| {
            let (ours, theirs) = channel().expect("a channel");
            pass_fd(ours.as_raw_fd(), s.fd());
            s.close().expect("close");
            t.meet("in flight");
            t.meet("looked");
            let sock = Sock::from_fd(take_fd(theirs.as_raw_fd()));
            t.send_all(&sock, b"landed");
        },
        |t, s| {
            t.meet("in flight");
            t.err("recv", s.recv(&mut [0; 8], MSG_DONTWAIT), EAGAIN);
            t.meet("looked");
            t.eq("data", t.recv_to_end(s), b"landed".to_vec());
        },
    ),
    Case::connected(
        "descriptor_that_is_never_taken_is_closed",
        |t, s| {
            let (ours, theirs) = channel().expect("a channel");
            pass_fd(ours.as_raw_fd(), s.fd());
            s.close().expect("close");
            drop(ours);
            drop(theirs);
            t.holds("dropped", true);
        },
        |t, s| t.eq("end", t.recv_to_end(s).len(), 0),
    ),
    Case::two(
        "listener_passed_to_another_process_accepts_there",
        |t| {
            let (ours, theirs) = channel().expect("a channel");
            let child = child::spawn(|| {
                let listener = Sock::from_fd(take_fd(theirs.as_raw_fd()));
                let sock = listener.accept().expect("accept");
                sock.send(b"taken", 0).expect("send");
            });
            let listener = t.listener(1);
            t.tell("port", t.port_of(&listener));
            pass_fd(ours.as_raw_fd(), listener.fd());
            listener.close().expect("close");
            child.join();
        },
        |t| {
            let sock = t.connect_told();
            t.eq("data", t.recv_to_end(&sock), b"taken".to_vec());
        },
    ),
];

/// Executes a shell with a status that tells whether the descriptor is open.
fn exec_test_of(fd: i32) {
    use std::os::unix::process::CommandExt;
    let script = format!("test -e /proc/self/fd/{fd}");
    let error = std::process::Command::new("/bin/sh").args(["-c", &script]).exec();
    panic!("exec: {error}");
}
