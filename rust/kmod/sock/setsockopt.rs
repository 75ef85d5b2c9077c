// SPDX-License-Identifier: GPL-2.0

//! setsockopt below SOL_SOCKET, which the core answers itself.
//!
//! Options of TCP programs that have no use in SDP are accepted and stored if that is
//! honest (see `remembered`). All others are ENOPROTOOPT. The first table of ARCHITECTURE.md
//! has all places that a new option changes.

use crate::{
    addr::{
        Addr,
        Family, //
    },
    endpoint::Phase,
    engine::policy::threshold::{
        self,
        Threshold, //
    },
    ffi,
    net::option::OptionValue,
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

/// Limits of TCP_MAXSEG; 0 is exempt.
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
    pub(crate) fn set_option(&self, level: c_int, option: c_int, value: OptionValue<'_>) -> Result {
        let level = u32::try_from(level).map_err(|_| ENOPROTOOPT)?;
        let option = u32::try_from(option).map_err(|_| ENOPROTOOPT)?;
        let is_v6 = self.look(|inner| inner.family) == Family::V6;
        match level {
            ffi::SOL_TCP | ffi::SOL_IP => {}
            ffi::SOL_IPV6 if is_v6 => {}
            _ => return Err(ENOPROTOOPT),
        }
        if level == ffi::SOL_TCP && option == ffi::TCP_CONGESTION {
            return self.set_congestion(value);
        }
        if level == ffi::SOL_TCP {
            match option {
                ffi::SDP_BORROW => return self.set_borrow(value),
                ffi::SDP_BORROW_WAIT => return self.wait_borrowed(value, false),
                ffi::SDP_AHEAD => return self.set_ahead(value),
                ffi::SDP_AHEAD_WAIT => return self.wait_ahead(value),
                ffi::SDP_BORROW_CANCEL => return self.wait_borrowed(value, true),
                _ => {}
            }
        }
        // TCP checks the length only for options that it knows, except at its own
        // level.
        if level != ffi::SOL_TCP && !Remembered::has(level, option) && !is_v6only(level, option) {
            return Err(ENOPROTOOPT);
        }
        let mut raw = [0u8; 4];
        let size = match value.len() {
            // TCP reads an empty value as 0 if it does not check the length.
            0 if level == ffi::SOL_IP && UNMEASURED_IP.contains(&option) => 0,
            0..=3 if level == ffi::SOL_IPV6 && UNMEASURED_IPV6.contains(&option) => 0,
            // TCP programs may set the options of IP as single bytes.
            1..=3 if level == ffi::SOL_IP => 1,
            0..=3 => return Err(EINVAL),
            _ => raw.len(),
        };
        value.read(raw.get_mut(..size).ok_or(EINVAL)?)?;
        let value = match (size, raw) {
            // A byte is the number, whatever the order of bytes.
            (1, [byte, ..]) => i32::from(byte),
            _ => i32::from_ne_bytes(raw),
        };
        let _call = self.lock();
        match level {
            ffi::SOL_TCP => self.set_tcp(option, value),
            ffi::SOL_IP => self.remember(ffi::SOL_IP, option, value),
            ffi::SOL_IPV6 => self.set_ipv6(option, value),
            _ => Err(ENOPROTOOPT),
        }
    }

    /// TCP_CONGESTION: any name that TCP would take.
    fn set_congestion(&self, value: OptionValue<'_>) -> Result {
        let mut name = [0u8; CONGESTION_LEN];
        let (value, len) = value.raw();
        // SAFETY: A socket's namespace is alive. The value is as `OptionValue` says, and the
        // name has the length that the callee expects.
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
            ffi::TCP_KEEPIDLE | ffi::TCP_KEEPINTVL | ffi::TCP_KEEPCNT => {
                return self.set_keepalive(option, value);
            }
            ffi::SDP_ZCOPY_THRESH | ffi::SDP_ZCOPY_SOURCE_THRESH | ffi::SDP_ZCOPY_SINK_THRESH => {
                return self.set_thresholds(option, value);
            }
            ffi::SDP_SOCK_FAMILY => return self.set_family(value),
            ffi::SDP_TRANSPORT => return self.set_transport(value),
            ffi::TCP_USER_TIMEOUT => {
                let msecs = u32::try_from(value).map_err(|_| EINVAL)?;
                self.drive(|inner| {
                    inner.options.user_timeout = msecs;
                    inner.user_timeout.renew();
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

    /// TCP_KEEPIDLE, TCP_KEEPINTVL and TCP_KEEPCNT.
    fn set_keepalive(&self, option: u32, value: i32) -> Result {
        match option {
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
            _ => {
                let count = within(value, KEEP_COUNT_MAX)?;
                self.look(|inner| inner.options.keep_count = Some(count));
            }
        }
        Ok(())
    }

    /// SDP_ZCOPY_THRESH, which sets the thresholds of both roles, and those for one role.
    fn set_thresholds(&self, option: u32, value: i32) -> Result {
        let threshold = match u32::try_from(value).map(Threshold::of) {
            Ok(Threshold::From(n)) if !(threshold::LEAST..=ZCOPY_THRESH_MAX).contains(&n) => {
                return Err(EINVAL);
            }
            Ok(threshold) => threshold,
            Err(_) => return Err(EINVAL),
        };
        self.look(|inner| {
            let o = &mut inner.options;
            if option != ffi::SDP_ZCOPY_SINK_THRESH {
                o.zcopy_source = Some(threshold);
            }
            if option != ffi::SDP_ZCOPY_SOURCE_THRESH {
                o.zcopy_sink = Some(threshold);
            }
        });
        Ok(())
    }

    /// An option without effect.
    fn remember(&self, level: u32, option: u32, value: i32) -> Result {
        self.look(|inner| inner.options.remembered.set(level, option, value))
            .unwrap_or(Err(ENOPROTOOPT))
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
            if inner.phase != Phase::Idle || inner.binding.lease().is_some() {
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
        family == Family::V6 && self.namespace().binds_v6only()
    }

    fn set_ipv6(&self, option: u32, value: i32) -> Result {
        if self.look(|inner| inner.family) != Family::V6 {
            return Err(ENOPROTOOPT);
        }
        match option {
            ffi::IPV6_V6ONLY => self.look(|inner| {
                if inner.binding.lease().is_some() {
                    return Err(EINVAL);
                }
                inner.options.v6only = value != 0;
                Ok(())
            }),
            _ => self.remember(ffi::SOL_IPV6, option, value),
        }
    }
}
