// SPDX-License-Identifier: MIT

//! Listeners.

use crate::stream::first_of;
use crate::{option, SdpStream, Transport};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// The length of the accept queue; the kernel's limit is `net.core.somaxconn`.
const BACKLOG: i32 = 128;

/// A socket that accepts connections over SDP, or over TCP as well.
pub struct SdpListener(TcpListener);

/// A listening socket. Like std's, it may reuse a port with old connections.
pub(crate) fn listening(address: SocketAddr, allowed: Transport) -> io::Result<TcpListener> {
    let socket = option::socket(address, allowed)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

impl SdpListener {
    /// Listens for connections over SDP only.
    ///
    /// # Errors
    ///
    /// The last address's error, if no address works.
    pub fn bind(addresses: impl ToSocketAddrs) -> io::Result<Self> {
        Self::bind_with(addresses, Transport::Sdp)
    }

    /// Listens for connections over the allowed transports.
    ///
    /// # Errors
    ///
    /// The last address's error, if no address works.
    pub fn bind_with(addresses: impl ToSocketAddrs, allowed: Transport) -> io::Result<Self> {
        first_of(addresses, |address| listening(address, allowed).map(Self))
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    ///
    /// The errors of accept(2).
    pub fn accept(&self) -> io::Result<(SdpStream, SocketAddr)> {
        let (stream, peer) = self.0.accept()?;
        Ok((stream.into(), peer))
    }

    /// An endless iterator over connections.
    #[must_use]
    pub fn incoming(&self) -> Incoming<'_> {
        Incoming(self)
    }

    /// The transports on which it listens.
    ///
    /// # Errors
    ///
    /// The errors of getsockopt(2).
    pub fn transport(&self) -> io::Result<Transport> {
        option::transport(&self.0)
    }

    /// The local address.
    ///
    /// # Errors
    ///
    /// The errors of getsockname(2).
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Whether [`SdpListener::accept`] fails instead of waiting.
    ///
    /// # Errors
    ///
    /// The errors of ioctl(2).
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.set_nonblocking(nonblocking)
    }

    /// A second handle of the same listener.
    ///
    /// # Errors
    ///
    /// If no descriptor is free.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }
}

/// The connections of a listener; see [`SdpListener::incoming`].
#[derive(Debug)]
pub struct Incoming<'a>(&'a SdpListener);

impl Iterator for Incoming<'_> {
    type Item = io::Result<SdpStream>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.accept().map(|(stream, _)| stream))
    }
}

impl fmt::Debug for SdpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SdpListener")
            .field("transport", &self.transport().ok())
            .field("local", &self.local_addr().ok())
            .finish()
    }
}

impl From<OwnedFd> for SdpListener {
    fn from(fd: OwnedFd) -> Self {
        Self(fd.into())
    }
}

impl From<SdpListener> for OwnedFd {
    fn from(listener: SdpListener) -> Self {
        listener.0.into()
    }
}

impl AsFd for SdpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for SdpListener {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
