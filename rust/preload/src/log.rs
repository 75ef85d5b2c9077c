// SPDX-License-Identifier: MIT

//! Where messages go: stderr, the system's log or a file; never stdout.
//!
//! Each line names the process and the program, because many processes share a log: `libsdp[1234]:
//! nginx: ...`.
//!
//! No descriptor is kept open, because programs expect certain descriptor numbers and close
//! descriptors that they do not know. File and system log are opened for each message.

use crate::config::Destination;
use crate::text::Line;
use crate::{options, uapi};
use core::ffi::CStr;
use core::fmt::{self, Write};
use core::mem::zeroed;
use core::ptr::{from_ref, null_mut};
use libc::c_int;
use std::ffi::CString;

/// libsdp's levels that are used here.
pub(crate) mod level {
    /// Errors that the user must correct.
    pub(crate) const ERROR: u32 = 9;
    /// Settings that the user may not have intended.
    pub(crate) const WARNING: u32 = 8;
    /// The transport of a socket.
    pub(crate) const SUMMARY: u32 = 7;
    /// Which rule matched.
    pub(crate) const MATCH: u32 = 4;
    /// No rule matched.
    pub(crate) const NO_MATCH: u32 = 3;
    /// The calls and their results.
    pub(crate) const CALL: u32 = 2;

    /// The severity that syslog(3) has for a level.
    pub(super) const fn severity(level: u32) -> i32 {
        match level {
            ERROR.. => libc::LOG_ERR,
            WARNING => libc::LOG_WARNING,
            SUMMARY => libc::LOG_INFO,
            _ => libc::LOG_DEBUG,
        }
    }
}

#[derive(Debug)]
enum Sink {
    Stderr,
    Syslog,
    /// The name from the rules; its directory depends on the user.
    File(CString),
}

/// A log.
#[derive(Debug)]
pub(crate) struct Log {
    /// The program, in printable characters.
    program: Box<str>,
    sink: Sink,
    min_level: u32,
}

impl Log {
    pub(crate) fn to_stderr(program: &CStr, min_level: u32) -> Self {
        let name = program.to_string_lossy();
        Self {
            program: name.replace(char::is_control, "?").into(),
            sink: Sink::Stderr,
            min_level,
        }
    }

    pub(crate) fn set_destination(&mut self, destination: Destination) {
        self.sink = match destination {
            Destination::Stderr => Sink::Stderr,
            Destination::Syslog => Sink::Syslog,
            Destination::File(name) => Sink::File(name),
        };
    }

    pub(crate) fn set_min_level(&mut self, level: u32) {
        self.min_level = level;
    }

    pub(crate) const fn wants(&self, level: u32) -> bool {
        level >= self.min_level
    }

    /// Writes a message if its level is enabled. Changes errno.
    pub(crate) fn say(&self, level: u32, message: fmt::Arguments<'_>) {
        if !self.wants(level) {
            return;
        }
        let mut line = Line::new();
        // Writing to a `Line` cannot fail: text that does not fit is cut off.
        if matches!(self.sink, Sink::Syslog) {
            let _ = write!(line, "<{}>", libc::LOG_USER | level::severity(level));
        }
        let (process, program) = (std::process::id(), &self.program);
        let _ = write!(line, "libsdp[{process}]: {program}: {message}");
        match &self.sink {
            // A server may use a client's connection as its program's standard error.
            Sink::Stderr if is_connection(libc::STDERR_FILENO) => {}
            Sink::Stderr => {
                line.end();
                write_all(libc::STDERR_FILENO, line.bytes());
            }
            Sink::Syslog => send_to_syslog(line.bytes()),
            Sink::File(name) => {
                line.end();
                append(name, line.bytes());
            }
        }
    }
}

/// Whether written bytes would become part of the protocol of a connection.
fn is_connection(fd: c_int) -> bool {
    matches!(
        options::get(fd, libc::SOL_SOCKET, libc::SO_DOMAIN),
        Some(libc::AF_INET | libc::AF_INET6 | uapi::AF_INET_SDP)
    )
}

