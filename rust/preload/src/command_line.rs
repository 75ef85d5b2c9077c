// SPDX-License-Identifier: MIT

//! Shared by the tools: parsing of the command line.

use clap::error::ErrorKind;
use clap::Parser;
use std::process::ExitCode;

/// The exit status for the tool's own failures, invalid arguments included.
pub(crate) const OWN_FAILURE: u8 = 125;

/// The arguments; or the exit status, after the help or an error has been printed.
pub(crate) fn parse<T: Parser>() -> Result<T, ExitCode> {
    T::try_parse().map_err(|error| {
        let is_asked_for = matches!(
            error.kind(),
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
        );
        // If printing fails, the exit status still has the result.
        let _ = error.print();
        ExitCode::from(if is_asked_for { 0 } else { OWN_FAILURE })
    })
}
