// SPDX-License-Identifier: MIT

//! `sdp_run --async`: can a program's memory be protected?

use crate::reach;
use crate::rights::{self, Missing};
use std::ffi::OsStr;
use std::io::Error;

/// The message, if something is missing for this way in this program.
pub(crate) fn missing(way: &str, program: &OsStr) -> Option<String> {
    let missing = match rights::open() {
        Ok(descriptors) if reach::is_of_musl(program) => {
            descriptors.close();
            format!(
                "{} is a program of musl, which does not tell the library of forks",
                program.to_string_lossy()
            )
        }
        Ok(descriptors) => {
            descriptors.close();
            let receive = way.split(',').any(|word| word == "receive");
            return (receive && !descriptors.hides).then(|| {
                "--async=receive has no effect: this kernel cannot protect memory against reading \
                 (Linux 7.3 can); recv() waits for its bytes"
                    .into()
            });
        }
        Err(Missing::Right) => {
            "userfaultfd is not allowed to this process (sdp_chk says more)".into()
        }
        Err(Missing::Feature) => {
            "this kernel cannot protect memory by userfaultfd (Linux 6.11 can)".into()
        }
        Err(Missing::Machine) => {
            "it knows machines with pages of 4 KiB, and neither PowerPC, MIPS nor SPARC".into()
        }
        Err(Missing::Other(errno)) => {
            format!("no userfaultfd: {}", Error::from_raw_os_error(errno))
        }
    };
    Some(format!(
        "--async has no effect: {missing}; sends and receives wait for the peer or copy"
    ))
}
