// SPDX-License-Identifier: MIT

//! Side effects that the library must not have on its program, and tools without a reader of their
//! output.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a panic is how a test fails"
)]

mod built;

use built::{built, messages, SDP_RUN};
use std::fs::OpenOptions;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

const SDP_CHK: &str = env!("CARGO_BIN_EXE_sdp_chk");

/// The probe with a file of rules that does not exist, which causes a message.
fn probe(stderr: impl Into<OwnedFd>) -> Command {
    let mut command = Command::new(built("socket_probe"));
    command
        .env("LD_PRELOAD", built("libsdp.so"))
        .env("LIBSDP_CONFIG_FILE", "/nonexistent/libsdp.conf")
        .env_remove("SDP_DEBUG")
        .env_remove("SIMPLE_LIBSDP")
        .env_remove("ALWAYS_USE_SDP")
        .arg("2,1,0")
        .stdout(Stdio::piped())
        .stderr(Stdio::from(stderr.into()));
    command
}

#[test]
fn a_message_that_nobody_reads_does_not_end_the_program() {
    let (nobody, stderr) = UnixStream::pair().expect("a pair");
    drop(nobody);
    let output = probe(stderr).output().expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("kind=tcp"));
}

#[test]
fn a_message_that_somebody_reads_comes() {
    let (mut reader, stderr) = UnixStream::pair().expect("a pair");
    let status = probe(stderr).status().expect("the program starts");
    assert!(status.success());
    let mut said = Vec::new();
    reader.read_to_end(&mut said).expect("it is read");
    let said = messages(&said, "socket_probe");
    assert!(said.starts_with("/nonexistent/libsdp.conf: "), "{said}");
}

#[test]
fn a_client_whose_connection_is_standard_error_is_told_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let address = listener.local_addr().expect("it has a name");
    let mut client = TcpStream::connect(address).expect("a client");
    let (server, _) = listener.accept().expect("its connection");
    let output = probe(server).output().expect("the program starts");
    assert!(output.status.success(), "{output:?}");
    let mut said = Vec::new();
    client.read_to_end(&mut said).expect("it is read");
    assert_eq!(String::from_utf8_lossy(&said), "");
}

/// The exit status of a program of this crate that writes to a full device.
fn into_full(program: &str, arguments: &[&str]) -> Option<i32> {
    let full = || {
        let file = OpenOptions::new().write(true).open("/dev/full");
        Stdio::from(file.expect("it is there"))
    };
    Command::new(program)
        .args(arguments)
        .env_remove("LD_PRELOAD")
        .env_remove("LIBSDP_CONFIG_FILE")
        .stdout(full())
        .stderr(full())
        .status()
        .expect("the program starts")
        .code()
}

#[test]
fn sdp_run_runs_the_program_though_nobody_can_be_told() {
    let library = built("libsdp.so");
    let library = library.to_str().expect("text");
    assert_eq!(into_full(SDP_RUN, &["-l", library, "nosuch"]), Some(127));
    assert_eq!(into_full(SDP_RUN, &["--bpf", "nosuch"]), Some(127));
    for options in [&["--bpf"][..], &["--bpf", "--debug"]] {
        let exit = ["sh", "-c", "exit 7"];
        assert_eq!(into_full(SDP_RUN, &[options, &exit].concat()), Some(7));
    }
    assert_eq!(into_full(SDP_RUN, &["--bpf", "--cgroup", "/"]), Some(125));
    assert_eq!(into_full(SDP_RUN, &["--no-such-option"]), Some(125));
}

#[test]
fn sdp_chk_ends_with_its_own_status_though_nobody_reads() {
    let status = |output: Stdio| {
        Command::new(SDP_CHK)
            .stdout(output)
            .status()
            .expect("sdp_chk starts")
            .code()
    };
    let read = status(Stdio::null());
    assert_eq!(into_full(SDP_CHK, &[]), read);
    let (nobody, output) = UnixStream::pair().expect("a pair");
    drop(nobody);
    assert_eq!(status(Stdio::from(OwnedFd::from(output))), read);
}

/// Data moves without the library: it intercepts these calls and no others. The other library asks it
/// for the rules.
#[test]
fn the_library_is_in_five_calls() {
    let output = Command::new("nm")
        .args(["-D", "--defined-only", "--format=posix"])
        .arg(built("libsdp.so"))
        .output()
        .expect("nm is there");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut names: Vec<_> = text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    names.sort_unstable();
    let question = names.iter().position(|name| *name == "libsdp_async_way");
    names.remove(question.expect("the rules about --async"));
    assert_eq!(names, ["bind", "connect", "getsockopt", "listen", "socket"]);
}
