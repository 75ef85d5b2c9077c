// SPDX-License-Identifier: GPL-2.0

//! `/proc/net/sdp`, `/proc/net/sdpstats` and `/proc/net/sdppeers`.
//!
//! The first has the columns of `/proc/net/tcp` that tools of old SDP read; a
//! socket with IPv6 names shows them as `/proc/net/tcp6` does. Contexts: may
//! sleep, no lock held.

use crate::{
    engine::{
        policy::answers::Pair,
        types::Ip, //
    },
    ffi,
    net::{
        account,
        namespace::Namespace, //
    },
    netns::NetState,
    object::SockRef,
    prelude::*, //
};
use core::net::IpAddr;
use kernel::{
    fmt,
    seq_file::SeqFile,
    seq_print, //
};

/// # Safety
///
/// Called by seq_file for a file that is made in one piece.
unsafe fn state_of<'a>(m: *mut ffi::core::seq_file) -> (&'a SeqFile, &'a Namespace, &'a NetState) {
    // SAFETY: `m` is seq_file's, by the caller's promise, and is this call's alone; an open
    // file of a namespace keeps it alive.
    unsafe {
        let net = Namespace::of_single_file(m.cast());
        (SeqFile::from_raw(m), net, NetState::of(net.as_ptr()))
    }
}

/// Which socket comes after another one in the table, by numbers that mean nothing;
/// 0 is before the first and behind the last.
///
/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
pub(crate) unsafe extern "C" fn socket_after_cb(net: *mut ffi::net, socket: c_ulong) -> c_ulong {
    // SAFETY: An open file of a namespace keeps it alive.
    let net = unsafe { NetState::of(net) };
    net.next_socket(socket).unwrap_or(0)
}

/// A line of the socket table: one at a time, so that no reader needs memory for all.
///
/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
pub(crate) unsafe extern "C" fn socket_cb(
    m: *mut ffi::seq_file,
    net: *mut ffi::net,
    socket: c_ulong,
    line: c_uint,
) {
    // SAFETY: Called by seq_file; an open file of a namespace keeps it alive.
    let (m, net) = unsafe { (SeqFile::from_raw(m.cast()), NetState::of(net)) };
    // It may be gone.
    let Some(sock) = net.socket_at(socket).map(SockRef::from) else {
        return;
    };
    let (local, peer, tx, rx) =
        sock.look(|inner| (inner.local, inner.peer, inner.send.held(), inner.recv.len()));
    seq_print!(
        m,
        "{:4}: {} {} {:02X} {:08X}:{:08X} {:5} {}\n",
        line,
        local,
        peer,
        sock.tcp_state(),
        tx,
        rx,
        sock.uid(),
        sock.inode()
    );
}

/// The counters, a name and a value on each line.
///
/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
pub(crate) unsafe extern "C" fn stats_cb(m: *mut ffi::seq_file, _v: *mut c_void) -> c_int {
    // SAFETY: seq_file calls this, for a file that is made in one piece.
    let (m, _, net) = unsafe { state_of(m.cast()) };
    let mut show = |name: &str, value: i64| seq_print!(m, "{} {}\n", name, value);
    net.stats.each(&mut show);
    net.traffic.each(&mut show);
    net.held.each(&mut show);
    // Of all namespaces.
    show("memory_pages", account::pages() as i64);
    0
}

/// The answers of peers that a connect() which may use TCP goes by, one on each line: user, both addresses,
/// whether the peer speaks SDP, and the seconds for which that counts.
///
/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
pub(crate) unsafe extern "C" fn peers_cb(m: *mut ffi::seq_file, _v: *mut c_void) -> c_int {
    // SAFETY: seq_file calls this, for a file that is made in one piece.
    let (m, net, state) = unsafe { state_of(m.cast()) };
    state.each_answer(|answer, left_ms| {
        let Pair { user, own, peer } = answer.pair;
        seq_print!(
            m,
            "{} {} {} {} {}\n",
            net.uid_of(user),
            Readable(own),
            Readable(peer),
            if answer.speaks { "sdp" } else { "silent" },
            left_ms.div_ceil(1000)
        );
    });
    0
}

/// An address as people write it.
struct Readable(Ip);

impl fmt::Display for Readable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        core::fmt::Display::fmt(&IpAddr::from(self.0), f)
    }
}
