// SPDX-License-Identifier: GPL-2.0

//! The golden messages in `rust/vectors`.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

use sdp_engine::engine::wire::{
    hello::{Hello, HelloAck},
    Message, Mid, Repr,
};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .lines()
        .flat_map(|line| line.split('#').next().unwrap().chars())
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).expect("a hex digit"))
        .collect();
    digits
        .chunks(2)
        .map(|pair| u8::try_from((pair[0] << 4) | pair[1]).unwrap())
        .collect()
}

fn vectors() -> Vec<(PathBuf, Vec<u8>, String)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors");
    let mut found: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "hex"))
        .map(|path| {
            let bytes = unhex(&fs::read_to_string(&path).unwrap());
            let text = fs::read_to_string(path.with_extension("txt")).unwrap();
            let line = text.lines().find(|line| !line.starts_with('#'));
            (path, bytes, line.unwrap().to_owned())
        })
        .collect();
    found.sort();
    found
}

/// The printed line and the emitted bytes of one message.
fn through_the_codec(bytes: &[u8]) -> (String, Vec<u8>) {
    match Mid::from_wire(bytes[0]) {
        Mid::Hello => {
            let hello = Hello::parse(bytes).unwrap();
            (format!("{hello}"), hello.emit().to_vec())
        }
        Mid::HelloAck => {
            let ack = HelloAck::parse(bytes).unwrap();
            (format!("{ack}"), ack.emit().to_vec())
        }
        _ => {
            let head = &bytes[..bytes.len().min(36)];
            let message = Message::check(head, u32::try_from(bytes.len()).unwrap()).unwrap();
            let repr = Repr::parse(&message).unwrap();
            let payload = &bytes[usize::from(repr.payload_offset())..];
            let emitted = [repr.emit().as_bytes(), payload].concat();
            (format!("{repr}"), emitted)
        }
    }
}

//= test: HDR-1, HDR-9, HDR-10
#[test]
fn every_golden_message_prints_and_emits_as_written() {
    for (path, bytes, text) in vectors() {
        let (printed, emitted) = through_the_codec(&bytes);
        assert_eq!(printed, text, "{}", path.display());
        assert_eq!(emitted, bytes, "{}", path.display());
    }
}

#[test]
fn every_kind_of_message_has_a_golden_one() {
    let vectors = vectors();
    for mid in Mid::KNOWN {
        assert!(
            vectors
                .iter()
                .any(|(_, bytes, _)| bytes[0] == mid.to_wire()),
            "{mid} has no vector"
        );
    }
    assert!(vectors
        .iter()
        .any(|(_, bytes, _)| matches!(Mid::from_wire(bytes[0]), Mid::Unknown(_))));
}

#[test]
fn no_golden_message_survives_being_cut() {
    for (path, bytes, _) in vectors() {
        for len in 0..bytes.len() {
            let cut = &bytes[..len];
            let refused = match Mid::from_wire(bytes[0]) {
                Mid::Hello => Hello::parse(cut).is_err(),
                Mid::HelloAck => HelloAck::parse(cut).is_err(),
                _ => Message::check(&cut[..len.min(36)], u32::try_from(len).unwrap()).is_err(),
            };
            assert!(refused, "{} cut to {len}", path.display());
        }
    }
}
