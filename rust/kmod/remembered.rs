// SPDX-License-Identifier: GPL-2.0

//! Options that TCP programs set and that have no effect here, because the device or
//! its transport decides. They are checked and stored as TCP does it, so that the
//! programs run. Accepted connections inherit them. TCP_DEFER_ACCEPT, IP_TOS and
//! IPV6_TCLASS are stored here, too; their effect is in `cm`.
//!
//! An option with a promise that would not be kept (control messages, TCP_ULP) is not in the
//! table, and gives ENOPROTOOPT.
//!
//! Locks: under the endpoint's lock.

use crate::{
    ffi,
    prelude::*, //
};

/// One option.
struct Entry {
    level: u32,
    option: u32,
    least: i32,
    most: i32,
    /// A value between them that is invalid.
    refused: Option<i32>,
    at_first: i32,
    /// The value that is stored.
    keep: fn(i32) -> i32,
}

fn as_it_is(value: i32) -> i32 {
    value
}

fn as_switch(value: i32) -> i32 {
    i32::from(value != 0)
}

/// The default of the namespace of a host that has changed nothing.
const TTL: i32 = 64;
const FIN_TIMEOUT: i32 = 60;
const FIN_TIMEOUT_MAX: i32 = 120;
const SYN_RETRIES: i32 = 6;
const SOCK_MIN_RCVBUF_HALF: i32 = 1152;
const PMTUDISC_WANT: i32 = 1;
const PMTUDISC_OMIT: i32 = 5;
const AUTO_FLOW_LABEL: i32 = 1;

/// TCP_LINGER2: never, the default, or a number of seconds.
fn as_linger2(value: i32) -> i32 {
    match value {
        i32::MIN..=-1 => -1,
        0 => FIN_TIMEOUT,
        _ => value.min(FIN_TIMEOUT_MAX),
    }
}

/// TCP_DEFER_ACCEPT: TCP stores the number of retransmissions that fit into the time,
/// and returns their time.
fn as_retransmissions(seconds: i32) -> i32 {
    const RTO_MAX: i32 = 120;
    if seconds <= 0 {
        return 0;
    }
    let (mut timeout, mut period, mut count) = (1i32, 1i32, 1u32);
    while seconds > period && count < 255 {
        timeout = timeout.saturating_mul(2).min(RTO_MAX);
        period = period.saturating_add(timeout);
        count = count.saturating_add(1);
    }
    period
}

/// IP_TOS and IPV6_TCLASS: the lowest bits are reserved.
fn as_class(value: i32) -> i32 {
    if value == -1 {
        0
    } else {
        value & 0xfc
    }
}

/// As `as_class`, but -1 is a number like others.
fn as_tos(value: i32) -> i32 {
    value & 0xfc
}

fn as_ttl(value: i32) -> i32 {
    if value == -1 {
        TTL
    } else {
        value
    }
}

fn as_window(value: i32) -> i32 {
    if value == 0 {
        0
    } else {
        value.max(SOCK_MIN_RCVBUF_HALF)
    }
}

fn as_nothing(_value: i32) -> i32 {
    0
}

const fn entry(level: u32, option: u32, range: (i32, i32), at_first: i32) -> Entry {
    Entry {
        level,
        option,
        least: range.0,
        most: range.1,
        refused: None,
        at_first,
        keep: as_it_is,
    }
}

const fn kept(keep: fn(i32) -> i32, entry: Entry) -> Entry {
    Entry { keep, ..entry }
}

/// On for every number except 0.
const fn switch(level: u32, option: u32) -> Entry {
    kept(as_switch, entry(level, option, ANY, 0))
}

const ANY: (i32, i32) = (i32::MIN, i32::MAX);
const TCP: u32 = ffi::SOL_TCP;
const IP: u32 = ffi::SOL_IP;
const IPV6: u32 = ffi::SOL_IPV6;

const COUNT: usize = 22;

const TABLE: [Entry; COUNT] = [
    entry(TCP, ffi::TCP_SYNCNT, (1, 127), SYN_RETRIES),
    kept(as_linger2, entry(TCP, ffi::TCP_LINGER2, ANY, FIN_TIMEOUT)),
    kept(
        as_retransmissions,
        entry(TCP, ffi::TCP_DEFER_ACCEPT, ANY, 0),
    ),
    kept(as_window, entry(TCP, ffi::TCP_WINDOW_CLAMP, ANY, 0)),
    entry(TCP, ffi::TCP_NOTSENT_LOWAT, ANY, 0),
    entry(TCP, ffi::TCP_THIN_LINEAR_TIMEOUTS, (0, 1), 0),
    kept(as_nothing, entry(TCP, ffi::TCP_THIN_DUPACK, (0, 1), 0)),
    entry(TCP, ffi::TCP_SAVE_SYN, (0, 2), 0),
    Entry {
        refused: Some(0),
        ..kept(as_ttl, entry(IP, ffi::IP_TTL, (-1, 255), TTL))
    },
    kept(as_tos, entry(IP, ffi::IP_TOS, ANY, 0)),
    kept(as_class, entry(IPV6, ffi::IPV6_TCLASS, (-1, 255), 0)),
    entry(IP, ffi::IP_MINTTL, (0, 255), 0),
    entry(IP, ffi::IP_MTU_DISCOVER, (0, PMTUDISC_OMIT), PMTUDISC_WANT),
    switch(IP, ffi::IP_RECVERR),
    switch(IP, ffi::IP_FREEBIND),
    switch(IP, ffi::IP_BIND_ADDRESS_NO_PORT),
    kept(as_ttl, entry(IPV6, ffi::IPV6_UNICAST_HOPS, (-1, 255), TTL)),
    entry(
        IPV6,
        ffi::IPV6_MTU_DISCOVER,
        (0, PMTUDISC_OMIT),
        PMTUDISC_WANT,
    ),
    switch(IPV6, ffi::IPV6_RECVERR),
    switch(IPV6, ffi::IPV6_DONTFRAG),
    switch(IPV6, ffi::IPV6_FREEBIND),
    kept(
        as_switch,
        entry(IPV6, ffi::IPV6_AUTOFLOWLABEL, ANY, AUTO_FLOW_LABEL),
    ),
];

/// The values of one socket.
#[derive(Clone, Copy)]
pub(crate) struct Remembered([i32; COUNT]);

impl Remembered {
    pub(crate) const fn new() -> Self {
        let mut values = [0; COUNT];
        let mut i = 0;
        while i < COUNT {
            values[i] = TABLE[i].at_first;
            i += 1;
        }
        Self(values)
    }

    /// Whether the table has the option.
    pub(crate) fn has(level: u32, option: u32) -> bool {
        TABLE
            .iter()
            .any(|entry| entry.level == level && entry.option == option)
    }

    /// Stores a value, or returns TCP's error; `None` for an option that is not in the
    /// table.
    pub(crate) fn set(&mut self, level: u32, option: u32, value: i32) -> Option<Result> {
        let found = TABLE.iter().zip(&mut self.0);
        for (entry, place) in found {
            if entry.level == level && entry.option == option {
                let out = value < entry.least || value > entry.most;
                if out || entry.refused == Some(value) {
                    return Some(Err(EINVAL));
                }
                *place = (entry.keep)(value);
                return Some(Ok(()));
            }
        }
        None
    }

    pub(crate) fn get(&self, level: u32, option: u32) -> Option<i32> {
        let mut found = TABLE.iter().zip(&self.0);
        found
            .find(|(entry, _)| entry.level == level && entry.option == option)
            .map(|(_, value)| *value)
    }
}
