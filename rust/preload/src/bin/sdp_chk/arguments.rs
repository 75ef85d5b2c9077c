// SPDX-License-Identifier: MIT

//! The command line of `sdp_chk`. Cargo's task `completions` reads it, too.

use clap::Parser;
use std::path::PathBuf;

/// The port of `sdp_chk --server`: the numbers of SDP's family and protocol.
pub(crate) const PORT: &str = "27257";

/// Say whether SDP can work here, and what to do if not
///
/// Exit status: 0 if nothing is BAD, 1 if something is (the rules and HOST included), 125 if
/// the arguments make no sense.
#[derive(Parser)]
#[command(version, name = "sdp_chk")]
pub(crate) struct Arguments {
    /// Also try to reach this host
    #[arg(value_name = "HOST")]
    pub(crate) host: Option<String>,

    /// The port to try there, or the name of a service
    #[arg(value_name = "PORT", default_value = PORT, value_parser = port)]
    pub(crate) port: String,

    /// The file of rules to look at instead of the one programs would use
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Say only what is wrong
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Print one JSON object; with --server one for each connection
    #[arg(short, long)]
    pub(crate) json: bool,

    /// Which way the bytes of a process take, why, and what to do about it
    #[arg(long, value_name = "PID", conflicts_with_all = ["host", "config", "server"])]
    pub(crate) why: Option<u32>,

    /// Be the other end: listen for `sdp_chk THIS-HOST [PORT]` over SDP and TCP until a signal
    #[arg(
        short,
        long,
        value_name = "PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = PORT,
        value_parser = port,
        conflicts_with_all = ["host", "config", "quiet"]
    )]
    pub(crate) server: Option<String>,
}

/// Accepts a port or a name; names of services are looked up later.
fn port(text: &str) -> Result<String, &'static str> {
    if text.is_empty() || text.contains(char::is_whitespace) {
        Err("it is neither a number nor the name of a service")
    } else if text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_err() {
        Err("the last port is 65535")
    } else {
        Ok(text.into())
    }
}
