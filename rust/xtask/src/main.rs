// SPDX-License-Identifier: GPL-2.0

//! What is checked about this repository itself, and what is made from it.
#![cfg_attr(
    test,
    allow(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        reason = "a test says what is wrong by panicking"
    )
)]

mod completions;
mod floors;
mod manual;
mod spec;
mod uapi;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Parser)]
struct Arguments {
    /// The checkout; where this program was built, unless said.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))]
    root: PathBuf,
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Holds code and tests against spec/sdp.md.
    Spec {
        /// Prints where each rule is implemented and tested.
        #[arg(long)]
        report: bool,
    },
    /// Holds the imports of the module against the floors in ARCHITECTURE.md.
    Floors,
    /// Holds the knobs and counters of sdp(7) against the module.
    Manual,
    /// Writes what shells complete behind the names of the tools.
    Completions {
        /// Where the files go.
        directory: PathBuf,
    },
    /// Makes the constants of rust/uapi from the header for programs.
    Uapi,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    match arguments.task {
        Task::Spec { report } => run_spec(&arguments.root, report),
        Task::Floors => Ok(report(&floors::faults(&arguments.root)?)),
        Task::Manual => Ok(report(&manual::faults(&arguments.root)?)),
        Task::Completions { directory } => {
            completions::write(&directory).map(|()| ExitCode::SUCCESS)
        }
        Task::Uapi => uapi::write(&arguments.root).map(|()| ExitCode::SUCCESS),
    }
}

fn report(faults: &[String]) -> ExitCode {
    for fault in faults {
        eprintln!("{fault}");
    }
    if faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run_spec(root: &Path, report: bool) -> Result<ExitCode> {
    let audit = spec::audit(root)?;
    if report {
        print!("{}", audit.table());
    }
    for fault in audit.faults() {
        eprintln!("{fault}");
    }
    println!("{}", audit.summary());
    Ok(if audit.faults().is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
