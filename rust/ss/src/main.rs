// SPDX-License-Identifier: MIT

//! `sdp_ss`: the SDP sockets of a network namespace, as ss(8) shows TCP's.
//!
//! The answers of the kernel come by netlink (`dump`, `answer`), or from `/proc/net/sdp` if the
//! module has no netlink interface (`procfile`). Each socket is printed at once, so memory does not
//! grow with their number.

mod answer;
mod arguments;
mod counters;
mod dump;
mod filter;
mod names;
mod owners;
#[expect(dead_code, reason = "sdp_chk asks for silence")]
mod peer;
mod peers;
mod procfile;
mod socket;
mod table;
mod uapi;
mod why;

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::arguments::Arguments;
use crate::filter::Filter;
use crate::owners::Owners;
use crate::socket::Socket;
use crate::table::Table;

/// An error message: the failed step, and the error.
fn failed(what: impl std::fmt::Display, error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{what}: {error}"))
}

/// Enters a namespace of ip-netns(8), or a path's.
fn enter_namespace(name: &str) -> io::Result<()> {
    let path = if name.contains('/') {
        name.to_owned()
    } else {
        format!("/run/netns/{name}")
    };
    let file = File::open(&path).map_err(|e| failed(&path, e))?;
    nix::sched::setns(file, nix::sched::CloneFlags::CLONE_NEWNET).map_err(|e| failed(&path, e))
}

/// The form of the output.
enum Output {
    Table(Table),
    /// JSON, whether a socket was written already, and whether with the way of its bytes.
    Json(bool, bool),
}

impl Output {
    fn begin(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Table(table) => table.head(out),
            Self::Json(..) => write!(out, "["),
        }
    }

    fn socket(&mut self, out: &mut impl Write, socket: &Socket, owners: &Owners) -> io::Result<()> {
        match self {
            Self::Table(table) => table.line(out, socket, owners),
            Self::Json(more, why) => {
                writeln!(out, "{}", if *more { "," } else { "" })?;
                *more = true;
                let shown = socket::Shown::new(socket, owners, *why);
                serde_json::to_writer(out, &shown).map_err(Into::into)
            }
        }
    }

    fn end(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Table(_) => Ok(()),
            Self::Json(..) => writeln!(out, "\n]"),
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
        Output::Json(false, options.why)
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
        traffic: options.info || options.json || options.why,
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
    } else if options.peers {
        peers::run(options)
    } else {
        list(options, &filter)
    }
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe because it needs no more.
        Err(e) if e.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("sdp_ss: {e}");
            ExitCode::FAILURE
        }
    }
}
