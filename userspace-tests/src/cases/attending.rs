// SPDX-License-Identifier: MIT
//! A task that sleeps in a call on a socket goes away: the connection lives on without it.

use libc::{MSG_NOSIGNAL, SHUT_WR};

use crate::case::Case;
use crate::child::{self, Child};
use crate::errno::checked_unit;
use crate::role::{Role, SIOCINQ};
use crate::sock::Sock;

/// A child that sleeps in `recv()`, and wants `data`.
fn reader(t: &Role, s: &Sock, data: &[u8]) -> Child {
    let child = child::spawn(|| {
        let mut room = vec![0; data.len()];
        assert_eq!(s.recv(&mut room, 0), Ok(data.len()), "received by the child");
        assert_eq!(room, data);
        s.send(b"thanks", MSG_NOSIGNAL).expect("send");
    });
    t.await_asleep(child.pid(), child.pid(), &[libc::SYS_recvfrom]);
    child
}

fn signal(child: &Child, number: i32) {
    // SAFETY: integers only.
    checked_unit(unsafe { libc::kill(child.pid(), number) }).expect("kill");
}

/// Waits until the child is stopped.
fn await_stop(child: &Child) {
    let mut status = 0;
    // SAFETY: the status word lives through the call.
    let pid = unsafe { libc::waitpid(child.pid(), &raw mut status, libc::WUNTRACED) };
    assert_eq!(pid, child.pid());
    assert!(libc::WIFSTOPPED(status), "status {status:#x}");
}

fn send_three(t: &Role, s: &Sock) {
    t.wait("first");
    t.send_all(s, b"first");
    t.wait("second");
    t.send_all(s, b"second");
    t.eq("answer", t.recv_exactly(s, 6), b"thanks".to_vec());
    t.send_all(s, b"third");
    s.shutdown(SHUT_WR).expect("shutdown");
}

pub const CASES: &[Case] = &[
    Case::connected(
        "reader_that_is_stopped_leaves_the_bytes_to_others",
        |t, s| {
            let child = reader(t, s, b"second");
            signal(&child, libc::SIGSTOP);
            await_stop(&child);
            t.say("first");
            t.holds("unread", t.until(|| s.ioctl(SIOCINQ) == Ok(5)));
            t.eq("data", t.recv_exactly(s, 5), b"first".to_vec());
            signal(&child, libc::SIGCONT);
            t.await_asleep(child.pid(), child.pid(), &[libc::SYS_recvfrom]);
            t.say("second");
            child.join();
            t.eq("rest", t.recv_to_end(s), b"third".to_vec());
        },
        send_three,
    )
    .both_versions(),
    Case::connected(
        "reader_that_is_killed_leaves_the_bytes_to_others",
        |t, s| {
            reader(t, s, b"never").kill();
            t.say("first");
            t.holds("unread", t.until(|| s.ioctl(SIOCINQ) == Ok(5)));
            t.eq("data", t.recv_exactly(s, 5), b"first".to_vec());
            let child = reader(t, s, b"second");
            t.say("second");
            child.join();
            t.eq("rest", t.recv_to_end(s), b"third".to_vec());
        },
        send_three,
    ),
];
