// SPDX-License-Identifier: MIT

//! The command line of `sdp_run`. Cargo's task `completions` reads it, too.

use clap::Parser;
use std::ffi::OsString;
use std::path::PathBuf;

/// Run a program with its TCP sockets over SDP
///
/// Each stream socket that PROGRAM makes for IPv4 or IPv6 tries the Sockets Direct
/// Protocol first and then TCP, and one that listens does so on both, unless
/// /etc/libsdp.conf has other rules. Where the kernel has no SDP it is a TCP socket.
/// Statically linked, Go and set-user-ID programs are reached with --bpf only.
#[derive(Parser)]
#[command(version, name = "sdp_run")]
pub(crate) struct Arguments {
    /// Say on stderr for each socket that connects or listens whether it is SDP or TCP, and why
    #[arg(short, long)]
    pub(crate) debug: bool,

    /// Use the rules in this file instead of those in /etc/libsdp.conf
    #[arg(short, long, value_name = "FILE", conflicts_with = "simple")]
    pub(crate) config: Option<PathBuf>,

    /// SDP for every socket, whatever the rules; no TCP where SDP fails
    #[arg(short, long)]
    pub(crate) simple: bool,

    /// Use this library instead of the one that stands beside sdp_run or in its lib directory
    #[arg(short, long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,

    /// Return from a long send before the peer has read it; a write to the memory waits a moment and
    /// then gets a copy, or with =block waits for the peer. With =receive a recv() returns before its
    /// bytes are there, and the program gets a SIGBUS if the connection breaks then
    #[arg(
        short,
        long = "async",
        value_name = "WAY",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "copy",
        value_parser = ["copy", "block", "receive", "copy,receive", "block,receive"],
        conflicts_with = "bpf"
    )]
    pub(crate) asynchronous: Option<String>,

    /// Have a BPF program in the kernel do it: reaches every program, knows no rules, needs root
    #[arg(short, long, conflicts_with_all = ["config", "simple", "library"])]
    pub(crate) bpf: bool,

    /// With --bpf: switch all processes of this cgroup, and run PROGRAM in it, if there is one
    #[arg(short = 'g', long, value_name = "DIRECTORY", requires = "bpf")]
    pub(crate) cgroup: Option<PathBuf>,

    /// Run PROGRAM over SDP and once more over TCP, with no input, and say whether SDP is worth it
    #[arg(long, requires = "program")]
    pub(crate) report: bool,

    /// The program to run, and its arguments
    #[arg(
        required_unless_present = "cgroup",
        trailing_var_arg = true,
        value_name = "PROGRAM"
    )]
    pub(crate) program: Vec<OsString>,
}
