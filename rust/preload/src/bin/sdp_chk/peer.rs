// SPDX-License-Identifier: MIT

//! Test connections: to this host itself, and to another host.

use crate::arguments::PORT;
use crate::remembered;
use crate::report::{Report, Trial};
use crate::view::{name, View};
use dns_lookup::{getaddrinfo, AddrInfoHints, SockType};
use sdp_socket::{SdpListener, SdpStream, Transport};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::time::Duration;

const MESSAGE: &[u8] = b"sdp_chk";

/// Time limits for a server's first message, by which it is known as `sdp_chk --server`. The first
/// is for its own port, where other servers are unlikely. The second is for other ports, where most
/// servers wait for the client to speak first.
const PATIENCE: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(2)];
const TCP_PATIENCE: Duration = Duration::from_secs(10);

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
    let listener = SdpListener::bind(address)?;
    let mut client = SdpStream::connect(listener.local_addr()?)?;
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

/// The addresses of a host, or those to listen on. The port is a number or the name of a service.
pub(crate) fn resolve(host: Option<&str>, port: &str) -> Result<Vec<SocketAddr>, String> {
    let hints = AddrInfoHints {
        socktype: SockType::Stream.into(),
        ..AddrInfoHints::default()
    };
    getaddrinfo(host, Some(port), Some(hints))
        .map_err(io::Error::from)
        .and_then(|found| found.map(|info| Ok(info?.sockaddr)).collect())
        .map_err(|error: io::Error| match host {
            Some(host) => format!("{host}, port {port}, has no address: {error}"),
            None => format!("no port {port}: {error}"),
        })
}

/// The results for one address.
struct Attempt {
    address: SocketAddr,
    /// The server's report, if the server is an `sdp_chk`.
    sdp: io::Result<Option<View>>,
    /// Set if SDP failed.
    tcp: Option<io::Result<Option<View>>>,
}

impl Attempt {
    fn new(address: SocketAddr) -> Self {
        let sdp = talk(address, Transport::Sdp, None);
        let tcp = sdp.as_ref().err().map(|error| {
            let (_, reason, _) = meaning(error);
            talk(address, Transport::Tcp, Some(reason))
        });
        Self { address, sdp, tcp }
    }

    fn server(&self) -> Option<&View> {
        let tcp = self.tcp.as_ref().and_then(|tcp| tcp.as_ref().ok());
        self.sdp.as_ref().ok().or(tcp).and_then(Option::as_ref)
    }

    /// Whether the result is good, its meaning, and advice.
    fn meaning(&self) -> (bool, String, &'static str) {
        let Err(error) = &self.sdp else {
            let there = match self.server() {
                Some(view) => format!("; sdp_chk there sees {}", view.transport),
                None => String::new(),
            };
            return (true, format!("connected over SDP{there}"), "");
        };
        let (is_good, text, advice) = meaning(error);
        match (&self.tcp, self.server()) {
            // A server listens there, so the refusal over SDP has another cause.
            (_, Some(view)) => {
                let why = match &view.reason {
                    Some(reason) => format!("sdp_chk there says: {reason}"),
                    None => format!("{text}, although sdp_chk there listens with SDP"),
                };
                let advice = if is_good {
                    "run sdp_chk on that host: it says what to do"
                } else {
                    advice
                };
                (false, format!("TCP alone leads there: {why}"), advice)
            }
            (Some(Ok(None)), None) => (is_good, format!("{text}. TCP leads there"), advice),
            _ => (is_good, text, advice),
        }
    }

    fn trial(&self) -> Trial {
        let transport = match (&self.sdp, &self.tcp) {
            (Ok(_), _) => Some(Transport::Sdp),
            (_, Some(Ok(_))) => Some(Transport::Tcp),
            _ => None,
        };
        Trial {
            address: self.address,
            transport: transport.map(name),
            errno: self.sdp.as_ref().err().and_then(io::Error::raw_os_error),
            server: self.server().cloned(),
        }
    }
}

/// Connects, and exchanges reports with the server if it is an `sdp_chk`.
fn talk(
    address: SocketAddr,
    transport: Transport,
    reason: Option<String>,
) -> io::Result<Option<View>> {
    let stream = match transport {
        Transport::Tcp => SdpStream::connect_timeout(&address, transport, TCP_PATIENCE)?,
        _ => SdpStream::connect_with(address, transport)?,
    };
    let [own, others] = PATIENCE;
    let is_own = PORT.parse() == Ok(address.port());
    let view = View::receive(&stream, if is_own { own } else { others }).ok();
    if view.is_some() {
        // The server prints our report; its absence is no error here.
        let _ = View::of(transport, reason).send(&stream);
    }
    Ok(view)
}

/// Whether a host can be reached. If this kernel has no SDP, only the host's addresses are
/// reported.
pub(crate) fn check(report: &mut Report, host: &str, port: &str, has_sdp: bool) {
    let addresses = match resolve(Some(host), port) {
        Ok(addresses) => addresses,
        Err(error) => {
            report.bad_apart(&error, "check the name, the port and the resolver");
            return;
        }
    };
    if has_sdp {
        let silent = remembered::silent(&addresses);
        let attempts: Vec<_> = addresses.into_iter().map(Attempt::new).collect();
        say(report, &attempts);
        for note in silent {
            report.note(&note);
        }
    } else {
        report.note(&untried(host, &addresses));
    }
}

