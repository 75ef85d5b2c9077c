// SPDX-License-Identifier: GPL-2.0

//! getsockopt below SOL_SOCKET, which the core answers itself.
//!
//! Contexts: process context, may sleep. Locks: the endpoint's.

use crate::{
    addr::Family,
    ffi,
    net::option::OptionRoom,
    object::Sock,
    prelude::*, //
};

impl Sock {
    fn remembered(&self, level: u32, option: u32) -> Result<i32> {
        self.look(|inner| inner.options.remembered.get(level, option))
            .ok_or(ENOPROTOOPT)
    }

    /// getsockopt(2).
    pub(crate) fn get_option(&self, level: c_int, option: c_int, place: OptionRoom) -> Result {
        let is_v6 = self.look(|inner| inner.family) == Family::V6;
        let level = match u32::try_from(level) {
            Ok(level @ (ffi::SOL_TCP | ffi::SOL_IP)) => level,
            Ok(level @ ffi::SOL_IPV6) if is_v6 => level,
            _ if is_v6 => return Err(ENOPROTOOPT),
            _ => return Err(EOPNOTSUPP),
        };
        let room = match usize::try_from(place.len()?) {
            Ok(room) => room,
            // To IPv6 it is a large number.
            Err(_) if level == ffi::SOL_IPV6 => size_of::<c_int>(),
            Err(_) => return Err(EINVAL),
        };
        let option = u32::try_from(option).map_err(|_| ENOPROTOOPT)?;
        match (level, option) {
            (ffi::SOL_TCP, ffi::TCP_INFO) => {
                let info = self.tcp_info();
                // SAFETY: Numbers of this size in all, with no bytes between them.
                let bytes = unsafe {
                    core::slice::from_raw_parts(
                        (&raw const info).cast::<u8>(),
                        core::mem::size_of::<ffi::tcp_info>(),
                    )
                };
                place.answer(room, bytes)
            }
            (ffi::SOL_TCP, ffi::SDP_TRAFFIC) => {
                let report = self.traffic().report();
                // SAFETY: Numbers of 64 bits, of this size in all.
                let bytes = unsafe {
                    core::slice::from_raw_parts(
                        (&raw const report).cast::<u8>(),
                        core::mem::size_of::<ffi::sdp_traffic>(),
                    )
                };
                place.answer(room, bytes)
            }
            (ffi::SOL_TCP, ffi::SDP_BORROW_INFO) => {
                let info = self.borrow_info();
                // SAFETY: Numbers of this size in all, with no bytes between them.
                let bytes = unsafe {
                    core::slice::from_raw_parts(
                        (&raw const info).cast::<u8>(),
                        core::mem::size_of::<ffi::sdp_borrow_info>(),
                    )
                };
                place.answer(room, bytes)
            }
            (ffi::SOL_TCP, ffi::TCP_CONGESTION) => {
                let name = self.look(|inner| inner.options.congestion);
                place.answer(room, &name)
            }
            _ => self.get_number(level, option, place, room),
        }
    }

    /// An option with a number as its value.
    fn get_number(&self, level: u32, option: u32, place: OptionRoom, room: usize) -> Result {
        let number = match level {
            ffi::SOL_TCP => self.get_tcp(option)?,
            ffi::SOL_IPV6 if option == ffi::IPV6_V6ONLY => {
                self.look(|inner| i32::from(inner.options.v6only))
            }
            _ => self.remembered(level, option)?,
        };
        // TCP programs may read this as a byte.
        if let (ffi::SOL_IP, 1..=3, Ok(byte)) = (level, room, u8::try_from(number)) {
            return place.answer(1, &[byte]);
        }
        place.answer(room, &number.to_ne_bytes())
    }

