// SPDX-License-Identifier: GPL-2.0

//! The trace events `sdp:*`, which are declared in `ffi/sdp_trace.h`.
//!
//! Each function here first looks whether its event is switched on, which is a load and a
//! branch; what is shown is put together only then. `declare_trace!` of the kernel crate
//! names `kernel::bindings`, where a module has no event. Its static branch needs
//! a generated file that header packages lack, so the count of the key is read instead.
//!
//! Contexts: any that may preempt; under the endpoint's lock.

use crate::{
    addr::Addr,
    engine::{
        conn::Why,
        types::Ip, //
    },
    ffi,
    net::sk::Sk, //
    prelude::*,
};

/// How bytes of the stream go from end to end.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Path {
    /// A message without any.
    Control = ffi::SDP_PATH_CONTROL,
    Copy = ffi::SDP_PATH_COPY,
    /// As Data, from a writer's pages.
    Gathered = ffi::SDP_PATH_GATHERED,
    /// By RDMA Read, from a writer's pages or into a reader's.
    Read = ffi::SDP_PATH_READ,
    /// By RDMA Read into buffers of the kernel.
    Fetched = ffi::SDP_PATH_FETCHED,
    /// By RDMA Write, from a writer's pages or into a reader's.
    Written = ffi::SDP_PATH_WRITTEN,
    /// By RDMA Write from a copy.
    WrittenCopy = ffi::SDP_PATH_WRITTEN_COPY,
}

/// The changes of an advertisement.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(crate) enum Life {
    Sent = ffi::SDP_ADVERT_SENT,
    Received = ffi::SDP_ADVERT_RECEIVED,
    Stale = ffi::SDP_ADVERT_STALE,
    Used = ffi::SDP_ADVERT_USED,
    Declined = ffi::SDP_ADVERT_DECLINED,
    Recalled = ffi::SDP_ADVERT_RECALLED,
    Withdrawn = ffi::SDP_ADVERT_WITHDRAWN,
    Unused = ffi::SDP_ADVERT_UNUSED,
    Returned = ffi::SDP_ADVERT_RETURNED,
    Over = ffi::SDP_ADVERT_OVER,
}

impl From<Why> for Life {
    fn from(why: Why) -> Self {
        match why {
            Why::Through => Self::Used,
            Why::SendSm => Self::Declined,
            Why::Recalled => Self::Recalled,
            Why::Withdrawn => Self::Withdrawn,
            Why::NotOffered => Self::Unused,
            Why::Over => Self::Over,
        }
    }
}

/// The socket of an event, and its names.
#[derive(Clone, Copy)]
pub(crate) struct Of<'a>(pub(crate) &'a Sk, pub(crate) &'a Addr, pub(crate) &'a Addr);

/// As IPv6 has it.
fn mapped(ip: Ip) -> [u8; 16] {
    match ip {
        Ip::V4([a, b, c, d]) => [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d],
        Ip::V6(bytes) => bytes,
    }
}

impl Of<'_> {
    fn ends(self) -> ffi::sdp_trace_ends {
        let Self(sk, local, peer) = self;
        ffi::sdp_trace_ends {
            sk: sk.sk(),
            local: mapped(local.ip),
            peer: mapped(peer.ip),
            local_port: local.port,
            peer_port: peer.port,
        }
    }
}

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident, $is_on:ident, $point:ident, $call:ident, ($($arg:ident: $kind:ty => $value:expr),*);)*) => {$(
        /// Whether the event is switched on.
        #[inline(always)]
        pub(crate) fn $is_on() -> bool {
            #[cfg(CONFIG_TRACEPOINTS)]
            {
                // SAFETY: A word of a static, which is written as a whole.
                let count = unsafe { (&raw const ffi::$point.key.key.enabled.counter).read_volatile() };
                count > 0
            }
            #[cfg(not(CONFIG_TRACEPOINTS))]
            false
        }

        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name(of: Of<'_>, $($arg: $kind),*) {
            #[cold]
            fn tell(of: Of<'_>, $($arg: $kind),*) {
                // SAFETY: A referenced socket, and values for this call.
                unsafe { ffi::$call(&of.ends(), $($value),*) };
            }
            if $is_on() {
                tell(of, $($arg),*);
            }
        }
    )*};
}

events! {
    /// The state is another one.
    state, is_state_on, __tracepoint_sdp_state, sdp_trace_state,
        (from: u32 => from as c_int, to: u32 => to as c_int);
    /// TCP takes SDP's place.
    fallback, is_fallback_on, __tracepoint_sdp_fallback, sdp_trace_fallback, (reason: i32 => reason);
    /// Something is sent.
    transmit, is_transmit_on, __tracepoint_sdp_transmit, sdp_trace_transmit,
        (len: u32 => len, path: Path => path as c_int);
    /// Something has come.
    receive, is_receive_on, __tracepoint_sdp_receive, sdp_trace_receive,
        (len: u32 => len, path: Path => path as c_int);
    /// Payload begins to wait.
    stall, is_stall_on, __tracepoint_sdp_stall, sdp_trace_stall,
        (slots: bool => slots, credits: u16 => credits.into(), unsent: u32 => unsent);
    /// Something happens to an advertisement.
    advert, is_advert_on, __tracepoint_sdp_advert, sdp_trace_advert,
        (sink: bool => sink, life: Life => life as c_int, len: u32 => len);
    /// The connection has ended.
    end, is_end_on, __tracepoint_sdp_end, sdp_trace_end,
        (end: u8 => end.into(), rule: &[c_char; RULE_LEN] => rule.as_ptr());
}

/// Room for the name of a rule, as a string of C.
pub(crate) const RULE_LEN: usize = ffi::SDP_RULE_LEN as usize;
