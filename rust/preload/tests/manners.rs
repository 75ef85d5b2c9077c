// SPDX-License-Identifier: MIT

//! What the library does not do to a program that it is loaded into.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a panic is how a test fails"
)]

mod built;

use built::built;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

/// The probe with a file of rules that does not exist, which is worth a message.
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
    let mut said = String::new();
    reader.read_to_string(&mut said).expect("it is read");
    assert!(
        said.starts_with("libsdp: /nonexistent/libsdp.conf: "),
        "{said}"
    );
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

/// Data moves without the library: it has a part in these calls and in no others.
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
    assert_eq!(names, ["bind", "connect", "getsockopt", "listen", "socket"]);
}
