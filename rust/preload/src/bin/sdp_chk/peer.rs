// SPDX-License-Identifier: MIT

//! Connections for trial: to oneself, and to another host.

use crate::report::Report;
use crate::sdp::Socket;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};

const MESSAGE: &[u8] = b"sdp_chk";

/// A connection from this host to itself, with a few bytes.
pub(crate) fn check_own(report: &mut Report, address: SocketAddr) {
    match talk_to_oneself(address) {
        Ok(()) => report.good(&format!("a connection over {} carries bytes", address.ip())),
        Err(error) => report.bad(
            &format!("no connection over {}: {error}", address.ip()),
            "look into the kernel's log, and see whether RDMA itself works: rping -s; \
             rping -c -a ADDRESS",
        ),
    }
}

fn talk_to_oneself(address: SocketAddr) -> io::Result<()> {
    let socket = Socket::for_address(address)?;
    socket.bind(address)?;
    let fd = socket.into_fd();
    // SAFETY: It takes integers.
    let result = unsafe { libc::listen(std::os::fd::AsRawFd::as_raw_fd(&fd), 1) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let listener = TcpListener::from(fd);
    let socket = Socket::for_address(address)?;
    socket.connect(listener.local_addr()?)?;
    let mut client = TcpStream::from(socket.into_fd());
    let (mut server, _) = listener.accept()?;
    client.write_all(MESSAGE)?;
    client.shutdown(Shutdown::Write)?;
    let mut received = Vec::new();
    server.read_to_end(&mut received)?;
    if received == MESSAGE {
        Ok(())
    } else {
        Err(io::Error::other("other bytes came than were sent"))
    }
}

/// Whether a host can be reached.
pub(crate) fn check(report: &mut Report, host: &str, port: u16) {
    let addresses = match (host, port).to_socket_addrs() {
        Ok(addresses) => addresses,
        Err(error) => {
            report.bad_apart(
                &format!("{host} has no address: {error}"),
                "check the name and the resolver",
            );
            return;
        }
    };
    let results: Vec<_> = addresses
        .map(|address| {
            let result = Socket::for_address(address).and_then(|socket| socket.connect(address));
            (address, result)
        })
        .collect();
    say(report, &results);
}

/// What came of the addresses of a host. One way to it is enough: what is wrong with the
/// others is no trouble then.
fn say(report: &mut Report, results: &[(SocketAddr, io::Result<()>)]) {
    let is_reached = results.iter().any(|(_, result)| meaning(result).0);
    for (address, result) in results {
        let (is_good, text, advice) = meaning(result);
        let text = format!("{address}: {text}");
        match (is_good, is_reached) {
            (true, _) => report.good(&text),
            (false, true) => report.note(&text),
            (false, false) => report.bad_apart(&text, advice),
        }
    }
}

/// Whether that is good, what it means, and what to do.
fn meaning(result: &io::Result<()>) -> (bool, String, &'static str) {
    let Err(error) = result else {
        return (true, "connected over SDP".into(), "");
    };
    match error.raw_os_error() {
        // An answer of the connection manager: the way is there.
        Some(libc::ECONNREFUSED) => (
            true,
            "the host answers over RDMA, but nobody listens with SDP on that port, or the host \
             has no SDP. Give the port of a server that runs under sdp_run there to see which"
                .into(),
            "",
        ),
        Some(libc::ENETUNREACH) => (
            false,
            "no RDMA device leads there".into(),
            "the route has to use the interface of an RDMA device: ip route get ADDRESS",
        ),
        Some(libc::EHOSTUNREACH) => (
            false,
            "the address does not resolve over RDMA".into(),
            "is the host up, and in the same network? ping ADDRESS",
        ),
        Some(libc::ETIMEDOUT) => (
            false,
            "the host does not answer RDMA connection requests".into(),
            "it needs an RDMA device of its own and ib_cm; on RoCE nothing may drop UDP port 4791",
        ),
        _ => (
            false,
            error.to_string(),
            "look into the kernel's log: dmesg",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_fail_has_advice() {
        assert!(meaning(&Ok(())).0);
        let of = |errno| meaning(&Err(io::Error::from_raw_os_error(errno)));
        assert!(of(libc::ECONNREFUSED).0);
        for errno in [
            libc::ENETUNREACH,
            libc::EHOSTUNREACH,
            libc::ETIMEDOUT,
            libc::ENOMEM,
        ] {
            let (good, text, advice) = of(errno);
            assert!(!good && !text.is_empty() && !advice.is_empty());
        }
    }

    #[test]
    fn one_address_that_is_reached_is_enough() {
        let result = |errno| match errno {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        };
        let is_good = |errnos: &[i32]| {
            let results: Vec<_> = (1..)
                .map(|port| SocketAddr::from(([10, 0, 0, 2], port)))
                .zip(errnos.iter().map(|errno| result(*errno)))
                .collect();
            let mut report = Report::new(true);
            say(&mut report, &results);
            report.is_good()
        };
        assert!(is_good(&[libc::ENETUNREACH, 0]));
        assert!(is_good(&[libc::ECONNREFUSED, libc::ENETUNREACH]));
        assert!(!is_good(&[libc::ENETUNREACH, libc::ETIMEDOUT]));
    }

    #[test]
    fn who_refuses_may_have_no_sdp() {
        let (_, text, _) = meaning(&Err(io::Error::from_raw_os_error(libc::ECONNREFUSED)));
        assert!(text.contains("nobody listens") && text.contains("no SDP"));
    }

    #[test]
    fn a_host_without_an_address_is_bad() {
        let mut report = Report::new(true);
        check(&mut report, "no such host", 1);
        assert!(!report.is_good());
    }
}
