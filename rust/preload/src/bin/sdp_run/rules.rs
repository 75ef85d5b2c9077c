// SPDX-License-Identifier: MIT

//! The file of rules that the program will use.

use crate::config::{self, Statement};
use crate::lending;
use crate::source;
use std::env;
use std::ffi::{CStr, CString, OsStr};
use std::fmt::Display;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const CONFIG_FILE: &str = "/etc/libsdp.conf";

fn fault(file: &Path, error: impl Display) -> String {
    format!("rules: {}: {error}", file.display())
}

/// The absolute path of the file, which stays valid when the program changes its directory. An
/// error if the file cannot be read or parsed.
pub(crate) fn checked(file: &Path) -> Result<PathBuf, String> {
    let text = source::read(file).map_err(|error| fault(file, error))?;
    config::parse(&text).map_err(|error| fault(file, error))?;

    file.canonicalize().map_err(|error| fault(file, error))
}

/// The way of `async` for programs of this name, and whether there is one for any.
pub(crate) fn lending(program: &OsStr) -> (Option<&'static CStr>, bool) {
    let statements = statements();
    let name = Path::new(program).file_name().unwrap_or_default();
    let way = CString::new(name.as_bytes())
        .ok()
        .and_then(|name| lending::way(&statements, &name));
    (way, statements.iter().any(lends))
}

fn lends(statement: &Statement) -> bool {
    match statement {
        Statement::Async(lending) => lending.way.is_some(),
        Statement::Log { .. } | Statement::Use(_) => false,
    }
}

/// The statements that the library will read. Its errors are the library's to report.
fn statements() -> Vec<Statement> {
    let text = file().ok().and_then(|(path, _)| source::read(&path).ok());
    config::parse(&text.unwrap_or_default()).unwrap_or_default()
}

/// The file that the library will read, and whether it was named. An error: the variable that makes
/// it read none.
fn file() -> Result<(PathBuf, bool), &'static str> {
    let is_set = |name: &&&str| env::var_os(name).is_some();
    if let Some(name) = ["SIMPLE_LIBSDP", "ALWAYS_USE_SDP"].iter().find(is_set) {
        return Err(name);
    }
    let named = env::var_os("LIBSDP_CONFIG_FILE").filter(|name| !name.is_empty());
    let is_named = named.is_some();
    Ok((named.map_or(CONFIG_FILE.into(), PathBuf::from), is_named))
}

/// A description of the rules that the library will find.
pub(crate) fn in_force() -> String {
    let (path, is_named) = match file() {
        Ok(found) => found,
        Err(name) => return format!("{name} is set: SDP for every socket"),
    };
    match source::read(&path) {
        Err(error) if !is_named && error.kind() == ErrorKind::NotFound => {
            "no rules: every socket tries SDP and then TCP".into()
        }
        Err(error) => fault(&path, error),
        Ok(text) => match config::parse(&text) {
            Err(error) => fault(&path, error),
            Ok(statements) => {
                let is_rule = |statement: &&Statement| matches!(statement, Statement::Use(_));
                let count = statements.iter().filter(is_rule).count();
                format!("rules: {} ({count})", path.display())
            }
        },
    }
}
