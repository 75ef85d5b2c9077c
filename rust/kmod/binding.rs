// SPDX-License-Identifier: GPL-2.0

//! The port of a socket, and what bind() has chosen of its name.
//!
//! Contexts: data, under the endpoint's lock.

use crate::netns::ports::PortLease;

/// See the module.
#[derive(Default)]
pub(crate) struct Binding {
    lease: Option<PortLease>,
    /// The address was chosen by bind(), not by a connect.
    ip: bool,
    /// The port was chosen by bind().
    port: bool,
    /// How the last bind() has ended, as SDP_LAST_BIND_ERR tells it.
    last_err: i32,
}

impl Binding {
    /// The port that the socket has.
    pub(crate) fn lease(&self) -> Option<&PortLease> {
        self.lease.as_ref()
    }

    pub(crate) fn lease_mut(&mut self) -> Option<&mut PortLease> {
        self.lease.as_mut()
    }

    /// bind() has given the socket a port. `ip` and `port`: whether the program has named them.
    pub(crate) fn on_bound(&mut self, lease: PortLease, ip: bool, port: bool) {
        (self.lease, self.ip, self.port) = (Some(lease), ip, port);
    }

    /// The connection came in, for this address.
    pub(crate) fn on_arrived(&mut self, lease: PortLease) {
        (self.lease, self.ip) = (Some(lease), true);
    }

    /// listen() or connect() has chosen a port.
    pub(crate) fn on_chosen(&mut self, lease: PortLease) {
        self.lease = Some(lease);
    }

    /// The port is free for others.
    pub(crate) fn release(&mut self) {
        self.lease = None;
    }

    /// Whether bind() chose the address.
    pub(crate) fn has_ip(&self) -> bool {
        self.ip
    }

    /// Whether bind() chose the port.
    pub(crate) fn has_port(&self) -> bool {
        self.port
    }

    /// The port is released with the peer, or with the listener.
    pub(crate) fn forget_port(&mut self) {
        self.port = false;
    }

    pub(crate) fn last_err(&self) -> i32 {
        self.last_err
    }

    pub(crate) fn set_last_err(&mut self, errno: i32) {
        self.last_err = errno;
    }
}
