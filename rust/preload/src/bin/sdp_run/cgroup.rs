// SPDX-License-Identifier: MIT

//! The cgroup with the switched processes: one named by the user, or a new one below this
//! process's cgroup.

use crate::descriptor::given;
use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process;

/// The file of a cgroup that lists its processes. A process moves by writing to it.
const PROCESSES: &str = "cgroup.procs";

/// A cgroup of version 2.
pub(crate) struct Cgroup {
    directory: PathBuf,
    /// Made by this process, which must remove it.
    own: bool,
    /// Keeps the directory's path valid if it is on a mount made by this process.
    mount: Option<OwnedFd>,
}

impl Cgroup {
    /// The cgroup with the directory that the user names.
    pub(crate) fn named(directory: &Path) -> Result<Self, String> {
        let cgroup = directory
            .canonicalize()
            .map(|directory| Self {
                directory,
                own: false,
                mount: None,
            })
            .map_err(|error| format!("{}: {error}", directory.display()))?;
        if cgroup.directory.join("cgroup.events").exists() {
            Ok(cgroup)
        } else {
            Err(format!("{} is no cgroup", directory.display()))
        }
    }

    /// A new cgroup below this process's.
    pub(crate) fn new() -> Result<Self, String> {
        let said = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let here = path_in(&said).ok_or("this process is in no cgroup of version 2")?;
        let (top, mount) = match mounted().map(|top| top.join(here)) {
            Some(directory) if directory.join(PROCESSES).exists() => (directory, None),
            // Not visible, for example after `ip netns exec`, which mounts another /sys.
            _ => {
                let mount =
                    mount().map_err(|error| format!("no cgroup file system in sight: {error}"))?;
                let top = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
                (top.join(here), Some(mount))
            }
        };
        let directory = new_in(&top, &format!("sdp_run.{}", process::id()))
            .map_err(|error| format!("cannot make a cgroup: {error}"))?;
        Ok(Self {
            directory,
            own: true,
            mount,
        })
    }

    pub(crate) fn open(&self) -> Result<File, String> {
        File::open(&self.directory)
            .map_err(|error| format!("{}: {error}", self.directory.display()))
    }

    /// Moves this process into it.
    pub(crate) fn enter(&self) -> Result<(), String> {
        fs::write(self.directory.join(PROCESSES), "0")
            .map_err(|error| format!("cannot enter {}: {error}", self.directory.display()))
    }

    /// The file that says whether the cgroup has processes.
    pub(crate) fn events(&self) -> io::Result<File> {
        File::open(self.directory.join("cgroup.events"))
    }

    /// The descriptor that must stay open for the path to stay valid.
    pub(crate) fn descriptor(&self) -> Option<&OwnedFd> {
        self.mount.as_ref()
    }

    /// It was made here, and is removed when it is empty.
    pub(crate) fn is_own(&self) -> bool {
        self.own
    }

    /// Moves this process out of the cgroup that the user has named, if it is in it or below it, to
    /// the topmost cgroup without controllers for children. Returns whether it is out.
    pub(crate) fn leave(&self) -> bool {
        if self.own || !self.has(|pid| pid == process::id()) {
            return true;
        }
        let tops = self.directory.ancestors();
        tops.take_while(|top| top.join(PROCESSES).exists())
            .last()
            .is_some_and(|top| fs::write(top.join(PROCESSES), "0").is_ok())
            && !self.has(|pid| pid == process::id())
    }

    /// Whether a process other than this one is in it or below it.
    pub(crate) fn has_others(&self) -> bool {
        self.has(|pid| pid != process::id())
    }

    fn has(&self, what: impl Fn(u32) -> bool) -> bool {
        let mut directories = vec![self.directory.clone()];
        while let Some(directory) = directories.pop() {
            let processes = fs::read_to_string(directory.join(PROCESSES)).unwrap_or_default();
            // Processes of another PID namespace are listed as 0.
            if processes.lines().flat_map(str::parse).any(&what) {
                return true;
            }
            let below = fs::read_dir(&directory).into_iter().flatten().flatten();
            directories.extend(
                below
                    .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                    .map(|entry| entry.path()),
            );
        }
        false
    }

