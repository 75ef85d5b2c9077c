// SPDX-License-Identifier: GPL-2.0

//! Where rules are cited: `//= spec: ID, ID` above a statement that obeys them,
//! `//= test: ID` above a test. In scripts the line begins with `#=`.

use anyhow::{Context, Result};
use std::{
    fmt, fs,
    path::{Path, PathBuf},
};
use walkdir::{DirEntry, WalkDir};

/// The role of the citing code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Code,
    Test,
}

/// One rule, cited in one place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Citation {
    pub(crate) rule: String,
    pub(crate) kind: Kind,
    pub(crate) place: Place,
    /// The fault of the citation's place, if there is one.
    pub(crate) fault: Option<&'static str>,
}

/// File and line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    path: PathBuf,
    line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path.display(), self.line)
    }
}

/// Code below these implements rules; all other citations are tests.
const CODE: [&str; 4] = [
    "rust/engine/src",
    "rust/kmod",
    "rust/rdma",
    "rust/preload/src",
];
const SUFFIXES: [&str; 5] = ["rs", "c", "h", "py", "sh"];

/// The directories with code and tests.
const ROOTS: [&str; 3] = ["rust", "userspace-tests", "qemu"];

/// All citations below `root`.
pub(crate) fn find(root: &Path) -> Result<Vec<Citation>> {
    let mut all = Vec::new();
    for dir in ROOTS {
        for entry in WalkDir::new(root.join(dir))
            .sort_by_file_name()
            .into_iter()
            .filter_entry(|entry| !is_left_out(entry))
        {
            let entry = entry?;
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap_or(path);
            if entry.file_type().is_file() && is_source(name) {
                let text = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
                in_file(name, &String::from_utf8_lossy(&text), &mut all);
            }
        }
    }
    Ok(all)
}

/// Excluded: build output, hidden files, and this checker, which has examples of citations.
fn is_left_out(entry: &DirEntry) -> bool {
    let name = entry.file_name().to_string_lossy();
    entry.file_type().is_dir() && (name == "target" || name == "xtask" || name.starts_with('.'))
}

/// Only these two directories have scripts without a suffix.
fn is_source(name: &Path) -> bool {
    match name.extension().and_then(|suffix| suffix.to_str()) {
        Some(suffix) => SUFFIXES.contains(&suffix),
        None => name.starts_with("qemu") || name.starts_with("userspace-tests"),
    }
}

/// All citations in the text of one file.
pub(crate) fn in_file(name: &Path, text: &str, all: &mut Vec<Citation>) {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for (index, line) in lines.iter().enumerate() {
        let Some((kind, rules)) = citation(line) else {
            continue;
        };
        let below = lines
            .iter()
            .skip(index)
            .find(|line| !is_comment(line) && !is_attribute(line))
            .copied();
        let fault = fault(kind, name, below.unwrap_or_default());
        all.extend(rules.split(',').map(|rule| Citation {
            rule: rule.trim().to_owned(),
            kind,
            place: Place {
                path: name.to_owned(),
                line: index.saturating_add(1),
            },
            fault,
        }));
    }
}

fn citation(line: &str) -> Option<(Kind, &str)> {
    let cited = line
        .strip_prefix("//=")
        .or_else(|| line.strip_prefix("#="))?
        .trim_start();
    if let Some(rules) = cited.strip_prefix("spec:") {
        Some((Kind::Code, rules))
    } else {
        cited.strip_prefix("test:").map(|rules| (Kind::Test, rules))
    }
}

fn is_comment(line: &str) -> bool {
    line.starts_with("//") || line.starts_with("# ") || line.starts_with("#=")
}

fn is_attribute(line: &str) -> bool {
    line.starts_with("#[") || line.starts_with('@')
}

fn fault(kind: Kind, name: &Path, below: &str) -> Option<&'static str> {
    let in_code = CODE.iter().any(|dir| name.starts_with(dir));
    if below.is_empty() {
        return Some("nothing stands below it");
    }
    match kind {
        Kind::Code if !in_code => Some("a rule is obeyed in the engine, the module or the preload"),
        Kind::Test
            if !["fn ", "def ", "class "]
                .iter()
                .any(|word| below.contains(word)) =>
        {
            Some("no test function stands below it")
        }
        Kind::Code | Kind::Test => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{in_file, Citation, Kind};
    use std::path::Path;

    fn citations(name: &str, text: &str) -> Vec<Citation> {
        let mut all = Vec::new();
        in_file(Path::new(name), text, &mut all);
        all
    }

    #[test]
    fn rules_above_a_statement_and_above_a_test_are_found() {
        let all = citations(
            "rust/engine/src/a.rs",
            "x();\n    //= spec: A-1, B-2\n    // why\n    y();\n//= test: A-1\n#[test]\nfn f() {}\n",
        );
        let seen: Vec<_> = all
            .iter()
            .map(|c| (c.rule.as_str(), c.kind, c.place.line, c.fault))
            .collect();
        assert_eq!(
            seen,
            [
                ("A-1", Kind::Code, 2, None),
                ("B-2", Kind::Code, 2, None),
                ("A-1", Kind::Test, 5, None),
            ]
        );
    }

    #[test]
    fn a_citation_above_nothing_or_in_the_wrong_place_is_a_fault() {
        for (name, text) in [
            ("rust/engine/src/a.rs", "//= spec: A-1\n"),
            ("rust/engine/src/a.rs", "//= spec: A-1\n\nfn f() {}"),
            ("rust/engine/src/a.rs", "//= test: A-1\nlet x = 1;"),
            ("rust/sim/src/a.rs", "//= spec: A-1\nx();"),
        ] {
            assert!(citations(name, text)[0].fault.is_some(), "{name}: {text}");
        }
        let script = citations("userspace-tests/a.py", "#= test: A-1\n@case\ndef f():\n");
        assert_eq!(script[0].fault, None);
    }
}
