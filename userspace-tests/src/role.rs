// SPDX-License-Identifier: MIT
//! The environment of a case's script: sockets and addresses of the family under test, the control
//! channel to the other role, and the log of observations.

use std::fmt::{Debug, Display};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use libc::{c_int, c_short, c_ulong, EAGAIN};

use crate::addr::Addr;
use crate::control::Control;
use crate::errno::{Errno, Res};
use crate::observe::{Note, Observation, Report, Shown};
use crate::poller::{Epoll, Events};
use crate::sock::Sock;
use crate::uapi;
use crate::world::{domain, protocol, Family, Ip, Side};

/// `FIONREAD`, under its socket name.
pub const SIOCINQ: c_ulong = libc::FIONREAD;
pub const SIOCOUTQ: c_ulong = libc::TIOCOUTQ;
pub const SIOCATMARK: c_ulong = 0x8905;
/// The number of unsent bytes.
pub const SIOCOUTQNSD: c_ulong = 0x894b;

/// A time limit in milliseconds that a call shall reach.
pub const LIMIT: u64 = 60;
/// The minimum time that must have passed then: the kernel counts such limits in ticks of up to 10
/// ms, and the clock of an emulated machine is inexact.
pub const ENOUGH: u128 = 30;

pub struct Role {
    pub side: Side,
    pub family: Family,
    pub ip: Ip,
    pub here: IpAddr,
    pub there: IpAddr,
    /// The slowness relative to an ordinary machine.
    pub slowness: u32,
    pub control: Control,
    pub report: Report,
}

/// Sockets and addresses.
impl Role {
    pub fn domain(&self) -> c_int {
        domain(self.family, self.ip)
    }

    /// A stream socket of the family and version under test.
    #[track_caller]
    pub fn socket(&self) -> Sock {
        self.socket_with(0)
    }

    /// The same, without being set to IPv6 if the family alone does not imply it.
    #[track_caller]
    pub fn plain_socket(&self) -> Sock {
        if self.family == Family::Companion {
            return self.socket();
        }
        Sock::new(self.domain(), libc::SOCK_STREAM, protocol(self.family)).expect("socket")
    }

    #[track_caller]
    pub fn socket_with(&self, flags: c_int) -> Sock {
        self.socket_of(self.ip, flags)
    }

    #[track_caller]
    fn socket_of(&self, ip: Ip, flags: c_int) -> Sock {
        let kind = libc::SOCK_STREAM | flags;
        let sock = Sock::new(domain(self.family, ip), kind, protocol(self.family)).expect("socket");
        let tell = |option, value: c_int| {
            sock.set(libc::SOL_TCP, option, &value).expect("an option of the family");
        };
        if matches!(self.family, Family::Sdp | Family::Companion) && ip == Ip::V6 {
            tell(uapi::SDP_SOCK_FAMILY, libc::AF_INET6);
        }
        if self.family == Family::Companion {
            tell(uapi::SDP_TRANSPORT, uapi::SDP_TRANSPORT_TCP);
        }
        sock
    }

    /// A stream socket for IPv4 addresses, also in the IPv6 variant of a case.
    #[track_caller]
    pub fn socket_v4(&self) -> Sock {
        self.socket_of(Ip::V4, 0)
    }

    /// The family number for this family's own addresses.
    pub fn own_family(&self) -> c_int {
        match (self.family, self.ip) {
            (Family::Sdp, Ip::V4) => uapi::AF_INET_SDP,
            (Family::Sdp, Ip::V6) => uapi::AF_INET6_SDP,
            (_, ip) => ip.family(),
        }
    }

    pub fn here(&self, port: u16) -> Addr {
        Addr::new(self.here, port)
    }

    pub fn there(&self, port: u16) -> Addr {
        Addr::new(self.there, port)
    }

    pub fn any(&self, port: u16) -> Addr {
        match self.ip {
            Ip::V4 => Addr::v4(Ipv4Addr::UNSPECIFIED, port),
            Ip::V6 => Addr::v6(Ipv6Addr::UNSPECIFIED, port),
        }
    }

    pub fn loopback(&self, port: u16) -> Addr {
        match self.ip {
            Ip::V4 => Addr::v4(Ipv4Addr::LOCALHOST, port),
            Ip::V6 => Addr::v6(Ipv6Addr::LOCALHOST, port),
        }
    }

