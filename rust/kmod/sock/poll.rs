// SPDX-License-Identifier: GPL-2.0

//! poll(2) and the ioctls that count bytes.

use crate::{
    addr::Family,
    endpoint::Inner,
    ffi,
    object::Sock,
    prelude::*,
    queue::Urgent, //
};

const IN: u32 = 0x0001;
const PRI: u32 = 0x0002;
const OUT: u32 = 0x0004;
const ERR: u32 = 0x0008;
const HUP: u32 = 0x0010;
const RDNORM: u32 = 0x0040;
const WRNORM: u32 = 0x0100;
const RDHUP: u32 = 0x2000;

/// State of the endpoint that poll needs.
struct View {
    listening: Option<bool>,
    waiting: u64,
    /// The receive buffers are full until the program reads.
    full: bool,
    urgent: bool,
    held: u32,
}

impl View {
    /// `inline`: SO_OOBINLINE.
    fn of(inner: &Inner, inline: bool) -> Self {
        Self {
            listening: inner.listener.as_ref().map(|l| l.ready() > 0),
            waiting: inner.waiting(inline),
            full: inner.is_full(),
            urgent: matches!(inner.recv.urgent(), Urgent::Byte(_)),
            held: inner.held(),
        }
    }
}

impl Sock {
    /// The current events, as `tcp_poll` gives them. After `sock_poll_wait`.
    pub(crate) fn poll(&self) -> u32 {
        let inline = self.flag(ffi::sock_flags_SOCK_URGINLINE);
        let view = self.tend_for_poll(|inner| View::of(inner, inline));
        if let Some(ready) = view.listening {
            return if ready { IN | RDNORM } else { 0 };
        }
        let state = self.tcp_state();
        let shutdown = self.shutdown_bits();
        let mut mask = 0;
        if shutdown == ffi::SHUTDOWN_MASK || state == ffi::TCP_CLOSE {
            mask |= HUP;
        }
        if shutdown & ffi::RCV_SHUTDOWN != 0 {
            mask |= IN | RDNORM | RDHUP;
        }
        if state != ffi::TCP_SYN_SENT && state != ffi::TCP_SYN_RECV {
            let target = self.low_water_mark(false, c_int::MAX);
            let enough = view.waiting >= u64::try_from(target).unwrap_or(1);
            if view.waiting > 0 && (enough || view.full) {
                mask |= IN | RDNORM;
            }
            if shutdown & ffi::SEND_SHUTDOWN != 0 || self.is_writable(view.held) {
                mask |= OUT | WRNORM;
            } else {
                self.note_no_space();
                // A completion may have come before the flag was set.
                if self.is_writable(self.look(|inner| inner.held())) {
                    mask |= OUT | WRNORM;
                }
            }
            if view.urgent {
                mask |= PRI;
            }
        }
        // SAFETY: `sk` is valid, and the question is asked of a single word.
        if self.err() != 0 || unsafe { ffi::sdp_has_notices(self.sk()) } {
            mask |= ERR;
        }
        mask
    }

    /// SO_RCVLOWAT. The waiting bytes may suffice with the new value. With `lock_sock`.
    /// A BPF program that sets it may not sleep, so nothing is checked there.
    pub(crate) fn set_low_water_mark(&self, bytes: c_int) {
        self.set_rcvlowat(bytes);
        // SAFETY: A plain question about the current task.
        let is_bpf = unsafe { ffi::sdp_is_bpf() };
        if is_bpf || self.poll() & IN != 0 {
            self.wake_readable();
        }
    }

    /// As `sk_stream_is_writeable`: a third of the buffer is free.
    fn is_writable(&self, held: u32) -> bool {
        let size = self.sndbuf();
        held < size && size.wrapping_sub(held) >= held / 2
    }

    pub(super) fn is_ipv4(&self) -> bool {
        self.look(|inner| inner.family == Family::V4)
    }

    /// SIOCINQ, SIOCOUTQ, SIOCOUTQNSD, SIOCATMARK. With no lock held, and from
    /// io_uring.
    pub(crate) fn ioctl(&self, command: u32) -> Result<i32> {
        let listening = self.tcp_state() == ffi::TCP_LISTEN;
        let value = match command {
            ffi::SIOCINQ => {
                if listening {
                    return Err(EINVAL);
                }
                let inline = self.flag(ffi::sock_flags_SOCK_URGINLINE);
                self.tend_for_poll(|inner| inner.readable(inline))
            }
            ffi::SIOCATMARK => self.look(|inner| u64::from(inner.recv.at_mark())),
            ffi::SIOCOUTQ => {
                if listening {
                    return Err(EINVAL);
                }
                self.reap();
                self.look(|inner| u64::from(inner.send.held()))
            }
            ffi::SIOCOUTQNSD => {
                if listening {
                    return Err(EINVAL);
                }
                self.look(|inner| inner.engine.as_ref().map_or(0, |e| u64::from(e.unsent())))
            }
            _ => return Err(ENOIOCTLCMD),
        };
        Ok(i32::try_from(value).unwrap_or(i32::MAX))
    }
}

impl Inner {
    /// Bytes that poll(2) counts: received ones, and those that the peer offers to be
    /// read. Received ones may belong behind those that another reader waits for.
    fn waiting(&self, inline: bool) -> u64 {
        if self.turns.read.is_taken() {
            return 0;
        }
        self.recv
            .beyond_urgent(inline)
            .saturating_add(self.remote_len())
    }

    /// Bytes that SIOCINQ counts.
    fn readable(&self, inline: bool) -> u64 {
        let here = self.recv.readable(inline);
        if here == self.recv.len() {
            here.saturating_add(self.remote_len())
        } else {
            here
        }
    }

    /// Unread bytes, including the urgent one.
    pub(super) fn left(&self) -> u64 {
        self.recv.len().saturating_add(self.remote_len())
    }

    /// Bytes that count against a writer.
    fn held(&self) -> u32 {
        if self.turns.write.is_taken() || self.send.is_starved() {
            u32::MAX
        } else {
            self.charged()
        }
    }
}
