// SPDX-License-Identifier: GPL-2.0

//! Single steps of a history.

use crate::{dice::Dice, side::Side};
use std::fmt;

/// An event at one side. An event that is impossible in the current state does nothing, so every
/// list of steps is a history.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// The application writes.
    Write {
        /// Number of bytes.
        len: u16,
        /// With MSG_MORE.
        more: bool,
        /// The last byte is urgent.
        urgent: bool,
    },
    /// The application writes from registered memory.
    WriteRun {
        /// Number of bytes.
        len: u16,
        /// The wanted number of inline bytes.
        inline: u8,
    },
    /// A signal interrupts the last such write.
    Withdraw,
    /// Advertised bytes are recalled.
    Recall,
    /// The application reads so many pieces.
    Read(u8),
    /// It reads so many bytes from the peer's memory.
    ReadRemote(u16),
    /// Whether a reader waits for bytes.
    Reading(bool),
    /// Whether a writer looks for messages, so that offers may be held back.
    Hold(bool),
    /// It requests the rest as Data.
    Decline,
    /// It offers a buffer, longer than the minimum by this.
    Offer(u8),
    /// It cancels its offered buffers.
    CancelSinks,
    /// It switches its direction to Pipelined mode.
    Pipelined,
    /// Whether it wants Pipelined mode.
    ReqPipe(bool),
    /// It asks for another size of the peer's receive buffers.
    AskRcvSize(u8),
    /// Its shell calls the connection idle.
    Idle,
    /// TCP_NODELAY.
    Nodelay(bool),
    /// TCP_CORK.
    Cork(bool),
    /// Delayed bytes are sent.
    Push,
    /// The queued bytes are a chunk of a write, and its rest follows.
    Chunk,
    /// shutdown(SHUT_WR).
    Shutdown,
    /// close().
    Close,
    /// close() with SO_LINGER 0.
    Abort,
    /// So many of the side's messages arrive at the other.
    Carry(u8),
    /// The engine handles so many arrived messages, and then acts.
    Handle(u8),
    /// So many sends complete.
    Complete(u8),
    /// One of the wanted short timers expires: its index.
    Timeout(u8),
    /// One of all wanted timers expires, including those that give up the peer.
    LongTimeout(u8),
    /// So many milliseconds pass for both sides. Everything arrives, and the applications do
    /// nothing.
    Wait(u16),
    /// The same, but nothing arrives.
    Stall(u16),
    /// From now on a message travels for so many milliseconds while time passes. At first it
    /// takes no time.
    Trip(u16),
    /// So many wanted receive buffers cannot be allocated.
    Starve(u8),
    /// Whether there is no memory to post messages. There is some again when time passes.
    Refuse(bool),
    /// The device is removed, or the queue pair fails.
    Break,
    /// The transport has given up.
    GiveUp,
    /// A datagram for this side arrives: its index.
    Mad(u8),
    /// A datagram is lost for good.
    LoseMad(u8),
    /// A datagram is duplicated.
    RepeatMad(u8),
    /// A byte of its private data changes.
    SpoilMad(u8, u8),
}

/// An operation, and its side.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Step {
    /// The side.
    pub side: Side,
    /// The operation.
    pub op: Op,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.side, self.op)
    }
}

/// The kind of history.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mood {
    /// No side closes, and nothing breaks.
    Peaceful,
    /// As `Peaceful`, followed by a long time without activity.
    Silent,
    /// As `Peaceful`, and both sides shut down at some time.
    Graceful,
    /// All events.
    Wild,
}

impl Step {
    /// The next step of a history.
    pub fn draw(dice: &mut impl Dice, mood: Mood) -> Self {
        let side = if dice.once_in(2) { Side::A } else { Side::B };
        let op = match mood {
            Mood::Wild if dice.once_in(16) => Op::draw_wild(dice),
            Mood::Graceful if dice.once_in(128) => Op::Shutdown,
            Mood::Peaceful | Mood::Silent | Mood::Graceful | Mood::Wild => Op::draw_peaceful(dice),
        };
        Self { side, op }
    }
}

/// The number of simultaneous events: late completions come in bursts.
fn burst(dice: &mut impl Dice) -> u8 {
    let most = if dice.once_in(8) { 32 } else { 3 };
    u8::try_from(dice.between(1, most)).unwrap_or(1)
}

fn small(dice: &mut impl Dice, limit: u32) -> u8 {
    u8::try_from(dice.below(limit)).unwrap_or(0)
}

/// A time that is long for one of the timers.
pub(crate) fn time(dice: &mut impl Dice) -> u16 {
    let most = match dice.below(4) {
        0 => 30,
        1 => 250,
        2 => 2_500,
        _ => 8_000,
    };
    u16::try_from(dice.between(1, most)).unwrap_or(1)
}

/// The time of a message on its way: most often so little that messages which follow from each
/// other without end become many. Two of them are well below the time for an answer.
fn trip(dice: &mut impl Dice) -> u16 {
    let most = match dice.below(4) {
        0 => 0,
        1 | 2 => 1,
        _ => 450,
    };
    u16::try_from(dice.below(most + 1)).unwrap_or(0)
}

