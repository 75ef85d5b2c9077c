// SPDX-License-Identifier: MIT
//! The tables of cases, one file per theme.

mod accept;
mod again;
mod attending;
mod bind;
mod borrowed;
mod broken;
mod buffered;
mod busy_poll;
mod cached;
mod cgroups;
mod close;
mod connect;
mod creation;
mod departed;
mod iovec;
mod lent;
mod mapped;
mod matrix;
mod names;
mod namespaces;
mod oob;
mod option_sweep;
mod options;
mod patience;
mod peeking;
mod poll;
mod recv;
mod remapped;
mod remembered;
mod send;
mod shared_ports;
mod sharing;
mod signals;
mod splice;
mod threads;
mod thresholds;
mod transfer;
mod uring;
mod written;
mod zcopy;

use crate::case::{Case, Test};

const TABLES: &[&[Case]] = &[
    creation::CASES,
    bind::CASES,
    connect::CASES,
    accept::CASES,
    cgroups::CASES,
    again::CASES,
    names::CASES,
    options::CASES,
    option_sweep::CASES,
    remembered::CASES,
    shared_ports::CASES,
    peeking::CASES,
    patience::CASES,
    send::CASES,
    buffered::CASES,
    recv::CASES,
    busy_poll::CASES,
    iovec::CASES,
    poll::CASES,
    close::CASES,
    oob::CASES,
    signals::CASES,
    threads::CASES,
    sharing::CASES,
    attending::CASES,
    splice::CASES,
    uring::CASES,
    namespaces::CASES,
    transfer::CASES,
    cached::CASES,
    zcopy::CASES,
    written::CASES,
    lent::CASES,
    borrowed::CASES,
    remapped::CASES,
    mapped::CASES,
    departed::CASES,
    thresholds::CASES,
    matrix::CASES,
];

pub fn all() -> Vec<Test> {
    tests(TABLES)
}

/// Cases that fail on purpose, for the runner's own tests.
pub fn broken() -> Vec<Test> {
    tests(&[broken::CASES])
}

fn tests(tables: &'static [&'static [Case]]) -> Vec<Test> {
    let cases = tables.iter().flat_map(|table| table.iter());
    cases.flat_map(|case| case.versions.iter().map(|&ip| Test { case, ip })).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_made_of_words() {
        let mut names = HashSet::new();
        for test in all() {
            let name = test.name();
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
            assert!(name.chars().all(plain), "{name}");
            assert!(names.insert(name.clone()), "{name} twice");
        }
    }
}
