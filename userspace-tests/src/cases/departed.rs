// SPDX-License-Identifier: MIT
//! Memory and programs that disappear while their bytes are in flight: unmapped, protected, forked,
//! replaced by exec. The results of calls are exact, and the stream continues.

use libc::{
    c_int, SYS_recvfrom, SYS_sendto, EFAULT, MSG_NOSIGNAL, MSG_WAITALL, PROT_NONE, PROT_READ,
    SHUT_WR,
};

use super::written::{await_offer, goes_on, read_early, write_afterwards};
use super::zcopy::{
    client, drain, given_back, pins, recv_amid, send_to_changing, server, Counters, MIB,
};
use crate::blocked::{pid, tid};
use crate::case::Case;
use crate::child;
use crate::errno::Errno;
use crate::pages::{Cliff, PAGE};
use crate::payload::bytes;
use crate::role::Role;
use crate::world::Family;

/// Without a reader it is never sent completely, on TCP either.
const LONG: usize = 16 * MIB;

fn unmap(at: usize, len: usize) {
    // SAFETY: pages of the case's own, which it does not touch any more.
    assert_eq!(unsafe { libc::munmap(at as *mut libc::c_void, len) }, 0, "munmap");
}

fn protect(at: usize, len: usize, access: c_int) {
    // SAFETY: as above.
    let done = unsafe { libc::mprotect(at as *mut libc::c_void, len, access) };
    assert_eq!(done, 0, "mprotect");
}

/// A reader with memory that ends at `hole` gets the bytes before it, and the rest by another call.
fn cut_off(t: &Role, hole: usize, change: impl FnOnce(usize) + Send) {
    let s = server(t);
    let memory = Cliff::new(MIB / PAGE);
    let at = memory.as_mut_ptr() as usize;
    let recv = || s.recv_raw(at as *mut u8, MIB, MSG_WAITALL);
    let got = recv_amid(t, recv, || change(at));
    let got = got.unwrap_or_else(|errno| {
        assert_eq!(errno, Errno(EFAULT));
        0
    });
    // TCP delivers a packet completely or not at all.
    assert!(got == hole || got < hole && t.family != Family::Sdp, "{got} bytes");
    let want = bytes(6, MIB);
    // SAFETY: what is before the hole is there.
    let came = unsafe { std::slice::from_raw_parts(at as *const u8, got) };
    t.holds("what came before it", came == &want[..got]);
    // Other memory may be mapped there by now.
    std::mem::forget(memory);
    t.holds("what is left", t.recv_exactly(&s, MIB - got) == want[got..]);
    t.meet("end");
}

/// Sends much data from memory that is `changed` before anything is read.
fn send_departing(t: &Role, change: impl FnOnce(usize) + Send) {
    let s = client(t);
    let mut memory = Cliff::new(LONG / PAGE);
    memory.bytes().copy_from_slice(&bytes(3, LONG));
    let at = memory.as_mut_ptr() as usize;
    let then = |_| {
        change(at);
        t.say("changed");
    };
    let call = || s.send_raw(at as *const u8, LONG, MSG_NOSIGNAL);
    let sent = t.while_asleep(&[SYS_sendto], then, call).unwrap_or_else(|errno| {
        assert_eq!(errno, Errno(EFAULT));
        0
    });
    std::mem::forget(memory);
    s.shutdown(SHUT_WR).expect("shutdown");
    assert_eq!(t.hear::<usize>("came"), sent, "what send() said it has sent");
    t.meet("end");
}

fn read_afterwards(t: &Role) {
    let s = server(t);
    t.wait("changed");
    drain(t, &s, 3, LONG);
    t.meet("end");
}

/// A process with one thread in `call`; another thread calls exec after `then`.
fn replaced(t: &Role, calls: &[libc::c_long], then: impl FnOnce(), call: impl FnOnce() + Send) {
    let child = child::spawn(|| {
        std::thread::scope(|scope| {
            let (tell, hear) = std::sync::mpsc::channel();
            scope.spawn(move || {
                tell.send(tid()).expect("the other thread");
                call();
            });
            t.await_asleep(pid(), hear.recv().expect("a number"), calls);
            then();
            let words = [c"true".as_ptr(), std::ptr::null()];
            // SAFETY: strings that end, and a list of them that does.
            unsafe { libc::execv(c"/bin/true".as_ptr(), words.as_ptr()) };
            panic!("execv: {}", std::io::Error::last_os_error());
        });
    });
    child.join();
}

pub const CASES: &[Case] = &[
    Case::two(
        "departed_middle_of_a_readers_memory",
        |t| cut_off(t, 30 * PAGE, |at| unmap(at + 30 * PAGE, 50 * PAGE)),
        send_to_changing,
    )
    .late_packets(),
    Case::two(
        "departed_memory_of_a_reader",
        |t| cut_off(t, 0, |at| unmap(at, MIB)),
        send_to_changing,
    )
    .late_packets(),
    Case::two(
        "departed_leave_to_write_to_a_readers_memory",
        |t| cut_off(t, 17 * PAGE, |at| protect(at + 17 * PAGE, 100 * PAGE, PROT_READ)),
        send_to_changing,
    )
    .late_packets(),
    Case::two(
        "departed_leave_to_touch_a_readers_memory",
        |t| cut_off(t, 200 * PAGE, |at| protect(at + 200 * PAGE, PAGE, PROT_NONE)),
        send_to_changing,
    )
    .late_packets(),
    Case::two("departed_memory_of_a_writer", read_afterwards, |t| {
        send_departing(t, |at| unmap(at, LONG));
    }),
    Case::two("departed_leave_to_touch_a_writers_memory", read_afterwards, |t| {
        send_departing(t, |at| protect(at, LONG, PROT_NONE));
    }),
    Case::two("departed_child_of_a_writer_has_written_to_its_own", read_afterwards, |t| {
        send_departing(t, |at| {
            let child = child::spawn(|| {
                // SAFETY: the copy of the memory, which is as long.
                unsafe { std::ptr::write_bytes(at as *mut u8, 0x5a, LONG) };
            });
            child.join();
        });
    }),
    Case::two(
        "departed_program_of_a_writer",
        |t| {
            let s = server(t);
            t.wait("replaced");
            drain(t, &s, 3, LONG);
            t.meet("end");
        },
        |t| {
            let before = pins();
            let s = client(t);
            let data = bytes(3, LONG);
            replaced(
                t,
                &[SYS_sendto],
                || (),
                || {
                    let _ = s.send(&data, MSG_NOSIGNAL);
                },
            );
            s.close().expect("close");
            t.say("replaced");
            assert!(t.hear::<usize>("came") < LONG, "the peer has not read it all");
            t.meet("end");
            given_back(t, before);
        },
    ),
    Case::two(
        "departed_program_of_a_reader",
        |t| {
            let before = pins();
            let s = server(t);
            read_early(t, &s);
            let counters = Counters::now(t);
            let offered = || await_offer(t, &counters);
            let mut room = vec![0; MIB];
            replaced(t, &[SYS_recvfrom], offered, || {
                let _ = s.recv(&mut room, MSG_WAITALL);
            });
            t.say("send");
            goes_on(t, &s, 13, MIB);
            given_back(t, before);
        },
        |t| write_afterwards(t, 13),
    ),
];
