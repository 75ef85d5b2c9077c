// SPDX-License-Identifier: GPL-2.0

//! Hello and HelloAck, the private data of the CM's REQ and REP.
//!
//! rules: HELLO

use super::{
    bytes::{Reader, Writer},
    Bsdh, Flags, Mid, BSDH_LEN, HEADER_MAX,
};
use crate::engine::{
    error::PeerError,
    types::{Ip, Mseq},
};

/// Length of a Hello.
pub const HELLO_LEN: usize = 92;
/// Length of a HelloAck.
pub const HELLO_ACK_LEN: usize = 196;

/// The major version of the protocol.
const MAJOR: u8 = 2;
/// The minor version that we send.
pub const MINOR: u8 = 2;

/// The smallest receive buffer worth talking to: the longest header, and one
/// byte.
pub const RCV_SIZE_MIN: u32 = 37;
const _: () = assert!(HEADER_MAX == 36);

/// The active side's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// Receive buffers that are posted.
    pub bufs: u16,
    /// Minor version.
    pub minor: u8,
    /// Capability bits, 4 of them. Sent as 0, ignored.
    pub capabilities: u8,
    /// Advertisements that the peer may have outstanding, at least 1.
    pub max_adverts: u8,
    /// Size that the sender would like the peer's receive buffers to have.
    pub desired_remote_rcv_size: u32,
    /// Size of the sender's receive buffers, BSDH included.
    pub local_rcv_size: u32,
    /// The sender's port.
    pub local_port: u16,
    /// The sender's address.
    pub src: Ip,
    /// The address that the sender wants to talk to, of the same kind.
    pub dst: Ip,
    /// Extension of MaxAdverts. Sent as 0, ignored.
    pub ext_max_adverts: u16,
}

/// The passive side's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HelloAck {
    /// Receive buffers that are posted.
    pub bufs: u16,
    /// Minor version.
    pub minor: u8,
    /// Advertisements that the peer may have outstanding, at least 1.
    pub max_adverts: u8,
    /// Size of the sender's receive buffers, BSDH included.
    pub actual_rcv_size: u32,
}

/// Checks the base header and returns Bufs.
//= spec: HELLO-1, HELLO-12
fn base(bytes: &[u8], mid: Mid, len: usize) -> Result<u16, PeerError> {
    if bytes.len() < len {
        return Err(PeerError::HelloTruncated);
    }
    let bsdh = Bsdh::parse(bytes).map_err(|_| PeerError::HelloTruncated)?;
    if bsdh.mid != mid {
        return Err(PeerError::HelloMid);
    }
    if usize::try_from(bsdh.len) != Ok(len) {
        return Err(PeerError::HelloLen);
    }
    // Of the flags those, too, that mean nothing.
    //= spec: HELLO-2
    if bytes.get(1) != Some(&0) || bsdh.mseq != Mseq::HELLO || bsdh.mseq_ack != Mseq::HELLO {
        return Err(PeerError::HelloSequence);
    }
    Ok(bsdh.bufs)
}

fn minor(version: u8) -> Result<u8, PeerError> {
    //= spec: HELLO-3
    if version >> 4 == MAJOR {
        Ok(version & 0x0f)
    } else {
        Err(PeerError::HelloVersion)
    }
}

fn version(minor: u8) -> u8 {
    (MAJOR << 4) | (minor & 0x0f)
}

fn max_adverts(number: u8) -> Result<u8, PeerError> {
    //= spec: HELLO-5
    if number == 0 {
        return Err(PeerError::HelloMaxAdverts);
    }
    Ok(number)
}

fn rcv_size(size: u32) -> Result<u32, PeerError> {
    //= spec: HELLO-6
    if size < RCV_SIZE_MIN {
        return Err(PeerError::HelloRcvSize);
    }
    Ok(size)
}

/// An IPv4 address is the last four bytes behind twelve of zero.
//= spec: HELLO-4
fn ip(kind: u8, bytes: [u8; 16]) -> Result<Ip, PeerError> {
    match kind {
        4 => {
            let [.., a, b, c, d] = bytes;
            Ok(Ip::V4([a, b, c, d]))
        }
        6 => Ok(Ip::V6(bytes)),
        _ => Err(PeerError::HelloAddressKind),
    }
}

fn ip_bytes(ip: Ip) -> [u8; 16] {
    match ip {
        Ip::V4([a, b, c, d]) => [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b, c, d],
        Ip::V6(bytes) => bytes,
    }
}

