// SPDX-License-Identifier: MIT
//! Draws a plan from a seed.

use crate::chance::Chance;
use crate::dangers;
use crate::plan::{
    Ask, Choice, Conversation, Door, End, Event, Finish, Get, Ground, Host, Manner, Piece, Plan,
    Refusal, Take, Urgent, Way, What, CLIENT,
};
use crate::troubles;
use crate::unread;
use sdp_uapi::{SDP_ZCOPY_SINK_THRESH, SDP_ZCOPY_SOURCE_THRESH, SDP_ZCOPY_THRESH};

/// The kinds of grounds to draw from, and what may be disturbed.
#[derive(Clone, Copy)]
pub struct Limits {
    pub ground: Ground,
    /// Nothing is disturbed.
    pub calm: bool,
}

const WAYS: &[Way] = &[
    Way::Write,
    Way::Send,
    Way::Send,
    Way::More,
    Way::Writev,
    Way::Sendmsg,
    Way::Sendmmsg,
    Way::Sendfile,
    Way::Splice,
    Way::SpliceFile,
    Way::ZeroCopy,
    Way::ZeroCopy,
    Way::Uring,
    Way::UringZeroCopy,
];

const GETS: &[Get] = &[
    Get::Read,
    Get::Recv,
    Get::Recv,
    Get::Readv,
    Get::Recvmsg,
    Get::WaitAll,
    Get::Peek,
    Get::PeekOn,
    Get::DontWait,
    Get::Splice,
    Get::Uring,
];

const ASKS: &[Ask] = &[Ask::Names, Ask::Options, Ask::Counts, Ask::Info, Ask::Traffic];

const MANNERS: &[Manner] = &[
    Manner::Threads,
    Manner::Threads,
    Manner::Polite,
    Manner::Fork,
    Manner::Passed,
    Manner::Poll,
    Manner::Epoll,
    Manner::Edge,
    Manner::Apart,
    Manner::ApartEdge,
];

/// Values for `/proc/sys/net/sdp`.
pub const KNOBS: &[(&str, &[&str])] = &[
    ("zcopy_thresh", &["0", "4096", "8192", "65536"]),
    ("rcv_size", &["2048", "8192", "32768"]),
    ("rcv_size_initial", &["1024", "4096", "32768"]),
    ("rcv_depth", &["4", "8", "64"]),
    ("send_depth", &["4", "8", "64"]),
    ("zcopy_regions", &["0", "1", "4"]),
    ("zcopy_cache", &["0", "1"]),
    ("busy_poll", &["-1", "0", "50"]),
    ("chunk", &["-2", "-1", "0", "4096"]),
    ("max_orphans", &["0", "2", "4096"]),
];

/// The knob for TCP's attempts beside SDP's.
pub const TCP_AFTER: &str = "tcp_after_ms";

fn length(chance: &mut Chance) -> usize {
    match chance.below(10) {
        0 => 1 + chance.below(8),
        1..=3 => 1 + chance.below(2000),
        4 => chance.of(&[1024, 4096, 8192, 16384, 65536, 4095, 4097, 65535, 65537]),
        5 | 6 => 1 + chance.below(20_000),
        7 | 8 => 1 + chance.below(200_000),
        _ => 1 + chance.below(700_000),
    }
}

pub fn pause(chance: &mut Chance) -> u32 {
    if chance.one_in(3) {
        chance.of(&[1, 20, 100, 500, 3000, 20_000]) * (1 + chance.below(3) as u32)
    } else {
        0
    }
}

fn sends(chance: &mut Chance) -> Vec<Piece> {
    let count = chance.of(&[0, 1, 2, 5, 12, 20]);
    // Some programs send in one way, others in all.
    let favourite = chance.of(WAYS);
    let mut left: usize = 2 << 20;
    let mut pieces = Vec::new();
    for _ in 0..count {
        let way = if chance.one_in(2) { favourite } else { chance.of(WAYS) };
        let len = length(chance).min(left);
        if len == 0 {
            break;
        }
        left -= len;
        pieces.push(Piece { way, len, pause_us: pause(chance) });
    }
    pieces
}

fn takes(chance: &mut Chance) -> Vec<Take> {
    let count = 1 + chance.below(6);
    let favourite = chance.of(GETS);
    let one = |chance: &mut Chance| {
        let way = if chance.one_in(2) { favourite } else { chance.of(GETS) };
        Take { way, len: length(chance).max(16), pause_us: pause(chance) }
    };
    let mut takes: Vec<_> = (0..count).map(|_| one(chance)).collect();
    // With tiny rooms alone a long stream takes for ever.
    if takes.iter().all(|take| take.len < 5000) {
        takes.push(Take { way: Get::Recv, len: 60_000, pause_us: 0 });
    }
    takes
}

