// SPDX-License-Identifier: MIT

//! The network namespaces of the machine, as far as the caller may see them: of all processes, and those
//! with a name of ip-netns(8).

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;

use nix::sched::{setns, CloneFlags};

use crate::names;

/// A network namespace, with a process in it or its name.
pub(crate) struct Namespace {
    file: File,
    pub(crate) inode: u64,
    words: String,
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "net:[{}] {}", self.inode, names::printable(&self.words))
    }
}

impl Namespace {
    /// Enters it with the calling thread.
    pub(crate) fn enter(&self) -> io::Result<()> {
        Ok(setns(&self.file, CloneFlags::CLONE_NEWNET)?)
    }
}

/// The number of a process, its name and its control group, which tells the container.
fn words_of(pid: u32) -> String {
    let read = |file| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let (name, groups) = (read("comm"), read("cgroup"));
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"));
    format!("pid {pid} \"{}\" {}", name.trim_end(), group.unwrap_or(""))
}

fn names_in(directory: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name());
    names.filter_map(|name| name.into_string().ok()).collect()
}

/// All of them, each once. Processes that end meanwhile, or may not be read, are skipped.
pub(crate) fn all() -> Vec<Namespace> {
    let mut found = BTreeMap::new();
    let mut add = |path: String, words: &dyn Fn() -> String| {
        let Ok(file) = File::open(path) else { return };
        let Ok(inode) = file.metadata().map(|data| data.ino()) else {
            return;
        };
        found.entry(inode).or_insert_with(|| Namespace {
            file,
            inode,
            words: words(),
        });
    };
    let mut pids: Vec<u32> = names_in("/proc")
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    // The first process of a container is the first one that was started.
    pids.sort_unstable();
    for pid in pids {
        add(format!("/proc/{pid}/ns/net"), &|| words_of(pid));
    }
    for name in names_in("/run/netns") {
        add(format!("/run/netns/{name}"), &|| name.clone());
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_namespace_is_found_once() {
        let own = fs::metadata("/proc/self/ns/net").map(|data| data.ino());
        let own = own.unwrap_or_default();
        let count = all().iter().filter(|one| one.inode == own).count();
        assert_eq!(count, 1);
    }

    #[test]
    fn a_process_is_told_by_name_and_group() {
        let words = words_of(std::process::id());
        assert!(
            words.starts_with(&format!("pid {} \"", std::process::id())),
            "{words}"
        );
    }
}
