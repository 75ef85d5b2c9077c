// SPDX-License-Identifier: GPL-2.0

//! The numbers of the header for programs, as Rust constants.

use anyhow::{bail, Context, Result};
use std::{fs, path::Path, process::Command};

const HEADER: &str = "include/uapi/linux/sdp.h";
const CONSTANTS: &str = "rust/uapi/src/header.rs";

const OPTIONS: [&str; 9] = [
    "--allowlist-file=.*/linux/sdp\\.h",
    "--default-macro-constant-type=signed",
    "--disable-header-comment",
    "--no-doc-comments",
    "--no-layout-tests",
    "--rust-edition=2021",
    "--rust-target=1.82",
    "--use-core",
    "--raw-line=// SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note\n\
     // Made by bindgen from include/uapi/linux/sdp.h; see lib.rs.",
];

/// The contents that the file should have.
fn made(root: &Path) -> Result<String> {
    let output = Command::new("bindgen")
        .args(OPTIONS)
        .arg(root.join(HEADER))
        .output()
        .context("bindgen is needed, which the builder root has")?;
    if !output.status.success() {
        bail!("bindgen: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Writes the file.
pub(crate) fn write(root: &Path) -> Result<()> {
    fs::write(root.join(CONSTANTS), made(root)?).context(CONSTANTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_are_those_of_the_header() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let there = fs::read_to_string(root.join(CONSTANTS)).unwrap();
        assert_eq!(
            there,
            made(root).unwrap(),
            "run `qemu/cargo rust run -p xtask -- uapi`"
        );
    }
}
