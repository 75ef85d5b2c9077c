// SPDX-License-Identifier: MIT

//! The request to the kernel, and its answers, one socket at a time.

use std::io::{self, ErrorKind};

use netlink_packet_core::{
    DefaultNla, Emitable, NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
    NLM_F_DUMP, NLM_F_REQUEST,
};
use netlink_sys::{protocols::NETLINK_SOCK_DIAG, Socket as Netlink, SocketAddr};

use crate::failed;
use crate::socket::Socket;
use crate::uapi;

/// The contents of a request.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    /// A bit for each state.
    pub(crate) states: u32,
    pub(crate) flow: bool,
    pub(crate) traffic: bool,
}

/// The message of a request.
struct Question(Vec<DefaultNla>);

impl From<Request> for Question {
    fn from(request: Request) -> Self {
        let flow = u32::from(request.flow) * uapi::SDP_DIAG_SHOW_FLOW;
        let show = flow + u32::from(request.traffic) * uapi::SDP_DIAG_SHOW_TRAFFIC;
        let word = |kind, value: u32| DefaultNla::new(kind, value.to_ne_bytes().to_vec());
        Self(vec![
            word(uapi::SDP_DIAG_STATES, request.states),
            word(uapi::SDP_DIAG_SHOW, show),
        ])
    }
}

impl NetlinkSerializable for Question {
    fn message_type(&self) -> u16 {
        uapi::SOCK_DIAG_BY_FAMILY
    }

    fn buffer_len(&self) -> usize {
        uapi::HEAD_LEN + self.0.as_slice().buffer_len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let Some((head, attributes)) = buffer.split_at_mut_checked(uapi::HEAD_LEN) else {
            return;
        };
        head.fill(0);
        if let Some(family) = head.first_mut() {
            *family = uapi::AF_INET_SDP;
        }
        self.0.as_slice().emit(attributes);
    }
}

fn bytes_of(request: Request) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let payload = NetlinkPayload::InnerMessage(Question::from(request));
    let mut message = NetlinkMessage::new(header, payload);
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// Parses a datagram of the kernel; returns whether more follow.
fn read(mut datagram: &[u8], show: &mut impl FnMut(Socket) -> io::Result<()>) -> io::Result<bool> {
    while !datagram.is_empty() {
        let message = NetlinkMessage::<Socket>::deserialize(datagram)
            .map_err(|e| failed("an answer that cannot be read", e))?;
        let length = usize::try_from(message.header.length).map_err(io::Error::other)?;
        match message.payload {
            NetlinkPayload::InnerMessage(socket) => show(socket)?,
            NetlinkPayload::Done(done) if done.code == 0 => return Ok(false),
            NetlinkPayload::Done(done) => return Err(io::Error::from_raw_os_error(-done.code)),
            NetlinkPayload::Error(error) => return Err(error.to_io()),
            NetlinkPayload::Overrun(_) => return Err(io::Error::other("answers were lost")),
            _ => {}
        }
        datagram = datagram
            .get(length.next_multiple_of(4)..)
            .unwrap_or_default();
    }
    Ok(true)
}

/// Sends the request and passes on each socket when its answer arrives. `NotFound` if the kernel
/// does not have the interface.
pub(crate) fn run(
    request: Request,
    show: &mut impl FnMut(Socket) -> io::Result<()>,
) -> io::Result<()> {
    let name = |e| failed("netlink", e);
    let mut netlink = Netlink::new(NETLINK_SOCK_DIAG).map_err(name)?;
    netlink.bind_auto().map_err(name)?;
    netlink.connect(&SocketAddr::new(0, 0)).map_err(name)?;
    netlink.send(&bytes_of(request), 0).map_err(name)?;
    loop {
        let (datagram, from) = netlink.recv_from_full().map_err(name)?;
        // Only messages of the kernel are accepted.
        if from.port_number() != 0 {
            continue;
        }
        match read(&datagram, show) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(e) if e.kind() == ErrorKind::InvalidInput => {
                let what = "sdp.ko does not know what was asked for: it is older than sdp_ss";
                return Err(io::Error::other(what));
            }
            Err(e) => return Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Request = Request {
        states: 6,
        flow: false,
        traffic: true,
    };

    fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len() + 16).unwrap_or(0);
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(payload);
        bytes
    }

    fn states(datagram: &[u8]) -> (Vec<u8>, io::Result<bool>) {
        let mut seen = Vec::new();
        let result = read(datagram, &mut |socket: Socket| {
            seen.push(socket.state);
            Ok(())
        });
        (seen, result)
    }

    #[test]
    fn the_question_is_as_the_header_says() {
        let bytes = bytes_of(ALL);
        assert_eq!(bytes.len(), 16 + 4 + 8 + 8);
        assert_eq!(bytes.get(4..8), Some(&[20, 0, 1, 3][..]));
        let expected = [27, 0, 0, 0, 8, 0, 2, 0, 6, 0, 0, 0, 8, 0, 3, 0, 2, 0, 0, 0];
        assert_eq!(bytes.get(16..), Some(&expected[..]));
    }

    #[test]
    fn a_datagram_has_several_answers() {
        let one = message(20, &[27, 0, 0, 0, 5, 0, 4, 0, 1, 0, 0, 0]);
        let two = message(20, &[27, 0, 0, 0, 5, 0, 4, 0, 9, 0, 0, 0]);
        let done = message(3, &[0; 4]);
        let (seen, result) = states(&[one.clone(), two.clone()].concat());
        assert_eq!((seen, result.ok()), (vec![1, 9], Some(true)));
        let (seen, result) = states(&[one, done, two].concat());
        assert_eq!((seen, result.ok()), (vec![1], Some(false)));
    }

    #[test]
    fn errors_are_errors() {
        let missing = message(2, &[(-2i32).to_ne_bytes().to_vec(), vec![0; 16]].concat());
        let (_, result) = states(&missing);
        assert_eq!(
            result.map_err(|e| e.kind()).err(),
            Some(ErrorKind::NotFound)
        );
        let failed = message(3, &(-12i32).to_ne_bytes());
        assert!(states(&failed).1.is_err());
        for cut in [1, 15, 17, 27] {
            let one = message(20, &[27, 0, 0, 0, 5, 0, 4, 0, 1, 0, 0, 0]);
            assert!(
                states(one.get(..cut).unwrap_or_default()).1.is_err(),
                "{cut}"
            );
        }
    }
}
