// SPDX-License-Identifier: MIT

//! Performs one action per argument and prints its results as one line of `NAME=VALUE` pairs.
//! `errno` is set to 4242 before each call.
//!
//! - `DOMAIN,TYPE,PROTOCOL` makes a socket; `kind` is the kind that the kernel really made.
//! - `connect@ADDRESS:PORT` and `listen@ADDRESS:PORT` make a socket, bind it before a listen, and
//!   make that call; `transport` is what the socket may use afterwards.
//! - `bindconnect@ADDRESS:PORT` binds a socket to a free port of that address, and connects it to
//!   ADDRESS:PORT if the bind succeeded; `bound` is the result and errno of the bind.
//! - `laterconnect@ADDRESS:PORT` does not wait, and asks twice for the error when the socket is
//!   ready; `againconnect@ADDRESS:PORT` connects again instead.
//! - `wildconnect@ADDRESS:PORT` and `wildbind@ADDRESS:PORT` pass an address of that length at the
//!   invalid pointer 1.
//! - `accept@ADDRESS:PORT` listens, prints its address, and serves one connection.

use core::ptr::without_provenance;
use libc::{c_int, c_void, socklen_t};
use sdp_uapi::{SDP_SOCK_FAMILY, SDP_TRANSPORT};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::FromRawFd;

const ERRNO_BEFORE: c_int = 4242;

fn option(fd: c_int, level: c_int, name: c_int, room: socklen_t) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut len = room;
    // SAFETY: `room` is at most four, the size of `value`.
    let result = unsafe {
        libc::getsockopt(
            fd,
            level,
            name,
            (&raw mut value).cast::<c_void>(),
            &raw mut len,
        )
    };
    (result == 0 && len == room).then_some(value)
}

/// The socket's real kind, even if the library reports another one.
fn kind(fd: c_int) -> &'static str {
    // SAFETY: an all-zero address is a valid one.
    let mut address: libc::sockaddr_storage = unsafe { core::mem::zeroed() };
    let mut len = socklen_t::try_from(size_of_val(&address)).unwrap_or(0);
    // SAFETY: `address` is valid for writes of `len` bytes.
    let result = unsafe { libc::getsockname(fd, (&raw mut address).cast(), &raw mut len) };
    let is_sdp = option(fd, libc::IPPROTO_TCP, SDP_SOCK_FAMILY, 4).is_some();
    match (result, c_int::from(address.ss_family)) {
        (0, libc::AF_INET | libc::AF_INET6) if is_sdp => "sdp",
        (0, libc::AF_INET | libc::AF_INET6) => "tcp",
        (0, libc::AF_UNIX) => "unix",
        _ => "other",
    }
}

fn number(value: Option<c_int>) -> String {
    value.map_or_else(|| "none".into(), |value| value.to_string())
}

/// The result of a call, and the errno after it.
fn observe(call: impl FnOnce() -> c_int) -> (c_int, c_int) {
    // SAFETY: each thread has an errno.
    unsafe {
        *libc::__errno_location() = ERRNO_BEFORE;
        let result = call();
        (result, *libc::__errno_location())
    }
}

fn describe(domain: c_int, kind_and_flags: c_int, protocol: c_int) {
    // SAFETY: socket() takes integers.
    let (fd, errno) = observe(|| unsafe { libc::socket(domain, kind_and_flags, protocol) });
    let of_socket = |name, room| number(option(fd, libc::SOL_SOCKET, name, room));
    println!(
        "fd={fd} errno={errno} domain={} short_domain={} protocol={} kind={}",
        of_socket(libc::SO_DOMAIN, 4),
        of_socket(libc::SO_DOMAIN, 1),
        of_socket(libc::SO_PROTOCOL, 4),
        kind(fd)
    );
}

/// The address in the form of the system calls.
fn raw(address: SocketAddr) -> (libc::sockaddr_in6, socklen_t) {
    // SAFETY: an all-zero address is a valid one; so is the view of one as another.
    unsafe {
        let mut name: libc::sockaddr_in6 = core::mem::zeroed();
        match address {
            SocketAddr::V4(v4) => {
                let short = (&raw mut name).cast::<libc::sockaddr_in>();
                (*short).sin_family = 2;
                (*short).sin_port = v4.port().to_be();
                (*short).sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
                (name, 16)
            }
            SocketAddr::V6(v6) => {
                name.sin6_family = 10;
                name.sin6_port = v6.port().to_be();
                name.sin6_addr.s6_addr = v6.ip().octets();
                (name, 28)
            }
        }
    }
}

