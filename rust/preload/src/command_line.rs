// SPDX-License-Identifier: MIT

//! What the tools have in common: how a command line is read.

use clap::error::ErrorKind;
use clap::Parser;
use std::process::ExitCode;

/// The exit status for what is the tool's own failure, arguments without sense included.
pub(crate) const OWN_FAILURE: u8 = 125;

/// The arguments; or the exit status, when the help or what is wrong has been said.
pub(crate) fn parse<T: Parser>() -> Result<T, ExitCode> {
    T::try_parse().map_err(|error| {
        let is_asked_for = matches!(
            error.kind(),
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
        );
        // With nowhere left to print to, the exit status still tells.
        let _ = error.print();
        ExitCode::from(if is_asked_for { 0 } else { OWN_FAILURE })
    })
}
