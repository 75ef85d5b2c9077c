// SPDX-License-Identifier: MIT

//! What an end sees of a connection between two of `sdp_chk`, told to the other end: a line of
//! JSON each way, the server's first.

use sdp_socket::{SdpStream, Transport};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// Longer than any such line.
const LONGEST: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct View {
    /// By this name it is known to be one of these, and no other server's words.
    #[serde(rename = "sdp_chk")]
    pub(crate) version: String,
    /// `SDP` or `TCP`.
    pub(crate) transport: String,
    /// Why it is not SDP, if that is known there.
    pub(crate) reason: Option<String>,
}

impl View {
    /// What this end sees of a connection.
    pub(crate) fn of(transport: Transport, reason: Option<String>) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            transport: name(transport).into(),
            reason,
        }
    }

    /// Tells the other end.
    pub(crate) fn send(&self, mut stream: &SdpStream) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        stream.write_all(&line)
    }

    /// What the other end tells within this time; an error also if these are another program's
    /// words.
    pub(crate) fn receive(mut stream: &SdpStream, patience: Duration) -> io::Result<Self> {
        let begin = Instant::now();
        let mut line = Vec::new();
        while !line.ends_with(b"\n") && line.len() < LONGEST {
            let left = patience.saturating_sub(begin.elapsed());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            stream.set_read_timeout(Some(left))?;
            let mut byte = [0];
            if stream.read(&mut byte)? == 0 {
                break;
            }
            line.extend(byte);
        }
        Self::parse(&line)
    }

    fn parse(line: &[u8]) -> io::Result<Self> {
        let mut view: Self = serde_json::from_slice(line)?;
        // It goes to a terminal, and whoever connects has written it.
        for text in [&mut view.version, &mut view.transport] {
            *text = plain(text);
        }
        view.reason = view.reason.as_deref().map(plain);
        Ok(view)
    }
}

/// As it is called.
pub(crate) const fn name(transport: Transport) -> &'static str {
    match transport {
        Transport::Sdp => "SDP",
        Transport::Tcp => "TCP",
        Transport::Both => "SDP or TCP",
    }
}

fn plain(text: &str) -> String {
    text.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a panic is how a test fails")]

    use super::*;
    use sdp_socket::SdpListener;

    fn pair() -> (SdpStream, SdpStream) {
        let listener = SdpListener::bind_with("127.0.0.1:0", Transport::Tcp).expect("a listener");
        let name = listener.local_addr().expect("its name");
        let client = SdpStream::connect_with(name, Transport::Tcp).expect("a connection");
        (client, listener.accept().expect("the same").0)
    }

    #[test]
    fn a_view_arrives_as_it_was_sent() {
        let (client, server) = pair();
        let view = View::of(Transport::Tcp, Some("no SDP".into()));
        view.send(&client).expect("it is sent");
        let came = View::receive(&server, Duration::from_secs(60)).expect("it comes");
        assert_eq!(came, view);
    }

    #[test]
    fn other_words_are_no_view_and_nor_is_silence() {
        for words in [
            "SSH-2.0-OpenSSH_9.9\r\n",
            "{}\n",
            "[[[[[[\n",
            "\n",
            "{\"sdp_chk\":",
        ] {
            let (mut client, server) = pair();
            client.write_all(words.as_bytes()).expect("sent");
            drop(client);
            assert!(View::receive(&server, Duration::from_secs(60)).is_err());
        }
        let (mut client, server) = pair();
        client.write_all(&[b' '; LONGEST]).expect("sent");
        assert!(View::receive(&server, Duration::from_secs(60)).is_err());
        let (_client, server) = pair();
        let late = View::receive(&server, Duration::from_millis(1)).expect_err("nothing comes");
        assert_ne!(late.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn nothing_controls_the_terminal() {
        let line = br#"{"sdp_chk":"1","transport":"SDP","reason":"a\u001b[2Jb"}"#;
        let view = View::parse(line).expect("it is one");
        assert_eq!(view.reason.as_deref(), Some("a?[2Jb"));
    }
}
