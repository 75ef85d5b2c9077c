// SPDX-License-Identifier: MIT

//! Makes one socket per argument `DOMAIN,TYPE,PROTOCOL` and prints what the program
//! sees of it: `fd=N errno=N domain=N short_domain=N protocol=N kind=tcp|unix|other`,
//! where `errno` was 4242 before the call and `kind` is what the kernel really made.

use libc::{c_int, c_void, socklen_t};

const ERRNO_BEFORE: c_int = 4242;

fn option(fd: c_int, name: c_int, room: socklen_t) -> Option<c_int> {
    let mut value: c_int = 0;
    let mut len = room;
    // SAFETY: `room` is at most four, the size of `value`.
    let result = unsafe {
        libc::getsockopt(
            fd,
            libc::SOL_SOCKET,
            name,
            (&raw mut value).cast::<c_void>(),
            &raw mut len,
        )
    };
    (result == 0 && len == room).then_some(value)
}

/// What the kernel made, whatever is said about it.
fn kind(fd: c_int) -> &'static str {
    // SAFETY: an all-zero address is a valid one.
    let mut address: libc::sockaddr_storage = unsafe { core::mem::zeroed() };
    let mut len = socklen_t::try_from(size_of_val(&address)).unwrap_or(0);
    // SAFETY: `address` is valid for writes of `len` bytes.
    let result = unsafe { libc::getsockname(fd, (&raw mut address).cast(), &raw mut len) };
    match (result, c_int::from(address.ss_family)) {
        (0, libc::AF_INET | libc::AF_INET6) => "tcp",
        (0, libc::AF_UNIX) => "unix",
        _ => "other",
    }
}

fn number(value: Option<c_int>) -> String {
    value.map_or_else(|| "none".into(), |value| value.to_string())
}

fn main() {
    for argument in std::env::args().skip(1) {
        let numbers: Vec<c_int> = argument.split(',').flat_map(str::parse).collect();
        let [domain, kind_and_flags, protocol] = numbers[..] else {
            eprintln!("socket_probe: {argument}: not DOMAIN,TYPE,PROTOCOL");
            std::process::exit(2);
        };
        // SAFETY: each thread has an errno; socket() takes integers.
        let (fd, errno) = unsafe {
            *libc::__errno_location() = ERRNO_BEFORE;
            let fd = libc::socket(domain, kind_and_flags, protocol);
            (fd, *libc::__errno_location())
        };
        println!(
            "fd={fd} errno={errno} domain={} short_domain={} protocol={} kind={}",
            number(option(fd, libc::SO_DOMAIN, 4)),
            number(option(fd, libc::SO_DOMAIN, 1)),
            number(option(fd, libc::SO_PROTOCOL, 4)),
            kind(fd)
        );
    }
}
