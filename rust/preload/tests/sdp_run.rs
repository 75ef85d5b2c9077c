// SPDX-License-Identifier: MIT

//! `sdp_run` from a user's view. The machine that runs these tests needs no SDP. Most tests show
//! that programs run as without the library; the others preload a stand-in for a kernel with SDP.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a panic is how a test fails"
)]

mod built;

use built::{built, messages, SDP_RUN};
use libc::{
    AF_INET, AF_INET6, AF_UNIX, EAFNOSUPPORT, EINVAL, EMFILE, ENOBUFS, ENOPROTOOPT, EPERM,
    EPROTONOSUPPORT, ESOCKTNOSUPPORT, IPPROTO_TCP, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK,
    SOCK_STREAM,
};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn sdp_run() -> Command {
    let mut command = Command::new(SDP_RUN);
    command
        .arg("--library")
        .arg(built("libsdp.so"))
        .env_remove("LD_PRELOAD");
    undisturbed(&mut command);
    command
}

/// Removes the variables of the tester's environment that affect the library.
fn undisturbed(command: &mut Command) {
    // A file without a statement sets nothing: SDP everywhere.
    command
        .env("LIBSDP_CONFIG_FILE", "/dev/null")
        .env_remove("SDP_DEBUG")
        .env_remove("SIMPLE_LIBSDP")
        .env_remove("ALWAYS_USE_SDP");
}

