// SPDX-License-Identifier: MIT

//! `sdp_run --bpf`: the kernel makes SDP sockets for all processes of a cgroup,
//! whatever they are made of.

use crate::bpf::Target;
use crate::cgroup::Cgroup;
use crate::descriptor::given;
use crate::{keeper, program};
use std::os::fd::OwnedFd;
use std::path::Path;

/// What lasts until it is dropped, or until exec().
pub(crate) struct Switch {
    _held: Vec<OwnedFd>,
}

/// Switches this process, what it becomes, and its children. Without a cgroup
/// that the user names they are in one of their own. The error is what is
/// missing; then nothing has changed.
pub(crate) fn this_process(named: Option<&Path>) -> Result<Switch, String> {
    let (sdp, target) = (sdp()?, Target::find()?);
    let cgroup = match named {
        Some(directory) => Cgroup::named(directory)?,
        None => Cgroup::new()?,
    };
    entered(&cgroup, &target, sdp).inspect_err(|_| cgroup.remove())
}

fn entered(cgroup: &Cgroup, target: &Target, sdp: OwnedFd) -> Result<Switch, String> {
    let held = [target.attach(&cgroup.open()?)?, sdp];
    let starting = keeper::leave(cgroup, &held)
        .map_err(|error| format!("cannot make another process: {error}"))?;
    cgroup.enter()?;
    Ok(Switch {
        _held: vec![starting],
    })
}

/// Switches the processes of a cgroup, for as long as this one lasts.
pub(crate) fn others(named: &Path) -> Result<Switch, String> {
    let (sdp, target) = (sdp()?, Target::find()?);
    let link = target.attach(&Cgroup::named(named)?.open()?)?;
    Ok(Switch {
        _held: vec![link, sdp],
    })
}

/// A socket of SDP. Where there is none the processes would get no socket at
/// all; while there is one the module stays.
fn sdp() -> Result<OwnedFd, String> {
    // SAFETY: Three numbers; the answer is a new descriptor.
    let answer = unsafe {
        given(
            libc::socket(
                libc::AF_INET,
                libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
                program::IPPROTO_SDP,
            )
            .into(),
        )
    };
    answer.map_err(|error| match error.raw_os_error() {
        Some(libc::EPROTONOSUPPORT) => "this kernel has no SDP (sdp_chk says more)".into(),
        _ => format!("no SDP socket: {error}"),
    })
}
