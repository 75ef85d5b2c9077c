// SPDX-License-Identifier: MIT

//! `sdp_run --async`: can a program's memory be protected?

use crate::rights::{self, Missing};
use std::io::Error;

/// What is missing, in the words of a message.
pub(crate) fn missing() -> Option<String> {
    match rights::open() {
        Ok(descriptors) => {
            descriptors.close();
            None
        }
        Err(Missing::Right) => {
            Some("userfaultfd is not allowed to this process (sdp_chk says more)".into())
        }
        Err(Missing::Feature) => {
            Some("this kernel cannot protect memory by userfaultfd (Linux 6.11 can)".into())
        }
        Err(Missing::Other(errno)) => Some(format!(
            "no userfaultfd: {}",
            Error::from_raw_os_error(errno)
        )),
    }
}
