// SPDX-License-Identifier: GPL-2.0

//! setsockopt and getsockopt below SOL_SOCKET, which the core answers itself.
//!
//! Options of TCP programs that have no use in SDP are accepted and stored if that is
//! honest (see `remembered`). All others are ENOPROTOOPT.

use crate::{
    addr::{
        Addr,
        Family, //
    },
    endpoint::Phase,
    engine::policy::threshold,
    ffi,
    object::Sock,
    options::CONGESTION_LEN,
    prelude::*,
    remembered::Remembered, //
};
use kernel::error::to_result;

/// The largest SDP_ZCOPY_THRESH, as in the OFED module.
const ZCOPY_THRESH_MAX: u32 = 1 << 20;

/// Limits of TCP's keepalive options.
const KEEP_SECONDS_MAX: u32 = 32767;
const KEEP_COUNT_MAX: u32 = 127;

/// Limits of TCP_MAXSEG, of which 0 is free.
const SEGMENT_LEAST: i32 = 88;
const SEGMENT_MOST: i32 = 32767;

/// Options that may come without a value.
const UNMEASURED_IP: [u32; 4] = [
    ffi::IP_TOS,
    ffi::IP_MTU_DISCOVER,
    ffi::IP_RECVERR,
    ffi::IP_BIND_ADDRESS_NO_PORT,
];
const UNMEASURED_IPV6: [u32; 2] = [ffi::IPV6_DONTFRAG, ffi::IPV6_AUTOFLOWLABEL];

fn is_v6only(level: u32, option: u32) -> bool {
    level == ffi::SOL_IPV6 && option == ffi::IPV6_V6ONLY
}

/// A value between 1 and `max`, or EINVAL.
fn within(value: i32, max: u32) -> Result<u32> {
    match u32::try_from(value) {
        Ok(v) if v >= 1 && v <= max => Ok(v),
        _ => Err(EINVAL),
    }
}

impl Sock {
    /// setsockopt(2).
    ///
    /// # Safety
    ///
    /// `value` is a pointer of the user program, or has `len` bytes of the kernel.
    pub(crate) unsafe fn set_option(
        &self,
        level: c_int,
        option: c_int,
        value: ffi::core::sockptr_t,
        len: c_uint,
    ) -> Result {
        let level = u32::try_from(level).map_err(|_| ENOPROTOOPT)?;
        let option = u32::try_from(option).map_err(|_| ENOPROTOOPT)?;
        let is_v6 = self.look(|inner| inner.family) == Family::V6;
        match level {
            ffi::SOL_TCP | ffi::SOL_IP => {}
            ffi::SOL_IPV6 if is_v6 => {}
            _ => return Err(ENOPROTOOPT),
        }
        if level == ffi::SOL_TCP && option == ffi::TCP_CONGESTION {
            // SAFETY: `value` is the program's or has `len` bytes, by the caller's promise.
            return unsafe { self.set_congestion(value, len) };
        }
        // TCP checks the length only for options that it knows, except at its own
        // level.
        if level != ffi::SOL_TCP && !Remembered::has(level, option) && !is_v6only(level, option) {
            return Err(ENOPROTOOPT);
        }
        let mut raw = [0u8; 4];
        let size = match len as usize {
            // TCP reads an empty value as 0 if it does not check the length.
            0 if level == ffi::SOL_IP && UNMEASURED_IP.contains(&option) => 0,
            0..=3 if level == ffi::SOL_IPV6 && UNMEASURED_IPV6.contains(&option) => 0,
            // TCP programs may set the options of IP as single bytes.
            1..=3 if level == ffi::SOL_IP => 1,
            0..=3 => return Err(EINVAL),
            _ => raw.len(),
        };
        // SAFETY: The callee checks a program's pointer; one of the kernel has `len` bytes, by
        // the caller's promise, and `size` is no more, nor more than `raw` has.
        to_result(unsafe { ffi::sdp_copy_from_sockptr(raw.as_mut_ptr().cast(), value, size) })?;
        let value = i32::from_ne_bytes(raw);
        let _call = self.lock();
        match level {
            ffi::SOL_TCP => self.set_tcp(option, value),
            ffi::SOL_IP => self.remember(ffi::SOL_IP, option, value),
            ffi::SOL_IPV6 => self.set_ipv6(option, value),
            _ => Err(ENOPROTOOPT),
        }
    }

    /// TCP_CONGESTION: any name that TCP would take.
    ///
    /// # Safety
    ///
    /// `value` is a pointer of the user program, or has `len` bytes of the kernel.
    unsafe fn set_congestion(&self, value: ffi::core::sockptr_t, len: c_uint) -> Result {
        let mut name = [0u8; CONGESTION_LEN];
        // SAFETY: A socket's namespace is alive; the callee checks a program's pointer, reads
        // no more than `len` bytes of the kernel's, and the name has the length that it
        // expects.
        to_result(unsafe {
            ffi::sdp_congestion_name(self.net().as_ptr(), value, len, name.as_mut_ptr().cast())
        })?;
        let _call = self.lock();
        self.look(|inner| inner.options.congestion = name);
        Ok(())
    }

