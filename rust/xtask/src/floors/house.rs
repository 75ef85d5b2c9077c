// SPDX-License-Identifier: GPL-2.0

//! A crate as it was read: its files, and the files that each uses.

use super::{graph::Graph, imports, methods, types::Types, Crate};
use crate::sources::{self, Source};
use anyhow::{Context, Result};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// The path of a file as a module: `cm/mod.rs` is `cm`. `mount` is its folder's path.
fn module_of(mount: &str, file: &Path) -> String {
    if file.as_os_str().is_empty() {
        return mount.to_owned();
    }
    let path = Path::new(mount).join(file.with_extension(""));
    let mut segments: Vec<_> = path.iter().map(|s| s.to_string_lossy()).collect();
    if segments.last().is_some_and(|last| last == "mod") {
        segments.pop();
    }
    segments.join("::")
}

/// Whether a file is `owner`, or in the folder with `owner` as its `mod.rs`.
fn is_inside(name: &str, owner: &str) -> bool {
    let rest = name.strip_prefix(owner);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// A file of a crate.
pub(super) struct File {
    pub(super) name: String,
    pub(super) text: String,
    tree: syn::File,
}

/// A crate as it was read.
pub(super) struct House {
    pub(super) files: Vec<File>,
    /// For each file the paths that it imports.
    pub(super) named: BTreeMap<String, BTreeSet<String>>,
    pub(super) imports: Graph,
    /// With methods and fields.
    pub(super) all: Graph,
    /// Files with methods of a type of another file or folder: each with the type and its file.
    pub(super) strangers: BTreeSet<(String, String, String)>,
    /// Names of methods that could not be told apart.
    pub(super) unclear: BTreeSet<String>,
}

impl House {
    pub(super) fn read(root: &Path, of: &Crate) -> Result<Self> {
        let mut files = Vec::new();
        for (folder, mount) in of.mounts {
            for Source { path, text } in sources::below(root, folder, &["rs"])? {
                let name = module_of(mount, Path::new(&path).strip_prefix(folder)?);
                let tree = syn::parse_file(&text).with_context(|| format!("reading {path}"))?;
                files.push(File { name, text, tree });
            }
        }
        Self::of(files)
    }

    fn of(files: Vec<File>) -> Result<Self> {
        let modules: BTreeSet<&str> = files.iter().map(|file| file.name.as_str()).collect();
        let (mut named, mut imports) = (BTreeMap::new(), Graph::default());
        let mut types = Types::default();
        for file in &files {
            let paths = imports::of(&file.name, &file.tree, &modules);
            let used = imports::modules_of(&paths, &modules);
            imports.add(&file.name, &file.name, "");
            for (module, item) in &used {
                imports.add(&file.name, module, item);
            }
            types.add(&file.name, &file.tree, used.into_keys().collect());
            named.insert(file.name.clone(), paths);
        }
        for file in &files {
            types.add_methods(&file.name, &file.tree);
        }
        let (mut all, mut unclear) = (imports.clone(), BTreeSet::new());
        let mut strangers = BTreeSet::new();
        for file in &files {
            for (name, owner) in types.owners(&file.name, &file.tree) {
                if !is_inside(&file.name, &owner) {
                    strangers.insert((file.name.clone(), name, owner));
                }
            }
            let uses = methods::of(&file.name, &file.tree, &types);
            for (module, what) in uses.modules {
                all.add(&file.name, &module, &format!(".{what}"));
            }
            unclear.extend(uses.unclear);
        }
        Ok(Self {
            files,
            named,
            imports,
            all,
            strangers,
            unclear,
        })
    }

    pub(super) fn lines(&self, circle: &BTreeSet<&str>) -> usize {
        let files = self.files.iter();
        let inside = files.filter(|file| circle.contains(file.name.as_str()));
        inside.map(|file| file.text.lines().count()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Floors, *};

    fn house(files: &[(&str, &str)]) -> House {
        let files = files.iter().map(|(name, text)| File {
            name: (*name).to_owned(),
            text: (*text).to_owned(),
            tree: syn::parse_file(text).unwrap(),
        });
        House::of(files.collect()).unwrap()
    }

    /// The files that each file uses.
    fn uses(files: &[(&str, &str)]) -> Vec<String> {
        let house = house(files);
        let all = house.all.edges();
        all.map(|(from, to, _)| format!("{from} {to}")).collect()
    }

    const OBJECT: (&str, &str) = (
        "object",
        "pub struct Sock { inner: Mutex<Inner> } pub struct Inner { pub len: u32 }
         pub trait Events { fn on_end(&self); }",
    );

    #[test]
    fn methods_of_known_types() {
        let sock = (
            "sock",
            "use crate::object::Sock; impl Sock { pub fn push(&self) -> &Inner { todo() } }",
        );
        for body in [
            "fn f(sock: &Arc<Sock>) { sock.push(); }",
            "fn f() { let sock: Sock = g(); assert!(sock.push().is_some()); }",
            "struct A { sock: Option<Sock> }
             impl A { fn f(&self) { if let Some(sock) = &self.sock { sock.push() } } }",
            "fn f() { Sock::push(&g()); }",
        ] {
            let text = format!("use crate::object::Sock; {body}");
            assert!(uses(&[OBJECT, sock, ("link", &text)]).contains(&"link sock".into()));
        }
        // Another type has one of this name, too.
        let list = (
            "list",
            "pub struct List; impl List { pub fn push(&self) {} }",
        );
        let user = (
            "link",
            "use crate::list::List; fn f(list: &List) { list.push(); }",
        );
        assert_eq!(
            uses(&[OBJECT, sock, list, user]),
            ["link list", "sock object"]
        );
    }

    #[test]
    fn methods_in_closures() {
        let object = (
            "object",
            "pub struct Sock; pub struct Inner;
             impl Sock { pub fn drive<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R { f() } }",
        );
        let end = (
            "end",
            "use crate::object::{Inner, Sock};
             impl Inner { fn settle(&mut self) {} } impl Sock { fn end(&self) {} }",
        );
        let other = (
            "other",
            "pub struct Other; impl Other { fn settle(&self) {} }",
        );
        let user = (
            "link",
            "use crate::object::Sock; fn f(sock: &Sock) { sock.drive(|inner| inner.settle()); }",
        );
        assert_eq!(
            uses(&[object, end, other, user]),
            ["end object", "link end", "link object"]
        );
    }

    #[test]
    fn methods_by_their_names() {
        let sock = (
            "sock",
            "use crate::object::Sock; impl Sock { fn skip_urgent(&self) {} fn len(&self) {} }",
        );
        let user = ("link", "fn f() { g().skip_urgent(); g().len() }");
        assert_eq!(uses(&[OBJECT, sock, user]), ["link sock", "sock object"]);
    }

    #[test]
    fn fields_and_traits() {
        let user = (
            "link",
            "use crate::object::Sock; fn f(s: &Sock) { s.inner.lock().len; }",
        );
        assert_eq!(uses(&[OBJECT, user]), ["link object"]);
        // A call through a trait is one of the file that has the trait.
        let above = (
            "sock",
            "use crate::object::Events; struct A; impl Events for A { fn on_end(&self) {} }",
        );
        let below = (
            "link",
            "use crate::object::Events; fn f<T: Events>(t: &T) { t.on_end(); }",
        );
        assert_eq!(
            uses(&[OBJECT, above, below]),
            ["link object", "sock object"]
        );
    }

    #[test]
    fn methods_outside_of_the_folder_of_their_type() {
        let text = "use crate::object::Sock; impl Sock { fn f(&self) {} }
                    impl Events for Sock { fn on_end(&self) {} }";
        let strangers = |name| house(&[OBJECT, (name, text)]).strangers;
        assert!(strangers("object::end").is_empty());
        let found = ["link", "Sock", "object"].map(str::to_owned);
        let [name, ty, owner] = found;
        assert_eq!(strangers("link"), [(name, ty, owner)].into());
    }

    #[test]
    fn a_circle_by_methods() {
        let sock = (
            "sock",
            "use crate::object::Sock; impl Sock { pub fn end(&self) {} }",
        );
        let object = (
            "object",
            "pub struct Sock; fn f(sock: &Sock) { sock.end(); }",
        );
        let house = house(&[object, sock]);
        assert!(house.imports.circles().is_empty());
        assert_eq!(house.all.circles(), [["object", "sock"].into()]);
        let floors = "### F\n| a | b |\n|---|---|\n| a | `sock` |\n| b | `object` |\n";
        let floors = Floors::read(floors, "### F").unwrap();
        let fault = "object uses .end of sock, but sock stands above object in ARCHITECTURE.md";
        assert_eq!(house.judge_floors(&floors), [fault]);
    }
}
