// SPDX-License-Identifier: MIT

//! Do the parts of the installation match: tools, library, loaded module?

use crate::library;
use crate::report::Report;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadRef};
use std::path::Path;
use std::{env, fs};

/// The version of the tools. The library and the module have the same.
const OWN: &str = env!("CARGO_PKG_VERSION");

/// Compares the module in the file systems below `root` with these tools; `has_sdp` is
/// whether the kernel makes SDP sockets.
pub(crate) fn check(report: &mut Report, root: &Path, has_sdp: bool) {
    let module = root.join("sys/module/sdp");
    if !module.exists() {
        if has_sdp {
            return;
        }
        if let Some(kernel) = without_module(root) {
            report.bad(
                &format!("no module is installed for the running kernel, {kernel}"),
                "dkms status sdp says for which kernels there is one; dkms needs the headers of \
                 the kernel and, on Debian, linux-source of the same version",
            );
        }
        return;
    }
    // A module older than its version number has no such file.
    let version = fs::read_to_string(module.join("version")).unwrap_or_default();
    match difference(version.trim()) {
        None => report.good("the loaded module and the tools are of one version"),
        Some(what) => report.bad_apart(
            &what,
            "install module and tools of one version, end the programs that have SDP sockets, \
             then: rmmod sdp; modprobe sdp",
        ),
    }
}

/// Compares the library that `sdp_run` would load with these tools.
pub(crate) fn check_library(report: &mut Report) {
    let own = env::current_exe().unwrap_or_default();
    match library_fault(own.parent().unwrap_or(Path::new("/"))) {
        None => report.good("the library and the tools are of one version"),
        Some(what) => report.bad_apart(
            &what,
            "install library and tools of one version; until then sdp_run --bpf works without the \
             library",
        ),
    }
}

/// The fault of the library that belongs to the tools in `directory`, if there is one.
fn library_fault(directory: &Path) -> Option<String> {
    let Some(file) = library::beside(directory, library::LIBRARY) else {
        return Some(format!(
            "{} is neither in {1} nor in {1}/../lib: the installation is incomplete",
            library::LIBRARY,
            directory.display()
        ));
    };
    let name = file.display();
    match fs::read(&file).map(|bytes| library_version(&*bytes)) {
        Err(error) => Some(format!("{name}: {error}")),
        Ok(None) => Some(format!(
            "{name} has no version: it is older than the tools, which are {OWN}, or not theirs"
        )),
        Ok(Some(version)) => {
            (version != OWN).then(|| format!("{name} is {version}, but the tools are {OWN}"))
        }
    }
}

/// The version in the library's note.
fn library_version<'data>(file: impl ReadRef<'data>) -> Option<String> {
    let header = FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, file).ok()?;
    segments.iter().find_map(|segment| {
        let mut notes = segment.notes(endian, file).ok()??;
        core::iter::from_fn(|| notes.next().ok().flatten())
            .find(|note| note.name() == b"SDP")
            .map(|note| String::from_utf8_lossy(note.desc()).into_owned())
    })
}

/// The release of the running kernel, if modprobe finds no sdp for it.
fn without_module(root: &Path) -> Option<String> {
    let release = fs::read_to_string(root.join("proc/sys/kernel/osrelease")).ok()?;
    let release = release.trim();
    let list = root.join("lib/modules").join(release).join("modules.dep");
    let known = fs::read_to_string(list).unwrap_or_default();
    let has_module = known.lines().any(|line| {
        let file = line.split(':').next().unwrap_or_default();
        let name = file.rsplit('/').next().unwrap_or_default();
        name == "sdp.ko" || name.starts_with("sdp.ko.")
    });
    (!has_module).then(|| release.to_owned())
}

