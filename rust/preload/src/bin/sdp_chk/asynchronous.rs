// SPDX-License-Identifier: MIT

//! Can `sdp_run --async` protect the memory of programs? It is off unless one asks for it, so nothing
//! here is bad.

use crate::report::Report;
use crate::rights::{self, Missing};
use std::fs;
use std::io::Error;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

const DEVICE: &str = "/dev/userfaultfd";

const NOT_HIDDEN: &str =
    "sdp_run --async=receive has no effect: this kernel cannot protect memory against \
                          reading; Linux 7.3 can, with CONFIG_USERFAULTFD_RWP";

/// Says whether it works for this process, and what is missing.
pub(crate) fn check(report: &mut Report) {
    match rights::open() {
        Ok(descriptors) => {
            descriptors.close();
            report.good("sdp_run --async can protect memory (userfaultfd)");
            if descriptors.hides {
                report.good("sdp_run --async=receive can, too");
            } else {
                report.note(NOT_HIDDEN);
            }
        }
        Err(missing) => report.note(&said(missing, &device())),
    }
}

/// The device node, with its owner and mode.
fn device() -> String {
    match fs::metadata(DEVICE) {
        Ok(found) => format!(
            "{DEVICE} is of group {} with mode {:o}",
            found.gid(),
            found.permissions().mode() & 0o777
        ),
        Err(_) => format!("there is no {DEVICE}"),
    }
}

fn said(missing: Missing, device: &str) -> String {
    match missing {
        Missing::Right => format!(
            "sdp_run --async has no effect for this user: userfaultfd is not allowed \
             (vm.unprivileged_userfaultfd is 0, and {device}). Give the user access to that device, \
             or: sysctl vm.unprivileged_userfaultfd=1"
        ),
        Missing::Feature => "sdp_run --async has no effect: this kernel cannot protect memory by \
                             userfaultfd; Linux 6.11 can, with CONFIG_USERFAULTFD"
            .into(),
        Missing::Machine => "sdp_run --async has no effect: it knows machines with pages of 4 KiB, \
                             and neither PowerPC, MIPS nor SPARC"
            .into(),
        Missing::Other(errno) => format!(
            "sdp_run --async has no effect: no userfaultfd: {}",
            Error::from_raw_os_error(errno)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let text = said(Missing::Right, "there is no /dev/userfaultfd");
        assert!(text.contains("vm.unprivileged_userfaultfd=1"), "{text}");
        assert!(text.contains("there is no /dev/userfaultfd"), "{text}");
        assert!(said(Missing::Feature, "").contains("6.11"));
        assert!(said(Missing::Machine, "").contains("4 KiB"));
        assert!(said(Missing::Other(libc::EMFILE), "").contains("open files"));
    }
}
