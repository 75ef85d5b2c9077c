// SPDX-License-Identifier: MIT
//! The conversation with the runner.

use std::io::{BufRead, Write};

/// Says a word to the runner.
pub fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{word}").and_then(|()| out.flush()).expect("stdout");
}

/// Waits for a line of the runner.
pub fn hear() {
    std::io::stdin().lock().read_line(&mut String::new()).expect("stdin");
}
