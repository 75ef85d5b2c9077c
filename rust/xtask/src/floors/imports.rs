// SPDX-License-Identifier: GPL-2.0

//! The paths inside the crate that a file of the module names.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use syn::{
    visit::{self, Visit},
    ItemMod, ItemUse, Macro, UseTree,
};

/// The files with items at the root of their crate.
const ROOTS: [&str; 2] = ["sdp_main", "rlo_main"];

/// Every path that `file`, the module `name`, names, from the crate's root.
pub(super) fn of(name: &str, file: &syn::File, modules: &BTreeSet<&str>) -> BTreeSet<String> {
    let mut reader = Reader {
        here: if ROOTS.contains(&name) {
            Vec::new()
        } else {
            segments(name)
        },
        modules,
        named: BTreeSet::new(),
    };
    reader.visit_file(file);
    reader.named
}

fn segments(path: &str) -> Vec<String> {
    path.split("::").map(str::to_owned).collect()
}

struct Reader<'a> {
    /// The module that is being read.
    here: Vec<String>,
    modules: &'a BTreeSet<&'a str>,
    named: BTreeSet<String>,
}

impl Reader<'_> {
    /// Enters a path as it is written, if it leads into the crate.
    fn enter(&mut self, path: &[String]) {
        let mut base = self.here.clone();
        let mut rest = path;
        let Some(first) = path.first() else { return };
        match first.as_str() {
            "crate" => {
                base.clear();
                rest = rest.split_first().map_or(rest, |(_, rest)| rest);
            }
            "self" | "super" => {
                while let Some((step, more)) = rest.split_first() {
                    match step.as_str() {
                        "super" => drop(base.pop()),
                        "self" => {}
                        _ => break,
                    }
                    rest = more;
                }
            }
            child => {
                base.push(child.to_owned());
                if !self.modules.contains(base.join("::").as_str()) {
                    return;
                }
                base.pop();
            }
        }
        base.extend(rest.iter().cloned());
        if !base.is_empty() {
            self.named.insert(base.join("::"));
        }
    }

    fn enter_tree(&mut self, tree: &UseTree, path: &mut Vec<String>) {
        match tree {
            UseTree::Path(step) => {
                path.push(step.ident.to_string());
                self.enter_tree(&step.tree, path);
                path.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.enter_tree(tree, path);
                }
            }
            UseTree::Name(name) if name.ident == "self" => self.enter(path),
            UseTree::Name(name) => self.enter_leaf(path, name.ident.to_string()),
            UseTree::Rename(name) => self.enter_leaf(path, name.ident.to_string()),
            UseTree::Glob(_) => self.enter(path),
        }
    }

    fn enter_leaf(&mut self, path: &mut Vec<String>, last: String) {
        path.push(last);
        self.enter(path);
        path.pop();
    }

    /// The inside of a macro is no syntax tree: paths are looked for by their `crate`.
    fn enter_tokens(&mut self, tokens: TokenStream) {
        let mut path: Option<Vec<String>> = None;
        for token in tokens {
            match token {
                TokenTree::Ident(word) if word == "crate" => path = Some(vec![word.to_string()]),
                TokenTree::Ident(word) => {
                    if let Some(path) = path.as_mut() {
                        path.push(word.to_string());
                    }
                    continue;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => continue,
                other => {
                    if let TokenTree::Group(group) = other {
                        self.enter_tokens(group.stream());
                    }
                    self.enter(&path.take().unwrap_or_default());
                }
            }
        }
        self.enter(&path.unwrap_or_default());
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        self.here.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.here.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.enter_tree(&item.tree, &mut Vec::new());
    }

    /// `pub(super)` names no module that is used.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|s| s.ident.to_string()).collect();
        // A name alone is an item of the file; with others it may be a folder's own module.
        if names.len() > 1 {
            self.enter(&names);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        self.enter_tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}

/// The modules that have these paths, or items with these paths.
pub(super) fn modules_of(
    named: &BTreeSet<String>,
    modules: &BTreeSet<&str>,
) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for path in named {
        let mut begin = path.as_str();
        loop {
            if modules.contains(begin) {
                let item = path.strip_prefix(begin).unwrap_or_default();
                let item = item.trim_start_matches("::");
                found.entry(begin.to_owned()).or_insert(item.to_owned());
                break;
            }
            match begin.rsplit_once("::") {
                Some((shorter, _)) => begin = shorter,
                None => break,
            }
        }
    }
    found
}