    fn set_tcp(&self, option: u32, value: i32) -> Result {
        let on = value != 0;
        match option {
            ffi::TCP_NODELAY => self.drive(|inner| {
                inner.options.nodelay = on;
                if let Some(engine) = inner.engine.as_mut() {
                    engine.set_nodelay(on);
                }
            }),
            ffi::TCP_CORK => self.drive(|inner| {
                inner.options.cork = on;
                if let Some(engine) = inner.engine.as_mut() {
                    engine.set_cork(on);
                }
            }),
            ffi::TCP_QUICKACK => self.look(|inner| inner.options.quickack = on),
            ffi::TCP_KEEPIDLE => {
                let secs = within(value, KEEP_SECONDS_MAX)?;
                self.drive(|inner| {
                    inner.options.keep_idle = Some(secs);
                    inner.start_keepalive(self);
                });
            }
            ffi::TCP_KEEPINTVL => {
                let secs = within(value, KEEP_SECONDS_MAX)?;
                self.look(|inner| inner.options.keep_interval = Some(secs));
            }
            ffi::TCP_KEEPCNT => {
                let count = within(value, KEEP_COUNT_MAX)?;
                self.look(|inner| inner.options.keep_count = Some(count));
            }
            ffi::SDP_ZCOPY_THRESH | ffi::SDP_ZCOPY_SOURCE_THRESH | ffi::SDP_ZCOPY_SINK_THRESH => {
                let bytes = match u32::try_from(value) {
                    Ok(0) => 0,
                    Ok(n) if (threshold::LEAST..=ZCOPY_THRESH_MAX).contains(&n) => n,
                    _ => return Err(EINVAL),
                };
                self.look(|inner| {
                    let o = &mut inner.options;
                    if option != ffi::SDP_ZCOPY_SINK_THRESH {
                        o.zcopy_source = Some(bytes);
                    }
                    if option != ffi::SDP_ZCOPY_SOURCE_THRESH {
                        o.zcopy_sink = Some(bytes);
                    }
                });
            }
            ffi::SDP_SOCK_FAMILY => return self.set_family(value),
            ffi::SDP_TRANSPORT => return self.set_transport(value),
            ffi::TCP_USER_TIMEOUT => {
                let msecs = u32::try_from(value).map_err(|_| EINVAL)?;
                self.drive(|inner| {
                    inner.options.user_timeout = msecs;
                    inner.renew_patience();
                });
            }
            ffi::TCP_INQ => match value {
                0 | 1 => self.look(|inner| inner.options.inq = on),
                _ => return Err(EINVAL),
            },
            ffi::TCP_MAXSEG => {
                if value != 0 && !(SEGMENT_LEAST..=SEGMENT_MOST).contains(&value) {
                    return Err(EINVAL);
                }
                self.look(|inner| inner.options.max_segment = value);
            }
            // A connected TCP socket has a window, which cannot be removed.
            ffi::TCP_WINDOW_CLAMP if value == 0 && self.tcp_state() != ffi::TCP_CLOSE => {
                return Err(EINVAL);
            }
            _ => return self.remember(ffi::SOL_TCP, option, value),
        }
        Ok(())
    }

    /// An option without effect.
    fn remember(&self, level: u32, option: u32, value: i32) -> Result {
        self.look(|inner| inner.options.remembered.set(level, option, value))
            .unwrap_or(Err(ENOPROTOOPT))
    }

    fn remembered(&self, level: u32, option: u32) -> Result<i32> {
        self.look(|inner| inner.options.remembered.get(level, option))
            .ok_or(ENOPROTOOPT)
    }

    /// The family of the socket's addresses, while it has none.
    fn set_family(&self, value: i32) -> Result {
        let family = match u32::try_from(value) {
            Ok(ffi::AF_INET) => Family::V4,
            Ok(ffi::AF_INET6) => Family::V6,
            _ => return Err(EAFNOSUPPORT),
        };
        if self.has_companion() {
            // The companion was made with the family of that moment.
            return Err(EINVAL);
        }
        let v6only = self.v6only_of_new(family);
        self.look(|inner| {
            if inner.phase != Phase::Idle || inner.port.is_some() {
                return Err(EINVAL);
            }
            if inner.family != family {
                inner.options.v6only = v6only;
            }
            inner.family = family;
            inner.local = Addr::any(family);
            inner.peer = Addr::any(family);
            Ok(())
        })
    }

    /// IPV6_V6ONLY of a socket that becomes one of `family`.
    pub(super) fn v6only_of_new(&self, family: Family) -> bool {
        // SAFETY: A socket's namespace is alive.
        family == Family::V6 && unsafe { ffi::sdp_v6only_by_default(self.net().as_ptr()) }
    }

    fn set_ipv6(&self, option: u32, value: i32) -> Result {
        if self.look(|inner| inner.family) != Family::V6 {
            return Err(ENOPROTOOPT);
        }
        match option {
            ffi::IPV6_V6ONLY => self.look(|inner| {
                if inner.port.is_some() {
                    return Err(EINVAL);
                }
                inner.options.v6only = value != 0;
                Ok(())
            }),
            _ => self.remember(ffi::SOL_IPV6, option, value),
        }
    }

