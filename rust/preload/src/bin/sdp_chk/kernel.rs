// SPDX-License-Identifier: MIT

//! Does this kernel have SDP, and in this version?

use crate::report::Report;
use nix::sys::resource::{getrlimit, Resource, RLIM_INFINITY};
use sdp_socket::{allow, socket, Transport};
use socket2::{Domain, Protocol, Socket, Type};
use std::fs;
use std::io::Error;
use std::net::Ipv4Addr;

/// Whether SDP sockets can be made.
pub(crate) fn check(report: &mut Report) -> bool {
    let socket = match socket((Ipv4Addr::UNSPECIFIED, 0).into(), Transport::Sdp) {
        Ok(socket) => socket,
        Err(error) => {
            let (what, advice) = refusal(&error);
            report.bad(&what, advice);
            return false;
        }
    };
    report.good("the kernel makes SDP sockets");
    match allow(&socket, Transport::Both) {
        Ok(()) => report.good("a socket can use SDP and TCP"),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            let (what, advice) = companion(&knob("companion"));
            report.bad(what, advice);
            limits(report);
            return true;
        }
        Err(_) => report.bad(
            "the module does not know sockets that use SDP and TCP",
            "update the module, or use sdp_run --simple between hosts that both have SDP",
        ),
    }
    if knob("companion") == "1" {
        report.note(
            "sandboxes (processes with no_new_privs) get no socket for both (net.sdp.companion=1): \
             sdp_run has them use TCP",
        );
    }
    let protocol = Some(Protocol::from(sdp_uapi::IPPROTO_SDP));
    if Socket::new(Domain::IPV4, Type::STREAM, protocol).is_ok() {
        report.good("IPPROTO_SDP is there, for programs that cannot preload a library");
    } else {
        report.note("IPPROTO_SDP is not there: programs that preload nothing are not reached");
    }
    limits(report);
    true
}

/// The meaning of socket()'s errno.
pub(crate) fn refusal(error: &Error) -> (String, &'static str) {
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

/// Why a socket may not use TCP beside SDP, by the knob's value.
fn companion(knob: &str) -> (&'static str, &'static str) {
    match knob {
        "0" => (
            "no socket may use SDP and TCP here (net.sdp.companion=0)",
            "sysctl net.sdp.companion=1, or use SDP alone: sdp_run --simple between hosts that both \
             have SDP",
        ),
        _ => (
            "no socket of this process may use SDP and TCP: it has no_new_privs, so that a sandbox \
             may hold it, and the kernel cannot ask for the rules of a sandbox about TCP there",
            "if those rules need not hold: sysctl net.sdp.companion=2; sdp(7) says what that means",
        ),
    }
}

/// The text of a knob; empty if it does not exist.
fn knob(name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/sys/net/sdp/{name}")).unwrap_or_default();
    text.trim().into()
}

fn limits(report: &mut Report) {
    let [files, locked] = [Resource::RLIMIT_NOFILE, Resource::RLIMIT_MEMLOCK]
        .map(|which| getrlimit(which).map_or(0, |(soft, _)| soft));
    report.note(&format!(
        "a process may have {files} descriptors; SDP needs one for each socket, as TCP"
    ));
    if let Ok(threshold) = knob("zcopy_thresh").parse() {
        report.note(&zero_copy(threshold, locked));
    }
}

/// The effect of the threshold and of the memory that a process may lock.
fn zero_copy(threshold: u32, locked: u64) -> String {
    if threshold == 0 {
        return "everything is copied; to send long messages without a copy: \
                sysctl net.sdp.zcopy_thresh=262144, on both hosts"
            .into();
    }
    let may = if locked == RLIM_INFINITY {
        "as much memory as there is".into()
    } else {
        format!("{} KiB of memory at a time (ulimit -l)", locked / 1024)
    };
    format!(
        "from {threshold} bytes on messages go without a copy, for which a process may lock {may}"
    )
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

    #[test]
    fn a_socket_for_both_is_refused_with_what_to_do() {
        assert!(companion("0").1.contains("net.sdp.companion=1"));
        assert!(companion("1").0.contains("no_new_privs"));
        assert!(companion("1").1.contains("net.sdp.companion=2"));
    }

    #[test]
    fn zero_copy_is_off_or_has_limits() {
        assert!(zero_copy(0, 8 << 20).contains("zcopy_thresh=262144"));
        assert!(zero_copy(65536, 8 << 20)
            .ends_with("may lock 8192 KiB of memory at a time (ulimit -l)"));
        assert!(zero_copy(262_144, RLIM_INFINITY).contains("262144 bytes on"));
        assert!(zero_copy(65536, RLIM_INFINITY).ends_with("as much memory as there is"));
    }
}
