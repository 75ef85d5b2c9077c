// SPDX-License-Identifier: MIT

//! The processes that have a socket open, by inode, as far as the caller may see them.

use std::collections::HashMap;
use std::fmt;
use std::fs;

use serde::Serialize;

use crate::names;

/// A descriptor of a process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Owner {
    pub(crate) name: String,
    pub(crate) pid: u32,
    pub(crate) fd: u32,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = names::printable(&self.name);
        write!(f, "(\"{name}\",pid={},fd={})", self.pid, self.fd)
    }
}

/// All descriptors of sockets, by inode.
#[derive(Default)]
pub(crate) struct Owners(HashMap<u64, Vec<Owner>>);

/// The inode in the link of a descriptor.
fn inode_of(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?
        .strip_suffix(']')?
        .parse()
        .ok()
}

impl Owners {
    /// Scans all processes once. Processes that end meanwhile, or may not be read, are skipped.
    pub(crate) fn find() -> Self {
        let mut found = Self::default();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        for process in processes {
            if let Some(pid) = process
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            {
                found.look_at(pid);
            }
        }
        found
    }

    fn look_at(&mut self, pid: u32) {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"));
        let mut name = None;
        for descriptor in descriptors.into_iter().flatten().flatten() {
            let Some(fd) = descriptor
                .file_name()
                .to_str()
                .and_then(|fd| fd.parse().ok())
            else {
                continue;
            };
            let link = fs::read_link(descriptor.path());
            let Some(inode) = link.ok().and_then(|link| inode_of(link.to_str()?)) else {
                continue;
            };
            let name = name.get_or_insert_with(|| {
                let bytes = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
                String::from_utf8_lossy(&bytes)
                    .trim_end_matches('\n')
                    .to_owned()
            });
            let name = name.clone();
            self.0
                .entry(inode)
                .or_default()
                .push(Owner { name, pid, fd });
        }
    }

    /// Those that have the socket with this inode.
    pub(crate) fn of(&self, inode: u64) -> &[Owner] {
        self.0.get(&inode).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn own_sockets_are_found() {
        let Ok((one, _other)) = UnixStream::pair() else {
            unreachable!("a pair of sockets");
        };
        let link = fs::read_link(format!("/proc/self/fd/{}", one.as_raw_fd())).unwrap_or_default();
        let inode = inode_of(&link.to_string_lossy()).unwrap_or_default();
        let mut owners = Owners::default();
        owners.look_at(std::process::id());
        let found: Vec<_> = owners.of(inode).iter().map(|owner| owner.pid).collect();
        assert_eq!(found, [std::process::id()]);
        assert!(owners.of(0).is_empty());
    }

    #[test]
    fn links_of_other_kinds_have_no_inode() {
        assert_eq!(inode_of("socket:[17]"), Some(17));
        for link in [
            "pipe:[17]",
            "socket:[]",
            "socket:[17",
            "/dev/null",
            "socket:[-1]",
        ] {
            assert_eq!(inode_of(link), None, "{link}");
        }
    }

    #[test]
    fn a_process_does_not_write_to_the_terminal() {
        let owner = Owner {
            name: "a\x1b]0;b".to_owned(),
            pid: 1,
            fd: 2,
        };
        assert_eq!(owner.to_string(), "(\"a.]0;b\",pid=1,fd=2)");
    }
}
