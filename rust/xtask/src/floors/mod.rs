// SPDX-License-Identifier: GPL-2.0

//! Whether the files of the modules use only what the floors in ARCHITECTURE.md allow: their own
//! floor, and those below. A file uses another that it imports from, or if it calls a method or
//! names a field that is defined there. Also, whether `rust/rdma` keeps to its border.

mod border;
mod graph;
mod house;
mod imports;
mod library;
mod methods;
mod types;

use anyhow::{bail, Context, Result};
use house::House;
use std::{collections::BTreeSet, fmt::Write, fs, path::Path};

const PAGE: &str = "ARCHITECTURE.md";

/// A module of the kernel, which is one crate.
struct Crate {
    folder: &'static str,
    /// The heading of its table of floors, if its files have some.
    heading: Option<&'static str>,
    /// Its folders, and files of others, with the path of each inside the crate.
    mounts: &'static [(&'static str, &'static str)],
    /// Whether methods must stand in the file or folder of their type.
    at_home: bool,
}

const CRATES: [Crate; 2] = [
    Crate {
        folder: "rust/kmod",
        heading: Some("### Floors of `rust/kmod`"),
        mounts: &[
            ("rust/copier", "copier"),
            ("rust/kmod", ""),
            ("rust/linux", ""),
            ("rust/net", "net"),
            ("rust/rdma", "rdma"),
        ],
        at_home: false,
    },
    Crate {
        folder: "rust/rlo",
        heading: Some("### Floors of `rust/rlo`"),
        mounts: &[
            ("rust/copier", "copier"),
            ("rust/linux/ffi.rs", "ffi"),
            ("rust/linux/prelude.rs", "prelude"),
            ("rust/rlo", ""),
        ],
        at_home: true,
    },
];

/// The floors from the highest to the lowest: the names of each one's modules.
struct Floors(Vec<Vec<String>>);

impl Floors {
    /// Reads the table behind the heading; the second cell of a row names modules.
    fn read(page: &str, heading: &str) -> Result<Self> {
        let (_, rest) = page.split_once(heading).context("no table of floors")?;
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
            bail!("{PAGE} has no floors under \"{heading}\"");
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

/// The paths that `from` names and must not name.
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

impl House {
    /// The uses that run up, and the files without a floor.
    fn judge_floors(&self, floors: &Floors) -> Vec<String> {
        let mut faults = Vec::new();
        for (name, named) in &self.named {
            faults.extend(judge(floors, name, named));
        }
        let known = |name: &str| floors.of(name);
        for (from, to, what) in self.all.edges() {
            if let (Some((floor, own)), Some((other, above))) = (known(from), known(to)) {
                if other < floor && what.starts_with('.') {
                    faults.push(format!(
                        "{from} uses {what} of {to}, but {above} stands above {own} in {PAGE}"
                    ));
                }
            }
        }
        faults
    }

    /// The files that use each other in a circle. A circle by imports is one by everything.
    fn judge_circles(&self, of: &Crate) -> Vec<String> {
        let told = |circle: BTreeSet<&str>| format!("{} has a circle: {circle:?}", of.folder);
        self.all.circles().into_iter().map(told).collect()
    }
}

/// The uses that run up, the files without a floor, and new circles.
pub(crate) fn faults(root: &Path) -> Result<Vec<String>> {
    let page = fs::read_to_string(root.join(PAGE)).context(PAGE)?;
    let mut faults = Vec::new();
    for of in &CRATES {
        let house = House::read(root, of)?;
        if let Some(heading) = of.heading {
            let floors = Floors::read(&page, heading)?;
            faults.extend(house.judge_floors(&floors));
            for name in floors.0.iter().flatten() {
                if name != "engine" && !house.named.contains_key(name) {
                    faults.push(format!("{PAGE} has a floor for {name}, which is no module"));
                }
            }
        }
        faults.extend(house.judge_circles(of));
        for (name, ty, owner) in house.strangers.iter().filter(|_| of.at_home) {
            faults.push(format!(
                "{name} of {} has methods of {ty}, which are for {owner} alone",
                of.folder
            ));
        }
        for file in house.files.iter().filter(|_| of.folder == "rust/kmod") {
            if let Some(named) = house.named.get(&file.name) {
                faults.extend(border::judge(&file.name, &file.text, named));
            }
        }
    }
    faults.extend(library::faults(root)?);
    Ok(faults)
}

/// The circles of each crate, and with `edges` what each file uses.
pub(crate) fn report(root: &Path, edges: bool) -> Result<String> {
    let mut text = String::new();
    for of in &CRATES {
        let house = House::read(root, of)?;
        let own = house.files.iter().map(|file| file.name.as_str()).collect();
        let (files, lines) = (house.files.len(), house.lines(&own));
        writeln!(text, "{}, {files} files, {lines} lines", of.folder)?;
        let kinds = [
            ("by imports", &house.imports),
            ("by imports, methods and fields", &house.all),
        ];
        for (kind, graph) in kinds {
            let circles = graph.circles();
            writeln!(text, "{kind}: {} circles", circles.len())?;
            for circle in circles {
                let (files, lines) = (circle.len(), house.lines(&circle));
                let names: Vec<&str> = circle.into_iter().collect();
                writeln!(text, "  {files} files, {lines} lines: {}", names.join(" "))?;
            }
        }
        writeln!(
            text,
            "files with methods of another's type: {}",
            house.strangers.len()
        )?;
        let unclear = house.unclear.len();
        writeln!(
            text,
            "names of methods that several files have, of unknown types: {unclear}"
        )?;
        if edges {
            text.push_str(&house.all.print());
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "### Floors of `rust/kmod`\n\nWords.\n\n\
        | floor | modules | task |\n|---|---|---|\n\
        | calls | `sock`, `zcopy/send` | |\n\
        | knot | `object`, `zcopy` | |\n\
        | wrappers | `verbs` | `object` is not meant here |\n\nMore `words`.\n";

    fn floors() -> Floors {
        Floors::read(PAGE, "### Floors of `rust/kmod`").unwrap()
    }

    fn told(from: &str, text: &str) -> Vec<String> {
        let modules = [
            "sock",
            "zcopy",
            "zcopy::send",
            "object",
            "verbs",
            "verbs::qp",
        ];
        let named = imports::of(from, &syn::parse_file(text).unwrap(), &modules.into());
        judge(&floors(), from, &named)
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
        assert_eq!(told("zcopy", "fn f() { send::segment() }").len(), 1);
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
