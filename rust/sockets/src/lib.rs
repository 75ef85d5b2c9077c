// SPDX-License-Identifier: MIT

//! Sockets of the Sockets Direct Protocol (SDP): streams that behave as TCP's do, and
//! with bytes that travel over RDMA. The kernel needs the module `sdp`; `sdp_chk` says whether SDP
//! works on a host.
//!
//! [`SdpStream`] and [`SdpListener`] are to SDP what [`std::net::TcpStream`] and
//! [`std::net::TcpListener`] are to TCP. With the feature `tokio` the module
//! `sdp_socket::tokio` has the same two for that runtime.
//!
//! A server:
//!
//! ```no_run
//! use sdp_socket::SdpListener;
//! use std::io;
//!
//! fn main() -> io::Result<()> {
//!     let listener = SdpListener::bind("10.0.0.1:7000")?;
//!     for stream in listener.incoming() {
//!         let stream = stream?;
//!         io::copy(&mut &stream, &mut &stream)?;
//!     }
//!     Ok(())
//! }
//! ```
//!
//! A client that falls back to TCP if SDP does not reach the server:
//!
//! ```no_run
//! use sdp_socket::{SdpStream, Transport};
//! use std::io::Write;
//!
//! fn main() -> std::io::Result<()> {
//!     let mut stream = SdpStream::connect_with("10.0.0.1:7000", Transport::Both)?;
//!     stream.write_all(b"some bytes")?;
//!     if stream.transport()? == Transport::Tcp {
//!         eprintln!("TCP, because of this: {:?}", stream.fallback_reason()?);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! # Errors
//!
//! The errors are TCP's. Sockets that may use SDP only have two more:
//! `EAFNOSUPPORT`, for which [`std::io::ErrorKind`] has no name, if the kernel has no SDP, and
//! `ENETUNREACH` if no RDMA device reaches the address. With [`Transport::Both`] the socket uses
//! TCP instead.

mod listener;
mod option;
mod stream;
#[cfg(feature = "tokio")]
pub mod tokio;
mod transport;

pub use listener::{Incoming, SdpListener};
pub use option::{allow, last_bind_error, socket};
pub use stream::SdpStream;
pub use transport::Transport;

#[cfg(test)]
use ::tokio as _;
