// SPDX-License-Identifier: MIT

//! The products that cargo has built of this crate, and their messages.

use std::path::{Path, PathBuf};

pub(crate) const SDP_RUN: &str = env!("CARGO_BIN_EXE_sdp_run");

/// The path of one of the crate's other products: the newest, because `cargo test` does not remove
/// the binaries of an earlier `cargo build`.
pub(crate) fn built(name: &str) -> PathBuf {
    let directory = Path::new(SDP_RUN)
        .parent()
        .expect("a built file is in a directory");
    [
        directory.join(name),
        directory.join("deps").join(name),
        directory.join("examples").join(name),
    ]
    .into_iter()
    .filter_map(|file| Some((file.metadata().ok()?.modified().ok()?, file)))
    .max()
    .map_or_else(|| panic!("{name} is not built"), |(_, file)| file)
}

/// The messages of the library without their prefixes: the program's name and the process ID, which
/// the tests do not know.
pub(crate) fn messages(said: &[u8], program: &str) -> String {
    let said = String::from_utf8_lossy(said);
    let message = |line: &str| -> Option<String> {
        let (process, rest) = line.strip_prefix("libsdp[")?.split_once("]: ")?;
        process.parse::<u32>().ok()?;
        let message = rest.strip_prefix(program)?.strip_prefix(": ")?;
        Some(format!("{message}\n"))
    };
    let all: Option<String> = said.lines().map(message).collect();
    all.unwrap_or_else(|| panic!("not of the library in {program}: {said}"))
}
