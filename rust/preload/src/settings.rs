// SPDX-License-Identifier: MIT

//! The settings in the environment and the configuration file. They are read once, while the
//! library is loaded.
//!
//! | variable | meaning |
//! |---|---|
//! | `LIBSDP_CONFIG_FILE` | the file of rules instead of `/etc/libsdp.conf` |
//! | `SIMPLE_LIBSDP`, `ALWAYS_USE_SDP` | set: all sockets are SDP, no file is read |
//! | `SDP_DEBUG` | not empty: report on stderr the transport of each socket |
//! | `LIBSDP_CONFIG_REPORTED` | set by this library: the file with an error that has been reported |
//!
//! A set-user-ID program ignores all of them, because its user is not trusted.

use crate::config::{self, Role, Statement, Transport};
use crate::lending;
use crate::log::{level, Log};
use crate::rules::Rules;
use crate::source;
use crate::text::Tail;
use std::env;
use std::ffi::{CStr, OsString};
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::OnceLock;

const CONFIG_FILE: &str = "/etc/libsdp.conf";

/// The file of rules with a reported error, for the process's children.
const REPORTED: &str = "LIBSDP_CONFIG_REPORTED";

/// The settings of this process.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) rules: Rules,
    pub(crate) log: Log,
    /// The decision for servers and for clients if it does not depend on the address.
    pub(crate) server: Option<Transport>,
    pub(crate) client: Option<Transport>,
    /// The file's statement about `sdp_run --async` for this program; see [`config::Lending`].
    pub(crate) lending: Option<&'static CStr>,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// The settings, read at the first call.
pub(crate) fn get() -> &'static Settings {
    SETTINGS.get_or_init(|| Settings::read(&program_name(), environment(is_secure())))
}

