// SPDX-License-Identifier: MIT

//! The rules of `libsdp.conf` applied to a program, on a stand-in for a kernel with SDP and on the
//! running kernel.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a panic is how a test fails"
)]

mod built;

use built::{built, messages, SDP_RUN};
use std::collections::HashMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A directory of the test's own, removed at its end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sdp-rules-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a directory can be made");
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).expect("a file can be written");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A leftover in a temporary directory is harmless.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The probe on a kernel with SDP (or without the stand-in), with these rules.
fn probe(config: &Path, with_sdp: bool) -> Command {
    let mut list = built("libsdp.so").into_os_string();
    if with_sdp {
        list.push(":");
        list.push(built("libkernel_with_sdp.so"));
    }
    let mut command = Command::new(built("socket_probe"));
    command
        .env("LD_PRELOAD", list)
        .env("LIBSDP_CONFIG_FILE", config)
        .env_remove("SDP_DEBUG")
        .env_remove("SIMPLE_LIBSDP")
        .env_remove("ALWAYS_USE_SDP");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

fn lines(command: &mut Command) -> Vec<HashMap<String, String>> {
    text(&succeed(command).stdout)
        .lines()
        .map(|line| {
            line.split(' ')
                .filter_map(|word| word.split_once('='))
                .map(|(name, value)| (name.into(), value.into()))
                .collect()
        })
        .collect()
}

/// The transports of the probe's sockets after its calls: 0 SDP, 1 both, 2 TCP, and "none" for a
/// socket that is not an SDP socket.
fn transports(rules: &str, calls: &[&str]) -> Vec<String> {
    let scratch = Scratch::new();
    let config = scratch.file("conf", rules);
    lines(probe(&config, true).args(calls))
        .into_iter()
        .map(|mut line| line.remove("transport").unwrap_or_default())
        .collect()
}

#[test]
fn no_rule_leaves_it_to_the_kernel() {
    assert_eq!(
        transports(
            "use both server * *:*\n",
            &[
                "connect@127.0.0.1:9",
                "connect@[::1]:9",
                "listen@127.0.0.1:0"
            ]
        ),
        ["1", "1", "1"]
    );
}

#[test]
fn rules_that_leave_no_choice_decide_at_once() {
    let calls = ["connect@127.0.0.1:9", "listen@127.0.0.1:0"];
    assert_eq!(
        transports("use sdp server * *:*\nuse sdp client * *:*\n", &calls),
        ["0", "0"]
    );
    assert_eq!(
        transports("use tcp server * *:*\nuse tcp client * *:*\n", &calls),
        ["none", "none"]
    );
    // A log statement is no rule.
    assert_eq!(transports("log min-level 9\n", &calls), ["0", "0"]);
}

#[test]
fn roles_have_rules_of_their_own() {
    let calls = ["connect@127.0.0.1:9", "listen@127.0.0.1:0"];
    assert_eq!(
        transports("use tcp server * *:*\nuse sdp client * *:*\n", &calls),
        ["0", "2"]
    );
    assert_eq!(transports("use sdp listen * *:*\n", &calls), ["1", "0"]);
}

#[test]
fn addresses_and_ports_decide() {
    let rules = "use tcp client * 127.0.0.0/24:10-20\n\
                 use sdp client * 127.0.0.0/8:*\n\
                 use tcp client * ::1:9\n\
                 use sdp server * 127.0.0.2:*\n\
                 use tcp server * 127.0.0.3:*\n";
    assert_eq!(
        transports(
            rules,
            &[
                "connect@127.0.0.1:10",
                "connect@127.0.0.1:9",
                "connect@127.0.1.1:20",
                "connect@[::1]:9",
                "connect@[::1]:10",
                "connect@[::ffff:127.0.0.1]:11",
                "listen@127.0.0.2:0",
                "listen@127.0.0.3:0",
                "listen@127.0.0.4:0",
            ]
        ),
        ["2", "0", "0", "2", "1", "2", "0", "2", "1"]
    );
}

#[test]
fn programs_decide() {
    let calls = ["connect@127.0.0.1:9"];
    assert_eq!(
        transports("use sdp client socket_pr?be *:*\n", &calls),
        ["0"]
    );
    assert_eq!(transports("use sdp client socket *:*\n", &calls), ["1"]);
}

#[test]
fn the_environment_overrides_the_file() {
    let scratch = Scratch::new();
    let tcp = scratch.file("conf", "use tcp server * *:*\nuse tcp client * *:*\n");
    for name in ["SIMPLE_LIBSDP", "ALWAYS_USE_SDP"] {
        let mut command = probe(&tcp, true);
        // Any value is enough.
        command.env(name, "").arg("connect@127.0.0.1:9");
        assert_eq!(lines(&mut command)[0]["transport"], "0");
    }
}

#[test]
fn a_broken_file_is_named_with_its_place_and_the_program_runs() {
    let scratch = Scratch::new();
    let config = scratch.file("conf", "# rules\nuse sdp clients * *:*\n");
    let mut command = probe(&config, true);
    command.args(["connect@127.0.0.1:9", "listen@127.0.0.1:0"]);
    let output = succeed(&mut command);
    assert_eq!(
        messages(&output.stderr, "socket_probe"),
        format!(
            "{}: line 2, column 9: 'clients' where server, listen, client or connect \
             belongs; every socket tries SDP and then TCP\n",
            config.display()
        )
    );
    assert!(!text(&output.stdout).contains("libsdp"));
    assert_eq!(lines(&mut command)[0]["transport"], "1");
    assert_eq!(lines(&mut command)[1]["transport"], "1");
}

#[test]
fn the_place_in_a_broken_file_is_said_however_long_its_path() {
    let scratch = Scratch::new();
    let deep = format!("{0}/{0}", "d".repeat(190));
    fs::create_dir_all(scratch.0.join(&deep)).expect("a directory can be made");
    let config = scratch.file(&format!("{deep}/conf"), "\nuse sdp clients * *:*\n");
    let output = succeed(probe(&config, true).arg("2,1,0"));
    let said = messages(&output.stderr, "socket_probe");
    assert!(said.starts_with("...ddd"), "{said}");
    assert!(
        said.contains("ddd/conf: line 2, column 9: 'clients' where"),
        "{said}"
    );
    assert!(
        said.ends_with("every socket tries SDP and then TCP\n"),
        "{said}"
    );
}

#[test]
fn a_device_without_an_end_is_no_file_of_rules() {
    let mut command = probe(Path::new("/dev/zero"), true);
    let output = succeed(command.arg("connect@127.0.0.1:9"));
    let said = messages(&output.stderr, "socket_probe");
    assert!(
        said.starts_with("/dev/zero: it is longer than 1 MiB;"),
        "{said}"
    );
    assert_eq!(lines(&mut command)[0]["transport"], "1");
    let (status, said) = sdp_chk(None, &["--quiet", "--config", "/dev/zero"]);
    assert_eq!(status, Some(1));
    assert!(
        said.contains("BAD   /dev/zero: it is longer than 1 MiB\n"),
        "{said}"
    );
}

#[test]
fn an_unreadable_file_is_named_and_the_program_runs() {
    let scratch = Scratch::new();
    for path in [scratch.0.join("none"), scratch.0.clone()] {
        let mut command = probe(&path, true);
        command.arg("connect@127.0.0.1:9");
        let output = succeed(&mut command);
        let said = messages(&output.stderr, "socket_probe");
        assert!(
            said.starts_with(&format!("{}: ", path.display())) && said.lines().count() == 1,
            "{said}"
        );
        assert_eq!(lines(&mut command)[0]["transport"], "1");
    }
}

#[test]
fn a_module_that_is_too_old_for_both_means_tcp() {
    let scratch = Scratch::new();
    let config = scratch.file("conf", "use both server * *:*\n");
    let mut command = probe(&config, true);
    command
        .env("FAKE_SDP_TRANSPORT_ERRNO", libc::ENOPROTOOPT.to_string())
        .env("SDP_DEBUG", "1")
        .args(["2,1,0", "10,1,0"]);
    let output = succeed(&mut command);
    assert!(text(&output.stderr).contains("module is too old"));
    let kinds: Vec<_> = lines(&mut command)
        .iter()
        .map(|line| {
            (
                line["kind"].clone(),
                line["fd"].clone(),
                line["errno"].clone(),
            )
        })
        .collect();
    let tcp = |fd: &str| (String::from("tcp"), fd.into(), String::from("4242"));
    assert_eq!(kinds, [tcp("3"), tcp("4")]);
}

/// Without SDP every call ends as without the library, errno included.
#[test]
fn without_sdp_rules_change_nothing() {
    let calls = [
        "connect@127.0.0.1:9",
        "connect@[::1]:9",
        "listen@127.0.0.1:0",
        "listen@192.0.2.1:0",
        "2,1,0",
        "10,526337,6",
    ];
    let plain = lines(Command::new(built("socket_probe")).args(calls));
    assert_eq!(plain[0]["errno"], libc::ECONNREFUSED.to_string());
    assert_eq!(plain[2]["errno"], "4242");
    let scratch = Scratch::new();
    for rules in [
        "use sdp client * 127.0.0.0/8:*\nuse tcp server * *:*\n",
        "use both client * *:*\n",
        "use sdp client * *:*\nuse sdp server * *:*\n",
        "broken",
    ] {
        let config = scratch.file("conf", rules);
        assert_eq!(lines(probe(&config, false).args(calls)), plain, "{rules}");
    }
}

/// Calls with an address that SDP does not have: result, errno and transport.
fn without_device(rules: &str, bind_errno: i32, calls: &[&str]) -> Vec<[String; 4]> {
    let scratch = Scratch::new();
    let config = scratch.file("conf", rules);
    let mut command = probe(&config, true);
    command
        .env("FAKE_SDP_BIND_ERRNO", bind_errno.to_string())
        .args(calls);
    lines(&mut command)
        .into_iter()
        .map(|mut line| {
            ["bound", "result", "errno", "transport"]
                .map(|name| line.remove(name).unwrap_or_default())
        })
        .collect()
}

#[test]
fn a_rule_for_servers_does_not_keep_a_client_from_an_address() {
    let (calls, none) = (["bindconnect@127.0.0.1:9", "bindconnect@[::1]:9"], "99");
    let refused = |client: &str| {
        let rules = format!("use sdp server * *:*\n{client}");
        without_device(&rules, libc::EADDRNOTAVAIL, &calls)
    };
    for client in ["", "use tcp client * *:*\n", "use both client * *:*\n"] {
        for line in refused(client) {
            // errno is unchanged; then TCP is refused.
            assert_eq!(line, ["0,4242", "-1", "111", "2"], "{client}");
        }
    }
    // SDP without fallback.
    for line in refused("use sdp client * *:*\n") {
        assert_eq!(line, ["-1,99", "-1", none, "0"]);
    }
    // The decision depends on the peer, which is unknown before connect().
    let tcp = ["0,4242", "-1", "111", "2"];
    let not_sdp = ["0,4242", "-1", none, "2"];
    assert_eq!(refused("use sdp client * 127.0.0.0/8:*\n"), [not_sdp, tcp]);
    // Other errors are reported.
    for line in without_device("use sdp server * *:*\n", libc::EADDRINUSE, &calls) {
        assert_eq!(line, ["-1,98", "-1", "98", "0"]);
    }
}

#[test]
fn a_server_of_sdp_alone_does_not_listen_over_tcp() {
    let calls = ["listen@127.0.0.1:0"];
    for rules in [
        "use sdp server * *:*\n",
        "use sdp server * *:1-65535\nuse tcp client * *:*\n",
    ] {
        let [_, result, errno, _] = &without_device(rules, libc::EADDRNOTAVAIL, &calls)[0];
        assert_eq!((&result[..], &errno[..]), ("-1", "99"), "{rules}");
    }
    // The port is taken in SDP.
    let rules = "use sdp server * *:1-65535\n";
    let [_, result, errno, _] = &without_device(rules, libc::EADDRINUSE, &calls)[0];
    assert_eq!((&result[..], &errno[..]), ("-1", "98"));
    // If TCP is allowed, it is used.
    let [_, result, errno, transport] =
        &without_device("use both server * *:1-65535\n", 99, &calls)[0];
    assert_eq!(
        (&result[..], &errno[..], &transport[..]),
        ("0", "4242", "2")
    );
}

#[test]
fn an_address_that_cannot_be_read_is_the_kernels_to_refuse() {
    let scratch = Scratch::new();
    let config = scratch.file(
        "conf",
        "use sdp client * 10.0.0.0/8:*\nuse sdp server * 10.0.0.0/8:*\n",
    );
    let calls = ["connect", "bind"]
        .iter()
        .flat_map(|call| ["127.0.0.1:9", "[::1]:9"].map(|name| format!("wild{call}@{name}")));
    let calls: Vec<_> = calls.collect();
    for with_sdp in [false, true] {
        let mut command = probe(&config, with_sdp);
        for line in lines(command.env("SDP_DEBUG", "1").args(&calls)) {
            assert_eq!(line["errno"], libc::EFAULT.to_string());
        }
    }
}

#[test]
fn the_log_says_what_was_used_and_why_and_counts() {
    let scratch = Scratch::new();
    let config = scratch.file(
        "conf",
        "log min-level 4 destination stderr\n\
         use tcp client * 127.0.0.7:*\n\
         use sdp server * 127.0.0.2:*\n",
    );
    let output = succeed(
        probe(&config, true)
            .env("FAKE_SDP_REASON", libc::ECONNREFUSED.to_string())
            .args(["listen@127.0.0.1:0", "listen@127.0.0.2:0"]),
    );
    let said = messages(&output.stderr, "socket_probe");
    let said: Vec<_> = said.lines().collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].starts_with("listen on 127.0.0.1:"));
    assert!(said[0].ends_with(": TCP (no listener with SDP there) [fallback 1]"));
    assert!(said[1].ends_with(": rule in line 3: Sdp"), "{said:?}");
    assert!(said[2].ends_with(": SDP"), "{said:?}");
}

