// SPDX-License-Identifier: MIT

//! The sockets to show, by options and filter words.

use std::net::IpAddr;

use crate::arguments::Arguments;
use crate::names;
use crate::socket::{Name, Socket, Transport};
use crate::table;

/// An address or a network, with an optional port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Place {
    network: Option<(IpAddr, u8)>,
    port: Option<u16>,
}

/// The IPv4 address of a mapped IPv6 address.
fn plain(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

fn bits(ip: IpAddr) -> (u128, u8) {
    match ip {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()) << 96, 32),
        IpAddr::V6(ip) => (ip.to_bits(), 128),
    }
}

impl Place {
    fn is_at(&self, name: &Name) -> bool {
        let port = self.port.is_none_or(|port| port == name.port);
        port && self.network.is_none_or(|(network, length)| {
            let ((a, size), (b, other)) = (bits(plain(network)), bits(plain(name.address)));
            size == other && (a ^ b).checked_shr(128 - u32::from(length)).unwrap_or(0) == 0
        })
    }
}

/// "http", "80", ":80".
fn port(text: &str) -> Result<u16, String> {
    let text = text.strip_prefix(':').unwrap_or(text);
    let number = text.parse().ok().or_else(|| table::port_of_service(text));
    number.ok_or_else(|| format!("{text}: no port"))
}

/// An address, with or without brackets, length and port: "10.0.0.0/8", "[::1]:80", ":80".
fn place(text: &str) -> Result<Place, String> {
    let wrong = || format!("{text}: no address");
    let (network, rest) = match text.strip_prefix('[') {
        Some(inside) => inside.split_once(']').ok_or_else(wrong)?,
        // Several colons without brackets are an IPv6 address.
        None if text.matches(':').count() > 1 => (text, ""),
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let (rest, outer) = match rest.strip_prefix('/') {
        Some(more) => {
            let (length, rest) = more.split_at(more.find(':').unwrap_or(more.len()));
            (rest, Some(length))
        }
        None => (rest, None),
    };
    let port = match rest {
        "" => None,
        _ => Some(port(rest.strip_prefix(':').ok_or_else(wrong)?)?),
    };
    if matches!(network, "" | "*") {
        return Ok(Place {
            network: None,
            port,
        });
    }
    let (ip, length) = match network.split_once('/') {
        Some((ip, length)) => (ip, Some(length)),
        None => (network, outer),
    };
    let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
    let most = bits(plain(ip)).1;
    let length = match length {
        Some(length) => length
            .parse()
            .ok()
            .filter(|length| *length <= most)
            .ok_or_else(wrong)?,
        None => most,
    };
    Ok(Place {
        network: Some((ip, length)),
        port,
    })
}

/// The conditions; a socket must meet all of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Filter {
    states: u32,
    transport: Option<Transport>,
    local: Vec<Place>,
    peer: Vec<Place>,
    version: Option<bool>,
}

impl Filter {
    /// The conditions of the command line.
    pub(crate) fn new(options: &Arguments) -> Result<Self, String> {
        let connected = names::states("connected").unwrap_or(u32::MAX);
        let mut filter = Self {
            states: match (options.all, options.listening) {
                (true, _) => u32::MAX,
                (false, true) => 1 << names::LISTEN,
                (false, false) => connected,
            },
            version: (options.ipv4 != options.ipv6).then_some(options.ipv4),
            ..Self::default()
        };
        filter.add(&options.filter)?;
        Ok(filter)
    }

