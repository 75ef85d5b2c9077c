// SPDX-License-Identifier: GPL-2.0

//! Compares docs/memory-order.md with the sources: each file with an atomic or a barrier has a row.

use crate::sources::{self, Source};
use anyhow::{Context, Result};
use std::{fs, path::Path};

const PAGE: &str = "docs/memory-order.md";
/// Folders with code that several processors run. Paths without a folder on the page are in the first.
const FOLDERS: [&str; 6] = [
    "rust/kmod",
    "rust/net",
    "rust/rdma",
    "rust/rlo",
    "rust/copier",
    "rust/async/src",
];
const ENDINGS: [&str; 3] = ["c", "h", "rs"];
/// Beginnings of the words that such code has.
const WORDS: [&str; 14] = [
    "Atomic",
    "Ordering::Acq",
    "Ordering::Relaxed",
    "Ordering::Release",
    "Ordering::SeqCst",
    "READ_ONCE(",
    "WRITE_ONCE(",
    "_volatile(",
    "atomic_",
    "smp_",
    "test_and_",
    "xchg(",
    "fence(",
    "_bit(SOCK_NOSPACE",
];

/// Faults of the page.
pub(crate) fn faults(root: &Path) -> Result<Vec<String>> {
    let page = fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let mut faults = Vec::new();
    for folder in FOLDERS {
        for Source { path, text } in sources::below(root, folder, &ENDINGS)? {
            if is_source(&path) && has_words(&text) && !is_named(&page, &path) {
                faults.push(format!("{PAGE} has no row for {path}"));
            }
        }
    }
    faults.extend(
        named(&page)
            .filter(|path| !root.join(path).exists())
            .map(|path| format!("{PAGE} names {path}, which does not exist")),
    );
    Ok(faults)
}

/// Whether the file is code of the modules or of `--async`, and no test of it.
fn is_source(path: &str) -> bool {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    ENDINGS.contains(&ending) && !path.contains("/model") && !path.ends_with("tests.rs")
}

/// Whether code, and not only a comment, has one of the words.
fn has_words(text: &str) -> bool {
    let is_comment = |line: &str| {
        let line = line.trim_start();
        ["//", "/*", "*"]
            .iter()
            .any(|begin| line.starts_with(begin))
    };
    let mut code = text.lines().filter(|line| !is_comment(line));
    code.any(|line| WORDS.iter().any(|word| line.contains(word)))
}

/// The path of a file by its name on the page.
fn whole(name: &str) -> String {
    if name.starts_with("rust/") {
        name.into()
    } else {
        format!("{}/{name}", FOLDERS[0])
    }
}

/// The files that the page names.
fn named(page: &str) -> impl Iterator<Item = String> + '_ {
    page.split('`')
        .skip(1)
        .step_by(2)
        .filter(|name| is_source(name))
        .map(whole)
}

fn is_named(page: &str, path: &str) -> bool {
    named(page).any(|named| named == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_with_an_atomic_has_a_row() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        assert_eq!(faults(root).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn files_are_named_by_their_paths() {
        let page = "a word (`link/mod.rs`) and `rust/rlo/cq.rs`, not `Cq::len`";
        assert!(is_named(page, "rust/kmod/link/mod.rs"));
        assert!(is_named(page, "rust/rlo/cq.rs"));
        assert!(!is_named(page, "rust/kmod/mod.rs"));
        assert_eq!(named(page).count(), 2);
    }

    #[test]
    fn comments_are_no_code() {
        assert!(!has_words(
            "// smp_mb() is not needed\n\t * atomic_read()\n"
        ));
        assert!(has_words("\tsmp_mb();\n"));
        assert!(has_words("    counter: Atomic<u32>,\n"));
        assert!(!is_source("rust/async/src/model/forks.rs"));
        assert!(is_source("rust/rlo/ffi/bell.c"));
    }
}
