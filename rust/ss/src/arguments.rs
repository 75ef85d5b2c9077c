// SPDX-License-Identifier: MIT

//! The command line.

use clap::Parser;

/// List the SDP sockets of a network namespace.
#[derive(Parser, Debug, Default)]
#[command(name = "sdp_ss", version)]
pub(crate) struct Arguments {
    /// Listening sockets only
    #[arg(short, long)]
    pub(crate) listening: bool,
    /// Listening and unconnected sockets as well
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Port numbers instead of service names
    #[arg(short, long)]
    pub(crate) numeric: bool,
    /// The processes that have the socket
    #[arg(short, long)]
    pub(crate) processes: bool,
    /// User, inode, cookie and interface
    #[arg(short, long)]
    pub(crate) extended: bool,
    /// Credits, buffers, round-trip time, and bytes by path
    #[arg(short, long)]
    pub(crate) info: bool,
    /// IPv4 only
    #[arg(short = '4', long)]
    pub(crate) ipv4: bool,
    /// IPv6 only
    #[arg(short = '6', long)]
    pub(crate) ipv6: bool,
    /// No line of column names
    #[arg(short = 'H', long)]
    pub(crate) no_header: bool,
    /// JSON, with all attributes
    #[arg(short = 'J', long)]
    pub(crate) json: bool,
    /// The counters of the namespace instead of its sockets
    #[arg(short, long)]
    pub(crate) summary: bool,
    /// With --summary: print the increase of each counter every SECONDS
    #[arg(short = 'w', long, value_name = "SECONDS", requires = "summary",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) interval: Option<u32>,
    /// With --interval: end after so many times
    #[arg(short, long, value_name = "TIMES", requires = "interval",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: Option<u32>,
    /// With --summary: counters that are 0 as well
    #[arg(short = 'z', long, requires = "summary")]
    pub(crate) zero: bool,
    /// Which way bytes take, why, and what to do about it; with --summary: of the whole namespace
    #[arg(long, conflicts_with_all = ["peers", "interval"])]
    pub(crate) why: bool,
    /// The answers of peers that are remembered, instead of sockets
    #[arg(short = 'P', long, conflicts_with = "summary")]
    pub(crate) peers: bool,
    /// In another namespace: a name of ip-netns(8), or a path
    #[arg(short = 'N', long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// In all network namespaces, each with one of its processes and the control group of that
    #[arg(short = 'A', long = "all-namespaces", conflicts_with_all = ["namespace", "summary", "peers"])]
    pub(crate) everywhere: bool,
    /// state STATE, transport sdp|tcp|both, src|dst ADDRESS[/LENGTH][:PORT], sport|dport PORT; all must be true
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_command_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn options_are_told_from_filters() {
        let words = "sdp_ss -lnpe -N blue state listen sport 80";
        let options = Arguments::try_parse_from(words.split(' '));
        let options = options.unwrap_or_default();
        assert!(options.listening && options.numeric && options.processes && options.extended);
        assert_eq!(options.namespace.as_deref(), Some("blue"));
        assert_eq!(options.filter, ["state", "listen", "sport", "80"]);
        assert!(Arguments::try_parse_from(["sdp_ss", "-w", "1"]).is_err());
        assert!(Arguments::try_parse_from(["sdp_ss", "-s", "-w", "0"]).is_err());
    }
}