/// Writes, and hides from the program the signals of a pipe without a reader and of a file that
/// reached its size limit, because the program did not write.
fn write_all(fd: c_int, text: &[u8]) {
    // SAFETY: All-zero sets are valid ones.
    let (mut kept, mut pending, mut before): (libc::sigset_t, libc::sigset_t, libc::sigset_t) =
        unsafe { (zeroed(), zeroed(), zeroed()) };
    // SAFETY: The sets are valid, and signals of these numbers exist.
    let is_kept = unsafe {
        libc::sigemptyset(&raw mut kept);
        libc::sigaddset(&raw mut kept, libc::SIGPIPE);
        libc::sigaddset(&raw mut kept, libc::SIGXFSZ);
        libc::sigpending(&raw mut pending);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const kept, &raw mut before) == 0
    };
    if !is_kept {
        return;
    }
    // SAFETY: `text` is valid for reads of its length. The result of write() is ignored, because a
    // failure cannot be reported anywhere.
    let _ = unsafe { libc::write(fd, text.as_ptr().cast(), text.len()) };
    for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
        let now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: The sets and the time are valid; this does not wait.
        unsafe {
            if libc::sigismember(&raw const pending, signal) == 0 {
                libc::sigemptyset(&raw mut kept);
                libc::sigaddset(&raw mut kept, signal);
                libc::sigtimedwait(&raw const kept, null_mut(), &raw const now);
            }
        }
    }
    // SAFETY: The set was filled by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, null_mut()) };
}

/// A path on the stack, of up to the maximum length.
struct Place {
    bytes: [u8; Self::ROOM],
    used: usize,
}

impl Place {
    const ROOM: usize = 4096;

    const fn new() -> Self {
        Self {
            bytes: [0; Self::ROOM],
            used: 0,
        }
    }

    fn add(&mut self, text: &[u8]) {
        let room = self.bytes.iter_mut().skip(self.used);
        for (place, byte) in room.zip(text) {
            *place = *byte;
        }
        self.used = self.used.saturating_add(text.len());
    }

    /// The path, unless it is too long.
    fn path(&self) -> Option<&CStr> {
        CStr::from_bytes_until_nul(&self.bytes).ok()
    }
}

impl Write for Place {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.add(text.as_bytes());
        Ok(())
    }
}

/// The file of root, or the directory of another user.
///
/// Root's file is in /var/log if it is named without a directory. Other users have a directory of
/// their own, as in libsdp, because every user can write to /tmp. A directory that root names is
/// used; libsdp ignores it and writes to /var/log.
fn place(name: &CStr, user: u32) -> Place {
    let name = name.to_bytes();
    let mut place = Place::new();
    if !name.contains(&b'/') {
        place.add(if user == 0 { b"/var/log/" } else { b"/tmp/" });
    }
    place.add(name);
    if user != 0 {
        let _ = write!(place, ".{user}");
    }
    place
}

/// Appends to a file if it belongs to this user, is not a link, and is closed to others. The user
/// may change, because servers drop root's privileges.
fn append(name: &CStr, text: &[u8]) {
    // SAFETY: It has no conditions.
    let user = unsafe { libc::geteuid() };
    let mut place = place(name, user);
    if user != 0 {
        let Some(directory) = place.path() else {
            return;
        };
        // SAFETY: A C string. If it exists already, that is no error.
        unsafe { libc::mkdir(directory.as_ptr(), 0o700) };
        if !is_private_directory(directory) {
            return;
        }
        place.add(b"/log");
    }
    let Some(path) = place.path() else {
        return;
    };
    let flags =
        libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: A C string.
    let fd = unsafe { libc::open(path.as_ptr(), flags | libc::O_NONBLOCK, 0o600) };
    if fd < 0 {
        return;
    }
    if is_private_file(fd) {
        write_all(fd, text);
    }
    // SAFETY: Opened above, and not closed since.
    unsafe { libc::close(fd) };
}

fn is_private_directory(path: &CStr) -> bool {
    // SAFETY: A C string, and a stat to write to.
    is_private(libc::S_IFDIR, |stat| unsafe {
        libc::lstat(path.as_ptr(), stat)
    })
}

