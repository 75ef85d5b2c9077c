// SPDX-License-Identifier: MIT

//! `/proc/net/sdp`, for a module without a netlink interface. It has the columns of
//! `/proc/net/tcp`, without transport, mode and device.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::failed;
use crate::socket::{Name, Socket, Transport};

const PATH: &str = "/proc/thread-self/net/sdp";

/// Eight digits for each word of an address, in the machine's byte order.
fn address(text: &str) -> Option<IpAddr> {
    let words = (0..text.len()).step_by(8).map(|at| {
        let digits = text.get(at..at + 8)?;
        Some(u32::from_str_radix(digits, 16).ok()?.to_ne_bytes())
    });
    let bytes = words.collect::<Option<Vec<_>>>()?.concat();
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes.as_slice()) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    <[u8; 16]>::try_from(bytes)
        .ok()
        .map(|bytes| Ipv6Addr::from(bytes).into())
}

fn name(text: &str) -> Option<Name> {
    let (ip, port) = text.split_once(':')?;
    Some(Name {
        address: address(ip)?,
        port: u16::from_str_radix(port, 16).ok()?,
        scope: 0,
    })
}

fn socket(line: &str) -> Option<Socket> {
    let mut words = line.split_whitespace().skip(1);
    let (local, peer) = (name(words.next()?)?, name(words.next()?)?);
    let state = u8::from_str_radix(words.next()?, 16).ok()?;
    let (tx, rx) = words.next()?.split_once(':')?;
    Some(Socket {
        state,
        transport: Transport::Unknown,
        local,
        peer,
        tx_queue: u32::from_str_radix(tx, 16).ok()?,
        rx_queue: u32::from_str_radix(rx, 16).ok()?,
        uid: words.next()?.parse().ok()?,
        inode: words.next()?.parse().ok()?,
        ..Socket::default()
    })
}

/// Passes on each socket as it is read.
pub(crate) fn run(show: &mut impl FnMut(Socket) -> io::Result<()>) -> io::Result<()> {
    let file = File::open(PATH).map_err(|e| match e.kind() {
        ErrorKind::NotFound => io::Error::other("sdp.ko is not loaded: modprobe sdp"),
        _ => failed(PATH, e),
    })?;
    eprintln!(
        "sdp_ss: this sdp.ko is older than sdp_ss and has no netlink interface; \
         /proc/net/sdp does not tell transport, mode and device"
    );
    for line in BufReader::new(file).lines().skip(1) {
        let line = line?;
        let found = socket(&line).ok_or_else(|| io::Error::other(format!("{PATH}: {line}")))?;
        show(found)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read() {
        let ip = u32::from_ne_bytes([10, 0, 0, 2]);
        let line = format!("   0: 00000000:0050 {ip:08X}:A001 01 0000000A:000000FF  1000 4711");
        let socket = socket(&line).unwrap_or_default();
        assert_eq!(
            (socket.state, socket.tx_queue, socket.rx_queue),
            (1, 10, 255)
        );
        assert_eq!((socket.local.port, socket.peer.port), (80, 0xa001));
        assert_eq!(socket.peer.to_string(), "10.0.0.2");
        assert_eq!((socket.uid, socket.inode), (1000, 4711));
        assert_eq!(socket.transport, Transport::Unknown);
    }

    #[test]
    fn an_address_of_ipv6_is_read() {
        let ones = [0, 0, 0, u32::from_ne_bytes([0, 0, 0, 1])];
        let text = ones.map(|word| format!("{word:08X}")).concat();
        assert_eq!(address(&text), Some(Ipv6Addr::LOCALHOST.into()));
        for wrong in [
            "",
            "0000000",
            "zzzzzzzz",
            "0000000000000000",
            "\u{e9}0000000",
        ] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_no_line_is_none() {
        for line in ["", "0: x", "0: 00000000:0050 00000000:0000 0A 0:0 1"] {
            assert!(socket(line).is_none(), "{line}");
        }
    }
}
