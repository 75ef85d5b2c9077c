// SPDX-License-Identifier: MIT
//! Questions about a socket in use, and what their answers have to be.

use std::os::fd::RawFd;
use std::sync::atomic::Ordering;

use libc::{c_int, c_ulong, socklen_t};
use sdp_uapi::{SDP_SOCK_FAMILY, SDP_TRAFFIC, SDP_TRANSPORT, SDP_TRANSPORT_TCP};

use crate::addr::Addr;
use crate::errno::{checked_unit, Errno, Res};
use crate::plan::{Ask, Ground, Urgent};
use crate::talk::Talk;

const SIOCINQ: c_ulong = 0x541b;
const SIOCOUTQ: c_ulong = 0x5411;
const SIOCOUTQNSD: c_ulong = 0x894b;
const SIOCATMARK: c_ulong = 0x8905;
/// Where `struct tcp_info` has the bytes that were received, and its length at least.
const BYTES_RECEIVED: usize = 128;
const INFO: usize = 136;
/// States of TCP in which a connection that was not closed may be.
const OPEN: &[u8] = &[1, 8];

/// The answer of an option, and its length.
fn option(fd: RawFd, level: c_int, name: c_int, room: &mut [u8]) -> Res<usize> {
    let mut len = room.len() as socklen_t;
    let base = room.as_mut_ptr();
    // SAFETY: room and length live through the call.
    checked_unit(unsafe { libc::getsockopt(fd, level, name, base.cast(), &raw mut len) })?;
    Ok(len as usize)
}

fn number(fd: RawFd, level: c_int, name: c_int) -> Res<i32> {
    let mut bytes = [0; 4];
    option(fd, level, name, &mut bytes)?;
    Ok(i32::from_ne_bytes(bytes))
}

fn count(fd: RawFd, request: c_ulong) -> Res<u64> {
    let mut count: c_int = 0;
    // SAFETY: the number lives through the call.
    checked_unit(unsafe { libc::ioctl(fd, request as _, &raw mut count) })?;
    Ok(count as u64)
}

type Namer = unsafe extern "C" fn(c_int, *mut libc::sockaddr, *mut socklen_t) -> c_int;

fn name(fd: RawFd, ask: Namer) -> Res<Addr> {
    let mut name = Addr::empty();
    let (base, len) = (name.as_mut_ptr(), &raw mut *name.len_mut());
    // SAFETY: name and length live through the call.
    checked_unit(unsafe { ask(fd, base, len) })?;
    Ok(name)
}