fn bsdh(mid: Mid, len: u32, bufs: u16) -> Bsdh {
    Bsdh {
        mid,
        flags: Flags::default(),
        bufs,
        len,
        mseq: Mseq::HELLO,
        mseq_ack: Mseq::HELLO,
    }
}

impl Hello {
    /// Reads and validates the private data of a REQ. Bytes after a Hello are
    /// ignored, as are capabilities, extensions and reserved fields.
    //= spec: HELLO-9
    pub fn parse(private_data: &[u8]) -> Result<Hello, PeerError> {
        let bufs = base(private_data, Mid::Hello, HELLO_LEN)?;
        let mut reader = Reader::new(private_data.get(BSDH_LEN..).unwrap_or(&[]));
        let mut fields = || {
            let version_kind = (reader.u8()?, reader.u8()?);
            reader.skip::<1>()?;
            let limits = (reader.u8()?, reader.u32()?, reader.u32()?);
            let port = reader.u16()?;
            reader.skip::<2>()?;
            let addresses = (reader.take::<16>()?, reader.take::<16>()?);
            reader.skip::<2>()?;
            Some((version_kind, limits, port, addresses, reader.u16()?))
        };
        let ((version, kind), (adverts, desired, local), local_port, (src, dst), ext_max_adverts) =
            fields().ok_or(PeerError::HelloTruncated)?;
        Ok(Hello {
            bufs,
            minor: minor(version)?,
            capabilities: kind & 0x0f,
            src: ip(kind >> 4, src)?,
            dst: ip(kind >> 4, dst)?,
            max_adverts: max_adverts(adverts)?,
            desired_remote_rcv_size: desired,
            local_rcv_size: rcv_size(local)?,
            local_port,
            ext_max_adverts,
        })
    }

    /// The private data of a REQ. The kind of `src` is the Hello's.
    pub fn emit(&self) -> [u8; HELLO_LEN] {
        let kind = match self.src {
            Ip::V4(_) => 4,
            Ip::V6(_) => 6,
        };
        let mut to = Writer::new();
        bsdh(Mid::Hello, 92, self.bufs).put(&mut to);
        to.put([version(self.minor)])
            .put([(kind << 4) | (self.capabilities & 0x0f)])
            .put([0])
            .put([self.max_adverts])
            .put(self.desired_remote_rcv_size.to_be_bytes())
            .put(self.local_rcv_size.to_be_bytes())
            .put(self.local_port.to_be_bytes())
            .put([0; 2])
            .put(ip_bytes(self.src))
            .put(ip_bytes(self.dst))
            .put([0; 2])
            .put(self.ext_max_adverts.to_be_bytes());
        to.finish()
    }
}

impl HelloAck {
    /// Reads and validates the private data of a REP. Bytes after a HelloAck
    /// and reserved fields are ignored.
    pub fn parse(private_data: &[u8]) -> Result<HelloAck, PeerError> {
        let bufs = base(private_data, Mid::HelloAck, HELLO_ACK_LEN)?;
        let mut reader = Reader::new(private_data.get(BSDH_LEN..).unwrap_or(&[]));
        let mut fields = || {
            let version = reader.u8()?;
            reader.skip::<2>()?;
            Some((version, reader.u8()?, reader.u32()?))
        };
        let (version, adverts, size) = fields().ok_or(PeerError::HelloTruncated)?;
        Ok(HelloAck {
            bufs,
            minor: minor(version)?,
            max_adverts: max_adverts(adverts)?,
            actual_rcv_size: rcv_size(size)?,
        })
    }