/// Checks the opened file, because its name may lead to another one by now.
fn is_private_file(fd: c_int) -> bool {
    // SAFETY: A stat to write to.
    is_private(libc::S_IFREG, |stat| unsafe { libc::fstat(fd, stat) })
}

/// Whether the file that `look` finds has this type, belongs to this user, and is closed to others.
fn is_private(kind: libc::mode_t, look: impl FnOnce(*mut libc::stat) -> c_int) -> bool {
    // SAFETY: An all-zero stat is a valid one.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    let result = look(&raw mut stat);
    // SAFETY: It has no conditions.
    let user = unsafe { libc::geteuid() };
    result == 0
        && stat.st_mode & libc::S_IFMT == kind
        && stat.st_uid == user
        && stat.st_mode & 0o077 == 0
}

/// syslog() keeps a descriptor and allocates; sending a datagram does neither.
fn send_to_syslog(text: &[u8]) {
    const PATH: &[u8] = b"/dev/log";
    // SAFETY: An all-zero address is a valid one.
    let mut address: libc::sockaddr_un = unsafe { core::mem::zeroed() };
    #[expect(clippy::cast_possible_truncation, reason = "AF_UNIX is one")]
    {
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    }
    for (to, from) in address.sun_path.iter_mut().zip(PATH) {
        *to = libc::c_char::from_ne_bytes([*from]);
    }
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let fd = crate::next::socket(libc::AF_UNIX, kind, 0);
    if fd < 0 {
        return;
    }
    let len = libc::socklen_t::try_from(size_of_val(&address)).unwrap_or_default();
    // SAFETY: `text` and `address` are valid for reads of their lengths, and
    // `fd` was made above.
    unsafe {
        let _ = libc::sendto(
            fd,
            text.as_ptr().cast(),
            text.len(),
            libc::MSG_NOSIGNAL,
            from_ref(&address).cast(),
            len,
        );
        libc::close(fd);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a panic is how a test fails")]

    use super::*;
    use std::fs::{self, OpenOptions};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

    #[test]
    fn files_of_root_and_directories_of_others() {
        let at = |name: &CStr, user| place(name, user).path().map(CString::from);
        assert_eq!(at(c"libsdp.log", 0), Some(c"/var/log/libsdp.log".into()));
        assert_eq!(at(c"/srv/log", 0), Some(c"/srv/log".into()));
        assert_eq!(at(c"libsdp.log", 7), Some(c"/tmp/libsdp.log.7".into()));
        assert_eq!(at(c"/srv/log", 7), Some(c"/srv/log.7".into()));
        // A path has at most 4095 bytes.
        let long = |len| CString::new(vec![b'/'; len]).expect("no zeros");
        assert_eq!(at(&long(4095), 0), Some(long(4095)));
        assert_eq!(at(&long(4096), 0), None);
        assert_eq!(at(&long(4094), 7), None);
    }

    #[test]
    fn the_file_that_was_opened_is_looked_at_not_its_name() {
        let path = std::env::temp_dir().join(format!("sdp-log-{}", std::process::id()));
        let open = |mode| {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(mode);
            options.open(&path).expect("a new file")
        };
        let private = open(0o600);
        fs::remove_file(&path).expect("it is ours");
        let public = open(0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("it is ours");
        let of = |file: &fs::File| is_private_file(file.as_raw_fd());
        assert!(of(&private) && !of(&public));
        fs::remove_file(&path).expect("it is ours");
        assert!(!is_private_file(-1));
    }

    #[test]
    fn levels_have_severities_and_names_no_control_letters() {
        assert_eq!(
            [10, 9, 8, 7, 6, 4, 2].map(|level| libc::LOG_USER | level::severity(level)),
            [11, 11, 12, 14, 15, 15, 15]
        );
        let log = Log::to_stderr(c"a\nb\x1b[2J", level::ERROR);
        assert_eq!(&*log.program, "a?b?[2J");
    }

    #[test]
    fn levels_below_the_least_are_not_wanted() {
        let mut log = Log::to_stderr(c"prog", level::ERROR);
        assert!(log.wants(level::ERROR));
        assert!(!log.wants(level::SUMMARY));
        log.set_min_level(1);
        assert!(log.wants(level::CALL));
    }
}
