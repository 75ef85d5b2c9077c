// SPDX-License-Identifier: MIT

//! The places of the libraries, for the tools.

use std::env;
use std::path::{Path, PathBuf};

pub(crate) const LIBRARY: &str = "libsdp.so";

/// Possible directories of the libraries, relative to the tools' directory. The last is Debian's
/// directory for this architecture.
fn places() -> [String; 4] {
    let own = format!("../lib/{}-linux-gnu", env::consts::ARCH);
    ["".into(), "../lib".into(), "../lib64".into(), own]
}

/// The library of this name that belongs to the tools in `directory`.
pub(crate) fn beside(directory: &Path, name: &str) -> Option<PathBuf> {
    places()
        .iter()
        .find_map(|place| directory.join(place).join(name).canonicalize().ok())
}
