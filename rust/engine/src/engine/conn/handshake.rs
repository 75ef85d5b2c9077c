// SPDX-License-Identifier: GPL-2.0

//! Hello and HelloAck: how a connection comes to be established.
//!
//! rules: HELLO, EST

use super::{resize, Config, Connection, Ended, State};
use crate::engine::{
    error::{PeerError, ShellError},
    flow::credit::Credits,
    policy::message,
    types::Ip,
    wire::{
        hello::{Hello, HelloAck, HELLO_ACK_LEN, HELLO_LEN, MINOR},
        Mid,
    },
};

impl Connection {
    /// The active side.
    pub fn connecting(cfg: Config) -> Connection {
        Self::new(cfg, State::Idle)
    }

    /// Whether the buffers of a peer that says so of their size are worth a
    /// connection. The shell asks before [`accepting`](Self::accepting).
    pub fn check_rcv_size(rcv_size: u32, max_send_payload: u32) -> Result<(), PeerError> {
        //= spec: HELLO-13
        if resize::payload(rcv_size) < message::least_payload(max_send_payload) {
            return Err(PeerError::HelloRcvSize);
        }
        Ok(())
    }

    /// The passive side, with the valid Hello of the peer.
    pub fn accepting(cfg: Config, hello: &Hello) -> Connection {
        let mut connection = Self::new(cfg, State::HelloReceived);
        connection.meet(hello.bufs, hello.local_rcv_size, hello.max_adverts);
        //= spec: HELLO-14
        connection.begin_with(hello.local_rcv_size);
        connection
    }

    /// The private data of the REQ. Asks for `Config::rx_initial` posted
    /// receive buffers.
    pub fn hello(
        &mut self,
        src: Ip,
        dst: Ip,
        local_port: u16,
    ) -> Result<[u8; HELLO_LEN], ShellError> {
        self.check_ready(State::Idle)?;
        self.state.on_hello().map_err(|_| ShellError::WrongState)?;
        let (bufs, _) = self.window.on_sent();
        //= spec: HELLO-7
        let size = u32::from(self.cfg.rcv_size);
        let hello = Hello {
            bufs,
            minor: MINOR,
            capabilities: 0,
            max_adverts: self.cfg.max_adverts,
            desired_remote_rcv_size: size,
            local_rcv_size: size,
            local_port,
            src,
            dst,
            ext_max_adverts: 0,
        };
        Ok(hello.emit())
    }

    /// The private data of the REP. Asks for `Config::rx_initial` posted
    /// receive buffers of [`rcv_size`](Self::rcv_size).
    pub fn hello_ack(&mut self) -> Result<[u8; HELLO_ACK_LEN], ShellError> {
        self.check_ready(State::HelloReceived)?;
        self.state
            .on_hello_ack()
            .map_err(|_| ShellError::WrongState)?;
        let (bufs, _) = self.window.on_sent();
        let ack = HelloAck {
            bufs,
            minor: MINOR,
            max_adverts: self.cfg.max_adverts,
            actual_rcv_size: self.announce_posting(),
        };
        Ok(ack.emit())
    }

    /// REP arrived. On success the connection is established, and the shell
    /// sends RTU; on an error it sends REJ.
    pub fn handle_hello_ack(&mut self, private_data: &[u8]) -> Result<(), PeerError> {
        if self.state != State::HelloSent {
            return Err(PeerError::HandshakeRepeated(Mid::HelloAck));
        }
        let most = self.cfg.max_send_payload;
        let worth = |ack: HelloAck| {
            Self::check_rcv_size(ack.actual_rcv_size, most)?;
            Ok(ack)
        };
        match HelloAck::parse(private_data).and_then(worth) {
            Ok(ack) => {
                self.meet(ack.bufs, ack.actual_rcv_size, ack.max_adverts);
                //= spec: EST-1
                self.establish();
                Ok(())
            }
            Err(error) => {
                self.fail(Ended::Violation(error));
                Err(error)
            }
        }
    }

    /// RTU, or the transport says that the peer has begun to send. A message
    /// that arrives has the same effect. Nothing happens the second time.
    pub fn handle_established(&mut self) {
        //= spec: EST-2
        if self.state == State::HelloAckSent {
            self.establish();
        }
    }

    fn establish(&mut self) {
        if self.state.on_established().is_ok() {
            self.resume_shutdown();
        }
    }

    /// The peer's grants.
    fn meet(&mut self, bufs: u16, rcv_size: u32, max_adverts: u8) {
        self.peer_adverts = max_adverts;
        self.credits = Credits::new(bufs);
        // rules: DATA (a message fits the peer's buffer, headers included)
        //= spec: HDR-3
        self.max_payload = resize::payload(rcv_size).min(self.cfg.max_send_payload);
        self.resize.begin(self.max_payload);
    }

    fn check_ready(&self, state: State) -> Result<(), ShellError> {
        self.cfg.check()?;
        if self.state != state {
            return Err(ShellError::WrongState);
        }
        //= spec: HELLO-8
        if self.window.posted() < self.cfg.rx_initial {
            return Err(ShellError::ReceivesNotPosted);
        }
        Ok(())
    }
}
