// SPDX-License-Identifier: GPL-2.0

//! Whether the files of the module name only what the floors in ARCHITECTURE.md allow:
//! their own floor, and those below; and whether `rust/rdma` keeps to its border.

mod border;
mod imports;
mod library;

use anyhow::{bail, Context, Result};
use std::{collections::BTreeSet, fs, path::Path};
use walkdir::WalkDir;

const PAGE: &str = "ARCHITECTURE.md";
const HEADING: &str = "### Floors of `rust/kmod`";
/// The folders of the module, with the path of each inside the crate.
const FOLDERS: [(&str, &str); 4] = [
    ("rust/copier", "copier"),
    ("rust/kmod", ""),
    ("rust/net", "net"),
    ("rust/rdma", "rdma"),
];

/// The floors from the highest to the lowest: the names of each one's modules.
struct Floors(Vec<Vec<String>>);

impl Floors {
    /// Reads the table behind the heading; the second cell of a row names modules.
    fn read(page: &str) -> Result<Self> {
        let (_, rest) = page.split_once(HEADING).context("no table of floors")?;
        let rows = rest
            .lines()
            .skip_while(|line| !line.starts_with('|'))
            .take_while(|line| line.starts_with('|'))
            .skip(2);
        let floors: Vec<Vec<String>> = rows
            .map(|row| {
                let cell = row.split('|').nth(2).unwrap_or_default();
                let names = cell.split('`').skip(1).step_by(2);
                names.map(|name| name.replace('/', "::")).collect()
            })
            .collect();
        if floors.is_empty() {
            bail!("{PAGE} has no floors under \"{HEADING}\"");
        }
        Ok(Self(floors))
    }

    /// The floor of `path` and the name under which it stands in the table: the longest
    /// that fits, so that a file may stand elsewhere than its folder.
    fn of(&self, path: &str) -> Option<(usize, &str)> {
        let fits = |name: &str| {
            path.strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        };
        let all = self.0.iter().enumerate();
        all.flat_map(|(floor, names)| names.iter().map(move |name| (floor, name.as_str())))
            .filter(|(_, name)| fits(name))
            .max_by_key(|(_, name)| name.len())
    }
}

/// The path of a file as a module: `cm/mod.rs` is `cm`. `mount` is that of its folder.
fn module_of(mount: &str, file: &Path) -> String {
    let path = Path::new(mount).join(file.with_extension(""));
    let mut segments: Vec<_> = path.iter().map(|s| s.to_string_lossy()).collect();
    if segments.last().is_some_and(|last| last == "mod") {
        segments.pop();
    }
    segments.join("::")
}

/// What `from` must not name, of the paths that it names.
fn judge(floors: &Floors, from: &str, named: &BTreeSet<String>) -> Vec<String> {
    let Some((floor, own)) = floors.of(from) else {
        return vec![format!("{from} has no row in the floors of {PAGE}")];
    };
    let mut faults = Vec::new();
    for path in named {
        match floors.of(path) {
            Some((other, name)) if other < floor => faults.push(format!(
                "{from} names {path}, but {name} stands above {own} in {PAGE}"
            )),
            // Names like `LocalModule` are items of the root.
            None if path.starts_with(char::is_lowercase) => {
                faults.push(format!("{from} names {path}, which has no floor in {PAGE}"));
            }
            _ => {}
        }
    }
    faults
}

/// The imports that run up, and the files without a floor.
pub(crate) fn faults(root: &Path) -> Result<Vec<String>> {
    let page = fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let floors = Floors::read(&page)?;
    let mut files = Vec::new();
    for (folder, mount) in FOLDERS {
        let folder = root.join(folder);
        for entry in WalkDir::new(&folder).sort_by_file_name() {
            let entry = entry?;
            if entry.path().extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(entry.path())?;
                let name = module_of(mount, entry.path().strip_prefix(&folder)?);
                files.push((name, entry.path().to_owned(), text));
            }
        }
    }
    let modules: BTreeSet<&str> = files.iter().map(|(name, ..)| name.as_str()).collect();
    let mut faults = Vec::new();
    for (name, path, text) in &files {
        let named = imports::of(name, text, &modules)
            .with_context(|| format!("reading {}", path.display()))?;
        faults.extend(judge(&floors, name, &named));
        faults.extend(border::judge(name, text, &named));
    }
    for name in floors.0.iter().flatten() {
        if name != "engine" && !modules.contains(name.as_str()) {
            faults.push(format!("{PAGE} has a floor for {name}, which is no module"));
        }
    }
    faults.extend(library::faults(root)?);
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "### Floors of `rust/kmod`\n\nWords.\n\n\
        | floor | modules | task |\n|---|---|---|\n\
        | calls | `sock`, `zcopy/send` | |\n\
        | knot | `object`, `zcopy` | |\n\
        | wrappers | `verbs` | `object` is not meant here |\n\nMore `words`.\n";

    fn told(from: &str, text: &str) -> Vec<String> {
        let modules = [
            "sock",
            "zcopy",
            "zcopy::send",
            "object",
            "verbs",
            "verbs::qp",
        ];
        let named = imports::of(from, text, &modules.into()).unwrap();
        judge(&Floors::read(PAGE).unwrap(), from, &named)
    }

    #[test]
    fn down_and_within_a_floor() {
        assert!(told("sock", "use crate::{object::Sock, verbs::qp::Qp};").is_empty());
        assert!(told("object", "use crate::zcopy::Turns;").is_empty());
        assert!(told("verbs::qp", "use super::Device; use core::ptr;").is_empty());
    }

    #[test]
    fn up() {
        let fault =
            "verbs::qp names object::Sock, but object stands above verbs in ARCHITECTURE.md";
        assert_eq!(
            told("verbs::qp", "use crate::{object::{Sock}, verbs::X};"),
            [fault]
        );
        assert_eq!(
            told("verbs::qp", "fn f(_: &crate::object::Sock) {}"),
            [fault]
        );
        assert_eq!(
            told("verbs::qp", "use super::super::object::Sock;"),
            [fault]
        );
        assert_eq!(
            told("verbs::qp", "mod tests { use crate::object::Sock; }"),
            [fault]
        );
        assert_eq!(
            told("verbs::qp", "f! { a => crate::object::Sock }"),
            [fault]
        );
    }

    #[test]
    fn a_file_may_stand_elsewhere_than_its_folder() {
        assert_eq!(told("zcopy", "use crate::zcopy::send::segment;").len(), 1);
        assert_eq!(told("zcopy", "use send::segment;").len(), 1);
        assert!(told("zcopy::send", "use super::Turns;").is_empty());
    }

    #[test]
    fn without_a_floor() {
        assert_eq!(told("fresh", "").len(), 1);
        assert_eq!(told("sock", "use crate::fresh::X;").len(), 1);
        assert!(told("sock", "use crate::LocalModule;").is_empty());
    }

    #[test]
    fn the_module_keeps_to_its_floors() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        assert_eq!(faults(root).unwrap(), Vec::<String>::new());
    }
}