    /// Removes it; it has no processes.
    pub(crate) fn remove(&self) {
        if self.own {
            // A cgroup that the program made in it, and left behind, prevents the removal.
            let _ = fs::remove_dir(&self.directory);
        }
    }
}

/// A new directory of that name, or of that name and a number, because a process of another PID
/// namespace may have the same process ID as this one.
fn new_in(top: &Path, name: &str) -> io::Result<PathBuf> {
    const TRIES: u32 = 1000;

    let mut made = top.join(name);
    for number in 1..=TRIES {
        match fs::create_dir(&made) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                made = top.join(format!("{name}.{number}"));
            }
            result => return result.map(|()| made),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// The path after `0::/` in /proc/self/cgroup.
fn path_in(said: &str) -> Option<&str> {
    said.lines().find_map(|line| line.strip_prefix("0::/"))
}

/// The mount point of the root of cgroup version 2.
fn mounted() -> Option<PathBuf> {
    mounted_in(&fs::read_to_string("/proc/self/mountinfo").ok()?)
}

fn mounted_in(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut words = place.split(' ').skip(3);
        let (root, directory) = (words.next()?, words.next()?);
        (kind.starts_with("cgroup2 ") && root == "/").then(|| directory.into())
    })
}

/// Mounts cgroup version 2 where only this process sees it.
fn mount() -> io::Result<OwnedFd> {
    const FSOPEN_CLOEXEC: u32 = 1;
    const FSCONFIG_CMD_CREATE: u32 = 6;
    const FSMOUNT_CLOEXEC: u32 = 1;
    const NAME: &CStr = c"cgroup2";

    // SAFETY: The name is a C string; the call returns a new descriptor.
    let context = unsafe {
        given(libc::syscall(
            libc::SYS_fsopen,
            NAME.as_ptr(),
            FSOPEN_CLOEXEC,
        ))
    }?;
    // SAFETY: The command takes no arguments.
    let created = unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            FSCONFIG_CMD_CREATE,
            core::ptr::null::<u8>(),
            core::ptr::null::<u8>(),
            0,
        )
    };
    if created != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: Three numbers; the call returns a new descriptor.
    unsafe {
        given(libc::syscall(
            libc::SYS_fsmount,
            context.as_raw_fd(),
            FSMOUNT_CLOEXEC,
            0,
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn a_name_that_is_taken_gets_a_number() {
        let top = std::env::temp_dir().join(format!("sdp_run-cgroup-{}", process::id()));
        assert!(new_in(&top, "sdp_run.7").is_err());
        fs::create_dir(&top).expect("a directory can be made");
        for name in ["sdp_run.7", "sdp_run.7.1", "sdp_run.7.2"] {
            assert_eq!(new_in(&top, "sdp_run.7").ok(), Some(top.join(name)));
        }
        fs::remove_dir_all(&top).expect("the directory can be removed");
    }

    #[test]
    fn the_path_is_that_of_version_2() {
        assert_eq!(path_in("0::/\n"), Some(""));
        let both = "4:memory:/old\n1:name=systemd:/x\n0::/user.slice/a b\n";
        assert_eq!(path_in(both), Some("user.slice/a b"));
        assert_eq!(path_in("4:memory:/old\n"), None);
    }

    #[test]
    fn the_mount_is_that_of_version_2_from_its_root_on() {
        let one = "31 24 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
        let part = "40 24 0:27 /docker/1 /part rw - cgroup2 cgroup2 rw\n";
        let old = "33 24 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        assert_eq!(mounted_in(one), Some("/sys/fs/cgroup".into()));
        assert_eq!(
            mounted_in(&format!("{part}{old}{one}")),
            Some("/sys/fs/cgroup".into())
        );
        assert_eq!(mounted_in(&format!("{old}{part}")), None);
    }

    #[test]
    fn a_directory_of_another_kind_is_no_cgroup() {
        assert!(Cgroup::named(Path::new("/")).is_err());
        assert!(Cgroup::named(Path::new("/nonexistent")).is_err());
    }
}
