// SPDX-License-Identifier: MIT

//! The same sockets for the runtime tokio.
//!
//! ```no_run
//! use sdp_socket::tokio::{SdpListener, SdpStream};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # async fn example() -> std::io::Result<()> {
//! let listener = SdpListener::bind("10.0.0.1:7000").await?;
//! let mut client = SdpStream::connect("10.0.0.1:7000").await?;
//! let (mut server, _) = listener.accept().await?;
//! client.write_all(b"some bytes").await?;
//! let mut bytes = [0; 10];
//! server.read_exact(&mut bytes).await?;
//! # Ok(())
//! # }
//! ```

use crate::{listener::listening, option, Transport};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{lookup_host, TcpListener, TcpSocket, TcpStream, ToSocketAddrs};

/// A connection over SDP, or over TCP where that is allowed.
#[derive(Debug)]
pub struct SdpStream(TcpStream);

impl SdpStream {
    /// Connects over SDP only.
    ///
    /// # Errors
    ///
    /// The last address's error, if no address works.
    pub async fn connect(addresses: impl ToSocketAddrs) -> io::Result<Self> {
        Self::connect_with(addresses, Transport::Sdp).await
    }

    /// Connects over the allowed transports.
    ///
    /// # Errors
    ///
    /// The last address's error, if no address works.
    pub async fn connect_with(
        addresses: impl ToSocketAddrs,
        allowed: Transport,
    ) -> io::Result<Self> {
        let mut last = none_given();
        for address in lookup_host(addresses).await? {
            match Self::connect_to(address, allowed).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    async fn connect_to(address: SocketAddr, allowed: Transport) -> io::Result<Self> {
        let socket = option::socket(address, allowed)?;
        socket.set_nonblocking(true)?;
        let socket = TcpSocket::from_std_stream(socket.into());
        socket.connect(address).await.map(Self)
    }

    /// The transport of the connection.
    ///
    /// # Errors
    ///
    /// The errors of getsockopt(2).
    pub fn transport(&self) -> io::Result<Transport> {
        option::transport(&self.0)
    }

    /// The reason of the fallback to TCP, if there was one.
    ///
    /// # Errors
    ///
    /// The errors of getsockopt(2).
    pub fn fallback_reason(&self) -> io::Result<Option<io::Error>> {
        option::fallback_reason(&self.0)
    }

    /// The peer's address.
    ///
    /// # Errors
    ///
    /// The errors of getpeername(2).
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.peer_addr()
    }

    /// The local address.
    ///
    /// # Errors
    ///
    /// The errors of getsockname(2).
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The same socket, for code that accepts TCP streams only.
    #[must_use]
    pub fn into_tcp_stream(self) -> TcpStream {
        self.0
    }
}

/// A socket that accepts connections over SDP, or over TCP as well.
#[derive(Debug)]
pub struct SdpListener(TcpListener);

impl SdpListener {
    /// Listens for connections over SDP only.
    ///
    /// # Errors
    ///
    /// The last address's error, if no address works.
    pub async fn bind(addresses: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind_with(addresses, Transport::Sdp).await
    }

    /// Listens for connections over the allowed transports.
    ///
    /// # Errors
    ///
    /// The last address's error, if no address works.
    pub async fn bind_with(addresses: impl ToSocketAddrs, allowed: Transport) -> io::Result<Self> {
        let mut last = none_given();
        for address in lookup_host(addresses).await? {
            match listening(address, allowed) {
                Ok(listener) => {
                    listener.set_nonblocking(true)?;
                    return TcpListener::from_std(listener).map(Self);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    ///
    /// The errors of accept(2).
    pub async fn accept(&self) -> io::Result<(SdpStream, SocketAddr)> {
        let (stream, peer) = self.0.accept().await?;
        Ok((SdpStream(stream), peer))
    }

    /// The local address.
    ///
    /// # Errors
    ///
    /// The errors of getsockname(2).
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

fn none_given() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "no addresses to try")
}

impl AsFd for SdpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for SdpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A connection over SDP or TCP, because listeners accept both.
impl From<TcpStream> for SdpStream {
    fn from(stream: TcpStream) -> Self {
        Self(stream)
    }
}

impl AsyncRead for SdpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for SdpStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
