// SPDX-License-Identifier: MIT
//! One thread: a sequence of random calls.

use std::net::IpAddr;
use std::time::Instant;

use crate::chance::Chance;
use crate::memory::{Memory, Place};
use crate::pool::Pool;
use crate::tally::Tally;

pub struct Fuzzer {
    pub pool: &'static Pool,
    /// The addresses of the host.
    pub host: &'static [IpAddr],
    pub chance: Chance,
    pub memory: Memory,
    pub tally: Tally,
}

type Call = fn(&mut Fuzzer);

/// The weight of each call.
const CALLS: [(usize, Call); 24] = [
    (6, Fuzzer::couple),
    (4, Fuzzer::socket),
    (3, Fuzzer::close),
    (1, Fuzzer::dup),
    (3, Fuzzer::bind),
    (5, Fuzzer::connect),
    (3, Fuzzer::listen),
    (6, Fuzzer::accept),
    (2, Fuzzer::shutdown),
    (3, Fuzzer::ask_name),
    (12, Fuzzer::set_option),
    (12, Fuzzer::get_option),
    (4, Fuzzer::ioctl),
    (6, Fuzzer::send),
    (5, Fuzzer::send_message),
    (6, Fuzzer::receive),
    (5, Fuzzer::receive_message),
    (4, Fuzzer::read_or_write),
    (3, Fuzzer::splice),
    (4, Fuzzer::wait),
    (3, Fuzzer::open_door),
    (4, Fuzzer::lend),
    (4, Fuzzer::receive_ahead),
    (2, Fuzzer::list_sockets),
];

impl Fuzzer {
    pub fn new(pool: &'static Pool, host: &'static [IpAddr], seed: u64) -> Self {
        Self {
            pool,
            host,
            chance: Chance::new(seed),
            memory: Memory::new(),
            tally: Tally::default(),
        }
    }

    /// Runs until `end`.
    pub fn run(mut self, end: Instant) -> Tally {
        let weight: usize = CALLS.iter().map(|(weight, _)| weight).sum();
        while Instant::now() < end {
            let mut drawn = self.chance.below(weight);
            let call = CALLS.iter().find(|(weight, _)| match drawn.checked_sub(*weight) {
                Some(rest) => {
                    drawn = rest;
                    false
                }
                None => true,
            });
            if let Some((_, call)) = call {
                self.memory.poison();
                call(&mut self);
            }
        }
        self.tally
    }

    pub fn fd(&mut self) -> i32 {
        self.pool.any(&mut self.chance)
    }

    fn wait(&mut self) {
        match self.chance.below(4) {
            0 => self.epoll(),
            1 => self.change_flags(),
            _ => self.poll(),
        }
    }

    /// The length that the kernel has written to `size`.
    pub fn said(&mut self, size: Place) -> usize {
        let mut bytes = [0; 4];
        if size.is_good() {
            bytes.copy_from_slice(self.memory.at(size));
        }
        usize::try_from(i32::from_ne_bytes(bytes)).unwrap_or(0)
    }

    /// Checks that only the first bytes of these places were written.
    pub fn check(&mut self, written: &[(Place, usize)], call: impl FnOnce() -> String) {
        if let Err(wrong) = self.memory.check(written) {
            let call = call();
            self.tally.fault(format!("{call}: {wrong}"));
        }
    }
}
