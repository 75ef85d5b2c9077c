// SPDX-License-Identifier: MIT

//! `sdp_run --bpf`: the kernel makes SDP sockets for all processes of a cgroup, for every kind of
//! program.

use crate::bpf::Target;
use crate::cgroup::Cgroup;
use crate::keeper::{self, Keeper};
use sdp_uapi::{AF_INET_SDP, IPPROTO_SDP};
use socket2::{Domain, Protocol, Socket, Type};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Switches this process, the program that it executes, and its children. They are in a new cgroup
/// unless the user names one. The error names what is missing; then nothing has changed. Dropping
/// the keeper removes the switch; exec() keeps it.
pub(crate) fn this_process(named: Option<&Path>) -> Result<Keeper, String> {
    let (sdp, target) = (sdp()?, target()?);
    let cgroup = match named {
        Some(directory) => Cgroup::named(directory)?,
        None => Cgroup::new()?,
    };
    entered(&cgroup, &target, sdp).inspect_err(|_| cgroup.remove())
}

fn entered(cgroup: &Cgroup, target: &Target, sdp: OwnedFd) -> Result<Keeper, String> {
    let held = vec![target.attach(&cgroup.open()?)?, sdp];
    let keeper = keeper::leave(cgroup, held)
        .map_err(|error| format!("cannot make another process: {error}"))?;
    cgroup.enter()?;
    Ok(keeper)
}

/// The switch; dropping it removes it.
pub(crate) struct Switch {
    _held: [OwnedFd; 2],
}

/// Switches the processes of a cgroup until the result is dropped.
pub(crate) fn others(named: &Path) -> Result<Switch, String> {
    let (sdp, target) = (sdp()?, target()?);
    let link = target.attach(&Cgroup::named(named)?.open()?)?;
    Ok(Switch { _held: [link, sdp] })
}

/// The function of the kernel that the BPF program is attached to. Processes with no_new_privs keep
/// TCP, unless the kernel allows them sockets for both transports: if they were switched, the kernel
/// would refuse them the socket.
fn target() -> Result<Target, String> {
    let companion = fs::read_to_string("/proc/sys/net/sdp/companion").unwrap_or_default();
    Target::find(companion.trim() != "2")
}

/// An SDP socket. If none can be made, switched processes would get no socket at all. While it is
/// open, the module cannot be removed.
fn sdp() -> Result<OwnedFd, String> {
    // The call by family loads the module if it is not loaded; a call by protocol does not.
    let _family = Socket::new(Domain::from(AF_INET_SDP), Type::STREAM, None);
    let protocol = Some(Protocol::from(IPPROTO_SDP));
    let made = Socket::new(Domain::IPV4, Type::STREAM, protocol).map(OwnedFd::from);
    made.map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM) => {
            "no socket for SDP and TCP is allowed here (net.sdp.companion; sdp_chk says more)"
                .into()
        }
        Some(libc::EPROTONOSUPPORT) => "this kernel has no SDP (sdp_chk says more)".into(),
        _ => format!("no SDP socket: {error}"),
    })
}