    fn get_tcp(&self, option: u32) -> Result<i32> {
        match option {
            ffi::SDP_TRANSPORT => return i32::try_from(self.transport()).map_err(|_| EINVAL),
            ffi::SDP_FALLBACK_REASON => return Ok(self.fallback_reason()),
            _ => {}
        }
        let knobs = self.net().knobs();
        let seconds = |set: Option<u32>, default: u32| i32::try_from(set.unwrap_or(default));
        let value = self.look(|inner| {
            let o = &inner.options;
            Ok(match option {
                ffi::TCP_NODELAY => Ok(i32::from(o.nodelay)),
                ffi::TCP_CORK => Ok(i32::from(o.cork)),
                ffi::TCP_QUICKACK => Ok(i32::from(o.quickack)),
                ffi::TCP_INQ => Ok(i32::from(o.inq)),
                ffi::TCP_USER_TIMEOUT => i32::try_from(o.user_timeout),
                ffi::TCP_KEEPIDLE => seconds(o.keep_idle, knobs.keepalive_time),
                ffi::TCP_KEEPINTVL => seconds(o.keep_interval, knobs.keepalive_intvl),
                ffi::TCP_KEEPCNT => seconds(o.keep_count, knobs.keepalive_probes),
                // The payload of one message corresponds to TCP's segment.
                ffi::TCP_MAXSEG => Ok(match inner.engine.as_ref() {
                    Some(engine) => i32::try_from(engine.max_payload()).unwrap_or(i32::MAX),
                    None if o.max_segment != 0 => o.max_segment,
                    None => 536,
                }),
                ffi::SDP_ZCOPY_THRESH | ffi::SDP_ZCOPY_SOURCE_THRESH => {
                    Ok(inner.source_threshold(self).number())
                }
                ffi::SDP_ZCOPY_SINK_THRESH => Ok(inner.sink_threshold(self).number()),
                ffi::SDP_LAST_BIND_ERR => Ok(inner.binding.last_err()),
                ffi::SDP_SOCK_FAMILY => Ok(match inner.family {
                    Family::V4 => ffi::AF_INET as i32,
                    Family::V6 => ffi::AF_INET6 as i32,
                }),
                _ => {
                    return o
                        .remembered
                        .get(ffi::SOL_TCP, option)
                        .map(Ok)
                        .ok_or(ENOPROTOOPT)
                }
            })
        })?;
        value.map_err(|_| EINVAL)
    }

    /// The fields of TCP_INFO that are known.
    fn tcp_info(&self) -> ffi::tcp_info {
        let mut info: ffi::tcp_info = pin_init::zeroed();
        info.tcpi_state = self.tcp_state() as u8;
        self.look(|inner| {
            if let Some(listener) = inner.listener.as_ref() {
                info.tcpi_unacked = u32::try_from(listener.ready()).unwrap_or(u32::MAX);
                info.tcpi_sacked = listener.backlog;
                return;
            }
            if let Some(engine) = inner.engine.as_ref() {
                info.tcpi_snd_mss = engine.max_payload();
                info.tcpi_rcv_mss = engine.max_payload();
                info.tcpi_snd_cwnd = engine.credits().into();
                info.tcpi_unacked = engine.uncompleted();
                info.tcpi_notsent_bytes = engine.unsent();
                let stats = engine.stats();
                info.tcpi_bytes_sent = stats.bytes_sent();
                info.tcpi_bytes_acked = stats.bytes_sent();
                info.tcpi_bytes_received = stats.bytes_received();
                info.tcpi_segs_out = stats.messages_sent;
                info.tcpi_segs_in = stats.messages_received;
                info.tcpi_data_segs_out =
                    stats.messages_sent.wrapping_sub(stats.credit_updates_sent);
                info.tcpi_data_segs_in = stats
                    .messages_received
                    .wrapping_sub(stats.credit_updates_received);
            }
            if let Some(link) = inner.link.as_ref() {
                let trip = &link.round_trip;
                info.tcpi_rtt = trip.smoothed_us();
                info.tcpi_rttvar = trip.variation_us();
                // As TCP before the first measurement.
                info.tcpi_min_rtt = trip.shortest_us().unwrap_or(u32::MAX);
            }
            info.tcpi_probes = u8::try_from(inner.hearing.probes()).unwrap_or(u8::MAX);
            info.tcpi_rcv_space = self.rcvbuf();
        });
        info
    }
}
