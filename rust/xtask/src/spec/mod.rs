// SPDX-License-Identifier: GPL-2.0

//! Whether every rule of spec/sdp.md is implemented and tested.

mod audit;
mod citation;
mod exception;
mod sheet;

pub(crate) use audit::Audit;

use anyhow::{Context, Result};
use std::{fs, path::Path};

/// Reads sheet, exceptions and citations below `root`, and compares them.
pub(crate) fn audit(root: &Path) -> Result<Audit> {
    let read = |name: &str| {
        let path = root.join(name);
        fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    };
    let sheet = sheet::parse(&read("spec/sdp.md")?)?;
    let exceptions = exception::parse(&read("spec/exceptions.toml")?)?;
    let citations = citation::find(root)?;
    Ok(Audit::new(&sheet, &exceptions, &citations))
}

#[cfg(test)]
mod tests {
    use super::audit;
    use std::path::Path;

    #[test]
    fn the_repository_obeys_and_tests_every_rule() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        assert_eq!(audit(&root).unwrap().faults(), &[] as &[String]);
    }
}
