// SPDX-License-Identifier: MIT
//! A history before it happens: plain data, which `--show` prints.

use std::fmt::Write;
use std::ops::Range;

/// The sockets and the network below them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ground {
    /// TCP on the same hosts, which shows whether the driver itself is right.
    Tcp,
    Rlo,
    Rxe,
}

impl Ground {
    /// The type of the RDMA devices.
    pub fn device(self) -> Option<&'static str> {
        match self {
            Ground::Tcp => None,
            Ground::Rlo => Some("rlo"),
            Ground::Rxe => Some("rxe"),
        }
    }
}

/// How a socket is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    Family,
    Protocol,
}

/// A call that sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Write,
    Send,
    /// With `MSG_MORE`.
    More,
    Writev,
    Sendmsg,
    Sendmmsg,
    Sendfile,
    /// From a pipe that was written to.
    Splice,
    /// From a pipe with pages of a file.
    SpliceFile,
    /// `MSG_ZEROCOPY`, with notices.
    ZeroCopy,
    Uring,
    UringZeroCopy,
    /// With `MSG_OOB`: the last byte is urgent.
    Urgent,
    /// An urgent byte that is no part of the stream, and `Send`.
    UrgentApart,
}

/// What an end makes of urgent bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Urgent {
    /// None are sent.
    None,
    /// They stay in the stream (`SO_OOBINLINE`).
    Inline,
    /// There is one at most; `MSG_OOB` receives it.
    Apart,
}

/// A call that receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Get {
    Read,
    Recv,
    Readv,
    Recvmsg,
    WaitAll,
    /// Looks at the bytes before they are received.
    Peek,
    /// The same in two parts, by `SO_PEEK_OFF`.
    PeekOn,
    /// Polls first.
    DontWait,
    Splice,
    Uring,
}

/// A part of the stream, and how it is sent.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub way: Way,
    pub len: usize,
    pub pause_us: u32,
}

/// A call that receives, with room for so many bytes.
#[derive(Clone, Copy, Debug)]
pub struct Take {
    pub way: Get,
    pub len: usize,
    pub pause_us: u32,
}

/// A question about the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    Names,
    Options,
    /// Bytes that are unread and unsent, by `ioctl()`.
    Counts,
    /// `TCP_INFO`
    Info,
    /// Options of SDP alone.
    Traffic,
}

/// The processes and threads of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// One thread writes, another one reads.
    Threads,
    /// A child process writes, the parent reads.
    Fork,
    /// Threads, of which the writing one polls before each call and makes short calls.
    Polite,
    /// The descriptor goes through a Unix socket first.
    Passed,
    /// One thread with a socket that does not block, and `poll()`.
    Poll,
    /// The same with epoll.
    Epoll,
    /// The same with edges.
    Edge,
    /// Two threads with a socket that does not block, each with a `poll()` of its direction alone.
    Apart,
    /// The same with edges.
    ApartEdge,
}

/// The end of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It writes all, reads all, and closes.
    Orderly,
    /// It exits when it has received so many bytes.
    Exit(u64),
    /// The same with `SO_LINGER` 0.
    Reset(u64),
    /// It closes both directions when it has received so many bytes.
    ShutBoth(u64),
}

/// An option of the socket: level, name, value, and the text of the name.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    pub level: i32,
    pub name: i32,
    pub value: i32,
    pub text: &'static str,
}

#[derive(Clone, Debug)]
pub struct End {
    pub host: usize,
    pub manner: Manner,
    pub options: Vec<Choice>,
    pub sends: Vec<Piece>,
    /// Repeated until the stream ends.
    pub takes: Vec<Take>,
    pub finish: Finish,
    /// The connection is made without waiting.
    pub eager: bool,
    /// Allocations of its calls may fail.
    pub refused: bool,
    /// The same at both ends.
    pub urgent: Urgent,
    /// Asked in turn, one before each piece is sent.
    pub asks: Vec<Ask>,
    /// Pieces of `sends` that have to find room although the peer is silent. Each has to be sent, and the
    /// socket has to be writable again, before the peer reads on.
    pub unread: Range<usize>,
    /// The send buffer is small from there on (`SO_SNDBUF`).
    pub narrow: bool,
}

impl End {
    /// The bytes that it writes.
    pub fn total(&self) -> u64 {
        self.sends.iter().map(|piece| piece.len as u64).sum()
    }

    /// The offset at which its peer stops reading until the unread pieces are sent.
    pub fn silence(&self) -> Option<u64> {
        let before = self.sends.iter().take(self.unread.start);
        (!self.unread.is_empty()).then(|| before.map(|piece| piece.len as u64).sum())
    }
}

pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;

#[derive(Clone, Debug)]
pub struct Conversation {
    pub version: u8,
    pub door: Door,
    pub start_ms: u32,
    /// Sockets of the server that share its port (`SO_REUSEPORT`), if there are several.
    pub listeners: usize,
    /// The client and the server.
    pub ends: [End; 2],
    /// Nothing in the history may end it: every call must succeed, and every byte must arrive.
    pub certain: bool,
    /// TCP's attempt may be faster than SDP's.
    pub raced: bool,
    /// It does not take place.
    pub left_out: bool,
}

/// A setting of a network emulator.
pub type Emulation = &'static str;

#[derive(Clone, Debug)]
pub enum What {
    Kill {
        conversation: usize,
        end: usize,
    },
    Stop {
        conversation: usize,
        end: usize,
    },
    Continue {
        conversation: usize,
        end: usize,
    },
    Signal {
        conversation: usize,
        end: usize,
    },
    /// A number of rlo's debugfs directory.
    Fault {
        host: usize,
        name: &'static str,
        value: u32,
    },
    Knob {
        host: usize,
        name: &'static str,
        value: &'static str,
    },
    LinkDown {
        host: usize,
    },
    LinkUp {
        host: usize,
    },
    Emulate {
        host: usize,
        settings: Emulation,
    },
    RemoveDevice {
        host: usize,
    },
    AddDevice {
        host: usize,
    },
    /// Kills the programs of a host, and deletes its namespace.
    DeleteHost {
        host: usize,
    },
    Clock {
        seconds: i64,
    },
    /// Reads the tables of a host.
    Look {
        host: usize,
    },
    /// Tries to unload the module.
    Unload,
}

#[derive(Clone, Debug)]
pub struct Event {
    pub at_ms: u32,
    pub what: What,
}

#[derive(Clone, Debug, Default)]
pub struct Host {
    pub rate_mbps: u32,
    pub latency_us: u32,
    pub knobs: Vec<(&'static str, &'static str)>,
}

/// Allocations that fail: a probability in percent for each kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refusal {
    pub slab: u32,
    pub pages: u32,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub ground: Ground,
    pub hosts: Vec<Host>,
    pub conversations: Vec<Conversation>,
    /// In the order of time.
    pub events: Vec<Event>,
    pub refusal: Refusal,
    /// The module is unloaded and loaded at the end.
    pub reload: bool,
    /// Devices are removed before their namespaces.
    pub tidy: bool,
}

impl Plan {
    /// All that `--show` prints.
    pub fn show(&self) -> String {
        let mut text = format!(
            "seed {} ground {:?} refusal {:?} reload {} tidy {}\n",
            self.seed, self.ground, self.refusal, self.reload, self.tidy
        );
        for (number, host) in self.hosts.iter().enumerate() {
            let _ = writeln!(text, "host {number}: {host:?}");
        }
        for (number, conversation) in self.conversations.iter().enumerate() {
            let Conversation { version, door, start_ms, listeners, ends, certain, raced, left_out } =
                conversation;
            if *left_out {
                continue;
            }
            let _ = writeln!(
                text,
                "conversation {number}: IPv{version} {door:?} at {start_ms} ms, listeners {listeners}, \
                 certain {certain} raced {raced}"
            );
            for (end, name) in ends.iter().zip(["client", "server"]) {
                let _ = writeln!(
                    text,
                    "  {name} on host {}: {:?} {:?} eager {} refused {} urgent {:?}\n    options {:?}",
                    end.host,
                    end.manner,
                    end.finish,
                    end.eager,
                    end.refused,
                    end.urgent,
                    end.options.iter().map(|one| (one.text, one.value)).collect::<Vec<_>>()
                );
                let sends = end.sends.iter().map(|one| (one.way, one.len, one.pause_us));
                let _ = writeln!(text, "    sends {:?}", sends.collect::<Vec<_>>());
                if !end.asks.is_empty() {
                    let _ = writeln!(text, "    asks {:?}", end.asks);
                }
                if !end.unread.is_empty() {
                    let _ = writeln!(
                        text,
                        "    of which the peer does not read {:?}, narrow {}",
                        end.unread, end.narrow
                    );
                }
                let takes = end.takes.iter().map(|one| (one.way, one.len, one.pause_us));
                let _ = writeln!(text, "    takes {:?}", takes.collect::<Vec<_>>());
            }
        }
        for event in &self.events {
            let _ = writeln!(text, "at {} ms: {:?}", event.at_ms, event.what);
        }
        text
    }
}