    /// The private data of a REP.
    pub fn emit(&self) -> [u8; HELLO_ACK_LEN] {
        let mut to = Writer::new();
        bsdh(Mid::HelloAck, 196, self.bufs).put(&mut to);
        to.put([version(self.minor)])
            .put([0; 2])
            .put([self.max_adverts])
            .put(self.actual_rcv_size.to_be_bytes());
        to.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{Hello, HelloAck, HELLO_ACK_LEN, HELLO_LEN, RCV_SIZE_MIN};
    use crate::engine::{error::PeerError, types::Ip};

    fn hello() -> Hello {
        Hello {
            bufs: 5,
            minor: 2,
            capabilities: 0,
            max_adverts: 1,
            desired_remote_rcv_size: 32784,
            local_rcv_size: 32784,
            local_port: 40000,
            src: Ip::V4([10, 0, 0, 1]),
            dst: Ip::V4([10, 0, 0, 2]),
            ext_max_adverts: 0,
        }
    }

    fn ack() -> HelloAck {
        HelloAck {
            bufs: 5,
            minor: 2,
            max_adverts: 1,
            actual_rcv_size: 32784,
        }
    }

    //= test: HELLO-4
    #[test]
    fn hello_round_trips_with_both_address_kinds() {
        let mut v6 = [0xfd; 16];
        v6[15] = 1;
        let hellos = [
            hello(),
            Hello {
                src: Ip::V6(v6),
                dst: Ip::V6([0; 16]),
                capabilities: 3,
                ext_max_adverts: 300,
                ..hello()
            },
        ];
        for hello in hellos {
            assert_eq!(Hello::parse(&hello.emit()), Ok(hello));
        }
    }

    //= test: HELLO-1, HELLO-12
    #[test]
    fn every_cut_of_a_hello_is_refused() {
        for len in 0..HELLO_LEN {
            assert_eq!(
                Hello::parse(&hello().emit()[..len]),
                Err(PeerError::HelloTruncated)
            );
        }
        for len in 0..HELLO_ACK_LEN {
            assert_eq!(
                HelloAck::parse(&ack().emit()[..len]),
                Err(PeerError::HelloTruncated)
            );
        }
    }

    //= test: HELLO-1, HELLO-2, HELLO-3, HELLO-4, HELLO-5
    #[test]
    fn each_field_of_a_hello_is_validated() {
        let broken = |offset: usize, value: u8| {
            let mut bytes = hello().emit();
            bytes[offset] = value;
            Hello::parse(&bytes)
        };
        assert_eq!(broken(0, 1), Err(PeerError::HelloMid));
        assert_eq!(broken(1, 1), Err(PeerError::HelloSequence));
        assert_eq!(broken(1, 0x80), Err(PeerError::HelloSequence));
        assert_eq!(broken(7, 91), Err(PeerError::HelloLen));
        assert_eq!(broken(11, 1), Err(PeerError::HelloSequence));
        assert_eq!(broken(15, 1), Err(PeerError::HelloSequence));
        assert_eq!(broken(16, 0x11), Err(PeerError::HelloVersion));
        assert_eq!(broken(16, 0x32), Err(PeerError::HelloVersion));
        assert!(broken(16, 0x20).is_ok());
        assert_eq!(broken(17, 0x50), Err(PeerError::HelloAddressKind));
        assert_eq!(broken(17, 0x00), Err(PeerError::HelloAddressKind));
        assert!(broken(17, 0x4f).is_ok());
        assert!(broken(18, 0xff).is_ok());
        assert_eq!(broken(19, 0), Err(PeerError::HelloMaxAdverts));
        assert!(broken(91, 0xff).is_ok());
    }

    //= test: HELLO-2, HELLO-5, HELLO-12
    #[test]
    fn each_field_of_a_hello_ack_is_validated() {
        let broken = |offset: usize, value: u8| {
            let mut bytes = ack().emit();
            bytes[offset] = value;
            HelloAck::parse(&bytes)
        };
        assert_eq!(broken(0, 0), Err(PeerError::HelloMid));
        assert_eq!(broken(7, 195), Err(PeerError::HelloLen));
        assert_eq!(broken(11, 1), Err(PeerError::HelloSequence));
        assert_eq!(broken(16, 0x11), Err(PeerError::HelloVersion));
        assert!(broken(17, 0x40).is_ok());
        assert_eq!(broken(19, 0), Err(PeerError::HelloMaxAdverts));
        assert_eq!(HelloAck::parse(&ack().emit()), Ok(ack()));
    }

    //= test: HELLO-6
    #[test]
    fn a_receive_buffer_must_hold_a_header_and_a_byte() {
        let hello = |size| Hello {
            local_rcv_size: size,
            ..hello()
        };
        assert!(Hello::parse(&hello(RCV_SIZE_MIN).emit()).is_ok());
        for size in [0, 16, RCV_SIZE_MIN - 1] {
            assert_eq!(
                Hello::parse(&hello(size).emit()),
                Err(PeerError::HelloRcvSize)
            );
            let ack = HelloAck {
                actual_rcv_size: size,
                ..ack()
            };
            assert_eq!(HelloAck::parse(&ack.emit()), Err(PeerError::HelloRcvSize));
        }
    }
}
