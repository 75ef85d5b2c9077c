// SPDX-License-Identifier: MIT

//! A request to the kernel by netlink, and its answers, one message at a time. Each tool has its own
//! messages; this crate sends and receives them.

use std::io;

use netlink_packet_core::{
    DefaultNla, Emitable, NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    NetlinkSerializable, NLM_F_DUMP_INTR, NLM_F_REQUEST,
};
pub use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP};
pub use netlink_sys::{protocols, Socket, SocketAddr};

/// A request of any kind.
#[derive(Debug)]
pub struct Request<'a> {
    /// The kind of message.
    pub kind: u16,
    /// [`NLM_F_DUMP`] for many answers, or [`NLM_F_ACK`].
    pub flags: u16,
    /// The fixed part of the message; its length is a multiple of four.
    pub head: &'a [u8],
    /// The attributes.
    pub attributes: &'a [DefaultNla],
}

impl NetlinkSerializable for Request<'_> {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.head.len() + self.attributes.buffer_len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        if let Some((head, attributes)) = buffer.split_at_mut_checked(self.head.len()) {
            head.copy_from_slice(self.head);
            self.attributes.emit(attributes);
        }
    }
}

impl Request<'_> {
    /// The bytes that are sent.
    #[must_use]
    pub fn bytes(self) -> Vec<u8> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | self.flags;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(self));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes
    }
}

/// An attribute with a number.
#[must_use]
pub fn number(kind: u16, value: u32) -> DefaultNla {
    DefaultNla::new(kind, value.to_ne_bytes().to_vec())
}

/// An attribute with a text.
#[must_use]
pub fn text(kind: u16, value: &str) -> DefaultNla {
    DefaultNla::new(kind, [value.as_bytes(), b"\0"].concat())
}

/// How the answers go on after a datagram.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    More,
    End,
}

/// Parses a datagram of the kernel. `interrupted` becomes true if objects came or went during a dump.
fn read<M: NetlinkDeserializable>(
    mut datagram: &[u8],
    interrupted: &mut bool,
    show: &mut impl FnMut(M) -> io::Result<()>,
) -> io::Result<Next> {
    while !datagram.is_empty() {
        let message = NetlinkMessage::<M>::deserialize(datagram)
            .map_err(|e| io::Error::other(format!("an answer that cannot be read: {e}")))?;
        let length = usize::try_from(message.header.length).map_err(io::Error::other)?;
        *interrupted |= message.header.flags & NLM_F_DUMP_INTR != 0;
        match message.payload {
            NetlinkPayload::InnerMessage(answer) => show(answer)?,
            NetlinkPayload::Done(done) if done.code == 0 => return Ok(Next::End),
            NetlinkPayload::Done(done) => return Err(io::Error::from_raw_os_error(-done.code)),
            NetlinkPayload::Error(error) if error.code.is_none() => return Ok(Next::End),
            NetlinkPayload::Error(error) => return Err(error.to_io()),
            NetlinkPayload::Overrun(_) => return Err(io::Error::other("answers were lost")),
            _ => {}
        }
        datagram = datagram
            .get(length.next_multiple_of(4)..)
            .unwrap_or_default();
    }
    Ok(Next::More)
}

/// Sends the request on a socket of its own, in the network namespace of the calling thread, and passes
/// on each answer when it arrives. `Interrupted`: objects came or went during a dump, so that some may
/// be missing.
///
/// # Errors
///
/// The kernel's, with its number; errors of the socket; errors of `show`.
pub fn ask<M: NetlinkDeserializable>(
    protocol: isize,
    request: Request<'_>,
    show: &mut impl FnMut(M) -> io::Result<()>,
) -> io::Result<()> {
    let name = |e| io::Error::other(format!("netlink: {e}"));
    let mut socket = Socket::new(protocol).map_err(name)?;
    socket.bind_auto().map_err(name)?;
    socket.connect(&SocketAddr::new(0, 0)).map_err(name)?;
    socket.send(&request.bytes(), 0).map_err(name)?;
    let mut interrupted = false;
    loop {
        let (datagram, from) = socket.recv_from_full().map_err(name)?;
        // Only messages of the kernel are accepted.
        if from.port_number() != 0 {
            continue;
        }
        if read(&datagram, &mut interrupted, show)? == Next::End {
            break;
        }
    }
    if interrupted {
        return Err(io::ErrorKind::Interrupted.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::DecodeError;
    use std::io::ErrorKind;

    /// The first byte of a message.
    struct Byte(u8);

    impl NetlinkDeserializable for Byte {
        type Error = DecodeError;

        fn deserialize(_: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
            let first = payload.first().ok_or("an empty message")?;
            Ok(Self(*first))
        }
    }

    fn message(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len() + 16).unwrap_or(0);
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(payload);
        bytes
    }

    fn seen(datagram: &[u8]) -> (Vec<u8>, bool, io::Result<Next>) {
        let (mut seen, mut interrupted) = (Vec::new(), false);
        let result = read(datagram, &mut interrupted, &mut |byte: Byte| {
            seen.push(byte.0);
            Ok(())
        });
        (seen, interrupted, result)
    }

    #[test]
    fn a_request_has_its_head_and_attributes() {
        let request = Request {
            kind: 20,
            flags: NLM_F_DUMP,
            head: &[27, 0, 0, 0],
            attributes: &[number(2, 6), text(3, "ab")],
        };
        let bytes = request.bytes();
        assert_eq!(bytes.len(), 16 + 4 + 8 + 8);
        assert_eq!(bytes.get(4..8), Some(&[20, 0, 1, 3][..]));
        let expected = [
            27, 0, 0, 0, 8, 0, 2, 0, 6, 0, 0, 0, 7, 0, 3, 0, 97, 98, 0, 0,
        ];
        assert_eq!(bytes.get(16..), Some(&expected[..]));
    }

    #[test]
    fn a_datagram_has_several_answers() {
        let one = message(20, 2, &[1, 0, 0, 0]);
        let two = message(20, 2, &[9, 0, 0, 0]);
        let done = message(3, 2, &[0; 4]);
        let (bytes, interrupted, result) = seen(&[one.clone(), two.clone()].concat());
        assert_eq!((bytes, interrupted), (vec![1, 9], false));
        assert_eq!(result.ok(), Some(Next::More));
        let (bytes, _, result) = seen(&[one, done, two].concat());
        assert_eq!((bytes, result.ok()), (vec![1], Some(Next::End)));
    }

    #[test]
    fn an_acknowledgement_ends_the_answers() {
        let done = message(2, 0, &[0; 20]);
        assert_eq!(seen(&done).2.ok(), Some(Next::End));
    }

    #[test]
    fn an_interrupted_dump_is_noticed() {
        let one = message(20, 2 | 16, &[1, 0, 0, 0]);
        assert!(seen(&one).1);
    }

    #[test]
    fn errors_are_errors() {
        let missing = message(
            2,
            0,
            &[(-2i32).to_ne_bytes().to_vec(), vec![0; 16]].concat(),
        );
        let kind = seen(&missing).2.map_err(|e| e.kind()).err();
        assert_eq!(kind, Some(ErrorKind::NotFound));
        let failed = message(3, 2, &(-12i32).to_ne_bytes());
        assert!(seen(&failed).2.is_err());
        let one = message(20, 2, &[1, 0, 0, 0]);
        for cut in [1, 15, 17, 19] {
            assert!(seen(one.get(..cut).unwrap_or_default()).2.is_err(), "{cut}");
        }
    }
}
