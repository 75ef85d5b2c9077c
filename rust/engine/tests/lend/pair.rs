// SPDX-License-Identifier: GPL-2.0

//! Two shells, the link and the connection manager between them.

use super::shell::{repr, start, Packet, Sent, Shell};
use sdp_engine::engine::{
    conn::{Config, Ended, State},
    types::Ip,
    wire::hello::Hello,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    A,
    B,
}

impl Side {
    pub(crate) const BOTH: [Side; 2] = [Side::A, Side::B];

    pub(crate) fn other(self) -> Side {
        match self {
            Side::A => Side::B,
            Side::B => Side::A,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mad {
    Dreq,
    Drep,
}

pub(crate) struct Pair {
    a: Shell,
    b: Shell,
    mads: Vec<(Side, Mad)>,
    /// What was sent and handled, kept when `LEND_TRACE` is set and printed if
    /// the test fails.
    trace: Option<Vec<String>>,
}

impl Drop for Pair {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for line in self.trace.iter().flatten() {
                eprintln!("{line}");
            }
        }
    }
}

const STEPS_MAX: usize = 20_000;

impl Pair {
    pub(crate) fn new(a: Config, b: Config) -> Self {
        let mut active = start(a, None);
        let ip = Ip::V4([10, 0, 0, 1]);
        let hello = Hello::parse(&active.hello(ip, ip, 1).unwrap()).unwrap();
        let mut passive = start(b, Some(&hello));
        let ack = passive.hello_ack().unwrap();
        active.handle_hello_ack(&ack).unwrap();
        passive.handle_established();
        let mut pair = Self {
            a: Shell::new(active, 1),
            b: Shell::new(passive, 2),
            mads: Vec::new(),
            trace: std::env::var_os("LEND_TRACE").map(|_| Vec::new()),
        };
        pair.a.posted = a.rx_initial;
        pair.b.posted = b.rx_initial;
        for side in Side::BOTH {
            pair.settle(side);
        }
        pair
    }

    pub(crate) fn shell(&self, side: Side) -> &Shell {
        match side {
            Side::A => &self.a,
            Side::B => &self.b,
        }
    }

    fn shell_mut(&mut self, side: Side) -> &mut Shell {
        match side {
            Side::A => &mut self.a,
            Side::B => &mut self.b,
        }
    }

    /// Changes one side and drains it.
    pub(crate) fn act<R>(&mut self, side: Side, change: impl FnOnce(&mut Shell) -> R) -> R {
        let result = change(self.shell_mut(side));
        self.settle(side);
        result
    }

    fn settle(&mut self, side: Side) {
        let before = self.shell(side).wire.len();
        let disconnect = self.shell_mut(side).settle();
        if self.trace.is_some() {
            let new: Vec<String> = self
                .shell(side)
                .wire
                .iter()
                .skip(before)
                .map(|packet| match packet {
                    Packet::Send(bytes) => format!("{side:?}: {}", repr(bytes)),
                    Packet::Write { bytes, .. } => format!("{side:?}: writes {}", bytes.len()),
                })
                .collect();
            if let Some(trace) = &mut self.trace {
                trace.extend(new);
            }
        }
        let shell = self.shell_mut(side);
        let gone = shell.conn.state() == State::Ended && !shell.dreq_sent && !shell.told;
        if disconnect || gone {
            shell.told = true;
            self.mads.push((side.other(), Mad::Dreq));
        }
        self.check(side.other());
    }

    /// What has come is the beginning of what was sent.
    fn check(&self, side: Side) {
        let got = &self.shell(side).got;
        let stream = self.shell(side.other()).stream();
        assert!(
            stream.starts_with(got),
            "{side:?} got {} bytes of {}, the last of them wrong",
            got.len(),
            stream.len()
        );
    }

    /// One packet crosses from `side`; its sender's adapter learns of it.
    pub(crate) fn carry(&mut self, side: Side) -> bool {
        let Some(packet) = self.shell_mut(side).wire.pop_front() else {
            return false;
        };
        let receiver = self.shell_mut(side.other());
        if receiver.conn.state() == State::Ended {
            return true;
        }
        let sent = match packet {
            Packet::Send(bytes) => {
                assert!(
                    usize::from(receiver.posted) > receiver.arrived.len(),
                    "no receive buffer for {}",
                    repr(&bytes)
                );
                receiver.arrived.push_back(bytes);
                Sent::Message
            }
            Packet::Write { key, va, bytes } => {
                receiver.memory.write(key, va, &bytes);
                Sent::Write
            }
        };
        self.shell_mut(side).acknowledged.push_back(sent);
        true
    }

