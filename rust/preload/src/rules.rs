// SPDX-License-Identifier: MIT

//! The rules for a socket: the first one that matches decides. If none matches, both transports are
//! tried.
//!
//! Pure: it maps rules and addresses to a decision.

use crate::config::{Addresses, Role, Rule, Transport, ANY_PORT};
use crate::lending::is_about;
use std::ffi::CStr;
use std::net::{IpAddr, SocketAddr};

/// The rules for this program.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    server: Vec<Rule>,
    client: Vec<Rule>,
}

/// A decision, and the line of the rule that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) transport: Transport,
    pub(crate) line: Option<usize>,
}

impl Rules {
    /// The rules among `rules` that apply to `program`.
    pub(crate) fn for_program(rules: impl IntoIterator<Item = Rule>, program: &CStr) -> Self {
        let mut own = Self::default();
        for rule in rules {
            if is_about(&rule.program, program) {
                match rule.role {
                    Role::Server => own.server.push(rule),
                    Role::Client => own.client.push(rule),
                }
            }
        }
        own
    }

    /// One rule for all sockets.
    pub(crate) fn all(transport: Transport) -> Self {
        let rule = |role| Rule {
            line: 0,
            transport,
            role,
            program: CStr::to_owned(c"*"),
            addresses: Addresses::Any,
            ports: ANY_PORT,
        };
        Self {
            server: vec![rule(Role::Server)],
            client: vec![rule(Role::Client)],
        }
    }

    fn list(&self, role: Role) -> &[Rule] {
        match role {
            Role::Server => &self.server,
            Role::Client => &self.client,
        }
    }

    /// The decision for a socket in `role` with this address: its own or the peer's.
    pub(crate) fn decide(&self, role: Role, address: SocketAddr) -> Decision {
        let found = self
            .list(role)
            .iter()
            .find(|rule| matches(rule, address.ip().to_canonical(), address.port().into()));
        match found {
            Some(rule) => Decision {
                transport: rule.transport,
                line: Some(rule.line),
            },
            None => Decision {
                transport: Transport::Both,
                line: None,
            },
        }
    }

    /// The decision for sockets in `role`, if it is the same for every address.
    pub(crate) fn certain(&self, role: Role) -> Option<Transport> {
        let mut answer = None;
        for rule in self.list(role) {
            if answer.is_some_and(|answer| answer != rule.transport) {
                return None;
            }
            answer = Some(rule.transport);
            if rule.addresses == Addresses::Any && rule.ports.0 == 0 && rule.ports.1 >= ANY_PORT.1 {
                return answer;
            }
        }
        // Addresses that no rule matches.
        match answer {
            None | Some(Transport::Both) => Some(Transport::Both),
            Some(_) => None,
        }
    }
}

