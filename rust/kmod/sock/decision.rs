// SPDX-License-Identifier: GPL-2.0

//! Which of its two halves an SDP socket with a TCP companion uses.
//!
//! `SDP_TRANSPORT` gives a socket a TCP socket of its own. Until the decision both
//! halves are bound and get the options; connect() tries SDP and then TCP; listen()
//! listens on both, and accept() takes from both. After a fallback every call goes to
//! the companion. The decision is final and the companion lives as long as the file, so
//! a call that raced with it is the same as an earlier call.
//!
//! The calls of such a socket are in `halves`, its connect() is in `attempt`.
//!
//! Contexts: process context, may sleep. `lock_sock` of the SDP socket may be
//! held while the companion's is taken, never the other way.

use crate::{
    addr::{
        Addr,
        Family,
        Parsed,
        NAME_LEN, //
    },
    endpoint::Phase,
    ffi,
    object::Sock,
    prelude::*,
    sock::companion::Tcp,
    trace, //
};
use kernel::error::to_result;

impl Sock {
    /// Whether `net.sdp.companion` lets the caller use the TCP half. Counts refusals.
    pub(super) fn may_use_tcp(&self) -> bool {
        let may = match self.net().companion() {
            ffi::SDP_COMPANION_NEVER => false,
            // SAFETY: Looks at the caller.
            ffi::SDP_COMPANION_UNCONFINED => !unsafe { ffi::sdp_is_confined() },
            _ => true,
        };
        if !may {
            self.net().stats.tcp_refused.inc();
        }
        may
    }

    /// Called before the TCP half binds, connects or listens; returns whether it may.
    /// If the caller may not use the TCP half, a socket that uses TCP refuses the call,
    /// and an undecided socket uses SDP alone from now on. Attempts of other tasks go
    /// on.
    pub(super) fn permit_tcp(&self) -> Result<bool> {
        if self.companion().is_none() {
            return Ok(false);
        }
        self.leave_old_race();
        if self.may_use_tcp() {
            return Ok(true);
        }
        self.leave_tcp_out(EPERM).map(|()| false)
    }

    /// Makes the socket use SDP alone, or fails with `otherwise` if it uses TCP.
    fn leave_tcp_out(&self, otherwise: Error) -> Result {
        let _call = self.lock();
        if self.tcp().is_some() {
            return Err(otherwise);
        }
        let attempt = self.is_attempting();
        if !attempt && self.look(|inner| inner.phase == Phase::Idle) {
            self.leave_race();
            self.set_companion_idle(true);
        }
        Ok(())
    }

    /// As `permit_tcp`, for connect(): asks the security modules, too. Every caller may
    /// disconnect (AF_UNSPEC).
    pub(super) fn permit_connect(&self, tcp: Tcp<'_>, addr: &[u8]) -> Result<bool> {
        if matches!(Addr::parse(addr), Ok(Parsed::Unspec)) {
            return Ok(true);
        }
        if !self.permit_tcp()? {
            return Ok(false);
        }
        match tcp.ask_connect(addr) {
            Ok(()) => Ok(true),
            // The modules could not be asked for lack of memory; a refusal has another
            // errno.
            Err(e) if e == ENOMEM => self.leave_tcp_out(e).map(|()| false),
            Err(e) => Err(e),
        }
    }

    /// Gives SDP up for the companion, which is there, and the port with it. With
    /// `lock_sock`.
    pub(super) fn fall_back(&self, tcp: Tcp<'_>, reason: i32) {
        let already = self.tcp().is_some();
        self.look(|inner| {
            if reason != 0 && !already {
                trace::fallback(inner.of(self), reason);
            }
            // A program that sees the decision may bind the port.
            if inner.phase == Phase::Idle {
                inner.binding.release();
            }
        });
        tcp.take_over(reason);
        if reason != 0 && !already {
            self.net().stats.tcp_fallbacks.inc();
        }
    }

    /// Sets SDP_TRANSPORT. With `lock_sock`.
    pub(crate) fn set_transport(&self, value: i32) -> Result {
        let value = u32::try_from(value).map_err(|_| EINVAL)?;
        if value > ffi::SDP_TRANSPORT_TCP {
            return Err(EINVAL);
        }
        if self.tcp().is_some() {
            // Setting the current value changes nothing.
            return if value == ffi::SDP_TRANSPORT_TCP {
                Ok(())
            } else {
                Err(EINVAL)
            };
        }
        let (idle, family) = self.look(|inner| (inner.phase == Phase::Idle, inner.family));
        if !idle {
            return Err(EINVAL);
        }
        self.leave_race();
        if value == ffi::SDP_TRANSPORT_SDP {
            self.set_companion_idle(true);
            return Ok(());
        }
        if !self.may_use_tcp() {
            return Err(EPERM);
        }
        if self.companion().is_none() {
            let family = match family {
                Family::V4 => ffi::AF_INET,
                Family::V6 => ffi::AF_INET6,
            };
            // SAFETY: `lock_sock` is held and the socket has a file.
            to_result(unsafe { ffi::sdp_companion_make(self.sk(), family as c_int) })?;
            self.set_companion_idle(false);
            if let Err(e) = self.bind_companion() {
                self.set_companion_idle(true);
                return Err(e);
            }
        }
        if value == ffi::SDP_TRANSPORT_TCP {
            self.fall_back(self.companion().ok_or(EINVAL)?, 0);
        }
        Ok(())
    }

    /// Repeats on the companion a bind() that was made before it existed.
    fn bind_companion(&self) -> Result {
        let (bound, local, family) =
            self.look(|inner| (inner.binding.lease().is_some(), inner.local, inner.family));
        let Some(tcp) = self.companion().filter(|_| bound) else {
            return Ok(());
        };
        if tcp.port()? != 0 {
            return Ok(());
        }
        let mut name = [0u8; NAME_LEN];
        let len = local.emit(family, &mut name);
        tcp.bind(name.get(..len).unwrap_or(&name))
    }

    pub(crate) fn transport(&self) -> u32 {
        if self.tcp().is_some() {
            return ffi::SDP_TRANSPORT_TCP;
        }
        let open = self.look(|inner| matches!(inner.phase, Phase::Idle | Phase::Listening));
        let undecided = open || self.is_attempt_open();
        if self.companion().is_some() && undecided {
            ffi::SDP_TRANSPORT_BOTH
        } else {
            ffi::SDP_TRANSPORT_SDP
        }
    }
}
