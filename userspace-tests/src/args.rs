// SPDX-License-Identifier: MIT
//! The command line.

// The comments on the fields are the help text, where backticks would be shown as such.
#![allow(clippy::doc_markdown)]

use clap::{Parser, ValueEnum};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Families {
    Tcp,
    Sdp,
    Both,
    /// TCP and IPPROTO_SDP
    Protocol,
    /// TCP and an SDP socket that passes every call on to TCP
    Companion,
}

/// The transport below SDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// The kernel's device on Ethernet
    Rxe,
    /// This repository's device in memory, which sends no packets
    Rlo,
    /// The same with InfiniBand ports
    #[value(name = "rlo_ib")]
    RloIb,
}

/// Runs socket cases on TCP and on AF_INET_SDP and compares the observations.
///
/// Every case runs first on TCP, the oracle, then on AF_INET_SDP between the same two hosts. Results
/// are KTAP version 1 on stdout; the exit status is 1 when a test failed and 2 when none could run.
// Switches of a command line are independent of each other.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Parser)]
#[command(version)]
pub struct Args {
    /// Run only tests with names that match such a shell pattern, among those selected otherwise
    #[arg(value_name = "PATTERN")]
    pub pattern: Vec<glob::Pattern>,

    /// Print the names of the tests and exit
    #[arg(long)]
    pub list: bool,

    /// Run only these tests; a name without its _ipv6 ending selects both versions
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub pick: Vec<String>,

    /// Leave these tests out; they are reported as skipped
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub skip: Vec<String>,

    /// Run one of so many parts of the tests, chosen by name, and all tests that delay packets or
    /// need a kernel option that is named here
    #[arg(long, value_name = "PARTS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub one_of: Option<u32>,

    /// Of the tests over both IP versions, run only one of so many parts, chosen by name, over IPv6
    #[arg(long, value_name = "PARTS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub ipv6_of: Option<u32>,

    /// The RDMA device of both hosts; on rlo, tests that delay packets run only if selected
    #[arg(long, value_enum, env = "SDP_DEVICE", default_value = "rxe")]
    pub device: Device,

    /// Socket families to run on
    #[arg(long, value_enum, default_value = "both")]
    pub family: Families,

    /// Network namespace of the server role (address 10.0.0.1 and fd00::1)
    #[arg(long, value_name = "NETNS", default_value = "a")]
    pub server_ns: String,

    /// Network namespace of the client role (address 10.0.0.2 and fd00::2)
    #[arg(long, value_name = "NETNS", default_value = "b")]
    pub client_ns: String,

    /// Run both roles in this namespace on 127.0.0.1 and ::1
    #[arg(long)]
    pub loopback: bool,

    /// Limit for one run of one test, in seconds on an ordinary machine, instead of its own
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86400))]
    pub timeout: Option<u32>,

    /// How many times slower than an ordinary machine this one is; stretches every limit
    #[arg(long, env = "SOCK_TESTS_SLOWNESS", value_name = "FACTOR", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub slowness: u32,

    /// Run the long tests too
    #[arg(long)]
    pub long: bool,

    /// Print how long each test took
    #[arg(long)]
    pub times: bool,

    /// Run the cases that are wrong on purpose instead: they must fail
    #[arg(long, hide = true)]
    pub broken: bool,
}
