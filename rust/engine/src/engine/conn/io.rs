// SPDX-License-Identifier: GPL-2.0

//! The inputs and outputs of a connection, on one screen.

use crate::engine::{
    error::{PeerError, ShellError},
    types::{RunId, SinkId},
    wire::{hello::RCV_SIZE_MIN, Header},
    zcopy::{
        held::READS_MAX,
        offers::{SinkEnd, SinkWhy},
        run::Why,
        ADVERTS_MAX,
    },
};

/// The resources that the shell offers to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Size of our first receive buffers in bytes, BSDH included. OpenIB gen2 has 16 bits for the
    /// sizes of a Hello.
    pub rcv_size: u16,
    /// The most receive buffers with payload, posted or not yet read. At most
    /// two more are asked for.
    pub rx_depth: u16,
    /// Receive buffers that are posted before Hello or HelloAck, at least 3.
    pub rx_initial: u16,
    /// Messages that the send queue can hold, at least 3. More than 64 are not
    /// used.
    pub tx_depth: u16,
    /// The most payload bytes that one SEND can gather.
    pub max_send_payload: u32,
    /// Advertisements that the peer may have outstanding, at least 1 and at most
    /// [`ADVERTS_MAX`]. With 1 there is no Pipelined mode.
    pub max_adverts: u8,
    /// Limit to which the peer can make our receive buffers grow. If it is at most
    /// `rcv_size`, they keep their size.
    pub rcv_size_max: u32,
    /// Zero copy.
    pub zcopy: Zcopy,
}

/// The kinds of zero copy of a connection. Each also needs a peer that takes part.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Zcopy {
    /// Offer runs of the send stream by SrcAvail.
    pub advertise: bool,
    /// Hold the peer's SrcAvails for reading. Otherwise each is declined.
    pub read: bool,
    /// Offer buffers by SinkAvail, and write into the peer's. Otherwise
    /// the peer's are left unused.
    pub write: bool,
    /// RDMA Reads in flight, at least 1 to read and at most 8.
    pub read_depth: u8,
    /// RDMA Writes in flight, at least 1 to write.
    pub write_depth: u8,
    /// Maximum number of bytes that one RDMA Write can gather if the stream is not
    /// registered; at least 1 to use Writes.
    pub max_write: u32,
}

impl Zcopy {
    /// Everything is copied.
    pub const OFF: Zcopy = Zcopy {
        advertise: false,
        read: false,
        write: false,
        read_depth: 0,
        write_depth: 0,
        max_write: 0,
    };

    fn is_good(&self) -> bool {
        let reads = !self.read || (1..=READS_MAX).contains(&usize::from(self.read_depth));
        let writes = !self.write || self.write_depth > 0 && self.max_write > 0;
        reads && writes
    }
}

impl Config {
    pub(super) fn check(&self) -> Result<(), ShellError> {
        let good = u32::from(self.rcv_size) >= RCV_SIZE_MIN
            && self.rx_initial >= 3
            && self.rx_depth >= self.rx_initial
            && self.rx_depth <= u16::MAX >> 1
            && self.tx_depth >= 3
            && self.max_send_payload > 0
            && (1..=ADVERTS_MAX).contains(&usize::from(self.max_adverts))
            && self.zcopy.is_good();
        if good {
            Ok(())
        } else {
            Err(ShellError::BadConfig)
        }
    }
}

/// How bytes are queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Queue {
    /// More will be queued at once, so a message that is not full can wait.
    pub more: bool,
    /// The last byte is urgent.
    pub urgent: bool,
}

/// Bytes of the send stream that lie in registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// How many.
    pub len: u32,
    /// Key for the peer to read them with.
    pub r_key: u32,
    /// Address of the first one, as the peer is to name it.
    pub va: u64,
    /// How many bytes had better travel inline if one SrcAvail at a time is
    /// outstanding; 0 for as few as can be.
    pub inline: u16,
}

/// A buffer that bytes of the receive stream can be written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SinkBuffer {
    /// Its length.
    pub len: u32,
    /// Key for the peer to write it with.
    pub r_key: u32,
    /// Address of its first byte, as the peer is to name it.
    pub va: u64,
}

/// Where an RDMA Write goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteSink {
    /// Key of the memory.
    pub r_key: u32,
    /// Address of the first byte.
    pub va: u64,
}

/// The known properties of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerTraits {
    /// Advertisements that we may have outstanding.
    pub max_adverts: u8,
    /// Both sides can have more than one, so that Pipelined mode is possible.
    /// OFED and FreeBSD announce 1, and take nothing that belongs to it.
    pub pipelined: bool,
}

/// An effect that the shell must carry out.
///
/// The shell has the bytes of the send stream in a queue. Each byte leaves it once,
/// at the front, by `Send`, `Write` or `Taken`. `Dropped` removes the rest of one
/// run; no byte behind it was queued before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Output {
    /// Post one signalled SEND.
    Send {
        /// Its header.
        header: Header,
        /// Number of bytes that follow, the next ones of the send stream.
        payload_len: u32,
        /// Ask the peer's adapter for a solicited event.
        solicited: bool,
    },
    /// Post one signalled RDMA Write.
    Write {
        /// Where to.
        to: RemoteSink,
        /// So many bytes, the next ones of the send stream.
        len: u32,
    },
    /// The next bytes of the send stream are at the peer, which has read them.
    Taken {
        /// The run that they are of.
        run: RunId,
        /// How many.
        len: u32,
    },
    /// The rest of a withdrawn run has left the send stream.
    Dropped {
        /// Which run.
        run: RunId,
        /// How many bytes it had left.
        len: u32,
    },
    /// The peer no longer needs the registration of a run. Once for each run,
    /// before any of its bytes go as Data. Earlier requests that gather from the
    /// run may still be in flight.
    Returned {
        /// Which run.
        run: RunId,
        /// Why.
        why: Why,
    },
    /// An offered buffer was not used and will not be. Every offer ends by this
    /// or by [`Delivery::sink`], once.
    SinkReturned {
        /// Which one.
        sink: SinkId,
        /// Why.
        why: SinkWhy,
    },
    /// Send a CM DREQ. Nothing is sent after it.
    Disconnect,
}

/// The meaning of a received message for the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delivery {
    /// Where the stream bytes begin.
    pub payload_offset: u16,
    /// How many there are. With 0 the buffer is free.
    pub payload_len: u32,
    /// An urgent byte was announced which the application does not know of.
    pub urgent_pending: bool,
    /// The last of the stream bytes is the urgent one.
    pub urgent_byte: bool,
    /// The peer's byte stream ends behind everything delivered so far.
    pub peer_closed: bool,
    /// So many more bytes wait in the peer's memory, behind everything
    /// delivered so far.
    pub remote: u32,
    /// An offered buffer has ended here, in the order of the stream.
    pub sink: Option<SinkEnd>,
}

/// Why a connection has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// Both byte streams were transferred to their ends.
    Finished,
    /// The peer ended the connection before that.
    Reset,
    /// We did.
    Aborted,
    /// The peer violated the protocol.
    Violation(PeerError),
    /// The transport failed.
    LinkFailed,
    /// The transport was given up: no answer came within the limit.
    Unanswered,
    /// The peer took no part in the close.
    TimedOut,
}
