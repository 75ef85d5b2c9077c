// SPDX-License-Identifier: GPL-2.0

//! Replays inputs that fuzzing has found. One harness serves both.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

use sdp_sim::{codec, run::History, story::Stranger};
use std::{fs, path::Path};

/// Every file of a corpus.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    let files: Vec<_> = fs::read_dir(dir.join(target))
        .unwrap()
        .map(|entry| fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert!(files.len() >= 40, "{} files for {target}", files.len());
    files
}

#[test]
fn the_corpus_of_the_codec_breaks_nothing() {
    for bytes in corpus("codec") {
        codec::read(&bytes).unwrap();
    }
}

#[test]
fn the_corpus_of_hostile_peers_breaks_nothing() {
    let mut steps = 0;
    for bytes in corpus("peer") {
        match Stranger::Rogue.meet_bytes(&bytes) {
            Ok(shown) => steps += shown.steps,
            Err(told) => panic!("{told}"),
        }
    }
    assert!(steps > 400, "{steps} steps");
}

#[test]
fn the_corpus_of_two_peers_breaks_nothing() {
    let mut steps = 0;
    for bytes in corpus("operations") {
        match History::of_bytes(&bytes).check() {
            Ok(shown) => steps += shown.steps,
            Err(failure) => panic!("{failure}"),
        }
    }
    assert!(steps > 400, "{steps} steps");
}
