// SPDX-License-Identifier: GPL-2.0

//! Two peers, the link and the connection manager between them.

use super::{peer::Peer, Side::A, Side::B};
use sdp_engine::engine::{
    conn::{Config, Connection, Ended, Queue, State},
    types::Ip,
    wire::hello::{Hello, HelloAck},
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// The active side.
    A,
    /// The passive side.
    B,
}

impl Side {
    pub(crate) const BOTH: [Side; 2] = [A, B];

    pub(crate) fn other(self) -> Side {
        match self {
            A => B,
            B => A,
        }
    }
}

/// The messages of the connection manager.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mad {
    Rtu,
    Dreq,
    Drep,
}

pub(crate) struct World {
    a: Peer,
    b: Peer,
    /// Datagrams of the connection manager, with their receiver.
    mads: Vec<(Side, Mad)>,
}

/// Far more than any test needs.
const STEPS_MAX: usize = 5_000;

impl World {
    /// Hello and HelloAck have been exchanged; the RTU is on its way.
    pub(crate) fn new(a: Config, b: Config) -> Self {
        let mut active = Peer::new(Connection::connecting(a), a);
        let post = |peer: &mut Peer, count: u16| {
            peer.posted = count;
            peer.conn.on_receives_posted(count);
        };
        post(&mut active, a.rx_initial);
        let ip = |last| Ip::V4([10, 0, 0, last]);
        let hello = active.conn.hello(ip(1), ip(2), 40000).unwrap();
        let hello = Hello::parse(&hello).unwrap();
        let mut passive = Peer::new(Connection::accepting(b, &hello), b);
        post(&mut passive, b.rx_initial);
        let ack = passive.conn.hello_ack().unwrap();
        let parsed = HelloAck::parse(&ack).unwrap();
        active.ledger.on_hello_sent(hello.bufs);
        passive.ledger.on_hello_received(hello.bufs);
        passive.ledger.on_hello_sent(parsed.bufs);
        active.ledger.on_hello_received(parsed.bufs);
        active.conn.handle_hello_ack(&ack).unwrap();
        let mut world = Self {
            a: active,
            b: passive,
            mads: vec![(B, Mad::Rtu)],
        };
        world.settle(A);
        world.settle(B);
        world
    }

    /// The same with the RTU delivered.
    pub(crate) fn established(a: Config, b: Config) -> Self {
        let mut world = Self::new(a, b);
        world.deliver_mad();
        assert_eq!(world.peer(B).conn.state(), State::Established);
        world
    }

    pub(crate) fn peer(&self, side: Side) -> &Peer {
        match side {
            A => &self.a,
            B => &self.b,
        }
    }

    /// Changes one side and drains it.
    pub(crate) fn act<R>(&mut self, side: Side, change: impl FnOnce(&mut Peer) -> R) -> R {
        let result = change(self.peer_mut(side));
        self.settle(side);
        result
    }

    fn peer_mut(&mut self, side: Side) -> &mut Peer {
        match side {
            A => &mut self.a,
            B => &mut self.b,
        }
    }

    fn settle(&mut self, side: Side) {
        let disconnect = self.peer_mut(side).settle();
        let peer = self.peer_mut(side);
        // Without a DREQ it is a REJ that the shell sends.
        let rejects = peer.conn.state() == State::Ended && !peer.dreq_sent && !peer.told;
        if disconnect || rejects {
            peer.told = true;
            self.mads.push((side.other(), Mad::Dreq));
        }
    }

    pub(crate) fn write(&mut self, side: Side, len: u32, how: Queue) -> bool {
        self.act(side, |peer| peer.write(len, how))
    }

    pub(crate) fn shutdown(&mut self, side: Side) {
        self.act(side, |peer| peer.conn.shutdown_send());
    }

    /// close() with everything read: as the shell does it.
    pub(crate) fn close(&mut self, side: Side) {
        self.act(side, |peer| {
            peer.closed = true;
            if peer.unread.is_empty() {
                peer.conn.close_receive();
                peer.conn.shutdown_send();
            } else {
                peer.conn.abort();
            }
        });
    }

