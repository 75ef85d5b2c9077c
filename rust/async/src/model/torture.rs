// SPDX-License-Identifier: MIT

//! A program that does everything with its memory ([`sdp_torture`]) while pipes hold it.
//!
//! `SDP_TORTURE_SECONDS` has it run longer, `SDP_TORTURE_SEED` repeats a seed. Other allocators are
//! preloaded.

use super::exchanges::{collect, is_alone_for};
use super::{handler, set};
use crate::exchange::EXCHANGES;
use crate::guard::{self, PAGE};
use crate::ledger::{Counted, Kind, Range, LEDGER};
use crate::settings::Way;
use core::sync::atomic::{AtomicU32, Ordering};
use sdp_torture::pattern::Sent;
use sdp_torture::Wire;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

const WIRES: usize = 4;
const ROOM: libc::c_int = 1 << 20;

/// A send: its number, its length, and what the peer has to find.
type Told = (u32, usize, Sent);

/// The peer of one thread: a pipe.
struct Pipe {
    writer: libc::c_int,
    /// The number of the last send.
    told: Mutex<(u32, SyncSender<Told>)>,
    ended: &'static AtomicU32,
}

struct Pipes(Vec<Pipe>);

impl Pipes {
    fn sends(&self) -> u64 {
        let told = |pipe: &Pipe| pipe.told.lock().expect("no thread has failed").0;
        self.0.iter().map(|pipe| u64::from(told(pipe))).sum()
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Reads late.
fn read(reader: libc::c_int, ended: &AtomicU32, sends: &Receiver<Told>, begun: &Barrier) {
    // SAFETY: The descriptor is this thread's.
    let mut reader = unsafe { std::fs::File::from_raw_fd(reader) };
    let mut room = vec![0; 1 << 20];
    begun.wait();
    while let Ok((id, len, sent)) = sends.recv() {
        std::thread::sleep(Duration::from_micros(u64::from(id) * 7919 % 3000));
        let room = room.get_mut(..len).expect("room");
        reader.read_exact(room).expect("the bytes");
        if let Some(at) = sent.wrong(room, 0) {
            eprintln!("send {id} of {len} bytes: the peer has got a wrong byte {at}");
            std::process::abort();
        }
        ended.store(id, Ordering::Release);
    }
}

impl Wire for Pipes {
    fn send(&self, thread: usize, start: usize, len: usize, sent: Sent) {
        let pipe = self.0.get(thread).expect("a pipe");
        let mut told = pipe.told.lock().expect("no thread has failed");
        told.0 = told.0.wrapping_add(1);
        let id = told.0;
        collect();
        // Whole pages are lent, as the module does; the bytes around them are copied.
        let first = start.next_multiple_of(PAGE);
        let last = (start + len) & !(PAGE - 1);
        told.1.send((id, len, sent)).expect("the peer is there");
        write(pipe.writer, start, first - start);
        splice(pipe.writer, first, last - first);
        write(pipe.writer, last, start + len - last);
        let range = Range {
            start: first,
            len: last - first,
            counted: Some(Counted::Sent(pipe.ended)),
            id,
            offset: 0,
            late: false,
        };
        let done = LEDGER.try_with(|ledger| {
            ledger.insert(range) && guard::protect(Kind::Sent, range.start, range.len).is_ok()
        });
        if done != Some(true) {
            while !range.is_over() {
                std::thread::yield_now();
            }
        }
    }
}

/// Copies bytes into the pipe.
fn write(pipe: libc::c_int, start: usize, len: usize) {
    // SAFETY: Memory of the program, which does not change now.
    let written = unsafe { libc::write(pipe, core::ptr::without_provenance(start), len) };
    assert_eq!(usize::try_from(written), Ok(len));
}

/// Gives the pages to the pipe.
fn splice(pipe: libc::c_int, mut start: usize, mut len: usize) {
    while len > 0 {
        let part = libc::iovec {
            iov_base: core::ptr::without_provenance_mut(start),
            iov_len: len,
        };
        // SAFETY: Memory of the program, which does not change now.
        let n = unsafe { libc::vmsplice(pipe, &raw const part, 1, 0) };
        let n = usize::try_from(n).expect("vmsplice");
        start += n;
        len -= n;
    }
}

#[test]
fn a_program_that_does_everything_with_its_memory() {
    const NAME: &str = "model::torture::a_program_that_does_everything_with_its_memory";
    let seconds = number("SDP_TORTURE_SECONDS", 3);
    if !is_alone_for(NAME, Duration::from_secs(120 + 2 * seconds)) {
        return;
    }
    let Some(_one) = handler() else { return };
    set(Way::Copy);
    crate::lend::be_on_for_tests();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seed = number("SDP_TORTURE_SEED", now.expect("a time").as_secs());
    println!("seed {seed}");
    let (mut pipes, mut readers) = (Vec::new(), Vec::new());
    // A thread that begins needs memory, which there may be none of later.
    let begun = Arc::new(Barrier::new(WIRES + 1));
    for _ in 0..WIRES {
        let mut pipe = [0; 2];
        // SAFETY: Room for two descriptors.
        let made = unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) };
        assert_eq!(made, 0);
        let [reader, writer] = pipe;
        // SAFETY: It takes numbers.
        assert!(unsafe { libc::fcntl(writer, libc::F_SETPIPE_SZ, ROOM) } >= ROOM);
        let ended: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
        let (sender, sends) = sync_channel(64);
        let begins = Arc::clone(&begun);
        readers.push(std::thread::spawn(move || {
            read(reader, ended, &sends, &begins);
        }));
        let told = Mutex::new((0, sender));
        pipes.push(Pipe {
            writer,
            told,
            ended,
        });
    }
    begun.wait();
    let pipes = Pipes(pipes);
    let deeds = sdp_torture::run(&pipes, seed, Duration::from_secs(seconds));
    let sends = pipes.sends();
    drop(pipes);
    for reader in readers {
        reader.join().expect("the peer");
    }
    let exchanges = EXCHANGES.load(Ordering::Relaxed);
    println!("{deeds} deeds, {sends} sends, {exchanges} exchanges in {seconds} s");
    assert!(deeds > 0);
}