fn options(chance: &mut Chance, ground: Ground) -> Vec<Choice> {
    let thresholds = &[0, 4096, 16384, 262_144];
    let known: &[(i32, i32, &[i32], &str, bool)] = &[
        (libc::SOL_TCP, SDP_ZCOPY_THRESH, thresholds, "SDP_ZCOPY_THRESH", true),
        (libc::SOL_TCP, SDP_ZCOPY_SOURCE_THRESH, thresholds, "SDP_ZCOPY_SOURCE_THRESH", true),
        (libc::SOL_TCP, SDP_ZCOPY_SINK_THRESH, thresholds, "SDP_ZCOPY_SINK_THRESH", true),
        (libc::SOL_SOCKET, libc::SO_SNDBUF, &[2048, 16384, 1 << 20], "SO_SNDBUF", false),
        (libc::SOL_SOCKET, libc::SO_RCVBUF, &[2048, 16384, 1 << 20], "SO_RCVBUF", false),
        (libc::SOL_SOCKET, libc::SO_RCVLOWAT, &[1, 100, 5000], "SO_RCVLOWAT", false),
        (libc::SOL_SOCKET, libc::SO_BUSY_POLL, &[0, 50], "SO_BUSY_POLL", false),
        (libc::SOL_TCP, libc::TCP_NODELAY, &[0, 1], "TCP_NODELAY", false),
        (libc::SOL_TCP, libc::TCP_CORK, &[0, 1], "TCP_CORK", false),
        (libc::SOL_SOCKET, libc::SO_LINGER, &[1, 5], "SO_LINGER", false),
    ];
    let mut chosen = Vec::new();
    for &(level, name, values, text, sdp) in known {
        let tcp = ground == Ground::Tcp;
        // TCP needs minutes for a stream through such a buffer, and peeks for a mark may hang there.
        let values = match name {
            libc::SO_RCVBUF if tcp => &values[1..],
            libc::SO_RCVLOWAT if tcp => &values[..1],
            _ => values,
        };
        if chance.one_in(5) && !(sdp && tcp) {
            chosen.push(Choice { level, name, value: chance.of(values), text });
        }
    }
    chosen
}

fn end(chance: &mut Chance, host: usize, limits: Limits) -> End {
    End {
        host,
        manner: chance.of(MANNERS),
        options: options(chance, limits.ground),
        sends: sends(chance),
        takes: takes(chance),
        finish: Finish::Orderly,
        eager: chance.one_in(3),
        refused: false,
        urgent: Urgent::None,
        asks: Vec::new(),
        unread: 0..0,
        narrow: false,
    }
}

/// One of both ends ends early.
fn hurry(chance: &mut Chance, ends: &mut [End; 2]) {
    let which = chance.below(2);
    let other = ends[1 - which].total();
    let after = if other == 0 { 0 } else { chance.word() % (other + 1) };
    ends[which].finish = match chance.below(3) {
        0 => Finish::Exit(after),
        1 => Finish::Reset(after),
        _ => Finish::ShutBoth(after),
    };
}

fn conversation(chance: &mut Chance, hosts: usize, limits: Limits) -> Conversation {
    let client = chance.below(hosts);
    let mut server = chance.below(hosts);
    if server == client {
        server = (server + 1) % hosts;
    }
    let mut ends = [end(chance, client, limits), end(chance, server, limits)];
    if !limits.calm && chance.one_in(6) {
        hurry(chance, &mut ends);
    }
    let version = chance.of(&[4, 6]);
    let door = if chance.one_in(4) { Door::Protocol } else { Door::Family };
    if door == Door::Protocol {
        widen(&mut ends);
    }
    Conversation {
        version,
        door,
        start_ms: if chance.one_in(2) { 0 } else { chance.below(60) as u32 },
        listeners: 1,
        ends,
        certain: true,
        raced: false,
        left_out: false,
    }
}

/// Connections that may go over to TCP have what TCP can bear: in the smallest buffer it needs 0.2 s for
/// each KiB, and a peek for a high mark may hang.
fn widen(ends: &mut [End; 2]) {
    for choice in ends.iter_mut().flat_map(|end| &mut end.options) {
        match (choice.level, choice.name) {
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => choice.value = choice.value.max(16384),
            (libc::SOL_SOCKET, libc::SO_RCVLOWAT) => choice.value = choice.value.min(100),
            _ => {}
        }
    }
}

/// Some of the bytes are urgent. `tcp`: the connection is TCP's, or may become it.
fn hasten(chance: &mut Chance, ends: &mut [End; 2], tcp: bool) {
    let urgent = chance.of(&[Urgent::Inline, Urgent::Apart]);
    for end in ends {
        end.urgent = urgent;
        if urgent == Urgent::Inline {
            let (level, name) = (libc::SOL_SOCKET, libc::SO_OOBINLINE);
            end.options.push(Choice { level, name, value: 1, text: "SO_OOBINLINE" });
            for piece in &mut end.sends {
                if chance.one_in(3) {
                    piece.way = Way::Urgent;
                }
            }
        } else if !end.sends.is_empty() {
            // A second one would leave the first one in the stream.
            let count = end.sends.len();
            end.sends[chance.below(count)].way = Way::UrgentApart;
        }
        for take in &mut end.takes {
            // The byte that is no part of the stream does not move the offset, as on TCP.
            if urgent == Urgent::Apart && take.way == Get::PeekOn {
                take.way = Get::Peek;
            }
            // A splice of TCP ends at an urgent byte as at the end of the stream.
            if tcp && take.way == Get::Splice {
                take.way = Get::Recv;
            }
        }
    }
}