/// The application writes so many bytes.
pub(crate) const fn write(len: u16) -> Op {
    Op::Write {
        len,
        more: false,
        urgent: false,
    }
}

/// It writes so many bytes from registered memory, one of them inline.
pub(crate) const fn run(len: u16) -> Op {
    Op::WriteRun { len, inline: 1 }
}

impl Op {
    fn draw_peaceful(dice: &mut impl Dice) -> Self {
        match dice.below(32) {
            0 if dice.once_in(8) => Op::Trip(trip(dice)),
            0 if dice.once_in(2) => Op::Wait(time(dice)),
            0 => Op::draw_advert(dice),
            1..=4 => Op::Write {
                len: u16::try_from(dice.between(1, 200)).unwrap_or(1),
                more: dice.once_in(8),
                urgent: dice.once_in(12),
            },
            5..=8 => Op::Read(burst(dice)),
            9..=15 => Op::Carry(burst(dice)),
            16..=21 => Op::Handle(burst(dice)),
            22..=26 => Op::Complete(burst(dice)),
            27 => Op::Mad(small(dice, 3)),
            28 if dice.once_in(4) => Op::Refuse(!dice.once_in(4)),
            28 => Op::Starve(small(dice, 6)),
            29 => Op::Timeout(small(dice, 3)),
            30 => match dice.below(6) {
                0 => Op::Nodelay(dice.once_in(2)),
                1 => Op::Cork(dice.once_in(2)),
                2 => Op::RepeatMad(small(dice, 3)),
                3 => Op::Idle,
                4 => Op::Chunk,
                _ => Op::Push,
            },
            _ => Op::draw_advert(dice),
        }
    }

    fn draw_advert(dice: &mut impl Dice) -> Self {
        match dice.below(24) {
            0..=6 => Op::WriteRun {
                len: u16::try_from(dice.between(1, 400)).unwrap_or(1),
                inline: small(dice, 40),
            },
            7..=11 => Op::ReadRemote(u16::try_from(dice.between(1, 300)).unwrap_or(1)),
            12..=14 => Op::Offer(small(dice, 60)),
            15 => Op::Withdraw,
            16 => Op::Recall,
            17 => Op::Decline,
            18 => Op::Reading(dice.once_in(2)),
            19 => Op::Hold(!dice.once_in(4)),
            20 => Op::CancelSinks,
            21 => Op::Pipelined,
            22 if dice.once_in(2) => Op::ReqPipe(dice.once_in(2)),
            22 => Op::AskRcvSize(small(dice, 200)),
            _ => Op::ReadRemote(u16::MAX),
        }
    }

    fn draw_wild(dice: &mut impl Dice) -> Self {
        match dice.below(15) {
            0..=3 => Op::Shutdown,
            4 | 5 => Op::Close,
            6 => Op::Abort,
            7 => Op::Break,
            8 => Op::LoseMad(small(dice, 3)),
            9 => Op::RepeatMad(small(dice, 3)),
            10 => Op::SpoilMad(small(dice, 3), small(dice, 32)),
            11..=13 => Op::Stall(u16::try_from(dice.between(1, 20_000)).unwrap_or(1)),
            _ if dice.once_in(2) => Op::LongTimeout(small(dice, 3)),
            _ => Op::GiveUp,
        }
    }

    /// A description; None if the step is not visible.
    pub(crate) fn in_words(self) -> Option<String> {
        let words = match self {
            Op::Write { len, urgent, .. } => {
                let end = if urgent { ", the last one urgent" } else { "" };
                format!("writes {len} bytes{end}")
            }
            Op::WriteRun { len, .. } => format!("writes {len} bytes from registered memory"),
            Op::Withdraw => "a signal interrupts the write".to_owned(),
            Op::Recall => "takes back what is advertised".to_owned(),
            Op::Read(_) => "reads".to_owned(),
            Op::ReadRemote(_) => "reads from the peer's memory".to_owned(),
            Op::Decline => "wants the rest as Data".to_owned(),
            Op::Offer(_) => "offers a buffer".to_owned(),
            Op::CancelSinks => "wants its buffers back".to_owned(),
            Op::Shutdown => "will write no more".to_owned(),
            Op::Close => "closes".to_owned(),
            Op::Abort => "aborts".to_owned(),
            Op::Timeout(_) | Op::LongTimeout(_) => "a timer runs out".to_owned(),
            Op::Wait(ms) | Op::Stall(ms) => format!("{ms} ms pass"),
            Op::Break => "its device goes".to_owned(),
            Op::GiveUp => "its transport gives up".to_owned(),
            Op::Reading(_)
            | Op::Hold(_)
            | Op::Pipelined
            | Op::ReqPipe(_)
            | Op::AskRcvSize(_)
            | Op::Idle
            | Op::Nodelay(_)
            | Op::Cork(_)
            | Op::Push
            | Op::Chunk
            | Op::Carry(_)
            | Op::Handle(_)
            | Op::Complete(_)
            | Op::Starve(_)
            | Op::Refuse(_)
            | Op::Trip(_)
            | Op::Mad(_)
            | Op::LoseMad(_)
            | Op::RepeatMad(_)
            | Op::SpoilMad(..) => return None,
        };
        Some(words)
    }
}
