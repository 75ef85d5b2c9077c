// SPDX-License-Identifier: GPL-2.0

//! The diagrams of docs/ladders.md match the behaviour of two engines. With BLESS=1 in the
//! environment they are redrawn.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

#[path = "../../engine/tests/snapshot/mod.rs"]
mod snapshot;

use sdp_sim::ladder;
use snapshot::assert_reviewed;
use std::{fs, path::Path};

const PAGE: &str = "../../docs/ladders.md";
const BEGIN: &str = "```ladder ";
const END: &str = "```\n";

/// The page with each diagram replaced, and the names of the diagrams.
fn drawn(page: &str) -> (String, Vec<String>) {
    let mut parts = page.split(BEGIN);
    let mut text = parts.next().unwrap().to_owned();
    let mut names = Vec::new();
    for part in parts {
        let (name, rest) = part.split_once('\n').unwrap();
        let (_, rest) = rest.split_once(END).unwrap();
        let picture = ladder::draw(name).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        let picture = picture.unwrap_or_else(|| panic!("there is no {name}"));
        text.push_str(&format!("{BEGIN}{name}\n{picture}{END}{rest}"));
        names.push(name.to_owned());
    }
    (text, names)
}

#[test]
fn the_pictures_of_the_page_are_what_the_engines_do() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = fs::read_to_string(&path).unwrap();
    let (drawn, names) = drawn(&page);
    let all: Vec<&str> = ladder::names().collect();
    assert_eq!(names, all, "each picture once, in this order");
    assert_reviewed(PAGE, &drawn);
}