impl Talk<'_> {
    /// Asks the question of this number. Answers are judged while nothing may end the connection.
    pub fn ask(&self, number: usize) {
        let asks = &self.end.asks;
        let Some(&ask) = asks.get(number % asks.len().max(1)) else { return };
        let answer = match ask {
            Ask::Names => self.ask_names(),
            Ask::Options => self.ask_options(),
            Ask::Counts => self.ask_counts(),
            Ask::Info => self.ask_info(),
            Ask::Traffic => self.ask_traffic(),
        };
        match answer {
            _ if !self.certain => {}
            Ok(None) => {}
            Ok(Some(text)) => self.state.fault(&format!("{ask:?}: {text}")),
            Err(error) => self.state.fault(&format!("{ask:?}: {error}")),
        }
    }

    /// The server's address is known.
    fn ask_names(&self) -> Res<Option<String>> {
        let own = name(self.fd, libc::getsockname)?;
        let theirs = name(self.fd, libc::getpeername)?;
        let (server, client) = if self.is_client { (theirs, own) } else { (own, theirs) };
        let good = server.ip() == self.server.ip()
            && server.port() == self.server.port()
            && client.family() == server.family()
            && client.port() != 0;
        Ok((!good).then(|| format!("{own}, peer {theirs}, server {}", self.server)))
    }

    fn ask_options(&self) -> Res<Option<String>> {
        let fixed = [
            (libc::SOL_SOCKET, libc::SO_TYPE, libc::SOCK_STREAM),
            (libc::SOL_SOCKET, libc::SO_ERROR, 0),
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN, 0),
            (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
            (libc::SOL_TCP, libc::TCP_KEEPIDLE, 5),
            (libc::SOL_TCP, libc::TCP_KEEPINTVL, 2),
            (libc::SOL_TCP, libc::TCP_KEEPCNT, 3),
        ];
        let exact = [libc::TCP_NODELAY, libc::TCP_CORK, libc::SO_RCVLOWAT];
        // Half of a buffer that the program chose bounds the low-water mark.
        let bounded = self.end.options.iter().any(|one| one.name == libc::SO_RCVBUF);
        let set =
            self.end.options.iter().filter(|one| {
                exact.contains(&one.name) && !(bounded && one.name == libc::SO_RCVLOWAT)
            });
        let set = set.map(|one| (one.level, one.name, one.value));
        for (level, name, value) in fixed.into_iter().chain(set) {
            let answer = number(self.fd, level, name)?;
            if answer != value {
                return Ok(Some(format!("option {level}/{name} is {answer}, not {value}")));
            }
        }
        // A message has a payload.
        let segment = number(self.fd, libc::SOL_TCP, libc::TCP_MAXSEG)?;
        Ok((segment <= 0).then(|| format!("TCP_MAXSEG {segment}")))
    }

    fn ask_counts(&self) -> Res<Option<String>> {
        let received = self.state.received.load(Ordering::SeqCst);
        let readable = count(self.fd, SIOCINQ)?;
        let sent = self.peer.attempted.load(Ordering::SeqCst);
        let queued = count(self.fd, SIOCOUTQ)?;
        let unsent = count(self.fd, SIOCOUTQNSD)?;
        let mark = count(self.fd, SIOCATMARK)?;
        let given = self.state.attempted.load(Ordering::SeqCst);
        // An urgent byte that is no part of the stream counts as well. TCP counts the end.
        let more = 1 + u64::from(self.end.urgent == Urgent::Apart);
        let good = received + readable <= sent + more
            && queued.max(unsent) <= given + more
            && (mark == 0 || self.end.urgent != Urgent::None);
        Ok((!good).then(|| {
            format!(
                "{received} received and {readable} readable of {sent}; {queued} queued and {unsent} not \
                 sent of {given}; mark {mark}"
            )
        }))
    }

    fn ask_info(&self) -> Res<Option<String>> {
        let mut info = [0; 512];
        let len = option(self.fd, libc::SOL_TCP, libc::TCP_INFO, &mut info)?;
        let mut word = [0; 8];
        word.copy_from_slice(&info[BYTES_RECEIVED..BYTES_RECEIVED + 8]);
        let received = u64::from_ne_bytes(word);
        let sent = self.peer.attempted.load(Ordering::SeqCst);
        let more = 1 + u64::from(self.end.urgent == Urgent::Apart);
        let is_open = OPEN.contains(&info[0]) || self.state.shut.load(Ordering::SeqCst);
        let good = len >= INFO && is_open && received <= sent + more;
        Ok((!good)
            .then(|| format!("{len} bytes, state {}, {received} received of {sent}", info[0])))
    }

    /// Whether TCP's attempt was faster. The accepted socket is a plain one of TCP then.
    pub fn is_over_tcp(&self) -> bool {
        let transport = number(self.fd, libc::SOL_TCP, SDP_TRANSPORT);
        self.raced && matches!(transport, Ok(SDP_TRANSPORT_TCP) | Err(Errno(libc::ENOPROTOOPT)))
    }

    /// Options that TCP does not have.
    fn ask_traffic(&self) -> Res<Option<String>> {
        if self.ground == Ground::Tcp || self.is_over_tcp() {
            return Ok(None);
        }
        let mut counters = [0; 1024];
        let len = option(self.fd, libc::SOL_TCP, SDP_TRAFFIC, &mut counters)?;
        let transport = number(self.fd, libc::SOL_TCP, SDP_TRANSPORT)?;
        let family = number(self.fd, libc::SOL_TCP, SDP_SOCK_FAMILY)?;
        let is_ip = family == libc::AF_INET || family == libc::AF_INET6;
        let good = len > 0 && len % 8 == 0 && transport != SDP_TRANSPORT_TCP && is_ip;
        Ok((!good).then(|| format!("{len} bytes, transport {transport}, family {family}")))
    }
}