    /// The oldest Read of `side` that has not fetched its bytes does.
    pub(crate) fn fetch(&mut self, side: Side) -> bool {
        if self.shell(side.other()).conn.state() == State::Ended {
            return false;
        }
        let Some(read) = self
            .shell(side)
            .reads
            .iter()
            .position(|read| read.bytes.is_none())
        else {
            return false;
        };
        let (key, va, len) = {
            let read = &self.shell(side).reads[read];
            (read.key, read.va, read.len)
        };
        let bytes = self.shell_mut(side.other()).memory.read(key, va, len);
        self.shell_mut(side).reads[read].bytes = Some(bytes);
        true
    }

    pub(crate) fn complete_read(&mut self, side: Side) -> bool {
        self.act(side, Shell::complete_read)
    }

    pub(crate) fn handle(&mut self, side: Side, count: usize) -> bool {
        let waiting: Vec<u32> = self
            .shell(side)
            .arrived
            .iter()
            .take(count)
            .map(|bytes| repr(bytes).mseq.get())
            .collect();
        if let (Some(trace), false) = (&mut self.trace, waiting.is_empty()) {
            trace.push(format!("{side:?} handles {waiting:?}"));
        }
        self.act(side, |shell| {
            (0..count).take_while(|_| shell.handle_one()).count() > 0
        })
    }

    pub(crate) fn complete(&mut self, side: Side, count: usize) -> bool {
        self.act(side, |shell| {
            (0..count).take_while(|_| shell.complete_one()).count() > 0
        })
    }

    pub(crate) fn fire(&mut self, side: Side) -> bool {
        let Some(timer) = self.shell(side).timer else {
            return false;
        };
        self.act(side, |shell| shell.conn.handle_timeout(timer));
        true
    }

    fn deliver_mad(&mut self) -> bool {
        if self.mads.is_empty() {
            return false;
        }
        let (to, mad) = self.mads.remove(0);
        match mad {
            Mad::Dreq => {
                while self.handle(to, 1) {}
                while self.complete(to, 1) {}
                self.mads.push((to.other(), Mad::Drep));
                self.shell_mut(to).told = true;
                self.act(to, |shell| shell.conn.handle_disconnect_requested());
                self.shell_mut(to.other()).wire.clear();
            }
            Mad::Drep => self.act(to, |shell| shell.conn.handle_disconnected()),
        }
        true
    }

    /// Everything that can happen without an application or a timer happens.
    pub(crate) fn run(&mut self) -> usize {
        let mut steps = 0;
        loop {
            let mut moved = false;
            for side in Side::BOTH {
                moved |= self.carry(side);
                moved |= self.handle(side, 2);
                moved |= self.complete(side, 2);
                moved |= self.fetch(side);
                moved |= self.complete_read(side);
            }
            if !moved {
                moved = self.deliver_mad();
            }
            if !moved {
                return steps;
            }
            steps += 1;
            assert!(steps < STEPS_MAX, "the two never come to rest");
        }
    }

    /// The applications read everything until nothing is left to do; timers run
    /// when nothing else does.
    pub(crate) fn run_out(&mut self) {
        for _ in 0..STEPS_MAX {
            let mut moved = self.run() > 0;
            for side in Side::BOTH {
                moved |= self.act(side, |shell| {
                    let mut moved = false;
                    while shell.read_one() {
                        moved = true;
                    }
                    moved | shell.start_read(u32::MAX)
                });
            }
            if !moved {
                for side in Side::BOTH {
                    moved |= self.fire(side);
                }
            }
            if !moved {
                return;
            }
        }
        panic!("the two never come to an end");
    }

    pub(crate) fn ended(&self) -> [Option<Ended>; 2] {
        [self.a.ended(), self.b.ended()]
    }

    /// All bytes and marks of both directions have come.
    pub(crate) fn assert_transferred(&self) {
        for side in Side::BOTH {
            let (from, to) = (self.shell(side), self.shell(side.other()));
            assert_eq!(from.queued(), 0, "{side:?} has bytes left");
            assert_eq!(to.got, from.left, "from {side:?}");
            assert_eq!(to.urgent_got, from.urgent_left, "from {side:?}");
        }
    }

    /// Nothing is lent or borrowed.
    pub(crate) fn assert_returned(&self) {
        for side in Side::BOTH {
            let shell = self.shell(side);
            assert!(shell.runs.is_empty(), "{side:?}: {:?}", shell.runs);
            assert!(shell.sinks.is_empty(), "{side:?}: {:?}", shell.sinks);
        }
    }
}
