// SPDX-License-Identifier: GPL-2.0

//! Messages as one line of text, for traces and golden vectors.

use super::{
    hello::{Hello, HelloAck},
    Body, Flags, Mid, Repr,
};
use crate::engine::types::Ip;
use core::fmt;

impl fmt::Display for Mid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mid::Unknown(id) => write!(f, "Unknown({:#04x})", id),
            known => write!(f, "{:?}", known),
        }
    }
}

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Ip::V4(bytes) => core::net::Ipv4Addr::from(bytes).fmt(f),
            Ip::V6(bytes) => core::net::Ipv6Addr::from(bytes).fmt(f),
        }
    }
}

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (set, name) in [
            (self.oob_pres, " oob_pres"),
            (self.oob_pend, " oob_pend"),
            (self.req_pipe, " req_pipe"),
        ] {
            if set {
                f.write_str(name)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} mseq={} ack={} bufs={}",
            self.body.mid(),
            self.mseq.get(),
            self.mseq_ack.get(),
            self.bufs,
        )?;
        match self.body {
            Body::RdmaWrCompl(len) | Body::RdmaRdCompl(len) => write!(f, " len={}", len)?,
            Body::ChRcvBuf(size) | Body::ChRcvBufAck(size) => write!(f, " size={}", size)?,
            Body::ModeChange(change) => write!(f, " {:?}->{:?}", change.half, change.mode)?,
            Body::SuspComm(service) => write!(f, " service={:#x}", service)?,
            Body::SrcAvail(advert) => write!(
                f,
                " len={} r_key={:#x} va={:#x}",
                advert.len, advert.r_key, advert.va
            )?,
            Body::SinkAvail(advert) => write!(
                f,
                " len={} r_key={:#x} va={:#x} non_discards={}",
                advert.len, advert.r_key, advert.va, advert.non_discards
            )?,
            Body::DisConn
            | Body::AbortConn
            | Body::SendSm
            | Body::SrcAvailCancel
            | Body::SinkAvailCancel
            | Body::SinkCancelAck
            | Body::SuspCommAck
            | Body::Data
            | Body::Handshake(_)
            | Body::Unknown(_) => {}
        }
        write!(f, " payload={}{}", self.payload_len, self.flags)
    }
}

impl fmt::Display for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Hello version=2.{} cap={} bufs={} max_adverts={} ext_max_adverts={} \
             desired_rcv_size={} local_rcv_size={} port={} src={} dst={}",
            self.minor,
            self.capabilities,
            self.bufs,
            self.max_adverts,
            self.ext_max_adverts,
            self.desired_remote_rcv_size,
            self.local_rcv_size,
            self.local_port,
            self.src,
            self.dst,
        )
    }
}

impl fmt::Display for HelloAck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "HelloAck version=2.{} bufs={} max_adverts={} actual_rcv_size={}",
            self.minor, self.bufs, self.max_adverts, self.actual_rcv_size,
        )
    }
}
