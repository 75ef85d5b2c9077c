// SPDX-License-Identifier: MIT
//! A program that does everything with its memory while peers read it late. `lent/torture` runs it under
//! `sdp_run --async`, with several allocators.
//!
//! `lent-torture ADDRESS MILLISECONDS SEED`. It ends with 0 if no byte was wrong, here or at the peers,
//! which are threads of it. The last line says how much was lent.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use libc::{c_int, c_void};
use sdp_torture::pattern::Sent;
use sdp_torture::Wire;
use sdp_uapi::{sdp_borrow_info, SDP_BORROW_INFO, SDP_ZCOPY_THRESH};

const THREADS: usize = 4;
/// More than the longest send.
const ROOM: usize = 1 << 20;

/// The length of a send, and what the peer has to find.
type Told = (usize, Sent);

struct Sender {
    sock: c_int,
    peer: SyncSender<Told>,
}

struct Sockets {
    senders: Vec<Sender>,
    sends: AtomicU64,
}

impl Wire for Sockets {
    fn send(&self, thread: usize, start: usize, len: usize, sent: Sent) {
        let Sender { sock, peer } = &self.senders[thread];
        peer.send((len, sent)).expect("the peer is there");
        let mut done = 0;
        while done < len {
            let at = std::ptr::without_provenance::<c_void>(start + done);
            // SAFETY: memory that does not change now.
            let n = unsafe { libc::send(*sock, at, len - done, 0) };
            assert!(n > 0, "send: {}", std::io::Error::last_os_error());
            done += n as usize;
        }
        self.sends.fetch_add(1, Ordering::Relaxed);
    }
}

/// Reads late, in parts.
fn read(stream: &mut TcpStream, sends: &Receiver<Told>, begun: &Barrier) {
    let mut room = vec![0; ROOM];
    begun.wait();
    for turn in 0_u64.. {
        let Ok((len, sent)) = sends.recv() else { return };
        std::thread::sleep(Duration::from_micros(turn * 7919 % 5000));
        let mut done = 0;
        while done < len {
            let n = stream.read(&mut room[..len - done]).expect("recv");
            assert!(n > 0, "the end after {done} of {len} bytes of send {turn}");
            if let Some(at) = sent.wrong(&room[..n], done) {
                eprintln!(
                    "send {turn} of {len} bytes: the peer has got a wrong byte {}",
                    done + at
                );
                std::process::exit(1);
            }
            done += n;
        }
    }
}

/// Stretches that this socket has lent.
fn lent(sock: c_int) -> u32 {
    // SAFETY: numbers.
    let mut info = unsafe { std::mem::zeroed::<sdp_borrow_info>() };
    let mut len = size_of::<sdp_borrow_info>() as libc::socklen_t;
    let at = (&raw mut info).cast::<c_void>();
    // SAFETY: both live through the call.
    let result =
        unsafe { libc::getsockopt(sock, libc::SOL_TCP, SDP_BORROW_INFO, at, &raw mut len) };
    if result == 0 {
        info.issued
    } else {
        0
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, milliseconds, seed] = &words[..] else {
        panic!("usage: lent-torture ADDRESS MILLISECONDS SEED")
    };
    let listener = TcpListener::bind((address.as_str(), 0)).expect("bind");
    let least: c_int = 64 << 10;
    // SAFETY: a number. Without it, on TCP, nothing is lent.
    unsafe {
        let at = (&raw const least).cast::<c_void>();
        let (fd, len) = (listener.as_raw_fd(), size_of::<c_int>() as libc::socklen_t);
        libc::setsockopt(fd, libc::SOL_TCP, SDP_ZCOPY_THRESH, at, len);
    }
    let place = listener.local_addr().expect("an address");
    let (mut senders, mut readers) = (Vec::new(), Vec::new());
    // A thread that begins needs memory, which there may be none of later.
    let begun = Arc::new(Barrier::new(THREADS + 1));
    for _ in 0..THREADS {
        let sock = TcpStream::connect(place).expect("connect").into_raw_fd();
        let (mut stream, _) = listener.accept().expect("accept");
        let (peer, sends) = sync_channel(64);
        senders.push(Sender { sock, peer });
        let begins = Arc::clone(&begun);
        readers.push(std::thread::spawn(move || read(&mut stream, &sends, &begins)));
    }
    begun.wait();
    let sockets = Sockets { senders, sends: AtomicU64::new(0) };
    let time = Duration::from_millis(milliseconds.parse().expect("a time"));
    let deeds = sdp_torture::run(&sockets, seed.parse().expect("a seed"), time);
    let lent: u32 = sockets.senders.iter().map(|sender| lent(sender.sock)).sum();
    let sends = sockets.sends.load(Ordering::Relaxed);
    drop(sockets);
    for reader in readers {
        reader.join().expect("the peer");
    }
    println!("{deeds} deeds, {sends} sends, {lent} stretches lent");
}