#[test]
fn the_log_says_how_a_connect_ended_that_did_not_wait() {
    let scratch = Scratch::new();
    let config = scratch.file(
        "conf",
        "log min-level 7\nuse sdp client * 127.0.0.2:*\nuse both client * *:*\n",
    );
    let [both, sdp] = ["127.0.0.1:0", "127.0.0.2:0"].map(|name| {
        let listener = TcpListener::bind(name).expect("a listener");
        (listener.local_addr().expect("it has a name"), listener)
    });
    for how in ["laterconnect", "againconnect", "connect"] {
        let call = |address| format!("{how}@{address}");
        let output = succeed(
            probe(&config, true)
                .env("FAKE_SDP_REASON", libc::ECONNREFUSED.to_string())
                .args([
                    call(both.0),
                    call(sdp.0),
                    format!("{how}@127.0.0.1:9"),
                    call(both.0),
                ]),
        );
        let over_tcp = format!(
            "connect to {}: TCP (no listener with SDP there) [fallback",
            both.0
        );
        assert_eq!(
            messages(&output.stderr, "socket_probe"),
            format!("{over_tcp} 1]\nconnect to {}: SDP\n{over_tcp} 2]\n", sdp.0),
            "{how}"
        );
    }
}

#[test]
fn a_log_file_is_private_or_not_written() {
    let scratch = Scratch::new();
    let log = scratch.0.join("log");
    let config = scratch.file(
        "conf",
        &format!(
            "log min-level 7 destination file {}\nuse sdp server * *:*\n",
            log.display()
        ),
    );
    // SAFETY: it has no conditions.
    let user = unsafe { libc::geteuid() };
    let written = if user == 0 {
        log.clone()
    } else {
        scratch.0.join(format!("log.{user}/log"))
    };
    let run = || {
        let output = succeed(probe(&config, true).arg("listen@127.0.0.1:0"));
        assert_eq!(text(&output.stderr), "");
    };
    run();
    run();
    let said = fs::read_to_string(&written).expect("the log is there");
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(messages(said.as_bytes(), "socket_probe")
        .lines()
        .all(|line| line.ends_with(": SDP")));

    // Others may write to it, so it is not written.
    fs::set_permissions(&written, fs::Permissions::from_mode(0o622)).expect("it is ours");
    run();
    assert_eq!(fs::read_to_string(&written).expect("it is there"), said);

    // It is a link, so it is not followed.
    fs::remove_file(&written).expect("it is ours");
    let target = scratch.file("target", "");
    fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).expect("it is ours");
    symlink(&target, &written).expect("a link can be made");
    run();
    assert_eq!(fs::read_to_string(&target).expect("it is there"), "");
}

