// SPDX-License-Identifier: MIT
//! `socket` itself, and calls on a new socket.

use libc::{EINVAL, EPROTONOSUPPORT, ESOCKTNOSUPPORT, SOCK_STREAM};

use crate::case::{Case, Difference};
use crate::errno::{checked, checked_int, checked_unit};
use crate::signal;
use crate::sock::Sock;

pub const CASES: &[Case] = &[
    Case::alone("socket_takes_protocol_zero_and_tcp", |t| {
        t.ok("protocol 0", Sock::new(t.domain(), SOCK_STREAM, 0));
        t.ok("protocol tcp", Sock::new(t.domain(), SOCK_STREAM, libc::IPPROTO_TCP));
    })
    .both_versions(),
    Case::alone("socket_of_another_protocol_is_refused", |t| {
        for protocol in [libc::IPPROTO_UDP, 255] {
            let sock = Sock::new(t.domain(), SOCK_STREAM, protocol);
            t.err(&format!("protocol {protocol}"), sock, EPROTONOSUPPORT);
        }
    }),
    Case::alone("socket_of_a_protocol_out_of_range_is_invalid", |t| {
        t.err("protocol -1", Sock::new(t.domain(), SOCK_STREAM, -1), EINVAL);
        t.err("protocol 70000", Sock::new(t.domain(), SOCK_STREAM, 70000), EINVAL);
    }),
    Case::alone("socket_of_a_type_without_implementation_is_refused", |t| {
        for kind in [0, libc::SOCK_SEQPACKET] {
            t.err(&format!("type {kind}"), Sock::new(t.domain(), kind, 0), ESOCKTNOSUPPORT);
        }
    }),
    Case::alone("socket_for_datagrams_over_tcp_is_refused", |t| {
        let sock = Sock::new(t.domain(), libc::SOCK_DGRAM, libc::IPPROTO_TCP);
        t.see("datagrams over tcp", sock.map(|_| ()));
        let sock = Sock::new(t.domain(), libc::SOCK_RAW, 0);
        t.see("raw", sock.map(|_| ()));
    })
    .differs(&[
        Difference {
            label: "datagrams over tcp",
            tcp: "EPROTONOSUPPORT",
            sdp: "ESOCKTNOSUPPORT",
            reason: "the family has no datagram sockets of any protocol",
        },
        Difference {
            label: "raw",
            tcp: "EPROTONOSUPPORT",
            sdp: "ESOCKTNOSUPPORT",
            reason: "the family has no raw sockets of any protocol",
        },
    ]),
    Case::alone("socket_of_a_type_out_of_range_is_invalid", |t| {
        t.err("type 15", Sock::new(t.domain(), 15, 0), EINVAL);
        t.err("unknown flag", Sock::new(t.domain(), SOCK_STREAM | 0x100_0000, 0), EINVAL);
    }),
    Case::alone("socket_flags_set_the_descriptor_flags", |t| {
        for flags in [0, libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC] {
            let sock = t.socket_with(flags);
            t.eq("nonblocking", sock.is_nonblocking(), Ok(flags == libc::SOCK_NONBLOCK));
            t.eq("cloexec", sock.is_cloexec(), Ok(flags == libc::SOCK_CLOEXEC));
        }
    }),
    Case::alone("socketpair_is_not_supported", |t| {
        let mut fds = [0; 2];
        // SAFETY: the array has room for two descriptors.
        let pair =
            checked_unit(unsafe { libc::socketpair(t.domain(), SOCK_STREAM, 0, fds.as_mut_ptr()) });
        t.err("socketpair", pair, libc::EOPNOTSUPP);
    }),
    Case::alone("socket_is_a_socket_file", |t| {
        let sock = t.socket();
        // SAFETY: `stat` is plain data and lives through the call.
        let mode = unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            checked_unit(libc::fstat(sock.fd(), &raw mut stat)).expect("fstat");
            stat.st_mode
        };
        t.eq("type", mode & libc::S_IFMT, libc::S_IFSOCK);
        let link = std::fs::read_link(format!("/proc/self/fd/{}", sock.fd())).expect("readlink");
        t.holds("link", link.to_string_lossy().starts_with("socket:["));
    }),
    Case::alone("socket_beyond_the_descriptor_limit_fails", |t| {
        let mut held = Vec::new();
        let limit = libc::rlimit { rlim_cur: 32, rlim_max: 32 };
        // SAFETY: the limit lives through the call.
        checked_unit(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })
            .expect("setrlimit");
        let last = loop {
            match Sock::new(t.domain(), SOCK_STREAM, 0) {
                Ok(sock) => held.push(sock),
                Err(errno) => break Err::<(), _>(errno),
            }
        };
        t.err("last", last, libc::EMFILE);
        held.pop();
        t.ok("after one close", Sock::new(t.domain(), SOCK_STREAM, 0));
    }),
    Case::alone("fresh_socket_cannot_receive", |t| {
        let sock = t.socket();
        let mut room = [0; 8];
        t.err("recv", sock.recv(&mut room, 0), libc::ENOTCONN);
        t.err("read", sock.read(&mut room), libc::ENOTCONN);
        t.err("recv peek", sock.recv(&mut room, libc::MSG_PEEK), libc::ENOTCONN);
        t.err("recv nonblocking", sock.recv(&mut room, libc::MSG_DONTWAIT), libc::ENOTCONN);
        t.see("recv out of band", sock.recv(&mut room, libc::MSG_OOB));
    })
    .both_versions(),
    Case::alone("fresh_socket_cannot_send", |t| {
        signal::catch(libc::SIGPIPE, true);
        let sock = t.socket();
        t.err("send", sock.send(b"x", 0), libc::EPIPE);
        t.eq("signals after send", signal::caught(libc::SIGPIPE), 1);
        t.err("write", sock.write(b"x"), libc::EPIPE);
        t.eq("signals after write", signal::caught(libc::SIGPIPE), 2);
        t.err("send nosignal", sock.send(b"x", libc::MSG_NOSIGNAL), libc::EPIPE);
        let to = t.here(9);
        t.err("sendto", sock.send_to(b"x", libc::MSG_NOSIGNAL, &to), libc::EPIPE);
        t.eq("signals after all", signal::caught(libc::SIGPIPE), 2);
    })
    .both_versions(),
    Case::alone("file_calls_that_make_no_sense_fail", |t| {
        let sock = t.socket();
        let mut room = [0_u8; 8];
        // SAFETY: the buffer lives through the calls.
        unsafe {
            t.err(
                "lseek",
                checked(libc::lseek(sock.fd(), 0, libc::SEEK_SET) as isize),
                libc::ESPIPE,
            );
            let read = checked(libc::pread(sock.fd(), room.as_mut_ptr().cast(), 8, 0));
            t.err("pread", read, libc::ESPIPE);
            t.err("ftruncate", checked_int(libc::ftruncate(sock.fd(), 0)), EINVAL);
            t.err("fsync", checked_int(libc::fsync(sock.fd())), EINVAL);
        }
    }),
    Case::alone("socket_calls_need_a_socket", |t| {
        let file = std::fs::File::open("/dev/null").expect("/dev/null");
        let not = Sock::from_fd(std::os::fd::IntoRawFd::into_raw_fd(file));
        t.err("bind", not.bind(&t.here(0)), libc::ENOTSOCK);
        t.err("connect", not.connect(&t.here(9)), libc::ENOTSOCK);
        t.err("listen", not.listen(1), libc::ENOTSOCK);
        t.err("accept", not.accept(), libc::ENOTSOCK);
        t.err("shutdown", not.shutdown(libc::SHUT_RD), libc::ENOTSOCK);
        t.err("getsockname", not.name(), libc::ENOTSOCK);
        let closed = Sock::from_fd(-1);
        t.err("bind closed", closed.bind(&t.here(0)), libc::EBADF);
        t.err("accept closed", closed.accept(), libc::EBADF);
    }),
    Case::alone("a_thousand_sockets_come_and_go", |t| {
        for _ in 0..1000 {
            let sock = t.socket();
            assert!(sock.fd() < 64, "descriptors are not given back");
        }
        t.holds("all closed", true);
    }),
];
