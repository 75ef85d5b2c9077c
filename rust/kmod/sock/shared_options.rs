// SPDX-License-Identifier: GPL-2.0

//! The options of a socket that may use SDP or TCP: both halves get them.
//!
//! Contexts: process context, may sleep, no lock held.

use crate::{
    endpoint::Phase,
    ffi,
    object::Sock,
    prelude::*,
    sock::needed::is_needed, //
};
use kernel::error::to_result;

/// Whether the option is SDP's own.
fn is_own(level: c_int, option: c_int) -> bool {
    level == ffi::SOL_TCP as c_int
        && (ffi::SDP_ZCOPY_THRESH as c_int..=ffi::SDP_TRAFFIC as c_int).contains(&option)
}

impl Sock {
    /// setsockopt(2) of a socket that may have two halves.
    ///
    /// # Safety
    ///
    /// `value` is a pointer of the user program, or has `len` bytes of the kernel.
    pub(crate) unsafe fn set_option_halves(
        &self,
        level: c_int,
        option: c_int,
        value: ffi::core::sockptr_t,
        len: c_uint,
    ) -> Result {
        let own = is_own(level, option);
        if own {
            // SAFETY: `value` is the program's or has `len` bytes, by the caller's promise.
            return unsafe { self.set_option(level, option, value, len) };
        }
        // A companion that has been put aside gets the option, too, because
        // SDP_TRANSPORT may reactivate it.
        let general = level == ffi::SOL_SOCKET as c_int;
        let result = if general || self.tcp().is_some() {
            Ok(())
        } else {
            // SAFETY: `value` is the program's or has `len` bytes, by the caller's promise.
            unsafe { self.set_option(level, option, value, len) }
        };
        let result = result.map_or_else(Error::to_errno, |()| 0);
        // SAFETY: `sk` is valid; of `value` the callees check a program's pointer, and read no
        // more than `len` bytes of the kernel's.
        let result = to_result(unsafe {
            ffi::sdp_companion_setsockopt(self.sk(), level, option, value, len, result)
        });
        match result {
            // Resetting an option that was never set is no need.
            Err(refused) if len != 0 && is_needed(level, option) => {
                // SAFETY: `value` is the program's or has `len` bytes, by the caller's promise.
                unsafe { self.give_up_for((level, option), value, len, refused) }
            }
            result => result,
        }
    }

    /// SDP has refused an option that the program needs: a socket that may still become
    /// TCP does so, if TCP takes the option and the caller may have it.
    ///
    /// # Safety
    ///
    /// `value` is a pointer of the user program, or has `len` bytes of the kernel.
    unsafe fn give_up_for(
        &self,
        (level, option): (c_int, c_int),
        value: ffi::core::sockptr_t,
        len: c_uint,
        refused: Error,
    ) -> Result {
        let open_half = || {
            // SAFETY: `sk` is valid.
            let attempt = unsafe { ffi::sdp_companion_attempt(self.sk()) };
            let idle = !attempt && self.look(|inner| inner.phase == Phase::Idle);
            self.other_half().filter(|_| idle)
        };
        if open_half().is_none() || !self.may_use_tcp() {
            return Err(refused);
        }
        let _call = self.lock();
        // Another thread may have begun something.
        let tcp = open_half().ok_or(refused)?;
        // SAFETY: The companion is there; of `value` the callee checks a program's pointer,
        // and reads no more than `len` bytes of the kernel's.
        to_result(unsafe { ffi::sdp_companion_set_tcp(self.sk(), level, option, value, len) })
            .map_err(|_| refused)?;
        self.fall_back(tcp, -EOPNOTSUPP.to_errno());
        Ok(())
    }

    /// getsockopt(2) of a socket that may have two halves.
    ///
    /// # Safety
    ///
    /// `value` and `len` are pointers of the user program.
    pub(crate) unsafe fn get_option_halves(
        &self,
        level: c_int,
        option: c_int,
        value: *mut u8,
        len: *mut c_int,
    ) -> Result {
        let own = is_own(level, option);
        match self.tcp() {
            // SAFETY: The companion is there; the callee checks the pointers.
            Some(tcp) if !own => to_result(unsafe {
                ffi::sdp_companion_getsockopt(tcp.socket().cast(), level, option, value.cast(), len)
            }),
            // SAFETY: The pointers are the program's, by the caller's promise.
            _ => unsafe { self.get_option(level, option, value, len) },
        }
    }
}
