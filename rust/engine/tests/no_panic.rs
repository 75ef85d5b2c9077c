// SPDX-License-Identifier: GPL-2.0

//! The optimised engine contains no way to panic.
//!
//! The crate is compiled to an object file as a kernel would, and the symbols
//! that it leaves open are looked at: copies of memory and `core`'s formatting
//! of numbers are expected, and nothing else.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Compiles a crate root to an object file of that name.
fn object(name: &str, root: &Path, flags: &[&str]) -> PathBuf {
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    run(
        Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
            .args(["--edition=2021", "--crate-type=lib", "--emit=obj"])
            .args(["-Cpanic=abort", "-Ccodegen-units=1", "--cap-lints=allow"])
            .args(flags)
            .arg("-o")
            .arg(&object)
            .arg(root),
    );
    object
}

fn engine() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")
}

fn is_harmless(symbol: &str) -> bool {
    matches!(symbol, "memcpy" | "memmove" | "memset" | "memcmp" | "bcmp")
        || symbol.starts_with("core::fmt::")
        || symbol.starts_with('<') && symbol.contains("core::fmt::")
}

/// Undefined symbols which are not harmless.
fn open_symbols(object: &Path) -> Vec<String> {
    run(Command::new("nm")
        .args(["--undefined-only", "--demangle"])
        .arg(object))
    .lines()
    .filter_map(|line| line.trim().strip_prefix("U "))
    .filter(|symbol| !is_harmless(symbol))
    .map(str::to_owned)
    .collect()
}

/// Functions that refer to the panic machinery.
fn panicking_functions(object: &Path) -> Vec<String> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in run(Command::new("objdump").arg("--reloc").arg(object)).lines() {
        if let Some(name) = line.strip_prefix("RELOCATION RECORDS FOR ") {
            section = name.to_owned();
        } else if section.starts_with("[.text")
            && (line.contains("panicking") || line.contains("_fail"))
        {
            found.push(section.clone());
        }
    }
    found
}

const FLAGS: [&[&str]; 2] = [
    &["-Copt-level=2"],
    // The arithmetic of a debug kernel. Its debug assertions are not for this
    // test: they let `core` check the promises of its own unsafe code.
    &["-Copt-level=2", "-Coverflow-checks=y"],
];

#[test]
fn the_engine_leaves_no_panic_open() {
    for (n, flags) in FLAGS.into_iter().enumerate() {
        let object = object(&format!("engine{n}.o"), &engine(), flags);
        assert_eq!(open_symbols(&object), [""; 0], "{flags:?}");
    }
}

//= test: ROBUST-4
#[test]
fn no_function_of_the_engine_can_panic_not_even_one_that_is_never_called() {
    let flags = ["-Copt-level=2", "-Coverflow-checks=y", "-Clink-dead-code"];
    let object = object("engine-all.o", &engine(), &flags);
    let all = run(Command::new("nm").arg("--defined-only").arg(&object));
    for name in ["handle_message", "poll_output", "on_granted", "is_after"] {
        assert!(all.contains(name), "{name} is not there");
    }
    let panicking: Vec<String> = panicking_functions(&object)
        .into_iter()
        // Compiled although never called: the checks that `core` would make
        // with debug assertions.
        .filter(|section| !section.contains("precondition_check"))
        .collect();
    assert_eq!(panicking, [""; 0]);
}

#[test]
fn a_panic_would_be_found() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guilty.rs");
    let guilty = [
        "indexes(b: &[u8], i: usize) -> u8 { b[i] }",
        "slices(b: &[u8], i: usize) -> &[u8] { &b[i..] }",
        "unwraps_option(b: Option<u8>) -> u8 { b.unwrap() }",
        "unwraps_result(b: Result<u8, u8>) -> u8 { b.unwrap() }",
        "divides(a: u8, b: u8) -> u8 { a / b }",
        "overflows(a: u8, b: u8) -> u8 { a + b }",
        "copies(a: &mut [u8], b: &[u8]) { a.copy_from_slice(b) }",
    ];
    let mut code = String::from("#![no_std]\n");
    for function in guilty {
        code.push_str("#[inline(never)] pub fn ");
        code.push_str(function);
        code.push('\n');
    }
    fs::write(&root, code).unwrap();
    let flags = ["-Copt-level=2", "-Coverflow-checks=y", "-Clink-dead-code"];
    let object = object("guilty.o", &root, &flags);
    assert!(!open_symbols(&object).is_empty());
    let found = panicking_functions(&object);
    for code in guilty {
        let name = code.split('(').next().unwrap();
        assert!(
            found.iter().any(|section| section.contains(name)),
            "{name} is not among {found:?}"
        );
    }
}
