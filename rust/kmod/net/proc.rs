// SPDX-License-Identifier: GPL-2.0

//! `/proc/net/sdp` and `/proc/net/sdpstats`.
//!
//! The first has the columns of `/proc/net/tcp` that tools of old SDP read; a
//! socket with IPv6 names shows them as `/proc/net/tcp6` does. Contexts: may
//! sleep, no lock held.

use crate::{
    ffi,
    net::NetState, //
};
use kernel::{
    prelude::*,
    seq_file::SeqFile,
    seq_print, //
};

/// # Safety
///
/// Called by seq_file for one of our files.
unsafe fn state_of<'a>(m: *mut ffi::core::seq_file) -> (&'a SeqFile, &'a NetState) {
    // SAFETY: An open file of a namespace keeps it alive.
    unsafe {
        (
            SeqFile::from_raw(m),
            NetState::of(ffi::sdp_seq_net(m.cast())),
        )
    }
}

/// The socket table.
///
/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
pub(crate) unsafe extern "C" fn sockets_cb(m: *mut ffi::seq_file, _v: *mut c_void) -> c_int {
    // SAFETY: See `state_of`.
    let (m, net) = unsafe { state_of(m.cast()) };
    seq_print!(
        m,
        "  sl  local_address rem_address   st tx_queue rx_queue   uid  inode\n"
    );
    let mut line = 0u32;
    let mut at = 0usize;
    while let Some((key, sock)) = net.next_socket(at) {
        at = key;
        let (local, peer, tx, rx) =
            sock.look(|inner| (inner.local, inner.peer, inner.send.held(), inner.recv.len()));
        // SAFETY: Plain questions about a referenced socket.
        let (uid, inode) =
            unsafe { (ffi::sdp_sock_uid(sock.sk()), ffi::sdp_sock_inode(sock.sk())) };
        seq_print!(
            m,
            "{:4}: {} {} {:02X} {:08X}:{:08X} {:5} {}\n",
            line,
            local,
            peer,
            sock.tcp_state(),
            tx,
            rx,
            uid,
            inode
        );
        line = line.wrapping_add(1);
    }
    0
}

/// The counters, a name and a value on each line.
///
/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
pub(crate) unsafe extern "C" fn stats_cb(m: *mut ffi::seq_file, _v: *mut c_void) -> c_int {
    // SAFETY: See `state_of`.
    let (m, net) = unsafe { state_of(m.cast()) };
    let mut show = |name: &str, value: i64| seq_print!(m, "{} {}\n", name, value);
    net.stats.each(&mut show);
    net.traffic.each(&mut show);
    0
}
