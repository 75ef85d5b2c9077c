// SPDX-License-Identifier: MIT

//! Is there SDP in this kernel, and is it of this version?

use crate::report::Report;
use crate::sdp::{Socket, AF_INET_SDP, IPPROTO_SDP, SDP_TRANSPORT};
use std::io::Error;

/// Whether SDP sockets can be made.
pub(crate) fn check(report: &mut Report) -> bool {
    let socket = match Socket::new(AF_INET_SDP, 0) {
        Ok(socket) => socket,
        Err(error) => {
            let (what, advice) = refusal(&error);
            report.bad(&what, advice);
            return false;
        }
    };
    report.good("the kernel makes SDP sockets");
    if socket.get(SDP_TRANSPORT).is_ok() {
        report.good("a socket can use SDP and TCP");
    } else {
        report.bad(
            "the module does not know sockets that use SDP and TCP",
            "update the module, or use sdp_run --simple between hosts that both have SDP",
        );
    }
    if Socket::new(libc::AF_INET, IPPROTO_SDP).is_ok() {
        report.good("IPPROTO_SDP is there, for programs that cannot preload a library");
    } else {
        report.note("IPPROTO_SDP is not there: programs that preload nothing are not reached");
    }
    limits(report);
    true
}

/// What the errno of socket() means.
fn refusal(error: &Error) -> (String, &'static str) {
    match error.raw_os_error() {
        Some(libc::EAFNOSUPPORT) => (
            "this kernel has no SDP".into(),
            "load the module: modprobe sdp (or insmod sdp.ko). If it is loaded, something forbids \
             the family: a systemd unit needs AF_IB in RestrictAddressFamilies=, a container its \
             seccomp profile to allow socket family 27",
        ),
        Some(libc::EPERM | libc::EACCES) => (
            "SDP sockets are forbidden to this process".into(),
            "a security module or a seccomp profile says so: allow socket family 27 there",
        ),
        Some(libc::EMFILE | libc::ENFILE) => (
            "no descriptor is left for a socket".into(),
            "raise the limit: ulimit -n",
        ),
        _ => (
            format!("the kernel refuses an SDP socket: {error}"),
            "look into the kernel's log: dmesg",
        ),
    }
}

fn limits(report: &Report) {
    // SAFETY: A place for the answer.
    let files = unsafe {
        let mut limit: libc::rlimit = core::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur
    };
    report.note(&format!(
        "a process may have {files} descriptors; SDP needs one for each socket, as TCP, and no \
         locked memory for copied data"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_reasons() {
        let of = |errno| refusal(&Error::from_raw_os_error(errno));
        assert!(of(libc::EAFNOSUPPORT).1.contains("modprobe sdp"));
        assert!(of(libc::EPERM).0.contains("forbidden"));
        assert!(of(libc::EMFILE).1.contains("ulimit"));
        assert!(of(libc::ENOMEM).0.contains("memory"));
    }
}
