// SPDX-License-Identifier: MIT

//! `sdp_chk` run by a user and by a program, on a machine that needs no SDP.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a panic is how a test fails"
)]

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

fn sdp_chk() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sdp_chk"));
    command
        .env_remove("LD_PRELOAD")
        .env("LIBSDP_CONFIG_FILE", "/dev/null")
        .env_remove("SIMPLE_LIBSDP")
        .env_remove("ALWAYS_USE_SDP");
    command
}

#[test]
fn the_json_is_one_object_and_agrees_with_the_exit_status() {
    for arguments in [&["--json"][..], &["--json", "no such host"]] {
        let output = sdp_chk().args(arguments).output().expect("sdp_chk starts");
        let whole: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        assert_eq!(whole["good"] == true, output.status.success());
        let findings = whole["findings"].as_array().expect("a list");
        let is_bad = |finding: &Value| finding["verdict"] == "bad";
        assert_eq!(whole["good"], !findings.iter().any(is_bad));
        for finding in findings {
            assert!(finding["text"].is_string(), "{finding}");
            assert_eq!(finding["advice"].is_string(), is_bad(finding), "{finding}");
        }
        assert_eq!(findings[0]["about"], "rules");
        let about_host = findings.iter().find(|finding| finding["about"] == "host");
        assert_eq!(about_host.is_some(), arguments.len() > 1);
    }
}

#[test]
fn a_port_is_a_number_or_a_service_that_there_is() {
    for (port, status) in [("65536", 125), ("", 125), ("no-such-service", 1)] {
        let output = sdp_chk().args(["127.0.0.1", port]).output();
        let output = output.expect("sdp_chk starts");
        assert_eq!(output.status.code(), Some(status), "{port}");
        if status == 125 {
            continue;
        }
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("BAD   ") && said.contains(port), "{said}");
    }
}

/// A server on a TCP port, and its output lines. It is killed when dropped.
struct Server {
    child: Child,
    lines: Box<dyn Iterator<Item = Value>>,
    port: u16,
}

/// The port in the line about the TCP listener.
fn port_of_tcp(line: &Value) -> Option<u16> {
    let text = line["text"].as_str()?.strip_suffix(" over TCP")?;
    text.rsplit_once(':')?.1.parse().ok()
}

impl Server {
    fn new() -> Self {
        let mut command = sdp_chk();
        command
            .args(["--server=0", "--json"])
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("sdp_chk starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let parsed = |line: std::io::Result<String>| -> Value {
            serde_json::from_str(&line.expect("a line")).expect("it is JSON")
        };
        let mut server = Self {
            child,
            lines: Box::new(output.lines().map(parsed)),
            port: 0,
        };
        let port = server.lines.find_map(|line| port_of_tcp(&line));
        server.port = port.expect("it listens over TCP");
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; the test will notice that.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_server_says_what_it_sees_and_hears() {
    let mut server = Server::new();
    let mut client = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
    let mut said = String::new();
    let mut reader = BufReader::new(client.try_clone().expect("once more"));
    reader.read_line(&mut said).expect("it speaks first");
    let view: Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!(view["transport"], "TCP");
    let answer = br#"{"sdp_chk":"9","transport":"TCP","reason":"no device\u0007"}"#;
    client.write_all(answer).expect("sent");
    client.write_all(b"\n").expect("sent");
    let event = server.lines.next().expect("it says so");
    assert_eq!(event["transport"], "TCP");
    assert_eq!(event["client"]["reason"], "no device?");
    let own = client.local_addr().expect("a name").to_string();
    assert_eq!(event["address"], own);
}

#[test]
fn the_server_outlives_those_who_speak_otherwise() {
    let mut server = Server::new();
    for words in ["GET / HTTP/1.0\r\n\r\n", "", "{\n"] {
        let mut client = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
        client.write_all(words.as_bytes()).expect("sent");
        drop(client);
        let event = server.lines.next().expect("it says so");
        assert_eq!(event["client"], Value::Null);
        let text = event["text"].as_str().expect("text");
        assert!(text.ends_with("is no sdp_chk"), "{text}");
    }
}
