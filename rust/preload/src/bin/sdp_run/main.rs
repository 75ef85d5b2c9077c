// SPDX-License-Identifier: MIT

//! `sdp_run PROGRAM ARGUMENTS...`: runs a program with its TCP sockets over SDP.
//!
//! It only puts `libsdp.so` on the program's preload list and becomes the
//! program, so that nobody has to write `LD_PRELOAD` by hand. With `--bpf` it has
//! the kernel do it instead, for programs that no library reaches.

mod bpf;
mod cgroup;
mod descriptor;
mod inherited;
mod keeper;
mod members;
mod program;
mod reach;
mod switch;

use clap::error::ErrorKind;
use clap::Parser;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit statuses of programs that run another one, as env(1) and nice(1) have them.
const OWN_FAILURE: u8 = 125;
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

const LIBRARY: &str = "libsdp.so";

/// Where the library may stand, seen from the directory of `sdp_run`.
const PLACES: [&str; 4] = ["", "../lib", "../lib64", "../lib/x86_64-linux-gnu"];

/// Run a program with its TCP sockets over SDP
///
/// Each stream socket that PROGRAM makes for IPv4 or IPv6 tries the Sockets Direct
/// Protocol first and then TCP, and one that listens does so on both, unless
/// /etc/libsdp.conf has other rules. Where the kernel has no SDP it is a TCP socket.
/// Statically linked, Go and set-user-ID programs are reached with --bpf only.
#[derive(Parser)]
#[command(version, name = "sdp_run")]
struct Arguments {
    /// Say on stderr for each socket that connects or listens whether it is SDP or TCP, and why
    #[arg(short, long)]
    debug: bool,

    /// Use the rules in this file instead of those in /etc/libsdp.conf
    #[arg(short, long, value_name = "FILE", conflicts_with = "simple")]
    config: Option<PathBuf>,

    /// SDP for every socket, whatever the rules; no TCP where SDP fails
    #[arg(short, long)]
    simple: bool,

    /// Use this library instead of the one that stands beside sdp_run or in its lib directory
    #[arg(short, long, value_name = "FILE")]
    library: Option<PathBuf>,

    /// Have a BPF program in the kernel do it: reaches every program, knows no rules, needs root
    #[arg(short, long, conflicts_with_all = ["config", "simple", "library"])]
    bpf: bool,

    /// With --bpf: switch all processes of this cgroup, and run PROGRAM in it, if there is one
    #[arg(short = 'g', long, value_name = "DIRECTORY", requires = "bpf")]
    cgroup: Option<PathBuf>,

    /// The program to run, and its arguments
    #[arg(
        required_unless_present = "cgroup",
        trailing_var_arg = true,
        value_name = "PROGRAM"
    )]
    program: Vec<OsString>,
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
            return if asked_for {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(OWN_FAILURE)
            };
        }
    };
    let cgroup = arguments.cgroup.as_deref();
    let (program, rest) = match (arguments.program.split_first(), cgroup) {
        (Some(parts), _) => parts,
        (None, Some(cgroup)) => return switch_others(cgroup, arguments.debug),
        (None, None) => return failure(OWN_FAILURE, "no program to run"),
    };
    if arguments.bpf {
        let switched = switch::this_process(cgroup);
        if let Err(missing) = &switched {
            say(format_args!("TCP, without --bpf: {missing}"));
        } else if arguments.debug {
            say_switched();
        }
        return become_program(program, rest);
    }
    let list = match library(arguments.library).and_then(|library| preload_list(&library)) {
        Ok(list) => list,
        Err(message) => return failure(OWN_FAILURE, &message),
    };

    if let Some(reason) = reach::unreached(program) {
        say(format_args!(
            "TCP: {reason}, which --bpf reaches: {}",
            program.to_string_lossy()
        ));
    }

    env::set_var("LD_PRELOAD", list);
    if arguments.debug {
        env::set_var("SDP_DEBUG", "1");
    }
    if arguments.simple {
        env::set_var("SIMPLE_LIBSDP", "1");
    }
    if let Some(file) = arguments.config {
        match absolute(&file) {
            Ok(file) => {
                env::set_var("LIBSDP_CONFIG_FILE", file);
                env::remove_var("SIMPLE_LIBSDP");
                env::remove_var("ALWAYS_USE_SDP");
            }
            Err(message) => return failure(OWN_FAILURE, &message),
        }
    }
    become_program(program, rest)
}

/// Returns only if it could not.
fn become_program(program: &OsStr, rest: &[OsString]) -> ExitCode {
    let error = inherited::become_program(program, rest);
    let status = if error.kind() == io::ErrorKind::NotFound {
        NOT_FOUND
    } else {
        NOT_EXECUTABLE
    };
    failure(
        status,
        &format!("cannot run {}: {error}", program.to_string_lossy()),
    )
}

/// What can not be said to anybody is no reason for the program not to run.
fn say(message: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "sdp_run: {message}");
}

fn say_switched() {
    say(format_args!(
        "the kernel makes SDP sockets where TCP's are asked for"
    ));
}

/// `--bpf --cgroup` without a program: until a signal ends it.
fn switch_others(cgroup: &Path, debug: bool) -> ExitCode {
    match switch::others(cgroup) {
        Ok(_switch) => {
            if debug {
                say_switched();
            }
            loop {
                // SAFETY: It has no arguments.
                unsafe { libc::pause() };
            }
        }
        Err(missing) => failure(OWN_FAILURE, &missing),
    }
}

fn failure(status: u8, message: &str) -> ExitCode {
    say(format_args!("{message}"));
    ExitCode::from(status)
}

/// The library to load: the one named, or the first one found near this program.
fn library(named: Option<PathBuf>) -> Result<PathBuf, String> {
    if let Some(file) = named {
        return absolute(&file);
    }
    let own = env::current_exe().map_err(|error| format!("cannot find out where I am: {error}"))?;
    let directory = own.parent().unwrap_or(Path::new("/"));
    PLACES
        .iter()
        .find_map(|place| absolute(&directory.join(place).join(LIBRARY)).ok())
        .ok_or_else(|| {
            format!(
                "{LIBRARY} is neither in {0} nor in {0}/../lib; name it with --library",
                directory.display()
            )
        })
}

/// The file under a name that stays right when the program changes its directory.
fn absolute(file: &Path) -> Result<PathBuf, String> {
    file.canonicalize()
        .map_err(|error| format!("{}: {error}", file.display()))
}

/// The preload list with `library` behind what is already on it, so that the
/// libraries the user has chosen still come first.
fn preload_list(library: &Path) -> Result<OsString, String> {
    // The dynamic linker takes both as separators and knows no quoting.
    if library
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|byte| matches!(byte, b' ' | b':'))
    {
        return Err(format!(
            "{}: a library can not be preloaded from a path with a space or a colon",
            library.display()
        ));
    }
    let mut list = env::var_os("LD_PRELOAD").unwrap_or_default();
    if !list.is_empty() {
        list.push(OsStr::new(":"));
    }
    list.push(library);
    Ok(list)
}
