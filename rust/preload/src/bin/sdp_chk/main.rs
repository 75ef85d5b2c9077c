// SPDX-License-Identifier: MIT

//! `sdp_chk [HOST [PORT]]`: says in plain words whether SDP can work here, or
//! between here and HOST, and what to do where it cannot.
//!
//! It asks the kernel by doing what programs do, and looks around in /sys only
//! for the reasons.

mod addresses;
mod devices;
mod installation;
mod kernel;
mod peer;
mod report;
mod rules;
mod sdp;

// What the library itself reads the rules with. The library itself must not be linked in: its
// functions would stand in the place of the C library's.
#[path = "../../config.rs"]
mod config;
#[path = "../../source.rs"]
mod source;

use clap::error::ErrorKind;
use clap::Parser;
use report::Report;
use std::path::PathBuf;
use std::process::ExitCode;

/// SDP cannot work, or not as asked for.
const UNUSABLE: u8 = 1;
/// The question was not understood.
const MISUSE: u8 = 125;

/// Say whether SDP can work here, and what to do if not
///
/// Exit status: 0 if nothing is BAD, 1 if something is (the rules and HOST included), 125 if
/// the arguments make no sense.
#[derive(Parser)]
#[command(version, name = "sdp_chk")]
struct Arguments {
    /// Also try to reach this host
    #[arg(value_name = "HOST")]
    host: Option<String>,

    /// The port to try there
    #[arg(value_name = "PORT", default_value_t = 22)]
    port: u16,

    /// The file of rules to look at instead of the one programs would use
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Say only what is wrong
    #[arg(short, long)]
    quiet: bool,
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let asked_for = matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            );
            // With nowhere left to print to, the exit status still tells.
            let _ = error.print();
            return ExitCode::from(if asked_for { 0 } else { MISUSE });
        }
    };
    let mut report = Report::new(arguments.quiet);
    rules::check(&mut report, arguments.config.as_deref());
    let has_sdp = kernel::check(&mut report);
    installation::check(&mut report, "/".as_ref(), has_sdp);
    let devices = devices::check(&mut report, "/sys".as_ref());
    if has_sdp {
        let usable = addresses::check(&mut report);
        if usable.is_empty() {
            report.bad(
                "no address of this host can be used with SDP",
                addresses::advice(devices),
            );
        }
        if let Some(address) = usable.first() {
            peer::check_own(&mut report, *address);
        }
        if let Some(host) = &arguments.host {
            peer::check(&mut report, host, arguments.port);
        }
    }
    report.end(has_sdp);
    ExitCode::from(if report.is_good() { 0 } else { UNUSABLE })
}
