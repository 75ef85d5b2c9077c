// SPDX-License-Identifier: MIT

//! The report that each end of a connection between two `sdp_chk` sends to the other: one line of
//! JSON each way, the server's first.

use sdp_socket::{SdpStream, Transport};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

/// The maximum length of such a line.
const LONGEST: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct View {
    /// This name identifies the message as an `sdp_chk`'s.
    #[serde(rename = "sdp_chk")]
    pub(crate) version: String,
    /// `SDP` or `TCP`.
    pub(crate) transport: String,
    /// The reason why it is not SDP, if this end knows it.
    pub(crate) reason: Option<String>,
}

impl View {
    /// This end's report of a connection.
    pub(crate) fn of(transport: Transport, reason: Option<String>) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            transport: name(transport).into(),
            reason,
        }
    }

    /// Sends it to the other end.
    pub(crate) fn send(&self, mut stream: &SdpStream) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        stream.write_all(&line)
    }

    /// Receives the other end's report within this time. A message of another program is an error.
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
        // The text goes to a terminal, and any peer may have written it.
        for text in [&mut view.version, &mut view.transport] {
            *text = plain(text);
        }
        view.reason = view.reason.as_deref().map(plain);
        Ok(view)
    }
}

/// The printed name.
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