/// Whether the program has privileges that the user who started it lacks: set-user-ID, set-group-ID
/// or capabilities.
fn is_secure() -> bool {
    // SAFETY: It takes an integer.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The environment of the user who started the program.
fn environment(is_secure: bool) -> impl Fn(&str) -> Option<OsString> {
    move |name| if is_secure { None } else { env::var_os(name) }
}

/// The name of the program without its path.
fn program_name() -> Box<CStr> {
    extern "C" {
        static program_invocation_short_name: *const libc::c_char;
    }
    // SAFETY: The C library sets it before any constructor runs. Programs that change it store a C
    // string there.
    unsafe {
        if program_invocation_short_name.is_null() {
            c"".into()
        } else {
            CStr::from_ptr(program_invocation_short_name).into()
        }
    }
}

impl Settings {
    fn new(rules: Rules, log: Log) -> Self {
        let server = rules.certain(Role::Server);
        let client = rules.certain(Role::Client);
        Self {
            rules,
            log,
            server,
            client,
            lending: None,
        }
    }

    /// The decision, if it is the same for all sockets and addresses.
    pub(crate) fn certain(&self) -> Option<Transport> {
        self.server.filter(|server| Some(*server) == self.client)
    }

    fn read(program: &CStr, environment: impl Fn(&str) -> Option<OsString>) -> Self {
        let debug = environment("SDP_DEBUG").is_some_and(|value| !value.is_empty());
        let log = Log::to_stderr(program, if debug { level::SUMMARY } else { level::ERROR });
        let is_set = |name| environment(name).is_some();
        if is_set("SIMPLE_LIBSDP") || is_set("ALWAYS_USE_SDP") {
            return Self::new(Rules::all(Transport::Sdp), log);
        }
        let named = environment("LIBSDP_CONFIG_FILE").filter(|name| !name.is_empty());
        let path = named.as_deref().unwrap_or(CONFIG_FILE.as_ref());
        let complain = |error: &dyn fmt::Display| {
            if environment(REPORTED).as_deref() == Some(path) {
                return;
            }
            let shown = path.to_string_lossy();
            let shown = Tail(&shown);
            log.say(
                level::ERROR,
                format_args!("{shown}: {error}; every socket tries SDP and then TCP"),
            );
            // The library is being loaded: the program has no other thread yet.
            env::set_var(REPORTED, path);
        };
        let text = match source::read(Path::new(path)) {
            Ok(text) => text,
            Err(error) => {
                // The default file may be absent; a file that the user named may not.
                if named.is_some() || error.kind() != ErrorKind::NotFound {
                    complain(&error);
                }
                return Self::new(Rules::all(Transport::Both), log);
            }
        };
        match config::parse(&text) {
            Ok(statements) => Self::from_statements(statements, program, log, debug),
            Err(error) => {
                complain(&error);
                Self::new(Rules::all(Transport::Both), log)
            }
        }
    }

    fn from_statements(
        statements: Vec<Statement>,
        program: &CStr,
        mut log: Log,
        debug: bool,
    ) -> Self {
        let lending = lending::way(&statements, program);
        let mut rules = Vec::new();
        let mut is_ours = false;
        for statement in statements {
            match statement {
                // With debugging on, the log's destination and level in the file are ignored.
                Statement::Log { .. } if debug => {}
                Statement::Log {
                    destination,
                    min_level,
                } => {
                    if let Some(destination) = destination {
                        log.set_destination(destination);
                    }
                    if let Some(min_level) = min_level {
                        log.set_min_level(min_level);
                    }
                }
                Statement::Use(rule) => {
                    if let Some(odd) = rule.odd_ports() {
                        log.say(level::WARNING, format_args!("{odd}"));
                    }
                    rules.push(rule);
                }
                Statement::Async(_) => is_ours = true,
            }
        }
        // As in libsdp: without a rule everything is SDP. But libsdp has no statement of ours.
        let rules = match (rules.is_empty(), is_ours) {
            (true, false) => Rules::all(Transport::Sdp),
            (true, true) => Rules::all(Transport::Both),
            (false, _) => Rules::for_program(rules, program),
        };
        Self {
            lending,
            ..Self::new(rules, log)
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a panic is how a test fails")]

    use super::*;

    fn settings(text: &str) -> Settings {
        settings_of(c"prog", text)
    }

    fn settings_of(program: &CStr, text: &str) -> Settings {
        let statements = config::parse(text.as_bytes()).expect("it parses");
        let log = Log::to_stderr(program, level::ERROR);
        Settings::from_statements(statements, program, log, false)
    }

    #[test]
    fn a_file_without_rules_means_sdp() {
        assert_eq!(
            settings("log min-level 9\n").certain(),
            Some(Transport::Sdp)
        );
        // A file with rules about other programs is a file with rules.
        let others = settings("use tcp server other *:*\n");
        assert_eq!(others.certain(), Some(Transport::Both));
    }

    #[test]
    fn the_first_async_statement_about_the_program_decides() {
        let way = |text| settings(text).lending;
        assert_eq!(way("use tcp client * *:*\n"), None);
        assert_eq!(way("async copy other\nasync block pr*\n"), Some(c"block"));
        assert_eq!(way("async off prog\nasync copy *\n"), None);
        assert_eq!(way("async copy,receive *\n"), Some(c"copy,receive"));
        // It is no rule of libsdp, so its only presence forbids no TCP.
        let alone = settings("async copy other\n");
        assert_eq!(alone.certain(), Some(Transport::Both));
        assert_eq!(
            settings("async copy *\nuse tcp client * *:*\n").client,
            Some(Transport::Tcp)
        );
    }

    #[test]
    fn the_installed_file_means_both() {
        let installed = include_str!("../../packaging/libsdp.conf");
        assert_eq!(settings(installed).certain(), Some(Transport::Both));
        // The kernel takes only TCP's sockets from these programs: from the beginning, not after connect().
        for program in [
            c"nbd-client",
            c"iscsid",
            c"iscsiadm",
            c"iscsistart",
            c"rpc.nfsd",
        ] {
            let settings = settings_of(program, installed);
            assert_eq!(settings.certain(), Some(Transport::Tcp), "{program:?}");
        }
    }

    #[test]
    fn what_is_certain_for_both_roles_is_certain() {
        assert_eq!(
            settings("use tcp server * *:*\nuse tcp client * *:*\n").certain(),
            Some(Transport::Tcp)
        );
        assert_eq!(
            settings("use tcp server * *:*\nuse sdp client * *:*\n").certain(),
            None
        );
        assert_eq!(settings("use sdp client * 10.0.0.0/8:*\n").certain(), None);
    }

    #[test]
    fn the_environment_of_a_set_user_id_program_counts_for_nothing() {
        assert!(!is_secure());
        assert!(environment(false)("PATH").is_some());
        assert_eq!(environment(true)("PATH"), None);
        // All variables are read there, by name.
        let asked = std::cell::RefCell::new(Vec::new());
        let nothing = |name: &str| {
            asked.borrow_mut().push(String::from(name));
            None
        };
        Settings::read(c"prog", nothing);
        asked.borrow_mut().sort_unstable();
        assert_eq!(
            *asked.borrow(),
            [
                "ALWAYS_USE_SDP",
                "LIBSDP_CONFIG_FILE",
                "SDP_DEBUG",
                "SIMPLE_LIBSDP"
            ]
        );
    }

    #[test]
    fn log_statements_take_effect() {
        let log = settings("log min-level 4\nuse sdp client * *:*\n").log;
        assert!(log.wants(level::MATCH));
        assert!(!log.wants(level::NO_MATCH));
    }
}