fn untried(host: &str, addresses: &[SocketAddr]) -> String {
    let reason = "not tried: this kernel has no SDP";
    let ips: Vec<_> = addresses
        .iter()
        .map(|address| address.ip().to_string())
        .collect();
    if host.parse::<IpAddr>().is_ok() {
        format!("{host} {reason}")
    } else {
        format!("{host} ({}) {reason}", ips.join(", "))
    }
}

/// Reports the results for the addresses of a host. One working address is enough: faults of the
/// others are notes then.
fn say(report: &mut Report, attempts: &[Attempt]) {
    let is_reached = attempts.iter().any(|attempt| attempt.meaning().0);
    for attempt in attempts {
        let (is_good, text, advice) = attempt.meaning();
        let text = format!("{}: {text}", attempt.address);
        let (verdict, advice) = match (is_good, is_reached) {
            (true, _) => ("ok", None),
            (false, true) => ("note", None),
            (false, false) => ("bad", Some(advice)),
        };
        report.trial(verdict, &text, advice, attempt.trial());
    }
}

/// The meaning of an error of connect() over SDP: whether the host was reached, in words, and
/// advice.
fn meaning(error: &io::Error) -> (bool, String, &'static str) {
    match error.raw_os_error() {
        // The connection manager answered: the host was reached.
        Some(libc::ECONNREFUSED) => (
            true,
            "the host answers over RDMA, but has no listener with SDP on that port, or the host \
             has no SDP. Run sdp_chk --server there to see which"
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
    use crate::report::Style;

    fn error(errno: i32) -> io::Error {
        io::Error::from_raw_os_error(errno)
    }

    /// An attempt with this errno over SDP and this result over TCP.
    fn attempt(errno: i32, tcp: io::Result<Option<View>>) -> Attempt {
        let sdp = match errno {
            0 => Ok(None),
            errno => Err(error(errno)),
        };
        let tcp = sdp.is_err().then_some(tcp);
        Attempt {
            address: SocketAddr::from(([10, 0, 0, 2], 7)),
            sdp,
            tcp,
        }
    }

    #[test]
    fn every_way_to_fail_has_advice() {
        assert!(attempt(0, Ok(None)).meaning().0);
        assert!(meaning(&error(libc::ECONNREFUSED)).0);
        for errno in [
            libc::ENETUNREACH,
            libc::EHOSTUNREACH,
            libc::ETIMEDOUT,
            libc::ENOMEM,
        ] {
            let (good, text, advice) = meaning(&error(errno));
            assert!(!good && !text.is_empty() && !advice.is_empty());
        }
    }

    #[test]
    fn one_address_that_is_reached_is_enough() {
        let is_good = |errnos: &[i32]| {
            let refused = || Err(error(libc::ECONNREFUSED));
            let attempts: Vec<_> = errnos.iter().map(|one| attempt(*one, refused())).collect();
            let mut report = Report::new(Style::Quiet);
            say(&mut report, &attempts);
            report.is_good()
        };
        assert!(is_good(&[libc::ENETUNREACH, 0]));
        assert!(is_good(&[libc::ECONNREFUSED, libc::ENETUNREACH]));
        assert!(!is_good(&[libc::ENETUNREACH, libc::ETIMEDOUT]));
    }

    #[test]
    fn a_host_that_refuses_may_have_no_sdp() {
        let (_, text, _) = meaning(&error(libc::ECONNREFUSED));
        assert!(text.contains("no listener") && text.contains("no SDP"));
    }

    #[test]
    fn a_server_over_tcp_says_why_it_is_not_sdp() {
        let view =
            |reason: Option<&str>| Ok(Some(View::of(Transport::Tcp, reason.map(Into::into))));
        let without = attempt(libc::ECONNREFUSED, view(Some("no SDP here")));
        let (good, text, advice) = without.meaning();
        assert!(!good && text.ends_with("says: no SDP here") && advice.contains("run sdp_chk"));
        assert_eq!(without.trial().transport, Some("TCP"));
        let (good, text, advice) = attempt(libc::ENETUNREACH, view(None)).meaning();
        assert!(!good && text.contains("no RDMA device") && advice.contains("route"));
        let (good, text, _) = attempt(libc::ECONNREFUSED, Ok(None)).meaning();
        assert!(good && text.ends_with("TCP leads there"));
    }

    #[test]
    fn what_is_no_service_is_no_port() {
        let ports = |port| -> Result<Vec<_>, _> {
            let found = resolve(Some("127.0.0.1"), port)?;
            Ok::<_, String>(found.iter().map(SocketAddr::port).collect())
        };
        assert_eq!(ports("7000"), Ok(vec![7000]));
        assert!(ports("no-such-service").is_err());
        let [any, ..] = resolve(None, "7000").unwrap_or_default()[..] else {
            return assert_eq!("no address", "one to listen on");
        };
        assert_eq!(any.port(), 7000);
    }

    #[test]
    fn a_host_that_is_not_tried_has_its_addresses_said() {
        let addresses = [SocketAddr::from(([10, 0, 0, 2], 7))];
        assert_eq!(
            untried("b", &addresses),
            "b (10.0.0.2) not tried: this kernel has no SDP"
        );
        assert!(untried("10.0.0.2", &addresses).starts_with("10.0.0.2 not tried"));
    }

    #[test]
    fn a_host_without_an_address_is_bad() {
        for has_sdp in [false, true] {
            let mut report = Report::new(Style::Quiet);
            check(&mut report, "no such host", "1", has_sdp);
            assert!(!report.is_good());
        }
    }
}
