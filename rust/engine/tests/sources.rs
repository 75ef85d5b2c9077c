// SPDX-License-Identifier: GPL-2.0

//! What the sources promise about themselves.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test says what is wrong by panicking"
)]

use std::{
    fs,
    path::{Path, PathBuf},
};

fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Path below `src/engine` and text of every engine file, without its tests.
fn engine() -> Vec<(String, String)> {
    let root = crate_dir().join("src/engine");
    let mut paths = Vec::new();
    files(&root, &mut paths);
    paths
        .iter()
        // A folder of this name is part of the tests.
        .filter(|path| !path.iter().any(|part| part == "tests"))
        .map(|path| {
            let text = fs::read_to_string(path).unwrap();
            let code = text.split("\n#[cfg(test)]\nmod tests").next().unwrap();
            let name = path.strip_prefix(&root).unwrap();
            (name.to_str().unwrap().to_owned(), code.to_owned())
        })
        .collect()
}

/// The groups of rules named by `rules: A, B (and a remark)`.
fn citations(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("//"))
        .filter_map(|line| {
            line.trim_start_matches(['/', '!'])
                .trim()
                .strip_prefix("rules: ")
        })
        .flat_map(|list| {
            let list = list.split('(').next().unwrap();
            list.split(',').map(|name| name.trim().to_owned())
        })
        .collect()
}

fn sheet() -> String {
    fs::read_to_string(crate_dir().join("../../spec/sdp.md")).unwrap()
}

/// `## NAME: what it is about`, or the name alone.
fn groups(sheet: &str) -> Vec<&str> {
    sheet
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .map(|heading| heading.split(':').next().unwrap())
        .collect()
}

#[test]
fn every_group_of_rules_that_is_named_is_there() {
    let sheet = sheet();
    let groups = groups(&sheet);
    let mut named = 0;
    for (name, code) in engine() {
        for citation in citations(&code) {
            assert!(groups.contains(&citation.as_str()), "{name}: {citation}");
            named += 1;
        }
    }
    assert!(named > 50, "{named}");
}

//= test: ROBUST-1
#[test]
fn every_error_names_a_rule_that_says_what_a_violation_is() {
    let sheet = sheet();
    let (_, error) = engine()
        .into_iter()
        .find(|(name, _)| name == "error.rs")
        .unwrap();
    let table = error.split("fn requirement").nth(1).unwrap();
    let table = table.split("\nimpl ").next().unwrap();
    let ids: Vec<&str> = table.split('"').skip(1).step_by(2).collect();
    assert!(ids.len() > 30, "{ids:?}");
    for id in ids {
        let start = sheet.find(&format!("**{id}** (MUST;"));
        let start = start.unwrap_or_else(|| panic!("there is no MUST {id}"));
        let rule = sheet[start..].split("\n\n").next().unwrap();
        assert!(
            rule.contains("violation") || rule.contains("refused"),
            "{rule}"
        );
    }
}

#[test]
fn every_file_says_its_licence_and_what_it_is() {
    for (name, code) in engine() {
        assert!(
            code.starts_with("// SPDX-License-Identifier: GPL-2.0\n\n//! "),
            "{name}"
        );
        let lines = code.lines().count();
        assert!(lines <= 400, "{name} has {lines} lines");
    }
}

/// Which layers a file may name, by the layer it is in.
fn allowed(layer: &str) -> &'static [&'static str] {
    match layer {
        "types" | "stats" | "machine" | "policy" => &[],
        "timer" => &["policy"],
        "error" => &["wire"],
        "wire" => &["error", "types"],
        "oob" => &["error", "wire"],
        "zcopy" => &["error", "machine", "types", "wire"],
        "flow" => &["error", "machine", "timer", "types", "wire"],
        "bcopy" => &["error", "oob", "timer", "wire"],
        "conn" | "mod" => &[
            "bcopy", "error", "flow", "machine", "oob", "policy", "stats", "timer", "types",
            "wire", "zcopy",
        ],
        other => panic!("{other} is a layer without a place"),
    }
}

/// The layers that follow `crate::engine::`, braces included.
fn named(code: &str) -> Vec<String> {
    let mut all = Vec::new();
    for rest in code.split("crate::engine::").skip(1) {
        if let Some(braced) = rest.strip_prefix('{') {
            let mut depth = 1usize;
            let mut name = String::new();
            for c in braced.chars() {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
                if depth == 1 && c == ',' {
                    all.push(std::mem::take(&mut name));
                } else {
                    name.push(c);
                }
            }
            all.push(name);
        } else {
            all.push(rest.to_owned());
        }
    }
    all.iter()
        .map(|path| {
            let name = path.trim_start();
            let end = name.find(|c: char| !c.is_ascii_lowercase());
            name[..end.unwrap_or(name.len())].to_owned()
        })
        .filter(|name| !name.is_empty())
        .collect()
}

#[test]
fn layers_only_name_what_is_below_them() {
    for (name, code) in engine() {
        let layer = name.split(['/', '.']).next().unwrap();
        for other in named(&code) {
            assert!(
                other == layer || allowed(layer).contains(&other.as_str()),
                "{name} names {other}"
            );
        }
    }
}

#[test]
fn the_engine_is_core_and_nothing_else() {
    for (name, code) in engine() {
        for word in ["std::", "alloc::", "extern crate", "unsafe ", "f32", "f64"] {
            assert!(!code.contains(word), "{name} has {word}");
        }
        for condition in code.split("cfg").skip(1) {
            let condition = condition.trim_start_matches("_attr");
            if let Some(inside) = condition.strip_prefix('(') {
                let inside = inside.trim_start();
                assert!(
                    inside.starts_with("test")
                        || name == "mod.rs" && inside.starts_with("not(test)"),
                    "{name} depends on {}",
                    inside.lines().next().unwrap()
                );
            }
        }
    }
}
