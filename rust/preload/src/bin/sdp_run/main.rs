// SPDX-License-Identifier: MIT

//! `sdp_run PROGRAM ARGUMENTS...`: runs a program with its TCP sockets over SDP.
//!
//! It only puts `libsdp.so` on the program's preload list and executes the program, so that users
//! need not write `LD_PRELOAD`. With `--bpf` the kernel makes the SDP sockets instead, also for
//! programs that no library reaches.

mod arguments;
mod asynchronous;
mod bpf;
mod cgroup;
mod descriptor;
mod inherited;
mod keeper;
mod members;
mod program;
mod reach;
mod readiness;
mod report;
mod rules;
mod switch;
mod usage;

#[path = "../../command_line.rs"]
mod command_line;
// The question of the other library.
#[path = "../../../../async/src/rights.rs"]
#[expect(dead_code, reason = "the library also uses what it is given")]
mod rights;
// The library's own parser of rules. The library itself must not be linked in, because its
// functions would replace the C library's.
#[path = "../../config.rs"]
#[expect(
    dead_code,
    reason = "the library goes by the rules; here they need only parse"
)]
mod config;
#[path = "../../lending.rs"]
mod lending;
#[path = "../../library.rs"]
mod library;
#[path = "../../source.rs"]
mod source;

use arguments::Arguments;
use command_line::OWN_FAILURE;
use library::LIBRARY;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The library of `--async`.
const ASYNC_LIBRARY: &str = "libsdp_async.so";

/// The exit statuses of env(1), nice(1) and others that run a program.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

fn main() -> ExitCode {
    let arguments: Arguments = match command_line::parse() {
        Ok(arguments) => arguments,
        Err(status) => return status,
    };
    if arguments.report {
        return report(&arguments);
    }
    let cgroup = arguments.cgroup.as_deref();
    let (program, rest) = match (arguments.program.split_first(), cgroup) {
        (Some(parts), _) => parts,
        (None, Some(cgroup)) => return switch_others(cgroup, arguments.debug),
        (None, None) => return failure(OWN_FAILURE, "no program to run"),
    };
    if arguments.bpf {
        let switched = switch::this_process(cgroup);
        if let Err(missing) = &switched {
            say(format_args!(
                "--bpf has no effect: {missing}; the program uses TCP"
            ));
        } else if arguments.debug {
            say_switched();
        }
        return become_program(program, rest);
    }
    if let Err(message) = preload(&arguments) {
        return failure(OWN_FAILURE, &message);
    }
    if let Some(reason) = reach::unreached(program) {
        say(format_args!(
            "{} {reason}, so it uses TCP; --bpf would reach it",
            program.to_string_lossy()
        ));
    }
    become_program(program, rest)
}

/// Runs the program twice; see `report.rs`.
fn report(arguments: &Arguments) -> ExitCode {
    // The options are before the program.
    let count = env::args_os().len() - arguments.program.len();
    let options = env::args_os().take(count).skip(1);
    let same: Vec<_> = options
        .filter(|word| word != "--report")
        .chain(arguments.program.iter().cloned())
        .collect();
    match report::report(&same, &arguments.program) {
        Ok((status, page)) => {
            let _ = write!(io::stderr(), "{page}");
            ExitCode::from(status)
        }
        Err(error) => failure(OWN_FAILURE, &error.to_string()),
    }
}

/// Sets the environment that loads the library and has its settings.
fn preload(arguments: &Arguments) -> Result<(), String> {
    let library = library(arguments.library.as_deref())?;
    env::set_var("LD_PRELOAD", preload_list(&library)?);
    if arguments.simple {
        env::set_var("SIMPLE_LIBSDP", "1");
    }
    if let Some(file) = &arguments.config {
        env::set_var("LIBSDP_CONFIG_FILE", rules::checked(file)?);
        env::remove_var("SIMPLE_LIBSDP");
        env::remove_var("ALWAYS_USE_SDP");
    }
    preload_async(arguments)?;
    allow_sanitizers();
    if arguments.debug {
        env::set_var("SDP_DEBUG", "1");
        let library = library.display();
        say(format_args!("{library} is loaded; {}", rules::in_force()));
    }
    Ok(())
}

/// AddressSanitizer refuses to run behind another library. It works there, because the libraries
/// replace no function that it needs. The setting is for all programs, because the program's children
/// have the libraries too.
fn allow_sanitizers() {
    const OPTIONS: &str = "ASAN_OPTIONS";
    const SETTING: &str = "verify_asan_link_order";
    let mut options = env::var_os(OPTIONS).unwrap_or_default();
    let of_setting = |part: &[u8]| part.starts_with(SETTING.as_bytes());
    if options.as_bytes().windows(SETTING.len()).any(of_setting) {
        return;
    }
    if !options.is_empty() {
        options.push(":");
    }
    options.push(format!("{SETTING}=0"));
    env::set_var(OPTIONS, options);
}

/// The same for the library of `--async`, if the option or a rule asks for it.
fn preload_async(arguments: &Arguments) -> Result<(), String> {
    let way = if let Some(way) = &arguments.asynchronous {
        env::set_var("SDP_ASYNC", way);
        Some(way.clone())
    } else {
        // The variable comes before the rules, and does not load the library.
        if env::var_os("SDP_ASYNC").is_some() {
            return Ok(());
        }
        let name = arguments.program.first().map(OsString::as_os_str);
        let (way, any) = rules::lending(name.unwrap_or_default());
        if !any {
            return Ok(());
        }
        way.map(|way| way.to_string_lossy().into_owned())
    };
    // Behind the other one, which makes the sockets by the functions of this one.
    env::set_var("LD_PRELOAD", preload_list(&found(ASYNC_LIBRARY)?)?);
    let program = arguments.program.first().map(OsString::as_os_str);
    let missing = way.and_then(|way| asynchronous::missing(&way, program.unwrap_or_default()));
    if let Some(missing) = missing {
        say(format_args!("{missing}"));
    }
    Ok(())
}

/// Returns only after a failure.
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

/// If the message cannot be printed, the program runs nevertheless.
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
            if let Err(error) = readiness::tell() {
                return failure(OWN_FAILURE, &format!("cannot tell systemd: {error}"));
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

/// The library to load: the named one, or the first one found near this program.
fn library(named: Option<&Path>) -> Result<PathBuf, String> {
    match named {
        Some(file) => absolute(file),
        None => found(LIBRARY).map_err(|error| format!("{error}; name it with --library")),
    }
}

/// The first library of this name near this program.
fn found(name: &str) -> Result<PathBuf, String> {
    let own = env::current_exe().map_err(|error| format!("cannot find out where I am: {error}"))?;
    let directory = own.parent().unwrap_or(Path::new("/"));
    library::beside(directory, name).ok_or_else(|| {
        format!(
            "{name} is neither in {0} nor in {0}/../lib",
            directory.display()
        )
    })
}

/// The absolute path of a file, which stays valid when the program changes its directory.
fn absolute(file: &Path) -> Result<PathBuf, String> {
    file.canonicalize()
        .map_err(|error| format!("{}: {error}", file.display()))
}

/// The preload list with `library` appended, so that libraries chosen by the user come first.
fn preload_list(library: &Path) -> Result<OsString, String> {
    // The dynamic linker takes both as separators and has no quoting.
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
