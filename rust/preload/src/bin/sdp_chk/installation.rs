// SPDX-License-Identifier: MIT

//! Do the parts of the installation match: tools, library, loaded module?

use crate::report::Report;
use std::fs;
use std::path::Path;

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
