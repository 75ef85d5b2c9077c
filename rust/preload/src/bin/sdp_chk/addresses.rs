// SPDX-License-Identifier: MIT

//! The addresses of this host that SDP can use. The check binds to each of them.

use crate::report::Report;
use nix::ifaddrs::getifaddrs;
use sdp_socket::{last_bind_error, socket, Transport};
use std::io;
use std::net::{SocketAddr, SocketAddrV4, SocketAddrV6};

/// The addresses of this network namespace, except loopback addresses.
fn local() -> Vec<(String, SocketAddr)> {
    let address = |name: nix::sys::socket::SockaddrStorage| {
        let v4 = name.as_sockaddr_in().map(|v4| SocketAddrV4::from(*v4));
        let v6 = name.as_sockaddr_in6().map(|v6| SocketAddrV6::from(*v6));
        v4.map(SocketAddr::from).or(v6.map(SocketAddr::from))
    };
    getifaddrs()
        .into_iter()
        .flatten()
        .filter_map(|entry| Some((entry.interface_name, address(entry.address?)?)))
        .filter(|(_, address)| !address.ip().is_loopback())
        .collect()
}

/// The result of bind(): success, or the error and whether its cause is that no RDMA device has the
/// address.
fn bind(address: SocketAddr) -> Result<(), (io::Error, bool)> {
    let socket = socket(address, Transport::Sdp).map_err(|error| (error, false))?;
    socket.bind(&address.into()).map_err(|error| {
        let reason = last_bind_error(&socket).ok().flatten();
        let is_foreign = reason.is_some_and(|reason| reason.raw_os_error() == Some(libc::ENOENT));
        (error, is_foreign)
    })
}

/// Reports which addresses SDP can use, and returns them.
pub(crate) fn check(report: &mut Report) -> Vec<SocketAddr> {
    let mut usable = Vec::new();
    for (interface, address) in local() {
        let ip = address.ip();
        match bind(address) {
            Ok(()) => {
                report.good(&format!("{ip} ({interface}) can be used with SDP"));
                usable.push(address);
            }
            Err((_, true)) => report.note(&format!(
                "{ip} ({interface}) belongs to no RDMA device: TCP only"
            )),
            Err((error, false)) => {
                report.note(&format!("{ip} ({interface}) cannot be used: {error}"));
            }
        }
    }
    usable
}

/// Advice if no address can be used, although the devices have this number of ports.
pub(crate) const fn advice(ports: usize) -> &'static str {
    if ports == 0 {
        "SDP needs an RDMA device; see above"
    } else {
        "give the network interface of an RDMA device an IP address in this network namespace: \
         ip address add ADDRESS/PREFIX dev INTERFACE. In a container the interface here may be \
         another one of the same name: run it with the network of the host, or move the \
         device's interface here: ip link set INTERFACE netns NAME"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_may_be_another_one_of_the_same_name() {
        assert!(advice(0).contains("needs an RDMA device"));
        assert!(advice(1).contains("another one of the same name"));
    }

    #[test]
    fn loopback_is_left_out() {
        assert!(local()
            .iter()
            .all(|(_, address)| !address.ip().is_loopback()));
    }
}
