// SPDX-License-Identifier: MIT

//! Connections.

use crate::{option, Transport};
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// A connection over SDP, or over TCP where that is allowed.
///
/// The inner [`TcpStream`] reads and writes, because the kernel's calls are the
/// same for both. [`SdpStream::into_tcp_stream`] is for libraries that need one.
pub struct SdpStream(TcpStream);

/// The result for the first address that works, or the last error.
pub(crate) fn first_of<T>(
    addresses: impl ToSocketAddrs,
    mut attempt: impl FnMut(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut last = io::Error::new(io::ErrorKind::InvalidInput, "no addresses to try");
    for address in addresses.to_socket_addrs()? {
        match attempt(address) {
            Ok(made) => return Ok(made),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl SdpStream {
    /// Connects over SDP only.
    ///
    /// # Errors
    ///
    /// The last address's error, if no address works.
    pub fn connect(addresses: impl ToSocketAddrs) -> io::Result<Self> {
        Self::connect_with(addresses, Transport::Sdp)
    }

    /// Connects over the allowed transports. With [`Transport::Both`], TCP is tried after SDP has
    /// failed, so a connect takes as long as both.
    ///
    /// # Errors
    ///
    /// The last address's error, if no address works.
    pub fn connect_with(addresses: impl ToSocketAddrs, allowed: Transport) -> io::Result<Self> {
        first_of(addresses, |address| {
            let socket = option::socket(address, allowed)?;
            socket.connect(&address.into())?;
            Ok(Self(socket.into()))
        })
    }

    /// Connects over the allowed transports, with a timeout.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::TimedOut`] after the timeout.
    pub fn connect_timeout(
        address: &SocketAddr,
        allowed: Transport,
        timeout: Duration,
    ) -> io::Result<Self> {
        let socket = option::socket(*address, allowed)?;
        socket.connect_timeout(&(*address).into(), timeout)?;
        Ok(Self(socket.into()))
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

    /// The minimum length of a read or write that uses zero copy: 0 (never), or a page to 1 MiB.
    ///
    /// # Errors
    ///
    /// `EINVAL` for other numbers, `ENOPROTOOPT` for plain TCP sockets.
    pub fn set_zero_copy_threshold(&self, bytes: u32) -> io::Result<()> {
        let bytes = bytes
            .try_into()
            .map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        option::set(&self.0, sdp_uapi::SDP_ZCOPY_THRESH, bytes)
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

    /// Ends one direction or both; see [`TcpStream::shutdown`].
    ///
    /// # Errors
    ///
    /// The errors of shutdown(2).
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.shutdown(how)
    }

    /// A second handle of the same connection.
    ///
    /// # Errors
    ///
    /// If no descriptor is free.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Reads without removing the bytes.
    ///
    /// # Errors
    ///
    /// The errors of recv(2).
    pub fn peek(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.peek(buffer)
    }

    /// The timeout of a read.
    ///
    /// # Errors
    ///
    /// If the timeout is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_read_timeout(timeout)
    }

    /// The timeout of a write.
    ///
    /// # Errors
    ///
    /// If the timeout is zero.
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.0.set_write_timeout(timeout)
    }

    /// Whether short writes are sent at once.
    ///
    /// # Errors
    ///
    /// The errors of setsockopt(2).
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.0.set_nodelay(nodelay)
    }

    /// Whether calls fail instead of waiting.
    ///
    /// # Errors
    ///
    /// The errors of ioctl(2).
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.0.set_nonblocking(nonblocking)
    }

    /// Takes the pending error of the socket.
    ///
    /// # Errors
    ///
    /// The errors of getsockopt(2).
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.0.take_error()
    }

    /// The same socket, for code that accepts TCP streams only.
    #[must_use]
    pub fn into_tcp_stream(self) -> TcpStream {
        self.0
    }
}

impl fmt::Debug for SdpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SdpStream")
            .field("transport", &self.transport().ok())
            .field("local", &self.local_addr().ok())
            .field("peer", &self.peer_addr().ok())
            .finish()
    }
}

/// A connection over SDP or TCP, because listeners accept both.
impl From<TcpStream> for SdpStream {
    fn from(stream: TcpStream) -> Self {
        Self(stream)
    }
}

impl From<OwnedFd> for SdpStream {
    fn from(fd: OwnedFd) -> Self {
        Self(fd.into())
    }
}

impl From<SdpStream> for OwnedFd {
    fn from(stream: SdpStream) -> Self {
        stream.0.into()
    }
}

impl AsFd for SdpStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for SdpStream {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Read for &SdpStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&self.0).read_vectored(buffers)
    }
}

impl Write for &SdpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.0).write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for SdpStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.0.read_vectored(buffers)
    }
}

impl Write for SdpStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_vectored(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