    /// One packet crosses from `side`; its sender's adapter learns of it.
    pub(crate) fn carry(&mut self, side: Side) -> bool {
        let Some(packet) = self.peer_mut(side).wire.pop_front() else {
            return false;
        };
        let receiver = self.peer_mut(side.other());
        if matches!(receiver.conn.state(), State::Ended) {
            // No queue pair any more: lost, and never acknowledged.
            return true;
        }
        receiver.receive(packet);
        self.peer_mut(side).acknowledged += 1;
        true
    }

    /// `side` handles up to `count` arrived messages, then drains once.
    pub(crate) fn handle(&mut self, side: Side, count: usize) -> bool {
        self.act(side, |peer| {
            (0..count).take_while(|_| peer.handle_one()).count() > 0
        })
    }

    /// `side` is told of up to `count` completed sends, then drains once.
    pub(crate) fn complete(&mut self, side: Side, count: usize) -> bool {
        self.act(side, |peer| {
            (0..count).take_while(|_| peer.complete_one()).count() > 0
        })
    }

    pub(crate) fn read(&mut self, side: Side, count: usize) -> bool {
        self.act(side, |peer| {
            (0..count).take_while(|_| peer.read_one()).count() > 0
        })
    }

    /// Lets the timer run that `side` wants.
    pub(crate) fn fire(&mut self, side: Side) -> bool {
        let Some(timer) = self.peer(side).timer else {
            return false;
        };
        self.act(side, |peer| peer.conn.handle_timeout(timer));
        true
    }

    pub(crate) fn deliver_mad(&mut self) -> bool {
        if self.mads.is_empty() {
            return false;
        }
        let (to, mad) = self.mads.remove(0);
        match mad {
            Mad::Rtu => self.act(to, |peer| peer.conn.handle_established()),
            Mad::Dreq => {
                // Whatever arrived before is looked at first; what is still on
                // the wire finds no queue pair.
                while self.handle(to, 1) {}
                while self.complete(to, 1) {}
                self.mads.push((to.other(), Mad::Drep));
                self.peer_mut(to).told = true;
                self.act(to, |peer| peer.conn.handle_disconnect_requested());
                self.peer_mut(to.other()).wire.clear();
            }
            Mad::Drep => self.act(to, |peer| peer.conn.handle_disconnected()),
        }
        true
    }

    /// Everything that can happen without an application or a timer happens.
    /// Returns how many steps it took.
    pub(crate) fn run(&mut self) -> usize {
        let mut steps = 0;
        loop {
            let mut moved = false;
            for side in Side::BOTH {
                moved |= self.carry(side);
                moved |= self.handle(side, 2);
                moved |= self.complete(side, 2);
            }
            // Last, as what travels on the connection is faster.
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

    /// The applications read everything, timers run when nothing else does,
    /// until nothing is left to do. Timers that only wait for an application
    /// which is still there are no reason to go on.
    pub(crate) fn run_out(&mut self) {
        for _ in 0..STEPS_MAX {
            let mut moved = self.run() > 0;
            for side in Side::BOTH {
                let starved = self.peer(side).starved;
                self.peer_mut(side).starved = 0;
                if starved > 0 {
                    self.settle(side);
                    moved = true;
                }
                moved |= self.read(side, usize::MAX >> 1);
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

    /// All bytes and marks of both directions have been received.
    pub(crate) fn assert_transferred(&self) {
        for side in Side::BOTH {
            let (from, to) = (self.peer(side), self.peer(side.other()));
            assert_eq!(to.read, from.written, "from {side:?}");
            assert_eq!(to.urgent_received, from.urgent_written, "from {side:?}");
        }
    }

    /// The received bytes are the beginning of the sent ones.
    pub(crate) fn assert_prefix(&self) {
        for side in Side::BOTH {
            let (from, to) = (self.peer(side), self.peer(side.other()));
            assert!(to.delivered <= from.sent && from.sent <= from.written);
        }
    }
}