/// The fault of a module of this version, if there is one.
fn difference(version: &str) -> Option<String> {
    match version {
        OWN => None,
        "" => Some(format!(
            "the loaded module is older than the tools, which are {OWN}: it has no version"
        )),
        other => Some(format!(
            "the loaded module is {other}, but the tools are {OWN}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The library that cargo has built beside this program.
    fn built() -> std::io::Result<Vec<u8>> {
        fs::read(env::current_exe()?.with_file_name(library::LIBRARY))
    }

    /// The library in a directory of its own, with each `old` replaced by `new`.
    fn altered(name: &str, old: &[u8], new: &[u8]) -> std::io::Result<std::path::PathBuf> {
        let directory =
            env::temp_dir().join(format!("sdp_chk-library-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory)?;
        let mut bytes = built()?;
        for at in 0..bytes.len() {
            if let Some(part) = bytes.get_mut(at..at + old.len()) {
                if part == old {
                    part.copy_from_slice(new);
                }
            }
        }
        fs::write(directory.join(library::LIBRARY), bytes)?;
        Ok(directory)
    }

    fn fault_of(directory: std::io::Result<std::path::PathBuf>) -> std::io::Result<String> {
        let directory = directory?;
        let told = library_fault(&directory).unwrap_or_default();
        fs::remove_dir_all(directory)?;
        Ok(told)
    }

    #[test]
    fn the_library_of_this_version_has_no_fault() -> std::io::Result<()> {
        assert_eq!(library_version(&*built()?).as_deref(), Some(OWN));
        assert_eq!(fault_of(altered("same", b"SDP", b"SDP"))?, "");
        Ok(())
    }

    #[test]
    fn a_library_of_another_version_is_named_with_both() -> std::io::Result<()> {
        let note = [b"SDP\0", OWN.as_bytes()].concat();
        let mut other = note.clone();
        if let Some(digit) = other.last_mut() {
            *digit = b'x';
        }
        let version = String::from_utf8_lossy(other.get(4..).unwrap_or_default()).into_owned();
        let told = fault_of(altered("other", &note, &other))?;
        assert!(told.contains(&version) && told.contains(OWN), "{told}");
        Ok(())
    }

    #[test]
    fn a_library_without_a_version_or_without_a_file_is_a_fault() -> std::io::Result<()> {
        let note = [b"SDP\0", OWN.as_bytes()].concat();
        let mut none = note.clone();
        none.fill(b'x');
        assert!(fault_of(altered("none", &note, &none))?.contains("has no version"));
        assert_eq!(library_version(&b"no library"[..]), None);
        let told = library_fault("/nonexistent/bin".as_ref()).unwrap_or_default();
        assert!(told.contains("incomplete"), "{told}");
        Ok(())
    }

    /// A directory like / of a machine that has these modules for its running kernel.
    fn machine(name: &str, modules: &str) -> std::io::Result<std::path::PathBuf> {
        let root = std::env::temp_dir().join(format!("sdp_chk-{}-{name}", std::process::id()));
        fs::create_dir_all(root.join("proc/sys/kernel"))?;
        fs::create_dir_all(root.join("lib/modules/7.3.4"))?;
        fs::write(root.join("proc/sys/kernel/osrelease"), "7.3.4\n")?;
        fs::write(root.join("lib/modules/7.3.4/modules.dep"), modules)?;
        Ok(root)
    }

    #[test]
    fn a_kernel_without_the_module_is_named() -> std::io::Result<()> {
        let root = machine("without", "kernel/net/sdpx.ko: kernel/sdp.ko\n")?;
        assert_eq!(without_module(&root).as_deref(), Some("7.3.4"));
        fs::remove_dir_all(root)
    }

    #[test]
    fn an_installed_module_is_found_compressed_or_not() -> std::io::Result<()> {
        for file in ["updates/dkms/sdp.ko.xz:\n", "updates/sdp/sdp.ko: a.ko\n"] {
            let root = machine("with", file)?;
            assert_eq!(without_module(&root), None, "{file}");
            fs::remove_dir_all(root)?;
        }
        Ok(())
    }

    #[test]
    fn one_version_is_no_difference() {
        assert_eq!(difference(OWN), None);
    }

    #[test]
    fn another_version_is_named_with_ours() {
        let told = difference("0.0.9").unwrap_or_default();
        assert!(told.contains("0.0.9") && told.contains(OWN), "{told}");
    }

    #[test]
    fn a_module_without_a_version_is_older() {
        assert!(difference("").is_some_and(|told| told.contains("older")));
    }
}
