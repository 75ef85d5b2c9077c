// SPDX-License-Identifier: GPL-2.0

//! The files of a crate, the files that each uses, and the circles among them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

/// For each file those that it uses, each with one of the names.
#[derive(Default, Clone)]
pub(super) struct Graph {
    edges: BTreeMap<String, BTreeMap<String, String>>,
}

impl Graph {
    pub(super) fn add(&mut self, from: &str, to: &str, what: &str) {
        let known = self.edges.entry(from.to_owned()).or_default();
        if from != to {
            known.entry(to.to_owned()).or_insert(what.to_owned());
        }
    }

    pub(super) fn edges(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.edges.iter().flat_map(|(from, all)| {
            let parts = all.iter();
            parts.map(move |(to, what)| (from.as_str(), to.as_str(), what.as_str()))
        })
    }

    /// Everything that `from` uses, directly or not.
    fn reached(&self, from: &str) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut open = vec![from];
        while let Some(next) = open.pop() {
            for to in self.edges.get(next).into_iter().flat_map(BTreeMap::keys) {
                if found.insert(to.as_str()) {
                    open.push(to);
                }
            }
        }
        found
    }

    /// The circles, the largest first: sets of files that all use each other.
    pub(super) fn circles(&self) -> Vec<BTreeSet<&str>> {
        let all: BTreeMap<&str, BTreeSet<&str>> = self
            .edges
            .keys()
            .map(|file| (file.as_str(), self.reached(file)))
            .collect();
        let mut circles: Vec<BTreeSet<&str>> = Vec::new();
        for (file, reached) in &all {
            if !reached.contains(file) || circles.iter().any(|known| known.contains(file)) {
                continue;
            }
            let circle = reached
                .iter()
                .filter(|other| all.get(*other).is_some_and(|back| back.contains(file)));
            circles.push(circle.copied().collect());
        }
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }

    /// A line for each file, with the files that it uses.
    pub(super) fn print(&self) -> String {
        let mut text = String::new();
        for (from, all) in &self.edges {
            let parts: Vec<String> = all
                .iter()
                .map(|(to, what)| format!("{to} ({what})"))
                .collect();
            let _ = writeln!(text, "  {from}: {}", parts.join(", "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles() {
        let mut graph = Graph::default();
        for (from, to) in [
            ("a", "b"),
            ("b", "c"),
            ("c", "b"),
            ("c", "d"),
            ("d", "d"),
            ("e", "f"),
            ("f", "g"),
            ("g", "e"),
        ] {
            graph.add(from, to, "x");
        }
        let expected: [BTreeSet<&str>; 2] = [["e", "f", "g"].into(), ["b", "c"].into()];
        assert_eq!(graph.circles(), expected);
    }
}
