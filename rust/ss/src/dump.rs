// SPDX-License-Identifier: MIT

//! The request to the kernel, and its answers, one socket at a time.

use std::io::{self, ErrorKind};

use sdp_netlink::protocols::NETLINK_SOCK_DIAG;
use sdp_netlink::{number, NLM_F_DUMP};

use crate::socket::Socket;
use crate::uapi;

/// The contents of a request.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    /// A bit for each state.
    pub(crate) states: u32,
    pub(crate) flow: bool,
    pub(crate) traffic: bool,
}

/// Sends the request and passes on each socket when its answer arrives. `NotFound` if the kernel
/// does not have the interface.
pub(crate) fn run(
    request: Request,
    show: &mut impl FnMut(Socket) -> io::Result<()>,
) -> io::Result<()> {
    let flow = u32::from(request.flow) * uapi::SDP_DIAG_SHOW_FLOW;
    let detail = flow + u32::from(request.traffic) * uapi::SDP_DIAG_SHOW_TRAFFIC;
    let question = sdp_netlink::Request {
        kind: uapi::SOCK_DIAG_BY_FAMILY,
        flags: NLM_F_DUMP,
        head: &[uapi::AF_INET_SDP, 0, 0, 0],
        attributes: &[
            number(uapi::SDP_DIAG_STATES, request.states),
            number(uapi::SDP_DIAG_SHOW, detail),
        ],
    };
    match sdp_netlink::ask(NETLINK_SOCK_DIAG, question, show) {
        Err(e) if e.kind() == ErrorKind::InvalidInput => {
            let what = "sdp.ko does not know what was asked for: it is older than sdp_ss";
            Err(io::Error::other(what))
        }
        result => result,
    }
}
