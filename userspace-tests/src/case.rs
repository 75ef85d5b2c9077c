// SPDX-License-Identifier: MIT
//! One case: its name, its two scripts, and the allowed differences.

use crate::role::Role;
use crate::sock::Sock;
use crate::world::{Ip, Side};

pub type RoleScript = fn(&Role);
pub type PairScript = fn(&Role, &Sock);

#[derive(Clone, Copy)]
pub enum Script {
    /// One process; the client role only takes part in the meeting at the end.
    Alone(RoleScript),
    /// Two processes that make their own sockets.
    Two { server: RoleScript, client: RoleScript },
    /// Two processes, each with its end of one connection.
    Connected { server: PairScript, client: PairScript },
}

/// An observation with a value that differs on purpose; both values are still checked.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    pub label: &'static str,
    pub tcp: &'static str,
    pub sdp: &'static str,
    pub reason: &'static str,
}

/// The observation of a socket that visibly falls back to TCP during the case.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub label: &'static str,
    pub seen: &'static str,
}

// The needs of a case are independent of each other.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub script: Script,
    pub versions: &'static [Ip],
    /// Needs hosts with separate addresses, so it does not run in loopback mode.
    pub two_hosts: bool,
    /// Delays packets, so that other events happen meanwhile: needs a device that sends packets.
    pub late_packets: bool,
    /// Takes minutes on a slow machine: runs only if selected by name or with `--long`.
    pub long: bool,
    /// Hard limit in seconds on an ordinary machine.
    pub limit: u32,
    pub differences: &'static [Difference],
    pub turns: &'static [Turn],
}

impl Case {
    const fn new(name: &'static str, script: Script) -> Self {
        Case {
            name,
            script,
            versions: &[Ip::V4],
            two_hosts: false,
            late_packets: false,
            long: false,
            limit: 10,
            differences: &[],
            turns: &[],
        }
    }

    pub const fn alone(name: &'static str, script: RoleScript) -> Self {
        Self::new(name, Script::Alone(script))
    }

    pub const fn two(name: &'static str, server: RoleScript, client: RoleScript) -> Self {
        Self::new(name, Script::Two { server, client })
    }

    pub const fn connected(name: &'static str, server: PairScript, client: PairScript) -> Self {
        Self::new(name, Script::Connected { server, client })
    }

    /// Also over IPv6.
    pub const fn both_versions(mut self) -> Self {
        self.versions = &[Ip::V4, Ip::V6];
        self
    }

    pub const fn only_v6(mut self) -> Self {
        self.versions = &[Ip::V6];
        self
    }

    pub const fn two_hosts(mut self) -> Self {
        self.two_hosts = true;
        self
    }

    pub const fn late_packets(mut self) -> Self {
        self.late_packets = true;
        self
    }

    pub const fn long(mut self, limit: u32) -> Self {
        self.long = true;
        self.limit = limit;
        self
    }

    pub const fn differs(mut self, differences: &'static [Difference]) -> Self {
        self.differences = differences;
        self
    }

    pub const fn turns(mut self, turns: &'static [Turn]) -> Self {
        self.turns = turns;
        self
    }

    /// Runs one role to its end, in its process.
    pub fn play(&self, role: &Role) {
        match (self.script, role.side) {
            (Script::Alone(script), Side::Server) => script(role),
            (Script::Alone(_), Side::Client) => {}
            (Script::Two { server, .. }, Side::Server) => server(role),
            (Script::Two { client, .. }, Side::Client) => client(role),
            (Script::Connected { server, .. }, Side::Server) => {
                let sock = role.accept_one();
                // The calls of one side must not begin before the other is connected.
                role.meet("connected");
                server(role, &sock);
                role.meet("end");
            }
            (Script::Connected { client, .. }, Side::Client) => {
                let sock = role.connect_told();
                role.meet("connected");
                client(role, &sock);
                role.meet("end");
            }
        }
        role.meet("over");
    }
}

/// A case in one IP version: the unit of the plan.
#[derive(Clone, Copy)]
pub struct Test {
    pub case: &'static Case,
    pub ip: Ip,
}

impl Test {
    /// Whether this test is in one of `parts` parts of all tests. The part depends on the name, so
    /// that it does not change when tests are added. Both IP versions of a case are in the same
    /// part.
    pub fn is_in_part(&self, parts: u32) -> bool {
        // FNV-1a.
        let mix = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        self.case.name.bytes().fold(0x811c_9dc5, mix) % parts == 0
    }

    /// Whether it runs over IPv6 what another test runs over IPv4.
    pub fn is_repeated(&self) -> bool {
        self.ip == Ip::V6 && self.case.versions.len() > 1
    }

    pub fn name(&self) -> String {
        if self.is_repeated() {
            format!("{}_ipv6", self.case.name)
        } else {
            self.case.name.to_string()
        }
    }
}