fn matches(rule: &Rule, address: IpAddr, port: u32) -> bool {
    let in_prefix = match rule.addresses {
        Addresses::Any => true,
        Addresses::Prefix(IpAddr::V4(prefix), len) => match address {
            IpAddr::V4(address) => {
                let shift = 32_u32.saturating_sub(len.into());
                let head = |bits: u32| bits.checked_shr(shift).unwrap_or(0);
                head(prefix.to_bits()) == head(address.to_bits())
            }
            IpAddr::V6(_) => false,
        },
        Addresses::Prefix(IpAddr::V6(prefix), len) => {
            let address = match address {
                // Only a prefix within the mapped addresses applies to IPv4.
                IpAddr::V4(_) if len < 96 => return false,
                IpAddr::V4(address) => address.to_ipv6_mapped(),
                IpAddr::V6(address) => address,
            };
            let shift = 128_u32.saturating_sub(len.into());
            let head = |bits: u128| bits.checked_shr(shift).unwrap_or(0);
            head(prefix.to_bits()) == head(address.to_bits())
        }
    };
    in_prefix && (rule.ports.0..=rule.ports.1).contains(&port)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, reason = "a panic is how a test fails")]

    use super::*;
    use crate::config::{parse, Statement};
    use proptest::prelude::*;

    fn rules(text: &str, program: &CStr) -> Rules {
        let statements = parse(text.as_bytes()).expect("it parses");
        Rules::for_program(
            statements
                .into_iter()
                .filter_map(|statement| match statement {
                    Statement::Use(rule) => Some(rule),
                    Statement::Log { .. } | Statement::Async(_) => None,
                }),
            program,
        )
    }

    fn client(rules: &Rules, address: &str) -> (Transport, Option<usize>) {
        let decision = rules.decide(Role::Client, address.parse().expect("an address"));
        (decision.transport, decision.line)
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = rules(
            "use tcp client * 10.1.0.0/16:*\n\
             use sdp client * 10.0.0.0/8:1000-2000\n\
             use tcp client * fd00::/8:80\n\
             use sdp server * *:*\n",
            c"prog",
        );
        assert_eq!(client(&rules, "10.1.2.3:1500"), (Transport::Tcp, Some(1)));
        assert_eq!(client(&rules, "10.2.2.3:1000"), (Transport::Sdp, Some(2)));
        assert_eq!(client(&rules, "10.2.2.3:2000"), (Transport::Sdp, Some(2)));
        assert_eq!(client(&rules, "10.2.2.3:2001"), (Transport::Both, None));
        assert_eq!(client(&rules, "10.2.2.3:999"), (Transport::Both, None));
        assert_eq!(client(&rules, "[fd12::1]:80"), (Transport::Tcp, Some(3)));
        assert_eq!(client(&rules, "[fe80::1]:80"), (Transport::Both, None));
        assert_eq!(
            rules.decide(Role::Server, "0.0.0.0:1".parse().expect("an address")),
            Decision {
                transport: Transport::Sdp,
                line: Some(4)
            }
        );
    }

    #[test]
    fn the_wildcard_of_ipv4_is_every_address() {
        for address in ["0.0.0.0", "0.0.0.0/0", "0.0.0.0/8", "0.0.0.0/32"] {
            let rules = rules(&format!("use tcp client * {address}:*\n"), c"prog");
            for peer in ["10.1.2.3:5", "[fd00::1]:5", "[::ffff:1.2.3.4]:5"] {
                assert_eq!(client(&rules, peer), (Transport::Tcp, Some(1)), "{address}");
            }
            assert_eq!(rules.certain(Role::Client), Some(Transport::Tcp));
        }
    }

    #[test]
    fn an_address_with_bits_behind_its_prefix_means_its_network() {
        let rules = rules("use tcp client * 10.1.2.3/8:*\n", c"prog");
        assert_eq!(client(&rules, "10.9.9.9:5"), (Transport::Tcp, Some(1)));
        assert_eq!(client(&rules, "11.1.2.3:5"), (Transport::Both, None));
    }

    #[test]
    fn mapped_addresses_are_the_ipv4_ones() {
        let rules = rules("use tcp client * 10.0.0.0/8:*\n", c"prog");
        assert_eq!(
            client(&rules, "[::ffff:10.9.9.9]:5"),
            (Transport::Tcp, Some(1))
        );
        assert_eq!(client(&rules, "[::10.9.9.9]:5"), (Transport::Both, None));
    }

    #[test]
    fn programs_are_shell_patterns_on_the_name_without_its_path() {
        let text = "use tcp client iperf[23] *:*\nuse sdp client ng* *:*\n";
        let of = |program| client(&rules(text, program), "1.2.3.4:5").0;
        assert_eq!(of(c"iperf3"), Transport::Tcp);
        assert_eq!(of(c"iperf4"), Transport::Both);
        assert_eq!(of(c"nginx"), Transport::Sdp);
        assert_eq!(of(c"xnginx"), Transport::Both);
    }

    #[test]
    fn what_is_certain_needs_no_address() {
        let certain = |text| {
            let rules = rules(text, c"prog");
            (rules.certain(Role::Server), rules.certain(Role::Client))
        };
        let (sdp, tcp, both) = (
            Some(Transport::Sdp),
            Some(Transport::Tcp),
            Some(Transport::Both),
        );
        assert_eq!(certain(""), (both, both));
        assert_eq!(certain("use both client * 1.2.3.4:5"), (both, both));
        assert_eq!(certain("use sdp client * 1.2.3.4:5"), (both, None));
        assert_eq!(certain("use sdp client * *:*"), (both, sdp));
        assert_eq!(certain("use sdp client * *:0-65535"), (both, sdp));
        assert_eq!(certain("use sdp client * *:1-65535"), (both, None));
        assert_eq!(
            certain("use tcp server * 1.2.3.4:*\nuse tcp server * *:*\nuse sdp server * *:1"),
            (tcp, both)
        );
        assert_eq!(
            certain("use tcp server * 1.2.3.4:*\nuse sdp server * *:*"),
            (None, both)
        );
        assert_eq!(certain("use sdp client other *:*"), (both, both));
    }

    proptest! {
        #[test]
        fn what_is_certain_is_what_every_address_gets(
            lines in prop::collection::vec(
                (
                    prop::sample::select(vec!["sdp", "tcp", "both"]),
                    prop::sample::select(vec!["*", "10.0.0.0/8", "10.1.2.3", "fd00::/16", "0.0.0.0/8"]),
                    prop::sample::select(vec!["*", "7", "1-65535", "0-70000"]),
                ),
                0..5,
            ),
            ip in prop_oneof![
                any::<[u8; 4]>().prop_map(IpAddr::from),
                any::<[u8; 16]>().prop_map(IpAddr::from),
                Just(IpAddr::from([10, 1, 2, 3])),
            ],
            port in any::<u16>(),
        ) {
            let lines: Vec<_> = lines
                .iter()
                .map(|(family, address, ports)| format!("use {family} client * {address}:{ports}"))
                .collect();
            let text = lines.join("\n");
            let rules = rules(&text, c"prog");
            if let Some(certain) = rules.certain(Role::Client) {
                let decision = rules.decide(Role::Client, SocketAddr::new(ip, port));
                prop_assert_eq!(decision.transport, certain);
            }
        }

        #[test]
        fn a_prefix_holds_what_shares_its_first_bits(
            a in any::<u128>(), b in any::<u128>(), len in 1_u8..=128,
        ) {
            let shared = u32::from(len) <= (a ^ b).leading_zeros();
            let rule = Rule {
                line: 1,
                transport: Transport::Sdp,
                role: Role::Client,
                program: CStr::to_owned(c"*"),
                addresses: Addresses::Prefix(IpAddr::from(a.to_be_bytes()), len),
                ports: ANY_PORT,
            };
            prop_assert_eq!(matches(&rule, IpAddr::from(b.to_be_bytes()), 1), shared);
        }
    }
}
