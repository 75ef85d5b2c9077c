// SPDX-License-Identifier: MIT

//! Whether the library reaches a program. The dynamic linker must load it, and the program must
//! make its calls through the C library.

use object::elf::{FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache, ReadRef};
use std::env;
use std::ffi::{CString, OsStr};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The reason why the library is not loaded, or not called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreached {
    Static,
    Go,
    Narrow,
    Privileged,
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Static => "is statically linked",
            Self::Go => "is a Go program",
            Self::Narrow => "is a 32-bit program",
            Self::Privileged => "has rights that its user has not",
        })
    }
}

/// The kernel's limit for scripts with a script as their interpreter.
const SCRIPTS: usize = 5;

/// The reason why the library does not reach `program`, looked up as execvp() would. There is none
/// if the file cannot be read: running it will report the error.
pub(crate) fn unreached(program: &OsStr) -> Option<Unreached> {
    let path = executed(program)?;
    if is_privileged(&path)? {
        Some(Unreached::Privileged)
    } else {
        of_file(&path)
    }
}

/// Whether musl's dynamic linker will load `program`, and with it musl as the C library.
pub(crate) fn is_of_musl(program: &OsStr) -> bool {
    let file = executed(program).and_then(|path| File::open(path).ok());
    file.is_some_and(|file| linker_is_of_musl(&ReadCache::new(file)))
}

/// The file that runs: the one of `program`, or the interpreter of a script.
fn executed(program: &OsStr) -> Option<PathBuf> {
    let mut path = find(program)?;
    for _ in 0..SCRIPTS {
        match interpreter(&path) {
            Some(next) => path = next,
            None => return Some(path),
        }
    }
    None
}

/// The file of a name: a path, or the first executable in the directories of PATH.
fn find(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(program.into());
    }
    let directories = env::var_os("PATH").unwrap_or("/bin:/usr/bin".into());
    env::split_paths(&directories)
        .map(|directory| directory.join(program))
        .find(|path| path.is_file() && may_run(path))
}

fn may_run(path: &Path) -> bool {
    // SAFETY: A C string.
    with_c_string(path, |path| unsafe { libc::access(path, libc::X_OK) == 0 })
}

fn with_c_string(path: &Path, ask: impl FnOnce(*const libc::c_char) -> bool) -> bool {
    CString::new(path.as_os_str().as_bytes()).is_ok_and(|path| ask(path.as_ptr()))
}

/// The interpreter in the first line of a script.
fn interpreter(path: &Path) -> Option<PathBuf> {
    // The length that the kernel reads.
    let mut start = Vec::new();
    File::open(path)
        .ok()?
        .take(256)
        .read_to_end(&mut start)
        .ok()?;
    let line = start.strip_prefix(b"#!")?;
    let line = line.split(|byte| *byte == b'\n').next()?;
    let name = line
        .split(|byte| matches!(byte, b' ' | b'\t' | b'\0'))
        .find(|word| !word.is_empty())?;
    Some(OsStr::from_bytes(name).into())
}

/// Whether the dynamic linker will run in secure mode, in which it ignores libraries that the user
/// names by path.
fn is_privileged(path: &Path) -> Option<bool> {
    let metadata = path.metadata().ok()?;
    // SAFETY: They have no conditions.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let is_of_another = |bit, own, runner| metadata.mode() & bit != 0 && own != runner;
    Some(
        is_of_another(libc::S_ISUID, metadata.uid(), user)
            || is_of_another(libc::S_ISGID, metadata.gid(), group)
            || user != 0 && has_capabilities(path),
    )
}

fn has_capabilities(path: &Path) -> bool {
    let name = c"security.capability".as_ptr();
    // SAFETY: C strings, and no room to write to.
    with_c_string(path, |path| unsafe {
        libc::getxattr(path, name, core::ptr::null_mut(), 0) > 0
    })
}

fn of_file(path: &Path) -> Option<Unreached> {
    // Only the needed parts of the file are read.
    of_elf(&ReadCache::new(File::open(path).ok()?))
}

fn of_elf<'data>(file: impl ReadRef<'data>) -> Option<Unreached> {
    match FileKind::parse(file).ok()? {
        FileKind::Elf32 => return Some(Unreached::Narrow),
        FileKind::Elf64 => {}
        _ => return None,
    }
    let header = FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, file).ok()?;
    let is_go = segments.iter().any(|segment| {
        let notes = segment.notes(endian, file).ok().flatten();
        notes.is_some_and(|mut notes| {
            core::iter::from_fn(|| notes.next().ok().flatten()).any(|note| note.name() == b"Go")
        })
    });
    let is_dynamic = segments
        .iter()
        .any(|segment| segment.p_type(endian) == PT_INTERP);
    match (is_go, is_dynamic) {
        (true, _) => Some(Unreached::Go),
        (false, false) => Some(Unreached::Static),
        (false, true) => None,
    }
}

/// Whether the file names musl's dynamic linker, which is /lib/ld-musl-ARCHITECTURE.so.1.
fn linker_is_of_musl<'data>(file: impl ReadRef<'data>) -> bool {
    let Ok(header) = FileHeader64::<Endianness>::parse(file) else {
        return false;
    };
    let segments = header.endian().and_then(|endian| {
        let segments = header.program_headers(endian, file)?;
        Ok((endian, segments))
    });
    segments.is_ok_and(|(endian, segments)| {
        segments.iter().any(|segment| {
            let linker = segment.interpreter(endian, file).ok().flatten();
            linker.is_some_and(|path| path.split(|byte| *byte == b'/').any(is_musl))
        })
    })
}

