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
mod namespaces;
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
use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::arguments::Arguments;
use crate::filter::Filter;
use crate::namespaces::Namespace;
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
    /// JSON, and whether with the way of the bytes.
    Json(bool),
}

/// The list of sockets, of one namespace or several.
struct List<'a> {
    filter: &'a Filter,
    owners: Owners,
    output: Output,
    /// The namespace, if there are several, and whether it was printed.
    namespace: Option<(Namespace, bool)>,
    is_begun: bool,
    has_sockets: bool,
    out: BufWriter<StdoutLock<'a>>,
}

impl<'a> List<'a> {
    fn new(options: &Arguments, filter: &'a Filter) -> Self {
        Self {
            filter,
            owners: if options.processes {
                Owners::find()
            } else {
                Owners::default()
            },
            output: if options.json {
                Output::Json(options.why)
            } else {
                Output::Table(Table::new(options))
            },
            namespace: None,
            is_begun: false,
            has_sockets: false,
            out: BufWriter::new(io::stdout().lock()),
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.is_begun {
            return Ok(());
        }
        self.is_begun = true;
        match &self.output {
            Output::Table(table) => table.head(&mut self.out),
            Output::Json(_) => write!(self.out, "["),
        }
    }

    fn socket(&mut self, socket: &Socket) -> io::Result<()> {
        self.begin()?;
        if !self.filter.wants(socket) {
            return Ok(());
        }
        match &mut self.output {
            Output::Table(table) => {
                if let Some((namespace, is_printed @ false)) = &mut self.namespace {
                    *is_printed = true;
                    writeln!(self.out, "{namespace}")?;
                }
                table.line(&mut self.out, socket, &self.owners)
            }
            Output::Json(why) => {
                writeln!(self.out, "{}", if self.has_sockets { "," } else { "" })?;
                self.has_sockets = true;
                let mut shown = socket::Shown::new(socket, &self.owners, *why);
                shown.namespace = self.namespace.as_ref().map(|(one, _)| one.inode);
                serde_json::to_writer(&mut self.out, &shown).map_err(Into::into)
            }
        }
    }

    /// Adds the sockets of the thread's namespace.
    fn add(&mut self, options: &Arguments) -> io::Result<()> {
        let request = dump::Request {
            states: self.filter.states(),
            flow: options.info || options.json,
            traffic: options.info || options.json || options.why,
        };
        let mut show = |socket: Socket| self.socket(&socket);
        match dump::run(request, &mut show) {
            Err(e) if e.kind() == ErrorKind::NotFound => procfile::run(&mut show),
            result => result,
        }
    }

    fn end(mut self) -> io::Result<()> {
        self.begin()?;
        if matches!(self.output, Output::Json(_)) {
            writeln!(self.out, "\n]")?;
        }
        self.out.flush()
    }
}

fn list(options: &Arguments, filter: &Filter) -> io::Result<()> {
    let mut list = List::new(options, filter);
    if options.everywhere {
        for namespace in namespaces::all() {
            namespace.enter().map_err(|e| failed(&namespace, e))?;
            list.namespace = Some((namespace, false));
            list.add(options)?;
        }
    } else {
        list.add(options)?;
    }
    list.end()
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
