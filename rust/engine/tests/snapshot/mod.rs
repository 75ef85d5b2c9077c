// SPDX-License-Identifier: GPL-2.0

//! A reviewed text, beside the one that the code makes today.

use std::{env, fs, path::Path};

/// Fails where `made` is not what `file` (below the crate) says, naming the
/// first line. With BLESS=1 in the environment `file` is written first.
pub(crate) fn assert_reviewed(file: &str, made: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if env::var_os("BLESS").is_some() {
        fs::write(&path, made).unwrap();
    }
    let reviewed = fs::read_to_string(&path).unwrap();
    for (line, expected) in made.lines().zip(reviewed.lines()) {
        assert_eq!(line, expected, "see the head of the test's file");
    }
    assert_eq!(made.lines().count(), reviewed.lines().count());
}