    /// getsockopt(2).
    ///
    /// # Safety
    ///
    /// `value` and `len` are pointers of the user program.
    pub(crate) unsafe fn get_option(
        &self,
        level: c_int,
        option: c_int,
        value: *mut u8,
        len: *mut c_int,
    ) -> Result {
        let is_v6 = self.look(|inner| inner.family) == Family::V6;
        let level = match u32::try_from(level) {
            Ok(level @ (ffi::SOL_TCP | ffi::SOL_IP)) => level,
            Ok(level @ ffi::SOL_IPV6) if is_v6 => level,
            _ if is_v6 => return Err(ENOPROTOOPT),
            _ => return Err(EOPNOTSUPP),
        };
        let mut raw = [0u8; 4];
        // SAFETY: The callee checks the user's pointer.
        let left =
            unsafe { ffi::sdp_copy_from_user(raw.as_mut_ptr().cast(), len.cast(), raw.len()) };
        if left != 0 {
            return Err(EFAULT);
        }
        let room = match usize::try_from(i32::from_ne_bytes(raw)) {
            Ok(room) => room,
            // To IPv6 it is a large number.
            Err(_) if level == ffi::SOL_IPV6 => raw.len(),
            Err(_) => return Err(EINVAL),
        };
        let option = u32::try_from(option).map_err(|_| ENOPROTOOPT)?;
        if level == ffi::SOL_TCP && option == ffi::TCP_INFO {
            let info = self.tcp_info();
            // SAFETY: Numbers of this size in all, with no bytes between them.
            let bytes = unsafe {
                core::slice::from_raw_parts(
                    (&raw const info).cast::<u8>(),
                    core::mem::size_of::<ffi::tcp_info>(),
                )
            };
            // SAFETY: The pointers are the program's, by the caller's promise.
            return unsafe { answer(value, len, room, bytes) };
        }
        if level == ffi::SOL_TCP && option == ffi::SDP_TRAFFIC {
            let report = self.traffic().report();
            // SAFETY: Numbers of 64 bits, of this size in all.
            let bytes = unsafe {
                core::slice::from_raw_parts(
                    (&raw const report).cast::<u8>(),
                    core::mem::size_of::<ffi::sdp_traffic>(),
                )
            };
            // SAFETY: The pointers are the program's, by the caller's promise.
            return unsafe { answer(value, len, room, bytes) };
        }
        if level == ffi::SOL_TCP && option == ffi::TCP_CONGESTION {
            let name = self.look(|inner| inner.options.congestion);
            // SAFETY: The pointers are the program's, by the caller's promise.
            return unsafe { answer(value, len, room, &name) };
        }
        let number = match level {
            ffi::SOL_TCP => self.get_tcp(option)?,
            ffi::SOL_IPV6 if option == ffi::IPV6_V6ONLY => {
                self.look(|inner| i32::from(inner.options.v6only))
            }
            _ => self.remembered(level, option)?,
        };
        // TCP programs may read this as a byte.
        if let (ffi::SOL_IP, 1..=3, Ok(byte)) = (level, room, u8::try_from(number)) {
            // SAFETY: The pointers are the program's, by the caller's promise.
            return unsafe { answer(value, len, 1, &[byte]) };
        }
        // SAFETY: The pointers are the program's, by the caller's promise.
        unsafe { answer(value, len, room, &number.to_ne_bytes()) }
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
                    Some(engine) => i32::from(engine.max_payload()),
                    None if o.max_segment != 0 => o.max_segment,
                    None => 536,
                }),
                ffi::SDP_ZCOPY_THRESH | ffi::SDP_ZCOPY_SOURCE_THRESH => {
                    i32::try_from(o.zcopy_source.unwrap_or(knobs.zcopy_thresh))
                }
                ffi::SDP_ZCOPY_SINK_THRESH => {
                    i32::try_from(o.zcopy_sink.unwrap_or(knobs.zcopy_thresh))
                }
                ffi::SDP_LAST_BIND_ERR => Ok(inner.last_bind_err),
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
                info.tcpi_snd_mss = engine.max_payload().into();
                info.tcpi_rcv_mss = engine.max_payload().into();
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
            info.tcpi_probes = u8::try_from(inner.probes).unwrap_or(u8::MAX);
            info.tcpi_rcv_space = self.rcvbuf();
        });
        info
    }
}

/// Copies as much of `bytes` as the program has room for, and the length.
///
/// # Safety
///
/// `value` and `len` are pointers of the user program.
unsafe fn answer(value: *mut u8, len: *mut c_int, room: usize, bytes: &[u8]) -> Result {
    let n = room.min(bytes.len());
    let size = (n as c_int).to_ne_bytes();
    // SAFETY: The callees check the user's pointers.
    let left = unsafe {
        ffi::sdp_copy_to_user(len.cast(), size.as_ptr().cast(), size.len())
            | ffi::sdp_copy_to_user(value.cast(), bytes.as_ptr().cast(), n)
    };
    if left == 0 {
        Ok(())
    } else {
        Err(EFAULT)
    }
}
