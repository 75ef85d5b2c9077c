// SPDX-License-Identifier: MIT

//! What cargo has built of this crate.

use std::path::{Path, PathBuf};

pub(crate) const SDP_RUN: &str = env!("CARGO_BIN_EXE_sdp_run");

/// Where cargo has put one of the crate's other products: the newest, because
/// `cargo test` leaves what an earlier `cargo build` has made.
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
