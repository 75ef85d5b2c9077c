// SPDX-License-Identifier: MIT

//! Which addresses of this host SDP can use: found out by binding to each.

use crate::report::Report;
use crate::sdp::{Socket, SDP_LAST_BIND_ERR};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// The addresses of this network namespace, without those of loopback.
fn local() -> Vec<(String, SocketAddr)> {
    let mut list: *mut libc::ifaddrs = core::ptr::null_mut();
    // SAFETY: A place for the list.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut next = list;
    while !next.is_null() {
        // SAFETY: The C library's list, whose names are C strings and whose
        // addresses have the size of their family.
        unsafe {
            let entry = &*next;
            next = entry.ifa_next;
            if entry.ifa_addr.is_null() {
                continue;
            }
            let name = core::ffi::CStr::from_ptr(entry.ifa_name);
            let address = match i32::from((*entry.ifa_addr).sa_family) {
                libc::AF_INET => {
                    let name = &*entry.ifa_addr.cast::<libc::sockaddr_in>();
                    let ip = Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes());
                    SocketAddr::new(IpAddr::V4(ip), 0)
                }
                libc::AF_INET6 => {
                    let name = &*entry.ifa_addr.cast::<libc::sockaddr_in6>();
                    let ip = Ipv6Addr::from(name.sin6_addr.s6_addr);
                    SocketAddr::V6(SocketAddrV6::new(ip, 0, 0, name.sin6_scope_id))
                }
                _ => continue,
            };
            if !address.ip().is_loopback() {
                found.push((name.to_string_lossy().into_owned(), address));
            }
        }
    }
    // SAFETY: From getifaddrs().
    unsafe { libc::freeifaddrs(list) };
    found
}

/// Says which can be used; returns those.
pub(crate) fn check(report: &mut Report) -> Vec<SocketAddr> {
    let mut usable = Vec::new();
    for (interface, address) in local() {
        let ip = address.ip();
        let bound = Socket::for_address(address).map(|socket| {
            let result = socket.bind(address);
            (result, socket.get(SDP_LAST_BIND_ERR).unwrap_or(0))
        });
        match bound {
            Ok((Ok(()), _)) => {
                report.good(&format!("{ip} ({interface}) can be used with SDP"));
                usable.push(address);
            }
            Ok((Err(_), reason)) if reason == -libc::ENOENT => report.note(&format!(
                "{ip} ({interface}) belongs to no RDMA device: TCP only"
            )),
            Ok((Err(error), _)) | Err(error) => {
                report.note(&format!("{ip} ({interface}) cannot be used: {error}"));
            }
        }
    }
    usable
}

/// What to do where none can be used, although there are so many ports of devices.
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