/// The kernel refuses memory to some of the ends.
fn refuse(chance: &mut Chance, plan: &mut Plan) {
    plan.refusal = Refusal { slab: chance.of(&[1, 5, 20]), pages: chance.of(&[0, 1, 5]) };
    for conversation in &mut plan.conversations {
        for end in &mut conversation.ends {
            end.refused = chance.one_in(2);
        }
    }
}

fn host(chance: &mut Chance, limits: Limits) -> Host {
    let ground = limits.ground;
    let mut host = Host::default();
    if ground == Ground::Rlo && chance.one_in(2) {
        host.rate_mbps = chance.of(&[0, 100, 1000, 40_000]);
        host.latency_us = chance.of(&[0, 2, 50, 1000, 5000]);
    }
    if ground != Ground::Tcp {
        for &(name, values) in KNOBS {
            if chance.one_in(6) {
                let value = chance.of(values);
                // Connections beyond this number are reset.
                if !(limits.calm && name == "max_orphans") {
                    host.knobs.push((name, value));
                }
            }
        }
    }
    host
}

/// On some hosts TCP's attempts begin before SDP's have failed. Where an end is silent, that was drawn by
/// the buffers of SDP.
fn race(chance: &mut Chance, plan: &mut Plan) {
    for (number, host) in plan.hosts.iter_mut().enumerate() {
        let value = chance.of(&["0", "0", "1", "10", "50"]);
        let its = plan.conversations.iter_mut().filter(|one| one.ends[CLIENT].host == number);
        let mut its: Vec<_> = its.filter(|one| one.door == Door::Protocol).collect();
        let silent = its.iter().any(|one| one.ends.iter().any(|end| end.silence().is_some()));
        if value == "0" || silent {
            continue;
        }
        host.knobs.push((TCP_AFTER, value));
        its.iter_mut().for_each(|one| one.raced = true);
    }
}

/// The plan of a seed.
pub fn draw(seed: u64, limits: Limits) -> Plan {
    let chance = &mut Chance::new(seed);
    let count = chance.of(&[2, 2, 2, 3, 4]);
    let conversations = chance.of(&[1, 1, 2, 3, 6]);
    let mut plan = Plan {
        seed,
        ground: limits.ground,
        hosts: (0..count).map(|_| host(chance, limits)).collect(),
        conversations: (0..conversations).map(|_| conversation(chance, count, limits)).collect(),
        events: Vec::new(),
        refusal: Refusal::default(),
        reload: limits.ground != Ground::Tcp && chance.one_in(12),
        tidy: chance.one_in(2),
    };
    if !limits.calm {
        for _ in 0..chance.of(&[0, 1, 1, 2, 3, 5]) {
            troubles::trouble(chance, &mut plan);
        }
        if limits.ground != Ground::Tcp && chance.one_in(8) {
            refuse(chance, &mut plan);
        }
        plan.events.sort_by_key(|event| event.at_ms);
    }
    for conversation in &mut plan.conversations {
        if chance.one_in(5) {
            let tcp = limits.ground == Ground::Tcp || conversation.door == Door::Protocol;
            hasten(chance, &mut conversation.ends, tcp);
        }
        if chance.one_in(5) {
            conversation.listeners = chance.of(&[2, 3]);
        }
    }
    dangers::judge(&mut plan);
    for number in 0..plan.conversations.len() {
        if chance.one_in(2) {
            unread::fall_silent(chance, &mut plan, number);
        }
        for end in &mut plan.conversations[number].ends {
            let count = chance.of(&[0, 0, 1, 3, 5]);
            end.asks = (0..count).map(|_| chance.of(ASKS)).collect();
        }
    }
    if limits.ground != Ground::Tcp && !limits.calm {
        for _ in 0..chance.of(&[0, 0, 1, 3]) {
            let (at_ms, host) = (chance.below(150) as u32, chance.below(count));
            plan.events.push(Event { at_ms, what: What::Look { host } });
        }
        plan.events.sort_by_key(|event| event.at_ms);
        race(chance, &mut plan);
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { ground: Ground::Rlo, calm: false };

    #[test]
    fn a_seed_repeats_its_plan() {
        for seed in 0..50 {
            assert_eq!(draw(seed, LIMITS).show(), draw(seed, LIMITS).show());
        }
        assert_ne!(draw(1, LIMITS).show(), draw(2, LIMITS).show());
    }

    #[test]
    fn some_conversations_are_certain_and_others_are_not() {
        let plans: Vec<_> = (0..200).map(|seed| draw(seed, LIMITS)).collect();
        let all = || plans.iter().flat_map(|plan| &plan.conversations);
        assert!(all().filter(|one| one.certain).count() > 100);
        assert!(all().filter(|one| !one.certain).count() > 50);
    }

    #[test]
    fn a_calm_plan_is_certain() {
        for seed in 0..50 {
            let plan = draw(seed, Limits { ground: Ground::Rlo, calm: true });
            assert!(plan.events.is_empty());
            assert!(plan.conversations.iter().all(|one| one.certain));
        }
    }
}
