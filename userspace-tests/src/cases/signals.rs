// SPDX-License-Identifier: MIT
//! Signals that arrive during a blocking call, and signals sent by the socket.

use libc::{
    SYS_epoll_wait, SYS_poll, SYS_recvfrom, SYS_recvmsg, SYS_sendmsg, SYS_sendto, EAGAIN, EINTR,
    F_GETFL, F_SETFL, F_SETOWN, MSG_NOSIGNAL, MSG_WAITALL, O_ASYNC, POLLIN, SIGIO, SIGUSR1,
};

use crate::blocked::{kill_thread, pid};
use crate::case::Case;
use crate::poller::Epoll;
use crate::role::{Role, SIOCINQ};
use crate::signal;
use crate::sock::Sock;

/// Makes the call; once it sleeps, the thread gets a handled signal.
fn interrupted<T>(t: &Role, calls: &[libc::c_long], call: impl FnOnce() -> T) -> T {
    let poke = |thread| kill_thread(thread, SIGUSR1).expect("tgkill");
    t.while_asleep(calls, poke, call)
}

/// The same; the other side is told "sleeps again" when the call went back to sleep.
fn restarted<T>(t: &Role, calls: &[libc::c_long], call: impl FnOnce() -> T) -> T {
    let poke = |thread| {
        kill_thread(thread, SIGUSR1).expect("tgkill");
        assert!(t.until(|| signal::caught(SIGUSR1) == 1), "the signal came");
        t.await_asleep(pid(), thread, calls);
        t.say("sleeps again");
    };
    t.while_asleep(calls, poke, call)
}

fn idle(_: &Role, _: &Sock) {}

/// Asks for SIGIO on this process.
fn own_async(t: &Role, s: &Sock) {
    signal::catch(SIGIO, true);
    t.ok("owner", s.fcntl(F_SETOWN, pid()));
    let flags = s.fcntl(F_GETFL, 0).expect("F_GETFL");
    t.ok("async", s.fcntl(F_SETFL, flags | O_ASYNC));
}

