// SPDX-License-Identifier: MIT

//! The file of rules: does it exist, and does it parse?

use crate::config::{self, Statement};
use crate::report::Report;
use crate::source;
use std::env;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const CONFIG_FILE: &str = "/etc/libsdp.conf";

/// Reports the rules that programs under `sdp_run` will use.
pub(crate) fn check(report: &mut Report, named: Option<&Path>) {
    for name in ["SIMPLE_LIBSDP", "ALWAYS_USE_SDP"] {
        if env::var_os(name).is_some() {
            report.note(&format!(
                "{name} is set: every socket is SDP, whatever the rules, unless sdp_run is given \
                 a file of rules (-c)"
            ));
        }
    }
    let from_environment = env::var_os("LIBSDP_CONFIG_FILE").filter(|name| !name.is_empty());
    let named = named
        .map(Path::to_owned)
        .or(from_environment.map(PathBuf::from));
    let path = named.clone().unwrap_or(CONFIG_FILE.into());
    match source::read(&path) {
        Err(error) if named.is_none() && error.kind() == ErrorKind::NotFound => {
            report.good("no rules: every socket tries SDP and then TCP");
        }
        Err(error) => report.bad_apart(
            &format!("{}: {error}", path.display()),
            "programs run without rules: every socket tries SDP and then TCP",
        ),
        Ok(text) => match config::parse(&text) {
            Ok(statements) => {
                let rules: Vec<_> = statements
                    .iter()
                    .filter_map(|statement| match statement {
                        Statement::Use(rule) => Some(rule),
                        Statement::Log { .. } | Statement::Async(_) => None,
                    })
                    .collect();
                let other = statements
                    .iter()
                    .any(|statement| matches!(statement, Statement::Async(_)));
                report.good(&match rules.len() {
                    0 if other => format!(
                        "{}: no rule: every socket tries SDP and then TCP",
                        path.display()
                    ),
                    0 => format!("{}: no rule: every socket is SDP", path.display()),
                    1 => format!("{}: 1 rule", path.display()),
                    count => format!("{}: {count} rules", path.display()),
                });
                for odd in rules.iter().filter_map(|rule| rule.odd_ports()) {
                    report.note(&format!("{}: {odd}", path.display()));
                }
            }
            Err(error) => report.bad_apart(
                &format!("{}: {error}", path.display()),
                "until it is put right none of its rules counts: every socket tries SDP and \
                 then TCP",
            ),
        },
    }
}