/// `sdp_run` on a kernel with SDP; `faults` (name and errno) are calls that fail.
fn sdp_run_with_sdp(faults: &[(&str, i32)]) -> Command {
    // The stand-in must come after `libsdp.so`, like the kernel, so the whole list is set here.
    let list = format!(
        "{}:{}",
        built("libsdp.so").display(),
        built("libkernel_with_sdp.so").display()
    );
    let mut command = Command::new(built("socket_probe"));
    command.env("LD_PRELOAD", list);
    undisturbed(&mut command);
    for (name, errno) in faults {
        command.env(name, errno.to_string());
    }
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs the command and returns the output of a success.
fn succeed(command: &mut Command) -> Output {
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

/// The probe's lines, as maps from name to value.
fn probe_lines(command: &mut Command, sockets: &[(i32, i32, i32)]) -> Vec<HashMap<String, String>> {
    for (domain, kind, protocol) in sockets {
        command.arg(format!("{domain},{kind},{protocol}"));
    }
    let output = text(&succeed(command).stdout);
    let lines: Vec<_> = output
        .lines()
        .map(|line| {
            line.split(' ')
                .filter_map(|word| word.split_once('='))
                .map(|(name, value)| (name.into(), value.into()))
                .collect()
        })
        .collect();
    assert_eq!(lines.len(), sockets.len(), "{output}");
    lines
}

const EVERY_TCP_SOCKET: [(i32, i32, i32); 6] = [
    (AF_INET, SOCK_STREAM, 0),
    (AF_INET, SOCK_STREAM, IPPROTO_TCP),
    (AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
    (AF_INET6, SOCK_STREAM, 0),
    (AF_INET6, SOCK_STREAM, IPPROTO_TCP),
    (AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP),
];

#[test]
fn without_sdp_every_call_ends_as_without_the_library() {
    let mut sockets = EVERY_TCP_SOCKET.to_vec();
    sockets.extend([
        (AF_INET, SOCK_DGRAM, 0),
        (AF_UNIX, SOCK_STREAM, 0),
        (AF_INET, SOCK_STREAM, 255),
        (AF_INET, SOCK_STREAM | 0x100, 0),
        (-1, SOCK_STREAM, 0),
    ]);
    let plain = probe_lines(&mut Command::new(built("socket_probe")), &sockets);
    let wrapped = probe_lines(sdp_run().arg(built("socket_probe")), &sockets);
    assert_eq!(plain, wrapped);
    // A check that errno is compared: success leaves it, failure sets it.
    assert_eq!(plain[0]["errno"], "4242");
    assert_eq!(plain[0]["kind"], "tcp");
    assert_eq!(plain[6]["kind"], "tcp");
    assert_eq!(plain[9]["errno"], EINVAL.to_string());
    assert_eq!(plain[10]["errno"], EAFNOSUPPORT.to_string());
}

#[test]
fn tcp_sockets_become_sdp_and_still_say_they_are_tcp() {
    let lines = probe_lines(&mut sdp_run_with_sdp(&[]), &EVERY_TCP_SOCKET);
    for (line, (domain, ..)) in lines.iter().zip(EVERY_TCP_SOCKET) {
        assert_eq!(line["kind"], "sdp", "{line:?}");
        assert_eq!(line["errno"], "4242");
        assert_eq!(line["domain"], domain.to_string());
        assert_eq!(line["short_domain"], domain.to_string());
        assert_eq!(line["protocol"], IPPROTO_TCP.to_string());
    }
}

#[test]
fn other_sockets_are_left_alone_where_there_is_sdp() {
    let lines = probe_lines(
        &mut sdp_run_with_sdp(&[]),
        &[(AF_INET, SOCK_DGRAM, 0), (AF_UNIX, SOCK_STREAM, 0)],
    );
    assert_eq!(lines[0]["domain"], AF_INET.to_string());
    assert_eq!(lines[0]["kind"], "tcp");
    assert_eq!(lines[1]["domain"], AF_UNIX.to_string());
}

#[test]
fn whatever_the_kernel_refuses_sdp_with_the_program_gets_tcp() {
    for errno in [
        EAFNOSUPPORT,
        EPROTONOSUPPORT,
        ESOCKTNOSUPPORT,
        EPERM,
        EMFILE,
        ENOBUFS,
        EINVAL,
    ] {
        let mut command = sdp_run_with_sdp(&[("FAKE_SDP_SOCKET_ERRNO", errno)]);
        for line in probe_lines(&mut command, &EVERY_TCP_SOCKET) {
            assert_eq!(line["kind"], "tcp", "SDP refused with {errno}: {line:?}");
            assert_eq!(line["errno"], "4242");
        }
    }
}

#[test]
fn an_sdp_socket_that_cannot_be_ipv6_is_given_up_for_tcp_and_not_leaked() {
    let faults = [("FAKE_SDP_FAMILY_ERRNO", ENOPROTOOPT)];
    let ipv6 = [(AF_INET6, SOCK_STREAM, 0); 3];
    let plain = probe_lines(&mut Command::new(built("socket_probe")), &ipv6);
    let lines = probe_lines(&mut sdp_run_with_sdp(&faults), &ipv6);
    // The same descriptor numbers as without the library: none was left open.
    assert_eq!(lines, plain);
    assert_eq!(lines[0]["kind"], "tcp");

    let ipv4 = probe_lines(&mut sdp_run_with_sdp(&faults), &[(AF_INET, SOCK_STREAM, 0)]);
    assert_eq!(ipv4[0]["kind"], "sdp");
}

#[test]
fn debug_says_on_stderr_what_each_socket_became() {
    let output = succeed(
        sdp_run()
            .arg("--debug")
            .arg(built("socket_probe"))
            .args(["2,1,0", "10,1,0", "2,2,0"]),
    );
    let said = text(&output.stderr);
    let (first, said) = said.split_once('\n').expect("a line");
    assert!(first.starts_with("sdp_run: "), "{first}");
    let said = messages(said.as_bytes(), "socket_probe");
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("AF_INET socket: "));
    assert!(lines[1].starts_with("AF_INET6 socket: "));
    assert!(!text(&output.stdout).contains("libsdp"));

    let mut faked = sdp_run_with_sdp(&[("FAKE_SDP_SOCKET_ERRNO", EAFNOSUPPORT)]);
    faked.env("SDP_DEBUG", "1").args(["2,1,0", "2,1,0"]);
    assert_eq!(
        messages(&succeed(&mut faked).stderr, "socket_probe"),
        "AF_INET socket: TCP (this kernel has no SDP) [fallback 1]\n\
         AF_INET socket: TCP (this kernel has no SDP) [fallback 2]\n"
    );

    let mut faked = sdp_run_with_sdp(&[("FAKE_SDP_FAMILY_ERRNO", ENOPROTOOPT)]);
    faked.env("SDP_DEBUG", "1").args(["2,1,0", "10,1,0"]);
    assert_eq!(
        messages(&succeed(&mut faked).stderr, "socket_probe"),
        "AF_INET socket: SDP (fd 3)\n\
         AF_INET6 socket: TCP (the kernel's SDP module is too old) [fallback 1]\n"
    );
}

#[test]
fn without_debug_nothing_is_said() {
    let output = succeed(sdp_run().arg(built("socket_probe")).arg("2,1,0"));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn the_library_is_put_behind_those_already_preloaded() {
    let output =
        succeed(
            sdp_run()
                .env("LD_PRELOAD", "libc.so.6")
                .args(["sh", "-c", "echo $LD_PRELOAD"]),
        );
    let list = text(&output.stdout);
    assert!(list.starts_with("libc.so.6:/"), "{list}");
    assert!(list.trim_end().ends_with("/libsdp.so"), "{list}");
}

#[test]
fn a_program_of_the_address_sanitizer_starts_as_a_child_too() {
    let directory = std::env::temp_dir().join(format!("sdp_run-asan-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory can be made");
    let (source, program) = (directory.join("source.c"), directory.join("program"));
    std::fs::write(&source, "int main(void) { return 7; }\n").expect("a file can be written");
    let mut compile = Command::new("cc");
    succeed(
        compile
            .args(["-fsanitize=address", "-o"])
            .args([&program, &source]),
    );
    for before in [&[][..], &["env"], &["sh", "-c", "\"$0\"; exit $?"]] {
        let output = sdp_run().args(before).arg(&program).output();
        let output = output.expect("sdp_run starts");
        assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    }
    std::fs::remove_dir_all(&directory).expect("it is ours");
}

#[test]
fn the_options_of_the_address_sanitizer_are_kept() {
    let with = |options: &str| {
        let mut command = sdp_run();
        command.env("ASAN_OPTIONS", options);
        text(&succeed(command.args(["sh", "-c", "echo $ASAN_OPTIONS"])).stdout)
    };
    assert_eq!(with(""), "verify_asan_link_order=0\n");
    assert_eq!(
        with("abort_on_error=1"),
        "abort_on_error=1:verify_asan_link_order=0\n"
    );
    let chosen = "verify_asan_link_order=1:abort_on_error=1";
    assert_eq!(with(chosen), format!("{chosen}\n"));
}

#[test]
fn the_program_keeps_its_arguments_and_exit_status() {
    let status = sdp_run()
        .args([
            "sh",
            "-c",
            "test \"$1\" = --debug && exit 7",
            "-",
            "--debug",
        ])
        .status()
        .expect("sdp_run starts");
    assert_eq!(status.code(), Some(7));
}

#[test]
fn what_stands_behind_the_program_is_the_programs() {
    for before in [&[][..], &["--"], &["-d"], &["-d", "--"]] {
        let output = succeed(
            sdp_run()
                .args(before)
                .args(["printf", "%s,", "-x", "--yy", "--", "-c", "z", "--help"]),
        );
        assert_eq!(
            text(&output.stdout),
            "-x,--yy,--,-c,z,--help,",
            "{before:?}"
        );
    }
}

#[test]
fn an_option_that_is_not_known_is_no_program() {
    for option in ["-q", "--debgu", "-x1", "--config-file=x"] {
        for arguments in [&[option, "true"][..], &["-d", option, "true"], &[option]] {
            let output = sdp_run().args(arguments).output().expect("sdp_run starts");
            assert_eq!(output.status.code(), Some(125), "{arguments:?}");
            let said = text(&output.stderr);
            assert!(said.contains("unexpected argument"), "{said}");
        }
    }
}

/// The command begins with signals ignored and blocked. A bit in `closed` means that this one of
/// the first three descriptors is closed.
fn given(command: &mut Command, closed: i32) -> &mut Command {
    let begin = move || {
        // SAFETY: all-zero sets are valid, and these signals and descriptors may exist.
        unsafe {
            let mut blocked: libc::sigset_t = core::mem::zeroed();
            libc::sigaddset(&raw mut blocked, libc::SIGUSR1);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const blocked, core::ptr::null_mut());
            for signal in 1..32 {
                libc::signal(signal, libc::SIG_DFL);
            }
            libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            libc::signal(libc::SIGUSR2, libc::SIG_IGN);
            for fd in 0..3 {
                if closed & (1 << fd) != 0 {
                    libc::close(fd);
                }
            }
        }
        Ok(())
    };
    // SAFETY: it makes system calls only.
    unsafe { command.pre_exec(begin) }
}

/// The program without `sdp_run`, and with it in both of its modes.
fn runs(program: &[&str]) -> [Command; 3] {
    let mut by_library = sdp_run();
    let mut by_bpf = Command::new(SDP_RUN);
    let mut plain = Command::new(program[0]);
    plain.args(&program[1..]);
    by_library.args(program);
    by_bpf.arg("--bpf").args(program);
    [plain, by_library, by_bpf]
}

#[test]
fn the_program_is_given_the_signals_that_sdp_run_was_given() {
    let signals = ["sed", "-n", "/^Sig[BI]/p", "/proc/self/status"];
    let said = runs(&signals).map(|mut command| text(&succeed(given(&mut command, 0)).stdout));
    // The tester's environment may ignore signals without a name.
    assert!(
        said[0].starts_with("SigBlk:\t0000000000000200\nSigIgn:\t") && said[0].ends_with("1800\n"),
        "{}",
        said[0]
    );
    assert_eq!((&said[1], &said[2]), (&said[0], &said[0]));
    // No other signal is ignored.
    let said = runs(&signals).map(|mut command| text(&succeed(&mut command).stdout));
    assert_eq!((&said[1], &said[2]), (&said[0], &said[0]));
}

#[test]
fn the_program_is_given_the_descriptors_that_sdp_run_was_given() {
    let open = "sum=0; bit=1; for fd in 0 1 2 3 4 5 6; do \
                [ ! -e /proc/$$/fd/$fd ] || sum=$((sum + bit)); bit=$((bit * 2)); done; exit $sum";
    for closed in 0..8 {
        for mut command in runs(&["sh", "-c", open]) {
            command.stdin(Stdio::null());
            let output = given(&mut command, closed).output().expect("it starts");
            assert_eq!(output.status.code(), Some(7 & !closed), "{command:?}");
        }
    }
}

#[test]
fn the_program_is_given_the_environment_in_its_order() {
    let output = succeed(Command::new("env").args(["-i", "Z=1", "A=2", SDP_RUN, "--bpf", "env"]));
    assert_eq!(text(&output.stdout), "Z=1\nA=2\n");
}

#[test]
fn what_is_missing_for_bpf_is_said_and_the_program_runs() {
    let output = Command::new(SDP_RUN)
        .args(["--bpf", "sh", "-c", "echo $LD_PRELOAD.; exit 7"])
        .env_remove("LD_PRELOAD")
        .output()
        .expect("sdp_run starts");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(text(&output.stdout), ".\n");
    // Prints nothing if nothing is missing.
    let said = text(&output.stderr);
    assert!(
        said.is_empty()
            || said.starts_with("sdp_run: --bpf has no effect: ")
                && said.ends_with("; the program uses TCP\n"),
        "{said}"
    );
    assert!(said.lines().count() <= 1, "{said}");
}

#[test]
fn bpf_knows_no_rules_and_needs_something_to_switch() {
    for arguments in [
        &["--bpf", "--simple", "true"][..],
        &["--bpf", "--config", "/dev/null", "true"],
        &["--cgroup", "/", "true"],
        &["--bpf"],
        &["--bpf", "--cgroup", "/nonexistent"],
    ] {
        let output = Command::new(SDP_RUN)
            .args(arguments)
            .output()
            .expect("sdp_run starts");
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        assert!(!output.stderr.is_empty());
    }
}

#[test]
fn own_failures_have_statuses_of_their_own() {
    let status = |command: &mut Command| {
        let output = command.output().expect("sdp_run starts");
        assert_eq!(text(&output.stdout), "");
        assert!(!output.stderr.is_empty());
        output.status.code()
    };
    assert_eq!(status(&mut Command::new(SDP_RUN)), Some(125));
    assert_eq!(
        status(Command::new(SDP_RUN).args(["--library", "/nonexistent.so", "true"])),
        Some(125)
    );
    assert_eq!(status(sdp_run().arg("/nonexistent/program")), Some(127));
    assert_eq!(status(sdp_run().arg("/etc/passwd")), Some(126));
}

#[test]
fn help_and_version_are_answers() {
    for option in ["-h", "--help", "-V", "--version"] {
        let output = succeed(Command::new(SDP_RUN).arg(option));
        assert!(text(&output.stdout).contains("sdp_run"));
    }
}

/// A python3 program under `sdp_run`, and its first line of output.
fn python_server(program: &str, directory: &Path) -> (Child, BufReader<impl Read>, String) {
    let mut child = sdp_run()
        .args(["python3", "-u", "-c", program])
        .current_dir(directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("python3 starts");
    let mut output = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
    let mut line = String::new();
    output
        .read_line(&mut line)
        .expect("the server says its port");
    (child, output, line.trim().into())
}

#[test]
fn python_serves_and_fetches_a_file() {
    let directory = std::env::temp_dir().join(format!("sdp_run-http-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory can be made");
    let content: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(directory.join("content"), &content).expect("a file can be written");

    for (class, address) in [("AF_INET", "127.0.0.1"), ("AF_INET6", "[::1]")] {
        let (mut server, _output, port) = python_server(
            &format!(
                "import http.server as h, socket\n\
                 class Server(h.ThreadingHTTPServer): address_family = socket.{class}\n\
                 s = Server(('', 0), h.SimpleHTTPRequestHandler)\n\
                 print(s.server_address[1])\n\
                 s.serve_forever()"
            ),
            &directory,
        );
        let client = sdp_run()
            .args(["python3", "-c"])
            .arg(format!(
                "import sys, urllib.request as u\n\
                 sys.stdout.buffer.write(u.urlopen('http://{address}:{port}/content').read())"
            ))
            .output();
        server.kill().expect("the server still runs");
        server.wait().expect("the server ends");
        let client = client.expect("python3 starts");
        assert!(client.status.success(), "{}", text(&client.stderr));
        assert!(
            client.stdout == content,
            "{} bytes came",
            client.stdout.len()
        );
    }
    std::fs::remove_dir_all(&directory).expect("the directory can be removed");
}
