// SPDX-License-Identifier: MIT

//! Sockets as lines of a table, with the columns of ss and some more.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};

use crate::arguments::Arguments;
use crate::names;
use crate::owners::Owners;
use crate::socket::{Flow, Name, Socket};
use crate::why;

const SERVICES: &str = "/etc/services";

/// Names and numbers of the TCP ports in a services file.
fn services(text: &str) -> impl Iterator<Item = (&str, u16)> {
    text.lines().flat_map(|line| {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let name = words.next();
        let port = words
            .next()
            .and_then(|word| word.strip_suffix("/tcp")?.parse().ok());
        let aliases = words.chain(name);
        port.into_iter()
            .flat_map(move |port| aliases.clone().map(move |name| (name, port)))
    })
}

/// The port of a service.
pub(crate) fn port_of_service(name: &str) -> Option<u16> {
    let text = fs::read_to_string(SERVICES).ok()?;
    let found = services(&text).find(|(service, _)| *service == name);
    found.map(|(_, port)| port)
}

fn names_of_ports() -> HashMap<u16, String> {
    let text = fs::read_to_string(SERVICES).unwrap_or_default();
    // A port may have several names. The first line's is used; `services` yields its official name
    // last.
    let mut names = HashMap::new();
    for line in text.lines() {
        if let Some((name, port)) = services(line).last() {
            names.entry(port).or_insert_with(|| names::printable(name));
        }
    }
    names
}

/// The table; see the module's comment.
pub(crate) struct Table {
    head: bool,
    numeric: bool,
    processes: bool,
    extended: bool,
    info: bool,
    why: bool,
    ports: OnceCell<HashMap<u16, String>>,
}

impl Table {
    pub(crate) fn new(options: &Arguments) -> Self {
        Self {
            head: !options.no_header,
            numeric: options.numeric,
            processes: options.processes,
            extended: options.extended,
            info: options.info,
            why: options.why,
            ports: OnceCell::new(),
        }
    }

    pub(crate) fn head(&self, out: &mut impl Write) -> io::Result<()> {
        if !self.head {
            return Ok(());
        }
        let end = if self.processes { " Process" } else { "" };
        writeln!(
            out,
            "{:<9} {:<11} {:>6} {:>6} {:>24} {:>24} {:<8} {:<9}{end}",
            "Transport",
            "State",
            "Recv-Q",
            "Send-Q",
            "Local Address:Port",
            "Peer Address:Port",
            "Device",
            "Mode"
        )
    }

    fn name(&self, name: &Name) -> String {
        let port = match name.port {
            0 => "*".to_owned(),
            port if self.numeric => port.to_string(),
            port => {
                let service = self.ports.get_or_init(names_of_ports).get(&port);
                service.cloned().unwrap_or_else(|| port.to_string())
            }
        };
        format!("{name}:{port}")
    }

    pub(crate) fn line(
        &self,
        out: &mut impl Write,
        socket: &Socket,
        owners: &Owners,
    ) -> io::Result<()> {
        let mode = match (socket.why(), socket.modes()) {
            (Some(why), _) => why,
            (None, Some((send, receive))) if send == receive => send.to_owned(),
            (None, Some((send, receive))) => format!("{send}/{receive}"),
            (None, None) => "-".to_owned(),
        };
        let device = socket
            .device
            .as_deref()
            .map_or_else(|| "-".to_owned(), names::printable);
        write!(
            out,
            "{:<9} {:<11} {:>6} {:>6} {:>24} {:>24} {device:<8} {mode:<9}",
            socket.transport,
            names::state(socket.state),
            socket.rx_queue,
            socket.tx_queue,
            self.name(&socket.local),
            self.name(&socket.peer),
        )?;
        if self.processes {
            let mut owners = owners
                .of(socket.inode)
                .iter()
                .map(ToString::to_string)
                .peekable();
            if owners.peek().is_some() {
                write!(out, " users:({})", owners.collect::<Vec<_>>().join(","))?;
            }
        }
        if self.extended {
            extended(out, socket)?;
        }
        writeln!(out)?;
        if self.info {
            info(out, socket)?;
        }
        if self.why {
            for share in why::of_socket(socket) {
                writeln!(out, "{share}")?;
            }
        }
        Ok(())
    }
}

fn extended(out: &mut impl Write, socket: &Socket) -> io::Result<()> {
    write!(out, " uid:{} ino:{}", socket.uid, socket.inode)?;
    if let Some(cookie) = socket.cookie {
        write!(out, " sk:{cookie:x}")?;
    }
    if socket.interface != 0 {
        write!(out, " dev:{}", socket.interface)?;
    }
    Ok(())
}

fn info(out: &mut impl Write, socket: &Socket) -> io::Result<()> {
    let mut words = Vec::new();
    if let Some(flow) = &socket.flow {
        let Flow {
            credits,
            posted,
            rcv_size,
            max_payload,
            credit_stalls,
            slot_stalls,
            round_trip_us,
        } = flow;
        words.push(format!(
            "credits:{credits} posted:{posted}x{rcv_size} max_payload:{max_payload}"
        ));
        words.push(format!(
            "credit_stalls:{credit_stalls} slot_stalls:{slot_stalls} rtt_us:{round_trip_us}"
        ));
    }
    if socket.offered != 0 {
        words.push(format!("offered:{}", socket.offered));
    }
    let counted = socket.traffic().filter(|(_, n)| *n != 0);
    words.extend(counted.map(|(name, n)| format!("{name}:{n}")));
    if words.is_empty() {
        return Ok(());
    }
    writeln!(out, "\t {}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::Transport;

    #[test]
    fn services_are_read() {
        let text = "# ports\nhttp\t80/tcp www # web\ndomain 53/udp\nbad 99999/tcp\nssh 22/tcp\n";
        let found: Vec<_> = services(text).collect();
        assert_eq!(found, [("www", 80), ("http", 80), ("ssh", 22)]);
    }

    fn shown(options: &Arguments, socket: &Socket) -> String {
        let table = Table::new(options);
        let mut out = Vec::new();
        let done = table.line(&mut out, socket, &Owners::default());
        assert!(done.is_ok());
        String::from_utf8_lossy(&out).into_owned()
    }

    #[test]
    fn a_socket_is_a_line() {
        let numeric = Arguments {
            numeric: true,
            extended: true,
            ..Arguments::default()
        };
        let mut socket = Socket {
            state: 1,
            device: Some("rxe0\n".to_owned()),
            mode_send: Some(1),
            mode_receive: Some(2),
            cookie: Some(0x1f),
            ..Socket::default()
        };
        socket.local.port = 80;
        let line = shown(&numeric, &socket);
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(
            words,
            [
                "SDP",
                "ESTAB",
                "0",
                "0",
                "*:80",
                "*:*",
                "rxe0.",
                "Combined/Pipelined",
                "uid:0",
                "ino:0",
                "sk:1f"
            ]
        );
        socket.transport = Transport::Tcp;
        socket.reason = 111;
        socket.flow = Some(Flow::default());
        let line = shown(
            &Arguments {
                info: true,
                ..numeric
            },
            &socket,
        );
        assert!(line.starts_with("TCP "), "{line}");
        assert!(line.contains(" ECONNREFUSED "), "{line}");
        assert_eq!(line.lines().count(), 2);
    }
}
