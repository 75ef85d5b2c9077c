// SPDX-License-Identifier: MIT

//! An echo server and its client.
//!
//! ```text
//! echo serve ADDRESS:PORT [both]          serves one connection after the other
//! echo ask ADDRESS:PORT TEXT [both]       prints the reply and the transport
//! ```
//!
//! With `both` they fall back to TCP if SDP is not available.

use sdp_socket::{SdpListener, SdpStream, Transport};
use std::env;
use std::io::{self, Read, Write};
use std::net::Shutdown;

fn serve(address: &str, allowed: Transport) -> io::Result<()> {
    let listener = SdpListener::bind_with(address, allowed)?;
    println!("listening {}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        let bytes = io::copy(&mut &stream, &mut &stream)?;
        println!("{bytes} bytes over {:?}", stream.transport()?);
    }
    Ok(())
}

fn ask(address: &str, text: &str, allowed: Transport) -> io::Result<()> {
    let mut stream = SdpStream::connect_with(address, allowed)?;
    stream.write_all(text.as_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    println!("{answer} over {:?}", stream.transport()?);
    if let Some(reason) = stream.fallback_reason()? {
        println!("SDP: {reason}");
    }
    Ok(())
}

fn main() -> io::Result<()> {
    let words: Vec<_> = env::args().skip(1).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    match *words {
        ["serve", address] => serve(address, Transport::Sdp),
        ["serve", address, "both"] => serve(address, Transport::Both),
        ["ask", address, text] => ask(address, text, Transport::Sdp),
        ["ask", address, text, "both"] => ask(address, text, Transport::Both),
        _ => Err(io::Error::other(
            "usage: echo serve ADDRESS:PORT [both] | echo ask ADDRESS:PORT TEXT [both]",
        )),
    }
}
