// SPDX-License-Identifier: MIT

//! The other end: a listener on SDP and one on TCP, on the same port. The listener that accepts a
//! connection tells its transport.

use crate::kernel;
use crate::peer::resolve;
use crate::report::Report;
use crate::view::{name, View};
use sdp_socket::{SdpListener, SdpStream, Transport};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

/// An sdp_chk client speaks at once; only other clients let the server wait.
const PATIENCE: Duration = Duration::from_secs(10);

/// Listens until a signal ends the process. Returns if it cannot listen at all.
pub(crate) fn run(report: &mut Report, port: &str) {
    report.about("server");
    let port = match resolve(None, port) {
        Ok(addresses) => addresses.first().map_or(0, SocketAddr::port),
        Err(error) => {
            report.bad(
                &error,
                "give a number from 1 to 65535, or a name of /etc/services",
            );
            return;
        }
    };
    let sdp = listen(port, Transport::Sdp);
    let port = sdp.as_ref().map_or(port, |(_, address)| address.port());
    // The reason that a client over TCP is told why it is not SDP.
    let mut reason = None;
    let mut listeners = Vec::new();
    for (transport, listener) in [
        (Transport::Sdp, sdp),
        (Transport::Tcp, listen(port, Transport::Tcp)),
    ] {
        match listener {
            Ok((listener, address)) => {
                report.good(&format!("listening on {address} over {}", name(transport)));
                listeners.push((transport, listener));
            }
            Err(error) if transport == Transport::Sdp => {
                let (what, advice) = kernel::refusal(&error);
                report.bad(&what, advice);
                reason = Some(what);
            }
            Err(error) => report.bad(
                &format!("cannot listen on port {port} over TCP: {error}"),
                "name another port: --server=PORT, and the same to the client",
            ),
        }
    }
    let report = &*report;
    report.flush();
    thread::scope(|scope| {
        for (transport, listener) in &listeners {
            let view = View::of(*transport, reason.clone());
            scope.spawn(move || -> Infallible {
                loop {
                    match listener.accept() {
                        Ok((stream, peer)) => {
                            let view = view.clone();
                            scope.spawn(move || serve(report, &stream, peer, &view));
                        }
                        Err(error) => {
                            report.event("note", &format!("no connection accepted: {error}"), None);
                            // For example, no descriptor is free; there may be one later.
                            thread::sleep(Duration::from_secs(1));
                        }
                    }
                }
            });
        }
    });
}

/// Listens on all addresses of both families, or of IPv4 if there is no IPv6.
fn listen(port: u16, transport: Transport) -> io::Result<(SdpListener, SocketAddr)> {
    let on = |ip: IpAddr| -> io::Result<(SdpListener, SocketAddr)> {
        let address = SocketAddr::new(ip, port);
        let socket = sdp_socket::socket(address, transport)?;
        if address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(128)?;
        let listener = SdpListener::from(OwnedFd::from(socket));
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    on(Ipv6Addr::UNSPECIFIED.into()).or_else(|error| match error.raw_os_error() {
        Some(libc::EADDRINUSE) => Err(error),
        _ => on(Ipv4Addr::UNSPECIFIED.into()),
    })
}

/// Serves one connection.
fn serve(report: &Report, stream: &SdpStream, peer: SocketAddr, view: &View) {
    let told = view.send(stream);
    let theirs = told.and_then(|()| View::receive(stream, PATIENCE));
    let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    let what = said(peer, &view.transport, theirs.as_ref().ok());
    let is_as_meant = view.transport == "SDP";
    let theirs = theirs.ok();
    report.event(
        if is_as_meant { "ok" } else { "note" },
        &what,
        Some((peer, view, theirs.as_ref())),
    );
}

fn said(peer: SocketAddr, transport: &str, theirs: Option<&View>) -> String {
    match theirs {
        None => format!("{peer} connected over {transport}, and is no sdp_chk"),
        Some(view) => match &view.reason {
            Some(reason) => format!("{peer} connected over {transport}; over SDP: {reason}"),
            None => format!("{peer} connected over {transport}"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_says_is_said() {
        let peer = SocketAddr::from(([10, 0, 0, 2], 7));
        let refused = View::of(Transport::Tcp, Some("refused".into()));
        assert_eq!(
            said(peer, "TCP", Some(&refused)),
            "10.0.0.2:7 connected over TCP; over SDP: refused"
        );
        let good = View::of(Transport::Sdp, None);
        assert_eq!(
            said(peer, "SDP", Some(&good)),
            "10.0.0.2:7 connected over SDP"
        );
        assert!(said(peer, "TCP", None).ends_with("is no sdp_chk"));
    }
}