fn socket_for(address: SocketAddr) -> c_int {
    let domain = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    // SAFETY: socket() takes integers.
    unsafe { libc::socket(domain, libc::SOCK_STREAM, 0) }
}

/// Binds and listens; returns the results of both.
fn listen(fd: c_int, address: SocketAddr) -> (c_int, (c_int, c_int)) {
    let (name, len) = raw(address);
    // SAFETY: `name` is an address of `len` bytes.
    unsafe {
        let bound = libc::bind(fd, (&raw const name).cast(), len);
        (bound, observe(|| libc::listen(fd, 5)))
    }
}

/// The results of bind() to any port, and of the last call made.
fn bind_and_connect(fd: c_int, address: SocketAddr) -> (c_int, c_int) {
    let (mut name, len) = raw(address);
    let port = core::mem::take(&mut name.sin6_port);
    // SAFETY: `name` is an address of `len` bytes.
    let (bound, errno) = observe(|| unsafe { libc::bind(fd, (&raw const name).cast(), len) });
    print!("bound={bound},{errno} ");
    if bound != 0 {
        return (bound, errno);
    }
    // The port is at the same offset in both families.
    name.sin6_port = port;
    // SAFETY: As above.
    observe(|| unsafe { libc::connect(fd, (&raw const name).cast(), len) })
}

/// A nonblocking connect(), and waiting for its end.
fn begin(fd: c_int, address: SocketAddr) {
    let (name, len) = raw(address);
    let mut waiting = libc::pollfd {
        fd,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: `name` is an address of `len` bytes, and there is one element.
    unsafe {
        libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK);
        libc::connect(fd, (&raw const name).cast(), len);
        libc::poll(&raw mut waiting, 1, -1);
    }
}

/// The error that connect() ended with.
fn ask(fd: c_int) -> c_int {
    option(fd, libc::SOL_SOCKET, libc::SO_ERROR, 4).unwrap_or(-1)
}

fn perform(action: &str, address: SocketAddr) -> bool {
    let fd = socket_for(address);
    let (name, len) = raw(address);
    let (result, errno) = match action {
        // SAFETY: `name` is an address of `len` bytes.
        "connect" => observe(|| unsafe { libc::connect(fd, (&raw const name).cast(), len) }),
        "listen" => listen(fd, address).1,
        "bindconnect" => bind_and_connect(fd, address),
        "laterconnect" => {
            begin(fd, address);
            (ask(fd), ask(fd))
        }
        "againconnect" => {
            begin(fd, address);
            // SAFETY: `name` is an address of `len` bytes.
            observe(|| unsafe { libc::connect(fd, (&raw const name).cast(), len) })
        }
        // SAFETY: the kernel checks the pointer.
        "wildconnect" => observe(|| unsafe { libc::connect(fd, without_provenance(1), len) }),
        // SAFETY: as above.
        "wildbind" => observe(|| unsafe { libc::bind(fd, without_provenance(1), len) }),
        "accept" => {
            listen(fd, address);
            // SAFETY: no other code has the descriptor.
            let listener = unsafe { TcpListener::from_raw_fd(fd) };
            println!(
                "port={}",
                listener.local_addr().map_or(0, |name| name.port())
            );
            let ok = listener.accept().is_ok();
            println!("accepted={ok}");
            return ok;
        }
        _ => return false,
    };
    println!(
        "result={result} errno={errno} transport={}",
        number(option(fd, libc::IPPROTO_TCP, SDP_TRANSPORT, 4))
    );
    true
}

fn main() {
    for argument in std::env::args().skip(1) {
        let numbers: Vec<c_int> = argument.split(',').flat_map(str::parse).collect();
        let action = argument.split_once('@');
        let address = action.and_then(|(_, address)| address.parse().ok());
        let done = match (&numbers[..], action, address) {
            ([domain, kind, protocol], _, _) => {
                describe(*domain, *kind, *protocol);
                true
            }
            (_, Some((action, _)), Some(address)) => perform(action, address),
            _ => false,
        };
        if !done {
            eprintln!("socket_probe: {argument}: what is that?");
            std::process::exit(2);
        }
    }
}
