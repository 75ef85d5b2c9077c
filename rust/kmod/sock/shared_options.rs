// SPDX-License-Identifier: GPL-2.0

//! The options of a socket that may use SDP or TCP: both halves get them.
//!
//! Contexts: process context, may sleep, no lock held.

use crate::{
    endpoint::Phase,
    ffi,
    net::option::{
        OptionRoom,
        OptionValue, //
    },
    object::Sock,
    prelude::*,
    sock::needed::is_needed, //
};
use kernel::error::to_result;

/// Whether the option is SDP's own.
fn is_own(level: c_int, option: c_int) -> bool {
    level == ffi::SOL_TCP as c_int
        && (ffi::SDP_ZCOPY_THRESH as c_int..=ffi::SDP_AHEAD_WAIT as c_int).contains(&option)
}

impl Sock {
    /// setsockopt(2) of a socket that may have two halves.
    pub(crate) fn set_option_halves(
        &self,
        level: c_int,
        option: c_int,
        value: OptionValue<'_>,
    ) -> Result {
        let own = is_own(level, option);
        if own {
            return self.set_option(level, option, value);
        }
        // A companion that has been put aside gets the option, too, because
        // SDP_TRANSPORT may reactivate it.
        let general = level == ffi::SOL_SOCKET as c_int;
        let result = if general || self.tcp().is_some() {
            Ok(())
        } else {
            self.set_option(level, option, value)
        };
        let result = result.map_or_else(Error::to_errno, |()| 0);
        let (raw, len) = value.raw();
        // SAFETY: `sk` is valid, and the value as `OptionValue` says.
        let result = to_result(unsafe {
            ffi::sdp_companion_setsockopt(self.sk(), level, option, raw, len, result)
        });
        match result {
            // Resetting an option that was never set is no need.
            Err(refused) if len != 0 && is_needed(level, option) => {
                self.give_up_for((level, option), value, refused)
            }
            result => result,
        }
    }

    /// SDP has refused an option that the program needs: a socket that may still become
    /// TCP does so, if TCP takes the option and the caller may have it.
    fn give_up_for(
        &self,
        (level, option): (c_int, c_int),
        value: OptionValue<'_>,
        refused: Error,
    ) -> Result {
        let open_half = || {
            let attempt = self.is_attempting();
            let idle = !attempt && self.look(|inner| inner.phase == Phase::Idle);
            self.other_half().filter(|_| idle)
        };
        if open_half().is_none() || !self.may_use_tcp() {
            return Err(refused);
        }
        let _call = self.lock();
        // Another thread may have begun something.
        let tcp = open_half().ok_or(refused)?;
        tcp.set_option(level, option, value).map_err(|_| refused)?;
        self.fall_back(tcp, -EOPNOTSUPP.to_errno());
        Ok(())
    }

    /// getsockopt(2) of a socket that may have two halves.
    pub(crate) fn get_option_halves(
        &self,
        level: c_int,
        option: c_int,
        room: OptionRoom,
    ) -> Result {
        let own = is_own(level, option);
        match self.tcp() {
            Some(tcp) if !own => tcp.option(level, option, room),
            _ => self.get_option(level, option, room),
        }
    }
}