    fn add(&mut self, words: &[String]) -> Result<(), String> {
        let mut named = None;
        // Like ss, it accepts an equals sign, or an "and".
        let mut words = words
            .iter()
            .filter(|word| !matches!(word.as_str(), "=" | "==" | "eq" | "and"));
        while let Some(what) = words.next() {
            let value = words.next().ok_or_else(|| format!("{what} of what?"))?;
            match what.as_str() {
                "state" => {
                    let states =
                        names::states(value).ok_or_else(|| format!("{value}: no state"))?;
                    // A socket must have one of several given states.
                    named = Some(named.unwrap_or(0) | states);
                }
                "transport" => {
                    self.transport = Some(match value.to_lowercase().as_str() {
                        "sdp" => Transport::Sdp,
                        "tcp" => Transport::Tcp,
                        "both" | "sdp/tcp" => Transport::Both,
                        _ => return Err(format!("{value}: no transport")),
                    });
                }
                "src" => self.local.push(place(value)?),
                "dst" => self.peer.push(place(value)?),
                "sport" | "dport" => {
                    let place = Place {
                        network: None,
                        port: Some(port(value)?),
                    };
                    let list = if what == "sport" {
                        &mut self.local
                    } else {
                        &mut self.peer
                    };
                    list.push(place);
                }
                _ => return Err(format!("{what}: no such filter; see --help")),
            }
        }
        self.states = named.unwrap_or(self.states);
        Ok(())
    }

    /// The wanted states, one bit each; the kernel leaves out the others.
    pub(crate) fn states(&self) -> u32 {
        self.states
    }

    /// Whether a socket meets the conditions.
    pub(crate) fn wants(&self, socket: &Socket) -> bool {
        let state = 1u32.checked_shl(socket.state.into()).unwrap_or(0);
        self.states & state != 0
            && self
                .transport
                .is_none_or(|transport| transport == socket.transport)
            && self
                .version
                .is_none_or(|four| plain(socket.local.address).is_ipv4() == four)
            && self.local.iter().all(|place| place.is_at(&socket.local))
            && self.peer.iter().all(|place| place.is_at(&socket.peer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(words: &str) -> Result<Filter, String> {
        let options = Arguments {
            filter: words.split_whitespace().map(str::to_owned).collect(),
            ..Arguments::default()
        };
        Filter::new(&options)
    }

    fn name(ip: &str, port: u16) -> Name {
        Name {
            address: ip.parse().unwrap_or(Name::default().address),
            port,
            scope: 0,
        }
    }

    fn socket() -> Socket {
        Socket {
            state: 1,
            local: name("10.0.0.1", 80),
            peer: name("::ffff:10.1.2.3", 4711),
            ..Socket::default()
        }
    }

    #[test]
    fn sockets_are_chosen() {
        for (words, wanted) in [
            ("", true),
            ("state established", true),
            ("state listen", false),
            ("state listen state estab", true),
            ("transport sdp", true),
            ("transport tcp", false),
            ("sport 80", true),
            ("sport = :80", true),
            ("dport 80", false),
            ("src 10.0.0.1 and dport 4711", true),
            ("src 10.0.0.1:81", false),
            ("src 10.0.0.1:80", true),
            ("src :80", true),
            ("src *:80", true),
            ("dst 10.0.0.0/8", true),
            ("dst 10.0.0.0/16", false),
            ("dst 10.0.0.0/8:4711", true),
            ("dst 0.0.0.0/0", true),
            ("dst ::/0", false),
            ("dst [::ffff:10.1.2.3]:4711", true),
            ("dst fd00::/8", false),
        ] {
            assert_eq!(
                filter(words).map(|f| f.wants(&socket())),
                Ok(wanted),
                "{words}"
            );
        }
        let mut listener = socket();
        listener.state = names::LISTEN;
        assert_eq!(filter("").map(|f| f.wants(&listener)), Ok(false));
        listener.state = 200;
        assert_eq!(filter("state all").map(|f| f.wants(&listener)), Ok(false));
    }

    #[test]
    fn versions_are_chosen() {
        for (ipv4, ipv6, wanted) in [
            (true, false, true),
            (false, true, false),
            (true, true, true),
        ] {
            let options = Arguments {
                ipv4,
                ipv6,
                ..Arguments::default()
            };
            assert_eq!(
                Filter::new(&options).map(|f| f.wants(&socket())),
                Ok(wanted)
            );
        }
    }

    #[test]
    fn what_means_nothing_is_an_error() {
        for words in [
            "state",
            "state nonsense",
            "transport udp",
            "src 10.0.0.1/33",
            "src 10.0.0.1/-1",
            "src 10.0.0",
            "src [::1",
            "src [::1]80",
            "sport 65536",
            "sport no-such-service",
            "colour red",
        ] {
            assert!(filter(words).is_err(), "{words}");
        }
    }
}
