// SPDX-License-Identifier: MIT

//! `sdp_ss`: the SDP sockets of a network namespace, as ss(8) shows those of TCP.
//!
//! What the kernel says arrives by netlink (`dump`, `answer`), or from `/proc/net/sdp`
//! where the module has no netlink interface (`procfile`). Each socket is printed as it
//! comes, so that no memory is needed for all of them.

mod answer;
mod arguments;
mod counters;
mod dump;
mod filter;
mod names;
mod owners;
mod procfile;
mod socket;
mod table;
mod uapi;

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::arguments::Arguments;
use crate::filter::Filter;
use crate::owners::Owners;
use crate::socket::Socket;
use crate::table::Table;

/// What a failure is called, and what it was.
fn failed(what: impl std::fmt::Display, error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{what}: {error}"))
}

/// Goes over to a namespace of ip-netns(8), or to the one that a path stands for.
fn enter_namespace(name: &str) -> io::Result<()> {
    let path = if name.contains('/') {
        name.to_owned()
    } else {
        format!("/run/netns/{name}")
    };
    let file = File::open(&path).map_err(|e| failed(&path, e))?;
    nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET).map_err(|e| failed(&path, e))
}

/// How the sockets are shown.
enum Output {
    Table(Table),
    /// And whether one was written already.
    Json(bool),
}

impl Output {
    fn begin(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Table(table) => table.head(out),
            Self::Json(_) => write!(out, "["),
        }
    }

    fn socket(&mut self, out: &mut impl Write, socket: &Socket, owners: &Owners) -> io::Result<()> {
        match self {
            Self::Table(table) => table.line(out, socket, owners),
            Self::Json(more) => {
                writeln!(out, "{}", if *more { "," } else { "" })?;
                *more = true;
                serde_json::to_writer(out, &socket::Shown::new(socket, owners)).map_err(Into::into)
            }
        }
    }

    fn end(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Table(_) => Ok(()),
            Self::Json(_) => writeln!(out, "\n]"),
        }
    }
}

fn list(options: &Arguments, filter: &Filter) -> io::Result<()> {
    let owners = if options.processes {
        Owners::find()
    } else {
        Owners::default()
    };
    let mut out = BufWriter::new(io::stdout().lock());
    let mut output = if options.json {
        Output::Json(false)
    } else {
        Output::Table(Table::new(options))
    };
    let mut begun = false;
    let mut show = |socket: Socket| {
        if !begun {
            begun = true;
            output.begin(&mut out)?;
        }
        if filter.wants(&socket) {
            output.socket(&mut out, &socket, &owners)?;
        }
        Ok(())
    };
    let request = dump::Request {
        states: filter.states(),
        flow: options.info || options.json,
        traffic: options.info || options.json,
    };
    match dump::run(request, &mut show) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            procfile::run(&mut show)?;
        }
        result => result?,
    }
    if !begun {
        output.begin(&mut out)?;
    }
    output.end(&mut out)?;
    out.flush()
}

fn run(options: &Arguments) -> io::Result<()> {
    let filter = Filter::new(options).map_err(io::Error::other)?;
    if let Some(name) = &options.namespace {
        enter_namespace(name)?;
    }
    if options.summary {
        counters::run(options)
    } else {
        list(options, &filter)
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // Somebody has seen enough of it.
        Err(e) if e.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("sdp_ss: {e}");
            ExitCode::FAILURE
        }
    }
}
