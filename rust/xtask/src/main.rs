// SPDX-License-Identifier: GPL-2.0

//! Checks of this repository, and files generated from it.
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
mod order;
mod sources;
mod spec;
mod uapi;
mod words;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

#[derive(Parser)]
struct Arguments {
    /// The checkout; by default the one in which this program was built.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))]
    root: PathBuf,
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Compares code and tests with spec/sdp.md.
    Spec {
        /// Prints where each rule is implemented and tested.
        #[arg(long)]
        report: bool,
    },
    /// Compares the modules with their floors in ARCHITECTURE.md.
    Floors {
        /// Prints the circles of files that use each other.
        #[arg(long)]
        circles: bool,
        /// Prints the files that each file uses, too.
        #[arg(long)]
        graph: bool,
    },
    /// Compares the knobs and counters of sdp(7) with the module.
    Manual,
    /// Compares docs/memory-order.md with the code that uses atomics.
    Order,
    /// Finds refused wording in documents, comments and messages.
    Words {
        /// Also in the parts that are pending.
        #[arg(long)]
        all: bool,
    },
    /// Writes shell completions for the tools.
    Completions {
        /// The output directory.
        directory: PathBuf,
    },
    /// Generates the constants of rust/uapi from the header for programs.
    Uapi,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    match arguments.task {
        Task::Spec { report } => run_spec(&arguments.root, report),
        Task::Floors { circles, graph } if circles || graph => {
            print!("{}", floors::report(&arguments.root, graph)?);
            Ok(ExitCode::SUCCESS)
        }
        Task::Floors { .. } => Ok(report(&floors::faults(&arguments.root)?)),
        Task::Manual => Ok(report(&manual::faults(&arguments.root)?)),
        Task::Order => Ok(report(&order::faults(&arguments.root)?)),
        Task::Words { all } => Ok(report(&words::faults(&arguments.root, all)?)),
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