    /// An address of the link that no host has, and that was not used recently, because the host's
    /// neighbour entries outlive the role.
    pub fn nobody(&self, port: u16) -> Addr {
        let number = 100 + std::process::id() % 100;
        let text = match self.ip {
            Ip::V4 => format!("10.0.0.{number}"),
            Ip::V6 => format!("fd00::{number}"),
        };
        Addr::new(text.parse().expect("an address"), port)
    }

    /// A socket bound to this host and a free port.
    #[track_caller]
    pub fn bound(&self) -> Sock {
        let sock = self.socket();
        sock.bind(&self.here(0)).expect("bind to a free port");
        sock
    }

    #[track_caller]
    pub fn listener(&self, backlog: c_int) -> Sock {
        let sock = self.bound();
        sock.listen(backlog).expect("listen");
        sock
    }

    #[track_caller]
    pub fn port_of(&self, sock: &Sock) -> u16 {
        sock.name().expect("getsockname").port()
    }

    /// A port that is free on all addresses of this host. One that is free on a single address may have a
    /// connection in `TIME_WAIT` on another one.
    #[track_caller]
    pub fn free_port(&self) -> u16 {
        let sock = self.socket();
        sock.bind(&self.any(0)).expect("bind to a free port");
        let port = self.port_of(&sock);
        sock.close().expect("close");
        port
    }

    /// Listens, tells the port, and takes the one connection the client makes.
    #[track_caller]
    pub fn accept_one(&self) -> Sock {
        let listener = self.listener(8);
        self.tell("port", self.port_of(&listener));
        let sock = listener.accept().expect("accept");
        self.must_be_sdp(&sock);
        sock
    }

    /// Checks that a socket which may use both has not fallen back; otherwise TCP would be compared
    /// with TCP.
    #[track_caller]
    fn must_be_sdp(&self, sock: &Sock) {
        if self.family == Family::Protocol {
            let transport = sock.get(libc::SOL_TCP, uapi::SDP_TRANSPORT);
            assert!(transport == Ok(uapi::SDP_TRANSPORT_SDP), "SDP_TRANSPORT is {transport:?}");
        }
    }

    /// Listens and tells the port; the client's attempt must not produce a connection.
    #[track_caller]
    pub fn listens_unheard(&self, listener: Sock) {
        listener.bind(&self.any(0)).expect("bind");
        listener.listen(4).expect("listen");
        self.tell("port", self.port_of(&listener));
        self.wait("tried");
        listener.set_nonblocking(true).expect("O_NONBLOCK");
        self.err("accept", listener.accept(), EAGAIN);
    }

    #[track_caller]
    pub fn connect_told(&self) -> Sock {
        let port = self.hear("port");
        self.connected(port)
    }

    #[track_caller]
    pub fn connected(&self, port: u16) -> Sock {
        let sock = self.socket();
        sock.connect(&self.there(port)).expect("connect");
        self.must_be_sdp(&sock);
        sock
    }

    /// Two connected sockets in this process, over its host's own address.
    #[track_caller]
    pub fn own_pair(&self) -> (Sock, Sock) {
        let listener = self.listener(1);
        let client = self.socket();
        client.connect(&self.here(self.port_of(&listener))).expect("connect");
        let server = listener.accept().expect("accept");
        self.must_be_sdp(&client);
        self.must_be_sdp(&server);
        (server, client)
    }
}

/// The other role.
impl Role {
    pub fn say(&self, point: &str) {
        self.tell(point, "");
    }

    pub fn tell(&self, point: &str, value: impl Display) {
        self.control.say(point, &value.to_string());
        self.report.note(&Note::At(format!("said \"{point}\"")));
    }

    #[track_caller]
    pub fn wait(&self, point: &str) {
        let _: String = self.hear(point);
    }

    #[track_caller]
    pub fn hear<T: FromStr>(&self, point: &str) -> T
    where
        T::Err: Debug,
    {
        self.report.note(&Note::At(format!("waits for \"{point}\"")));
        let value = self.control.expect(point);
        self.report.note(&Note::At(format!("passed \"{point}\"")));
        value.parse().expect("the peer told a value of another type")
    }

    /// Both roles reach this point before either goes on.
    #[track_caller]
    pub fn meet(&self, point: &str) {
        self.say(point);
        self.wait(point);
    }
}

/// Observations and assertions.
impl Role {
    pub fn see(&self, label: &str, value: impl Shown) {
        let seen = Observation { label: label.to_string(), value: value.shown() };
        self.report.note(&Note::Seen(seen));
    }

    #[track_caller]
    pub fn eq<T: Shown + PartialEq + Debug>(&self, label: &str, got: T, want: T) {
        self.see(label, got.shown());
        assert!(got == want, "{label}: {got:?} where {want:?} was expected");
    }