#[test]
fn sdp_run_passes_the_file_on() {
    let scratch = Scratch::new();
    scratch.file("conf", "use sdp client * *:*\n");
    let run = |arguments: &[&str]| {
        Command::new(SDP_RUN)
            .current_dir(&scratch.0)
            .env_remove("LD_PRELOAD")
            .env("SIMPLE_LIBSDP", "from outside")
            .arg("--library")
            .arg(built("libsdp.so"))
            .args(arguments)
            .args(["sh", "-c", "echo \"$LIBSDP_CONFIG_FILE:$SIMPLE_LIBSDP\""])
            .output()
            .expect("sdp_run starts")
    };
    let expected = scratch.0.canonicalize().expect("it is there").join("conf");
    assert_eq!(
        text(&run(&["--config", "conf"]).stdout),
        format!("{}:\n", expected.display())
    );
    assert_eq!(
        text(&run(&["-cconf"]).stdout),
        format!("{}:\n", expected.display())
    );
    assert_eq!(text(&run(&["--simple"]).stdout), ":1\n");
    let missing = run(&["--config", "missing"]);
    assert_eq!(missing.status.code(), Some(125));
    assert!(text(&missing.stderr).contains("rules: missing"));
}

#[test]
fn sdp_run_runs_nothing_with_a_broken_file() {
    let scratch = Scratch::new();
    scratch.file("conf", "use sdp client * *:*\nuse sdp clients * *:*\n");
    let library = built("libsdp.so");
    for file in ["conf", ".", "/dev/zero"] {
        let output = Command::new(SDP_RUN)
            .current_dir(&scratch.0)
            .args(["-l".as_ref(), library.as_os_str()])
            .args(["-c", file, "sh", "-c", "echo it runs"])
            .output()
            .expect("sdp_run starts");
        assert_eq!(output.status.code(), Some(125), "{file}");
        assert_eq!(text(&output.stdout), "");
        let said = text(&output.stderr);
        assert!(
            said.starts_with(&format!("sdp_run: rules: {file}: ")),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn the_children_of_a_program_do_not_repeat_what_is_wrong_with_the_file() {
    let scratch = Scratch::new();
    let broken = ["one", "other"].map(|name| scratch.file(name, "use\n"));
    let probe = built("socket_probe");
    let script = "\"$1\" 2,1,0; \"$1\" 2,1,0; LIBSDP_CONFIG_FILE=$2 \"$1\" 2,1,0";
    let output = succeed(
        Command::new("sh")
            .args(["-c", script, "sh"])
            .args([&probe, &broken[1]])
            .env("LD_PRELOAD", built("libsdp.so"))
            .env("LIBSDP_CONFIG_FILE", &broken[0])
            .env_remove("LIBSDP_CONFIG_REPORTED")
            .env_remove("SDP_DEBUG")
            .env_remove("SIMPLE_LIBSDP")
            .env_remove("ALWAYS_USE_SDP"),
    );
    let said = text(&output.stderr);
    let said: Vec<_> = said.lines().collect();
    assert_eq!(said.len(), 2, "{said:?}");
    // Another file has its own error report.
    assert!(said[0].contains(": sh: ") && said[0].contains("/one: line 1"));
    assert!(said[1].contains(": socket_probe: ") && said[1].contains("/other: line 1"));
}

#[test]
fn debug_says_once_which_library_and_which_rules() {
    let scratch = Scratch::new();
    let conf = scratch.file("conf", "log min-level 9\nuse both client * *:*\n");
    let library = built("libsdp.so");
    let output = succeed(
        Command::new(SDP_RUN)
            .env_remove("LD_PRELOAD")
            .args(["-d".as_ref(), "-l".as_ref(), library.as_os_str()])
            .args(["-c".as_ref(), conf.as_os_str()])
            .args(["sh", "-c", "true; /bin/true"]),
    );
    let [library, conf] = [library, conf].map(|path| path.canonicalize().expect("it is there"));
    assert_eq!(
        text(&output.stderr),
        format!(
            "sdp_run: {} is loaded; rules: {} (1)\n",
            library.display(),
            conf.display()
        )
    );
}

/// `sdp_chk` on a kernel with SDP, or on one that refuses it with an errno.
fn sdp_chk(refusal: Option<i32>, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sdp_chk"));
    command
        .env("LD_PRELOAD", built("libkernel_with_sdp.so"))
        .env_remove("LIBSDP_CONFIG_FILE")
        .env_remove("SIMPLE_LIBSDP")
        .env_remove("ALWAYS_USE_SDP")
        .args(arguments);
    if let Some(errno) = refusal {
        command.env("FAKE_SDP_SOCKET_ERRNO", errno.to_string());
    }
    let output = command.output().expect("sdp_chk starts");
    assert_eq!(text(&output.stderr), "");
    (output.status.code(), text(&output.stdout))
}

#[test]
fn sdp_chk_says_what_is_wrong_and_what_to_do() {
    let (status, said) = sdp_chk(Some(libc::EAFNOSUPPORT), &["--quiet"]);
    assert_eq!(status, Some(1));
    assert!(said.contains("BAD   this kernel has no SDP\n      -> load the module: modprobe sdp"));
    let (_, untried) = sdp_chk(Some(libc::EAFNOSUPPORT), &["127.0.0.1"]);
    assert!(untried.contains("note  127.0.0.1 not tried: this kernel has no SDP\n"));
    let (status, unknown) = sdp_chk(Some(libc::EAFNOSUPPORT), &["no.such.host.invalid"]);
    assert!(status == Some(1) && unknown.contains("BAD   no.such.host.invalid, port 27257,"));
    assert!(!said.contains("ok "));

    let (_, said) = sdp_chk(None, &["--config", "/dev/null"]);
    assert!(
        said.contains("ok    /dev/null: no rule: every socket is SDP"),
        "{said}"
    );
    assert!(said.contains("ok    the kernel makes SDP sockets"));
    assert!(said.contains("ok    a socket can use SDP and TCP"));

    let scratch = Scratch::new();
    let config = scratch.file("conf", "use sdp");
    let (status, said) = sdp_chk(
        None,
        &["--config", config.to_str().expect("text"), "--quiet"],
    );
    assert_eq!(status, Some(1));
    assert!(
        said.contains("line 1, column 8: server or client is missing"),
        "{said}"
    );
    let overridden = Command::new(env!("CARGO_BIN_EXE_sdp_chk"))
        .env("ALWAYS_USE_SDP", "")
        .output()
        .expect("sdp_chk starts");
    let said = text(&overridden.stdout);
    assert!(said.starts_with("note  ALWAYS_USE_SDP is set: every socket is SDP"));
    assert!(!said.contains("SIMPLE_LIBSDP"));
    let misuse = Command::new(env!("CARGO_BIN_EXE_sdp_chk"))
        .args(["host", "no port"])
        .output()
        .expect("sdp_chk starts");
    assert_eq!(misuse.status.code(), Some(125));
}
