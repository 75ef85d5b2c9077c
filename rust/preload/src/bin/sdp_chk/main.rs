// SPDX-License-Identifier: MIT

//! `sdp_chk [HOST [PORT]]`: says in plain words whether SDP can work here, or between this host and
//! HOST, and what to do if it cannot. `sdp_chk --server` is the other end. `sdp_chk --why PID` is about
//! the sockets of a process.
//!
//! It makes the same calls as programs do. It reads /sys only for the reasons.

mod addresses;
mod arguments;
mod asynchronous;
mod devices;
mod installation;
mod kernel;
mod peer;
mod remembered;
mod report;
mod rules;
mod server;
mod view;
mod why;

#[path = "../../command_line.rs"]
mod command_line;
// The library's own parser of rules. The library itself must not be linked in, because its
// functions would replace the C library's.
#[path = "../../config.rs"]
mod config;
#[path = "../../library.rs"]
mod library;
// The question of the library of sdp_run --async.
#[path = "../../../../async/src/rights.rs"]
#[expect(dead_code, reason = "the library also uses what it is given")]
mod rights;
// The lines that sdp_ss shows.
#[path = "../../../../ss/src/peer.rs"]
mod remembered_peer;
#[path = "../../source.rs"]
mod source;

use arguments::Arguments;
use report::{Report, Style};
use std::process::ExitCode;

/// SDP cannot work, or not in the requested way.
const UNUSABLE: u8 = 1;

fn main() -> ExitCode {
    let arguments: Arguments = match command_line::parse() {
        Ok(arguments) => arguments,
        Err(status) => return status,
    };
    let style = match (arguments.json, arguments.quiet) {
        (true, _) => Style::Json,
        (false, true) => Style::Quiet,
        (false, false) => Style::Text,
    };
    let mut report = Report::new(style);
    if let Some(port) = &arguments.server {
        server::run(&mut report, port);
    } else if let Some(pid) = arguments.why {
        report.about("process");
        let summary = why::check(&mut report, pid);
        report.finish(summary, None);
    } else {
        check(&mut report, &arguments);
    }
    ExitCode::from(if report.is_good() { 0 } else { UNUSABLE })
}

fn check(report: &mut Report, arguments: &Arguments) {
    report.about("rules");
    rules::check(report, arguments.config.as_deref());
    report.about("kernel");
    let has_sdp = kernel::check(report);
    report.about("installation");
    installation::check(report, "/".as_ref(), has_sdp);
    installation::check_library(report);
    if has_sdp {
        report.about("async");
        asynchronous::check(report);
    }
    report.about("devices");
    let devices = devices::check(report, "/sys".as_ref());
    if has_sdp {
        report.about("addresses");
        let usable = addresses::check(report);
        if usable.is_empty() {
            report.bad(
                "no address of this host can be used with SDP",
                addresses::advice(devices),
            );
        }
        if let Some(address) = usable.first() {
            report.about("connection");
            peer::check_own(report, *address);
        }
    }
    if let Some(host) = &arguments.host {
        report.about("host");
        peer::check(report, host, &arguments.port, has_sdp);
    }
    report.end(has_sdp);
}
