// SPDX-License-Identifier: GPL-2.0

//! Whether `rust/net`, `rust/rdma`, `rust/copier` and what all modules share are libraries: they have no word of SDP,
//! and no other part of the module names the bindings that `rust/net` wraps. [`border`](super::border) has the bindings of `rust/rdma`.

use crate::sources::{self, Source};
use anyhow::Result;
use std::path::Path;

const LIBRARIES: [&str; 4] = ["rust/net", "rust/rdma", "rust/copier", "rust/linux"];
/// The library with the bindings that are looked for here, and the parts of the module that use it.
const LIBRARY: &str = LIBRARIES[0];
const USERS: [&str; 2] = ["rust/kmod", "rust/rdma"];
/// Its helpers in C begin like this.
const HELPER: &str = "rust_net_";
/// Bindings of the kernel that it wraps.
const WRAPPED: [&str; 17] = [
    "_copy_from_iter",
    "_copy_to_iter",
    "in6_addr",
    "net_proto_family",
    "pipe_inode_info",
    "poll_table_struct",
    "proto_register",
    "proto_unregister",
    "release_sock",
    "sk_alloc",
    "sk_free",
    "sk_stream_error",
    "sock_gettstamp",
    "sock_no_socketpair",
    "sockptr_t",
    "wait_queue_entry",
    "wait_queue_head",
];

/// The words of a line, as C and Rust have them.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

fn is_of_sdp(word: &str) -> bool {
    word.to_ascii_lowercase().contains("sdp")
}

fn is_wrapped(word: &str) -> bool {
    word.starts_with(HELPER) || WRAPPED.contains(&word) || word.starts_with("socket_state_")
}

/// One fault for each line of `text` with a word that `is_bad`.
fn judge(file: &str, text: &str, is_bad: fn(&str) -> bool, reason: &str) -> Vec<String> {
    let lines = text.lines().zip(1..);
    let bad = lines.filter_map(|(line, at)| Some((at, words(line).find(|word| is_bad(word))?)));
    bad.map(|(at, word)| format!("{file}:{at} names {word}, {reason}"))
        .collect()
}

fn look(
    root: &Path,
    folder: &str,
    endings: &[&str],
    is_bad: fn(&str) -> bool,
    reason: &str,
) -> Result<Vec<String>> {
    let files = sources::below(root, folder, endings)?;
    let faults = |file: &Source| judge(&file.path, &file.text, is_bad, reason);
    Ok(files.iter().flat_map(faults).collect())
}

/// The words of SDP in the libraries, and bindings elsewhere.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for library in LIBRARIES {
        let own = format!("but {library} knows nothing of SDP");
        faults.extend(look(root, library, &["rs", "c", "h"], is_of_sdp, &own)?);
    }
    let other = format!("which {LIBRARY} wraps");
    for folder in USERS {
        faults.extend(look(root, folder, &["rs"], is_wrapped, &other)?);
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_sdp() {
        let text = "use crate::ffi;\n// As SDP does.\nffi::sdp_sock_hold(sk);\n";
        let faults = judge("rust/net/sk.rs", text, is_of_sdp, "no");
        assert_eq!(
            faults,
            [
                "rust/net/sk.rs:2 names SDP, no",
                "rust/net/sk.rs:3 names sdp_sock_hold, no"
            ]
        );
        assert!(judge("x", "unsafe { hold(sk) }", is_of_sdp, "").is_empty());
        let text = "// A message of SDP.\nfn f() { ffi::sdp_f() }";
        assert_eq!(judge("rust/rdma/qp.rs", text, is_of_sdp, "").len(), 2);
        assert!(judge("rust/rdma/mod.rs", "//! Devices.", is_of_sdp, "").is_empty());
    }

    #[test]
    fn a_binding_that_the_library_wraps() {
        let text = "ffi::rust_net_sock_hold(sk);\nffi::core::sockptr_t\nsock.hold();\n";
        assert_eq!(judge("f", text, is_wrapped, "").len(), 2);
        assert!(judge("f", "let my_sockptr_t = 1;", is_wrapped, "").is_empty());
    }
}
