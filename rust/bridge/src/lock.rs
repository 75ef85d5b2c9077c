// SPDX-License-Identifier: MIT

//! The lock that only one daemon of a bridge has. The kernel releases it with the process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

pub(crate) struct Lock {
    path: String,
    _file: Flock<File>,
}

impl Lock {
    /// `WouldBlock` if another process has it.
    pub(crate) fn take(path: String) -> io::Result<Self> {
        loop {
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)?;
            let file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(file) => file,
                Err((_, Errno::EAGAIN)) => return Err(ErrorKind::WouldBlock.into()),
                Err((_, error)) => return Err(error.into()),
            };
            // Its last owner may have removed it meanwhile.
            let inode = file.metadata()?.ino();
            match fs::metadata(&path) {
                Ok(there) if there.ino() == inode => return Ok(Self { path, _file: file }),
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A file that stays is harmless: the lock ends with the descriptor.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a panic is how a test fails")]

    use super::*;

    #[test]
    fn the_second_is_refused_until_the_first_has_ended() {
        let path = std::env::temp_dir().join(format!("rlo-bridge-{}", std::process::id()));
        let path = path.to_str().expect("a plain path").to_owned();
        let first = Lock::take(path.clone()).expect("the first has it");
        let second = Lock::take(path.clone()).map_err(|e| e.kind());
        assert_eq!(second.err(), Some(ErrorKind::WouldBlock));
        drop(first);
        assert!(fs::metadata(&path).is_err());
        drop(Lock::take(path).expect("it is free again"));
    }
}
