// SPDX-License-Identifier: MIT

//! Forks of programs that lend, and threads with lent stacks.

use super::exchanges::{collect, is_alone, lend, Slow};
use super::{handler, set, Done, Memory, Peer, LEN};
use crate::guard::{self, PAGE};
use crate::ledger::{Counted, Kind, Range, LEDGER};
use crate::settings::Way;
use core::hint::black_box;
use core::sync::atomic::{AtomicU32, Ordering};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Forks, and returns how the child ends, which runs `f` and exits with its result.
fn child(f: impl FnOnce() -> u8) -> libc::c_int {
    match crate::fork() {
        // SAFETY: It takes a number.
        0 => unsafe { libc::_exit(f().into()) },
        child => wait(child),
    }
}

fn wait(child: libc::pid_t) -> libc::c_int {
    assert!(child > 0);
    let mut status = 0;
    loop {
        // SAFETY: There is room for the answer.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        if ended == child {
            return status;
        }
    }
}

static NESTED: AtomicU32 = AtomicU32::new(0);

extern "C" fn on_alarm(_: libc::c_int) {
    assert_eq!(child(|| 0), 0);
    NESTED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_signal_handler_forks_while_the_program_forks() {
    if !is_alone("model::forks::a_signal_handler_forks_while_the_program_forks") {
        return;
    }
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    crate::lend::be_on_for_tests();
    let memory = Memory::new(0x55);
    let peer = Peer::hold(&memory);
    let often = libc::timeval {
        tv_sec: 0,
        tv_usec: 900,
    };
    let timer = libc::itimerval {
        it_interval: often,
        it_value: often,
    };
    let never = libc::itimerval {
        it_interval: libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
        it_value: libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        },
    };
    // SAFETY: The action and the timer are valid; the handler touches an atomic, and forks.
    unsafe {
        let mut action = core::mem::zeroed::<libc::sigaction>();
        action.sa_sigaction = on_alarm as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGALRM, &raw const action, core::ptr::null_mut());
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, core::ptr::null_mut());
    }
    let begin = Instant::now();
    while NESTED.load(Ordering::Relaxed) < 300 && begin.elapsed() < Duration::from_secs(20) {
        assert_eq!(child(|| 0), 0);
    }
    // SAFETY: As above.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const never, core::ptr::null_mut()) };
    assert!(NESTED.load(Ordering::Relaxed) > 0);
    memory.write(0, 0x11);
    assert!(peer.read().iter().all(|byte| *byte == 0x55));
}

/// The child finds each page whole, whatever is exchanged while it is made.
#[test]
fn a_child_has_every_page() {
    if !is_alone("model::forks::a_child_has_every_page") {
        return;
    }
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    crate::lend::be_on_for_tests();
    let _slow = Slow::new(200);
    let memory = Memory::new(0x55);
    let done = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let _end = Done(&done);
        scope.spawn(|| {
            while done.load(Ordering::Acquire) == 0 {
                let ended = lend(memory.start(), LEN);
                for at in (0..LEN).step_by(PAGE) {
                    memory.write(at, 0x55);
                }
                ended.store(1, Ordering::Release);
                collect();
            }
        });
        for _ in 0..100 {
            let whole = || u8::from((0..LEN).any(|at| memory.byte(at) != 0x55));
            assert_eq!(child(whole), 0);
        }
    });
}

/// A child that the C library does not know of, made while another thread had the lock.
#[test]
fn a_child_of_a_raw_fork_can_fork() {
    if !is_alone("model::forks::a_child_of_a_raw_fork_can_fork") {
        return;
    }
    let Some(_one) = handler() else { return };
    crate::lend::be_on_for_tests();
    let status = LEDGER.with(|_| {
        let flags = libc::SIGCHLD;
        // SAFETY: The child is a copy of this process, and exits.
        match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
            0 => {
                // SAFETY: A child that waits for ever is killed.
                unsafe { libc::alarm(20) };
                let status = child(|| 0);
                // SAFETY: It takes a number.
                unsafe { libc::_exit(i32::from(status != 0)) }
            }
            made => wait(libc::pid_t::try_from(made).expect("a process")),
        }
    });
    assert_eq!(status, 0);
}

#[test]
fn a_child_keeps_a_descriptor_of_the_program_that_has_got_our_number() {
    if !is_alone("model::forks::a_child_keeps_a_descriptor_of_the_program_that_has_got_our_number")
    {
        return;
    }
    let Some(_one) = handler() else { return };
    crate::lend::be_on_for_tests();
    let zeros = std::fs::File::open("/dev/zero").expect("/dev/zero");
    let numbers = guard::descriptors().all();
    // The program closes what it does not know, and opens files.
    for number in numbers {
        // SAFETY: This process's own descriptors.
        assert_eq!(unsafe { libc::dup2(zeros.as_raw_fd(), number) }, number);
    }
    let open = || {
        // SAFETY: It takes numbers.
        let is_open = |fd: libc::c_int| unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0;
        u8::from(!numbers.into_iter().all(is_open))
    };
    assert_eq!(child(open), 0);
}

/// Another thread sends a buffer on the stack of this one, which returns from that function.
#[inline(never)]
fn lends_its_stack() -> &'static AtomicU32 {
    let mut room = [0u8; 256 << 10];
    black_box(&mut room);
    let from = room.as_ptr().addr().next_multiple_of(PAGE);
    let to = (room.as_ptr().addr() + room.len()) & !(PAGE - 1);
    lend(from, to - from)
}

static NEVER: AtomicU32 = AtomicU32::new(0);

#[inline(never)]
fn sends_deep(depth: usize, other: &Memory, forks: bool) {
    let pad = [0u8; 16];
    black_box(&pad);
    if depth > 0 {
        sends_deep(depth - 1, other, forks);
    } else if forks {
        assert_eq!(child(|| 0), 0);
    } else {
        // The next send of this thread does this.
        let range = Range {
            start: other.start(),
            len: LEN,
            counted: Some(Counted::Sent(&NEVER)),
            id: 1,
            offset: 0,
            late: false,
        };
        let done = LEDGER.try_with(|ledger| {
            ledger.insert(range) && guard::protect(Kind::Sent, other.start(), LEN).is_ok()
        });
        black_box(done);
    }
    black_box(&pad);
}

fn a_thread_with_a_lent_stack(test: &str, forks: bool) {
    if !is_alone(test) {
        return;
    }
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    let thread = std::thread::Builder::new().stack_size(8 << 20);
    let work = move || {
        for depth in 0..if forks { 20 } else { 300 } {
            let other = Memory::new(1);
            let ended = lends_its_stack();
            sends_deep(depth, &other, forks);
            ended.store(1, Ordering::Release);
            collect();
            // The range of the other memory, which never ends.
            LEDGER.with(|ledger| (0..256).for_each(|at| ledger.remove(at)));
        }
    };
    thread
        .spawn(work)
        .expect("a thread")
        .join()
        .expect("its end");
}

#[test]
fn a_thread_whose_stack_was_lent_can_send() {
    a_thread_with_a_lent_stack(
        "model::forks::a_thread_whose_stack_was_lent_can_send",
        false,
    );
}

#[test]
fn a_thread_whose_stack_was_lent_can_fork() {
    a_thread_with_a_lent_stack("model::forks::a_thread_whose_stack_was_lent_can_fork", true);
}