pub const CASES: &[Case] = &[
    Case::connected(
        "signal_interrupts_a_recv",
        |t, s| {
            signal::catch(SIGUSR1, false);
            let result = interrupted(t, &[SYS_recvfrom], || s.recv(&mut [0; 8], 0));
            t.err("recv", result, EINTR);
            t.eq("signals", signal::caught(SIGUSR1), 1);
            t.say("send");
            t.eq("afterwards", s.recv(&mut [0; 8], 0), Ok(3));
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, b"abc");
        },
    )
    .both_versions(),
    Case::connected(
        "signal_interrupts_a_recvmsg",
        |t, s| {
            signal::catch(SIGUSR1, false);
            let result = interrupted(t, &[SYS_recvmsg], || s.recvmsg(&mut [&mut [0; 8]], 0));
            t.err("recvmsg", result, EINTR);
        },
        idle,
    ),
    Case::connected(
        "signal_restarts_a_recv",
        |t, s| {
            signal::catch(SIGUSR1, true);
            let result = restarted(t, &[SYS_recvfrom], || s.recv(&mut [0; 8], 0));
            t.eq("recv", result, Ok(3));
        },
        |t, s| {
            t.wait("sleeps again");
            t.send_all(s, b"abc");
        },
    )
    .both_versions(),
    Case::connected(
        "signal_interrupts_a_recv_with_so_rcvtimeo_in_any_case",
        |t, s| {
            signal::catch(SIGUSR1, true);
            s.set_timeout(libc::SO_RCVTIMEO, t.patience() as u64).expect("SO_RCVTIMEO");
            let result = interrupted(t, &[SYS_recvfrom], || s.recv(&mut [0; 8], 0));
            t.err("recv", result, EINTR);
        },
        idle,
    ),
    Case::connected(
        "signal_cuts_a_recv_for_all_of_it_short",
        |t, s| {
            signal::catch(SIGUSR1, false);
            assert!(t.until(|| s.ioctl(SIOCINQ) == Ok(700)), "data");
            let result = interrupted(t, &[SYS_recvfrom], || s.recv(&mut [0; 2000], MSG_WAITALL));
            t.eq("recv", result, Ok(700));
            t.err("nothing left", s.recv(&mut [0; 8], libc::MSG_DONTWAIT), EAGAIN);
        },
        |t, s| t.send_all(s, &[1; 700]),
    ),
    Case::connected(
        "signal_interrupts_a_send_that_took_nothing",
        |t, s| {
            signal::catch(SIGUSR1, false);
            let filled = t.fill(s);
            let result = interrupted(t, &[SYS_sendto], || s.send(b"x", MSG_NOSIGNAL));
            t.err("send", result, EINTR);
            t.tell("filled", filled);
            s.shutdown(libc::SHUT_WR).expect("shutdown");
        },
        |t, s| {
            let filled: usize = t.hear("filled");
            t.holds("nothing more came", t.recv_to_end(s).len() == filled);
        },
    ),
    Case::connected(
        "signal_restarts_a_send_that_took_nothing",
        |t, s| {
            signal::catch(SIGUSR1, true);
            let filled = t.fill(s);
            t.tell("filled", filled);
            let result = restarted(t, &[SYS_sendto], || s.send(b"x", MSG_NOSIGNAL));
            t.eq("send", result, Ok(1));
            s.shutdown(libc::SHUT_WR).expect("shutdown");
        },
        |t, s| {
            let filled: usize = t.hear("filled");
            t.wait("sleeps again");
            t.holds("one more came", t.recv_to_end(s).len() == filled + 1);
        },
    ),
    Case::connected(
        "signal_cuts_a_send_short",
        |t, s| {
            signal::catch(SIGUSR1, false);
            let data = vec![1; 64 << 20];
            let result = interrupted(t, &[SYS_sendmsg], || s.sendmsg(&[&data], MSG_NOSIGNAL));
            let sent = result.expect("a part");
            t.holds("a part", sent > 0 && sent < data.len());
            t.tell("sent", sent);
            s.shutdown(libc::SHUT_WR).expect("shutdown");
        },
        |t, s| {
            let sent: usize = t.hear("sent");
            t.holds("exactly what was counted", t.recv_to_end(s).len() == sent);
        },
    )
    .both_versions(),
    Case::connected(
        "signal_interrupts_poll_in_any_case",
        |t, s| {
            signal::catch(SIGUSR1, true);
            let calls = [SYS_poll, libc::SYS_restart_syscall];
            let result = interrupted(t, &calls, || s.poll(POLLIN, t.patience()));
            t.err("poll", result, EINTR);
        },
        idle,
    ),
    Case::connected(
        "signal_interrupts_epoll_wait_in_any_case",
        |t, s| {
            signal::catch(SIGUSR1, true);
            let epoll = Epoll::new().expect("epoll");
            epoll.watch(s, libc::EPOLLIN).expect("watch");
            let calls = [SYS_epoll_wait, libc::SYS_epoll_pwait];
            let result = interrupted(t, &calls, || epoll.wait_one(t.patience()));
            t.err("epoll_wait", result, EINTR);
        },
        idle,
    ),
    Case::connected(
        "sigio_tells_of_data",
        |t, s| {
            own_async(t, s);
            t.say("send");
            t.holds("signal", t.until(|| signal::caught(SIGIO) > 0));
            t.await_events(s, POLLIN);
            t.eq("data", t.recv_exactly(s, 3), b"abc".to_vec());
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, b"abc");
        },
    )
    .both_versions(),
    Case::connected(
        "sigio_tells_of_the_end",
        |t, s| {
            own_async(t, s);
            t.say("close");
            t.holds("signal", t.until(|| signal::caught(SIGIO) > 0));
            t.eq("end", t.recv_to_end(s).len(), 0);
        },
        |t, s| {
            t.wait("close");
            s.close().expect("close");
        },
    ),
    Case::two(
        "sigio_tells_of_a_connection",
        |t| {
            let listener = t.listener(1);
            own_async(t, &listener);
            t.tell("port", t.port_of(&listener));
            t.holds("signal", t.until(|| signal::caught(SIGIO) > 0));
            t.ok("accept", listener.accept());
        },
        |t| {
            let sock = t.connect_told();
            t.eq("end", t.recv_to_end(&sock).len(), 0);
        },
    ),
    Case::connected(
        "sigio_can_be_another_signal_that_names_the_socket",
        |t, s| {
            let number = libc::SIGRTMIN() + 3;
            signal::catch(number, true);
            t.ok("owner", s.fcntl(F_SETOWN, pid()));
            // F_SETSIG
            t.ok("signal", s.fcntl(10, number));
            t.ok("async", s.fcntl(F_SETFL, O_ASYNC));
            t.say("send");
            t.holds("signal came", t.until(|| signal::caught(number) > 0));
            t.eq("code is POLL_IN", signal::last_code(), 1);
            t.holds("names the socket", signal::last_fd() == s.fd());
        },
        |t, s| {
            t.wait("send");
            t.send_all(s, b"abc");
        },
    ),
    Case::connected(
        "sigpipe_ends_a_process_that_does_not_catch_it",
        |t, s| {
            s.shutdown(libc::SHUT_WR).expect("shutdown");
            let child = crate::child::spawn(|| {
                // SAFETY: restores the default action.
                unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
                let sent = s.send(b"x", 0);
                panic!("the signal did not come: {sent:?}");
            });
            t.eq("ended by", child.killed_by(), Some(libc::SIGPIPE));
        },
        |t, s| t.eq("end", t.recv_to_end(s).len(), 0),
    ),
    Case::connected(
        "signals_in_a_storm_do_not_disturb_a_transfer",
        |t, s| {
            signal::catch(SIGUSR1, true);
            let data = crate::payload::bytes(1, 600_000);
            storm(|| t.send_all(s, &data));
            s.shutdown(libc::SHUT_WR).expect("shutdown");
            t.see("data", crate::payload::Digest::of(&data));
        },
        |t, s| {
            signal::catch(SIGUSR1, true);
            let data = storm(|| t.recv_to_end(s));
            t.see("data", crate::payload::Digest::of(&data));
        },
    ),
];

/// Runs the work on this thread while another thread signals it continuously.
fn storm<T>(work: impl FnOnce() -> T) -> T {
    let target = crate::blocked::tid();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::SeqCst) {
                kill_thread(target, SIGUSR1).expect("tgkill");
                std::thread::yield_now();
            }
        });
        let result = work();
        done.store(true, std::sync::atomic::Ordering::SeqCst);
        result
    })
}