    /// A fact that must hold.
    #[track_caller]
    pub fn holds(&self, label: &str, fact: bool) {
        self.eq(label, fact, true);
    }

    #[track_caller]
    pub fn ok<T: Shown>(&self, label: &str, result: Res<T>) -> T {
        self.see(label, result.shown());
        match result {
            Ok(value) => value,
            Err(errno) => panic!("{label}: {errno} where success was expected"),
        }
    }

    #[track_caller]
    pub fn err<T: Shown>(&self, label: &str, result: Res<T>, want: c_int) {
        self.see(label, result.shown());
        let want = Errno(want);
        match result {
            Err(errno) if errno == want => {}
            other => panic!("{label}: {} where {want} was expected", other.shown()),
        }
    }
}

/// Whole transfers and waits, which succeed or end the case.
impl Role {
    /// The maximum wait for an event that must happen.
    pub fn patience(&self) -> c_int {
        5000 * self.slowness as c_int
    }

    /// The wait before an event counts as not happening.
    pub fn glance(&self) -> c_int {
        60 + 20 * self.slowness as c_int
    }

    /// Removes the peer of a socket.
    #[track_caller]
    pub fn leave(&self, sock: &Sock) {
        sock.connect(&self.any(0).with_family(libc::AF_UNSPEC)).expect("connect to no family");
    }

    #[track_caller]
    pub fn send_all(&self, sock: &Sock, mut data: &[u8]) {
        while !data.is_empty() {
            let sent = sock.send(data, libc::MSG_NOSIGNAL).expect("send");
            data = &data[sent..];
        }
    }

    #[track_caller]
    pub fn recv_exactly(&self, sock: &Sock, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        let mut have = 0;
        while have < len {
            let got = sock.recv(&mut data[have..], 0).expect("recv");
            assert!(got > 0, "end of stream after {have} of {len} bytes");
            have += got;
        }
        data
    }

    #[track_caller]
    pub fn recv_to_end(&self, sock: &Sock) -> Vec<u8> {
        let mut data = Vec::new();
        let mut room = vec![0; 65536];
        loop {
            match sock.recv(&mut room, 0).expect("recv") {
                0 => return data,
                got => data.extend_from_slice(&room[..got]),
            }
        }
    }

    /// Sends without blocking until no more is accepted, even after a pause; returns the number of
    /// bytes.
    #[track_caller]
    pub fn fill(&self, sock: &Sock) -> usize {
        let mut total = 0;
        loop {
            let taken = push(sock);
            if taken == 0 && total > 0 {
                return total;
            }
            total += taken;
            // Acknowledgements of the peer may make room for a little more.
            sock.poll(libc::POLLOUT, self.glance()).expect("poll");
        }
    }

    /// Waits until all of `events` are set at once; returns all that are set.
    #[track_caller]
    pub fn await_events(&self, sock: &Sock, events: c_short) -> Events {
        let all = c_int::from(events);
        let mut up = Events(0);
        let came = self.until(|| {
            up = sock.poll(events, 0).expect("poll");
            up.0 & all == all
        });
        assert!(came, "events {} instead of {}", up, Events(all));
        up
    }

    /// Waits for the first event of the epoll instance.
    #[track_caller]
    pub fn await_epoll(&self, epoll: &Epoll) -> Events {
        let events = epoll.wait_one(self.patience()).expect("epoll_wait");
        assert!(events.0 != 0, "no epoll event came");
        events
    }

    /// Checks repeatedly until the fact holds; false if it did not in time.
    pub fn until(&self, mut fact: impl FnMut() -> bool) -> bool {
        let start = std::time::Instant::now();
        let limit = std::time::Duration::from_millis(self.patience() as u64);
        loop {
            if fact() {
                return true;
            }
            if start.elapsed() > limit {
                return false;
            }
            // Sleeps between two checks, to leave the processor to others.
            std::thread::sleep(std::time::Duration::from_micros(200));
        }
    }
}

/// Sends blocks without blocking until one is refused completely; returns the number of bytes sent.
/// Never byte by byte: if room appeared meanwhile, filling it would take seconds.
#[track_caller]
fn push(sock: &Sock) -> usize {
    let block = [0x5a; 4096];
    let mut total = 0;
    loop {
        match sock.send(&block, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) {
            Ok(sent) => total += sent,
            Err(Errno(libc::EAGAIN)) => return total,
            Err(errno) => panic!("filling the connection: {errno}"),
        }
    }
}