fn is_musl(name: &[u8]) -> bool {
    name.starts_with(b"ld-musl-")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a panic is how a test fails")]

    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// This test program, which is dynamically linked.
    fn own() -> Vec<u8> {
        fs::read("/proc/self/exe").expect("it runs")
    }

    #[test]
    fn dynamic_programs_are_reached_and_others_are_not() {
        assert_eq!(of_elf(&*own()), None);
        let header = FileHeader64::<Endianness>::parse(&*own()).copied();
        let header = header.expect("an ELF file");
        let endian = header.endian().expect("it has one");
        let offset = usize::try_from(header.e_phoff.get(endian)).expect("it is near");
        let size = usize::from(header.e_phentsize.get(endian));
        let count = usize::from(header.e_phnum.get(endian));
        let is_interpreter = |kind: &[u8]| kind == PT_INTERP.to_le_bytes();

        let mut fixed = own();
        let mut found = false;
        for at in (offset..).step_by(size).take(count) {
            let kind = fixed.get_mut(at..at + 4).expect("a program header");
            if is_interpreter(kind) {
                kind.fill(0);
                found = true;
            }
        }
        assert!(found, "this program has no interpreter");
        assert_eq!(of_elf(&*fixed), Some(Unreached::Static));

        let mut narrow = own();
        *narrow.get_mut(4).expect("the class") = 1;
        assert_eq!(of_elf(&*narrow), Some(Unreached::Narrow));
        assert_eq!(of_elf(&b"no program"[..]), None);
        assert_eq!(of_elf(&b""[..]), None);
        assert_eq!(of_elf(own().get(..100).expect("it is longer")), None);
    }

    #[test]
    fn the_dynamic_linker_tells_a_program_of_musl() {
        let mut other = own();
        assert!(!linker_is_of_musl(&*other));
        let (glibc, musl) = (b"/ld-linux-", b"/ld-musl-x");
        let at = other.windows(glibc.len()).position(|bytes| bytes == glibc);
        let at = at.expect("glibc's linker");
        other
            .get_mut(at..at + musl.len())
            .expect("found there")
            .copy_from_slice(musl);
        assert!(linker_is_of_musl(&*other));
        assert!(!linker_is_of_musl(&b"no program"[..]));
        assert!(!linker_is_of_musl(own().get(..100).expect("it is longer")));
        assert!(!is_of_musl(OsStr::new("sh")));
        assert!(!is_of_musl(OsStr::new("no-program-has-this-name")));
    }

    #[test]
    fn the_note_of_the_go_linker_tells_a_go_program() {
        let mut go = own();
        // A note: the sizes of its name and its description, its type, its name.
        let at = go
            .windows(8)
            .position(|bytes| bytes == b"\x03\0\0\0GNU\0" || bytes == b"\x01\0\0\0GNU\0")
            .expect("the linker leaves a note");
        go.get_mut(at + 4..at + 8)
            .expect("found there")
            .copy_from_slice(b"Go\0\0");
        assert_eq!(of_elf(&*go), Some(Unreached::Go));
    }

    #[test]
    fn a_script_is_its_interpreter() {
        let directory = env::temp_dir().join(format!("sdp-reach-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let script = directory.join("script");
        let write = |text: &str| fs::write(&script, text).expect("it is ours");
        let next = || interpreter(&script);
        write("#! /bin/sh -e\nexit\n");
        assert_eq!(next(), Some("/bin/sh".into()));
        write("#!/usr/bin/env python3");
        assert_eq!(next(), Some("/usr/bin/env".into()));
        write("exit\n");
        assert_eq!(next(), None);
        // A script that is its own interpreter must not cause a loop.
        write(&format!("#!{}\n", script.display()));
        assert_eq!(unreached(script.as_os_str()), None);
        assert!(!may_run(&script));
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it is ours");
        assert!(may_run(&script));
        fs::remove_dir_all(&directory).expect("it is ours");
        assert_eq!(unreached(script.as_os_str()), None);
    }

    #[test]
    fn programs_are_found_as_the_shell_finds_them() {
        assert_eq!(find(OsStr::new("./here")), Some("./here".into()));
        assert_eq!(find(OsStr::new("no-program-has-this-name")), None);
        let shell = find(OsStr::new("sh")).expect("a shell");
        assert!(shell.is_absolute() && shell.ends_with("sh"));
        assert_eq!(unreached(OsStr::new("sh")), None);
    }

    #[test]
    fn a_bit_of_another_user_is_a_right() {
        let directory = env::temp_dir().join(format!("sdp-rights-{}", std::process::id()));
        fs::write(&directory, "").expect("a file");
        for mode in [0o755, 0o4755, 0o2755] {
            fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).expect("ours");
            // On a file of the caller's own these bits give no further privileges.
            assert_eq!(is_privileged(&directory), Some(false));
        }
        fs::remove_file(&directory).expect("it is ours");
        assert_eq!(is_privileged(&directory), None);
    }
}
