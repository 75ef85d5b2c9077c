// SPDX-License-Identifier: MIT

//! `echo` with the runtime tokio: both ends in one program, many connections at a time.
//!
//! ```text
//! echo_tokio ADDRESS:PORT COUNT
//! ```

use sdp_socket::tokio::{SdpListener, SdpStream};
use std::env;
use std::io;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn serve(listener: SdpListener) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let (mut reader, mut writer) = tokio::io::split(stream);
            tokio::io::copy(&mut reader, &mut writer).await?;
            writer.shutdown().await
        });
    }
}

async fn ask(address: SocketAddr, text: String) -> io::Result<String> {
    let mut stream = SdpStream::connect(address).await?;
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    if answer != text {
        return Err(io::Error::other(format!("{answer:?} came for {text:?}")));
    }
    Ok(format!("{:?}", stream.transport()?))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let usage = || io::Error::other("usage: echo_tokio ADDRESS:PORT COUNT");
    let mut words = env::args().skip(1);
    let address = words.next().ok_or_else(usage)?;
    let count: usize = words
        .next()
        .and_then(|word| word.parse().ok())
        .ok_or_else(usage)?;
    let listener = SdpListener::bind(address).await?;
    let address = listener.local_addr()?;
    tokio::spawn(serve(listener));
    let questions: Vec<_> = (0..count)
        .map(|number| tokio::spawn(ask(address, format!("question {number}"))))
        .collect();
    for question in questions {
        println!(
            "an answer over {}",
            question.await.map_err(io::Error::other)??
        );
    }
    Ok(())
}
