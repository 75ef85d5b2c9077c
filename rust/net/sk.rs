// SPDX-License-Identifier: GPL-2.0

//! `struct sock`: what the core knows of a socket.
//!
//! C header: [`include/net/sock.h`](srctree/include/net/sock.h)
//!
//! Contexts: any, unless a method says otherwise. Locks: each method says which one its
//! word needs.

use crate::{
    calls::calls,
    ffi,
    net::{
        namespace::Namespace,
        task::is_killed, //
    },
    prelude::*, //
};
use core::ptr::NonNull;
use kernel::{
    error::to_result,
    sync::aref::{
        ARef,
        AlwaysRefCounted, //
    },
    types::Opaque, //
};

/// `struct sock` and the rest of an Internet socket.
///
/// # Invariants
///
/// It is the beginning of an object of the module, and lies nowhere else.
#[repr(transparent)]
pub(crate) struct Sk(Opaque<ffi::rust_net_inet>);

// SAFETY: It is only used through C calls. Of its words, those that are changed by
// more than a whole store are changed with a lock that all who do so hold: `lock_sock`
// for what system calls change (`sk_flags`, `sk_frag`), or before other code knows the
// socket; the endpoint's for `sk_shutdown`, C's own for wait queues and references.
unsafe impl Send for Sk {}
// SAFETY: As for `Send`, which is about any number of threads at a time.
unsafe impl Sync for Sk {}

// SAFETY: `sock_hold` and `sock_put` count references to the allocation.
unsafe impl AlwaysRefCounted for Sk {
    fn inc_ref(&self) {
        // SAFETY: `&self` implies a reference.
        unsafe { ffi::rust_net_sock_hold(self.sk()) };
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up one reference.
        unsafe { ffi::rust_net_sock_put(obj.as_ref().sk()) };
    }
}

/// An object that begins with an [`Sk`]: a socket of one kind.
///
/// # Safety
///
/// It begins with the `Sk`, to which it dereferences, and lives as long.
pub(crate) unsafe trait Object:
    Sized + AlwaysRefCounted + core::ops::Deref<Target = Sk> + Send + Sync
{
    /// The object that begins with a `struct sock`.
    ///
    /// # Safety
    ///
    /// `sk` is the beginning of such an object, and stays referenced for `'a`.
    unsafe fn from_sk<'a>(sk: *mut ffi::sock) -> &'a Self {
        // SAFETY: It is there for `'a`, by the caller's promise.
        unsafe { &*sk.cast() }
    }
}

/// A counted reference to a socket. Dropping the last one frees it, which may
/// sleep: drop outside of locks.
#[derive(Clone)]
pub(crate) struct SkRef(ARef<Sk>);

impl core::ops::Deref for SkRef {
    type Target = Sk;

    fn deref(&self) -> &Sk {
        &self.0
    }
}

impl SkRef {
    /// A reference, unless the last one is already gone.
    ///
    /// # Safety
    ///
    /// The memory of `sk` has not been freed.
    pub(crate) unsafe fn try_get(sk: *const Sk) -> Option<Self> {
        let sk = NonNull::new(sk.cast_mut())?;
        // SAFETY: The counter is there, by the caller's promise. No Rust reference yet: the
        // socket may be on its way out.
        unsafe { ffi::rust_net_sock_hold_unless_zero(sk.as_ptr().cast()) }.then(|| {
            // SAFETY: The reference was taken just above.
            Self(unsafe { ARef::from_raw(sk) })
        })
    }

    /// Takes over a reference.
    ///
    /// # Safety
    ///
    /// The caller owns a reference and gives it up.
    pub(crate) unsafe fn from_owned(sk: NonNull<Sk>) -> Self {
        // SAFETY: The caller has promised to own the reference.
        Self(unsafe { ARef::from_raw(sk) })
    }

    /// The reference as a pointer, still owned by the caller.
    pub(crate) fn into_owned(self) -> NonNull<Sk> {
        ARef::into_raw(self.0)
    }
}

/// `lock_sock`, held.
///
/// # Invariants
///
/// It was taken, and no other code gives it back.
pub(crate) struct Guard<'a>(&'a Sk);

impl core::ops::Deref for Guard<'_> {
    type Target = Sk;

    fn deref(&self) -> &Sk {
        self.0
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // SAFETY: It is held, by the invariant.
        unsafe { ffi::release_sock(self.0.sk()) };
    }
}

impl Sk {
    /// Takes `lock_sock`, which serialises the system calls on a socket. Sleeps.
    pub(crate) fn lock(&self) -> Guard<'_> {
        self.take_lock();
        // INVARIANT: taken just above.
        Guard(self)
    }

    /// As [`lock`](Self::lock), but `None` if another task has it. Does not sleep.
    pub(crate) fn try_lock(&self) -> Option<Guard<'_>> {
        // INVARIANT: taken just here.
        self.take_free_lock().then(|| Guard(self))
    }

    pub(crate) fn sk(&self) -> *mut ffi::sock {
        self.0.get().cast()
    }

    /// The namespace, which the socket holds.
    pub(crate) fn namespace(&self) -> &Namespace {
        // SAFETY: `sk` is valid.
        unsafe { Namespace::of_sock(self.sk()) }
    }

    /// Takes the pending error: `Err` with it, or `Ok`. A call that is killed leaves it to other
    /// programs with the socket, and ends with EINTR instead.
    pub(crate) fn take_err(&self) -> Result {
        if self.err() != 0 && is_killed() {
            return Err(EINTR);
        }
        to_result(self.exchange_err())
    }

    /// Takes the pending error of a connection that the caller forgets. No other program is to see
    /// that error any more, so a call that is killed takes it as well.
    pub(crate) fn forget_err(&self) -> Option<Error> {
        to_result(self.exchange_err()).err()
    }

    pub(crate) fn set_err(&self, errno: Error) {
        self.write_err(-errno.to_errno());
    }

    pub(crate) fn shutdown_bits(&self) -> u32 {
        self.read_shutdown() as u32
    }

    /// Adds bits. Callers have a lock in common: of two calls at a time one may be lost.
    pub(crate) fn add_shutdown(&self, bits: u32) {
        self.write_shutdown(bits as c_int);
    }

    /// One of `TCP_*`.
    pub(crate) fn tcp_state(&self) -> u32 {
        self.read_state() as u32
    }

    pub(crate) fn set_tcp_state(&self, state: u32) {
        self.write_state(state as c_int);
    }

    /// SO_SNDBUF, doubled.
    pub(crate) fn sndbuf(&self) -> u32 {
        u32::try_from(self.read_sndbuf()).unwrap_or(0)
    }

    /// Makes the send buffer larger, unless the program has set its size.
    pub(crate) fn grow_sndbuf(&self, bytes: u32) {
        self.expand_sndbuf(c_int::try_from(bytes).unwrap_or(c_int::MAX));
    }

    /// SO_RCVBUF, doubled.
    pub(crate) fn rcvbuf(&self) -> u32 {
        u32::try_from(self.read_rcvbuf()).unwrap_or(0)
    }

    /// SO_LINGER: the jiffies for which close(2) waits.
    pub(crate) fn linger(&self) -> Option<usize> {
        let mut jiffies = 0;
        let lingers = self.read_linger(&mut jiffies);
        lingers.then_some(jiffies)
    }

    /// The error with which a sendmsg(2) ends that was to end with `errno`: for EPIPE the
    /// pending error, or SIGPIPE as well. A call that is killed leaves the error to other programs
    /// with the socket.
    pub(crate) fn send_error(&self, flags: u32, errno: Error) -> Error {
        if is_killed() {
            return EINTR;
        }
        // SAFETY: `sk` is valid. The signal is for the current task.
        let errno = unsafe { ffi::sk_stream_error(self.sk(), flags as c_int, errno.to_errno()) };
        Error::from_errno(errno)
    }
}

// The blocks differ in what is true of their functions. `sk` is valid in all of them, by the
// invariant.

// SAFETY: Each function reads one word of `sk` at a time, and words of its namespace, which it
// holds.
calls! { unsafe {
    impl Sk, |me| me.sk();
    /// The pending error as a number, or 0.
    pub(crate) fn err() -> c_int = rust_net_get_err;
    fn read_shutdown() -> c_int = rust_net_get_shutdown;
    fn read_state() -> c_int = rust_net_get_state;
    /// One of `SOCK_*` of `enum sock_flags`.
    pub(crate) fn flag(flag: c_uint) -> bool = rust_net_sock_flag;
    fn read_linger(jiffies: &mut c_ulong) -> bool = rust_net_sock_linger;
    fn read_sndbuf() -> c_int = rust_net_get_sndbuf;
    fn read_rcvbuf() -> c_int = rust_net_get_rcvbuf;
    /// Whether the program has set SO_RCVBUF.
    pub(crate) fn has_own_rcvbuf() -> bool = rust_net_has_own_rcvbuf;
    /// SO_SNDTIMEO in jiffies, 0 for a call that must not wait.
    pub(crate) fn send_timeout(nonblock: bool) -> isize = rust_net_sock_sndtimeo;
    /// SO_RCVTIMEO in jiffies, 0 for a call that must not wait.
    pub(crate) fn receive_timeout(nonblock: bool) -> isize = rust_net_sock_rcvtimeo;
    /// How many bytes a recvmsg(2) of `len` bytes waits for: SO_RCVLOWAT, or all.
    pub(crate) fn low_water_mark(all: bool, len: c_int) -> c_int = rust_net_sock_rcvlowat;
    /// SO_PEEK_OFF, or -1.
    pub(crate) fn peek_off() -> c_int = rust_net_peek_offset;
    /// SO_REUSEADDR.
    pub(crate) fn reuse() -> bool = rust_net_sock_reuse;
    /// SO_REUSEPORT.
    pub(crate) fn reuseport() -> bool = rust_net_sock_reuseport;
    /// The interface of SO_BINDTODEVICE, or 0.
    pub(crate) fn device() -> c_int = rust_net_sock_device;
    /// SO_BUSY_POLL in microseconds, or 0.
    pub(crate) fn own_busy_poll_us() -> c_uint = rust_net_busy_poll_us;
    /// The number of disconnects while a task may have waited for the peer.
    pub(crate) fn disconnects() -> c_int = rust_net_disconnects;
    /// The owner, as the owner of the namespace sees it.
    pub(crate) fn uid() -> c_uint = rust_net_sock_uid;
    /// The owner, as the first namespace sees it.
    pub(crate) fn kuid() -> c_uint = rust_net_sock_kuid;
    /// The number of its file, or 0.
    pub(crate) fn inode() -> c_ulong = rust_net_sock_inode;
}}

// SAFETY: Each function stores one word of `sk` that is a number, which Rust and C read and store
// whole. Any number is allowed there.
calls! { unsafe {
    impl Sk, |me| me.sk();
    fn write_err(errno: c_int) = rust_net_set_err;
    fn write_shutdown(bits: c_int) = rust_net_set_shutdown;
    /// Nothing is shut down any more.
    pub(crate) fn clear_shutdown() = rust_net_clear_shutdown;
    fn write_state(state: c_int) = rust_net_set_state;
    /// Shows how much is to be sent.
    pub(crate) fn set_wmem_queued(bytes: c_int) = rust_net_set_wmem_queued;
    /// SO_RCVLOWAT, at most TCP's limit.
    pub(crate) fn set_rcvlowat(bytes: c_int) = rust_net_set_rcvlowat;
    /// SO_PEEK_OFF.
    pub(crate) fn set_peek_off(value: c_int) -> c_int = rust_net_set_peek_off;
    /// Binds it to a VRF, unless it is bound to an interface.
    pub(crate) fn enter_vrf(vrf: c_int) = rust_net_sock_enter_vrf;
    /// SO_INCOMING_CPU: this processor has handled the last message.
    pub(crate) fn note_processor() = rust_net_note_processor;
}}

// SAFETY: Each function changes one word in one step, in `sk` or, for `count_in_use`, in this
// processor's counters of its namespace, which it holds.
calls! { unsafe {
    impl Sk, |me| me.sk();
    fn exchange_err() -> c_int = rust_net_sock_error;
    fn expand_sndbuf(bytes: c_int) = rust_net_grow_sndbuf;
    /// Changes the number of sockets in /proc/net/protocols.
    pub(crate) fn count_in_use(by: c_int) = rust_net_prot_inuse_add;
}}

// SAFETY: Each function looks under RCU at what the socket may have: its file, its wait queue, its
// interface.
calls! { unsafe {
    impl Sk, |me| me.sk();
    /// The VRF with its ports, or 0.
    pub(crate) fn vrf() -> c_int = rust_net_sock_vrf;
    /// Whether news reaches a waiter that is in no call.
    pub(crate) fn is_watched() -> bool = rust_net_is_watched;
    /// Whether [`wake_pollers`](Sk::wake_pollers) would reach every waiter that has to know that
    /// there may be news. Without `readers` there is only room, for writers that wait for it. False
    /// if there are no pollers, or if another waiter has to be told as well. Any context.
    pub(crate) fn are_pollers_enough(readers: bool) -> bool = rust_net_are_pollers_enough;
    /// A writer has found no room: the next wake-up of writers is wanted.
    pub(crate) fn note_no_space() = rust_net_note_no_space;
    /// Pollers are to look, by their poll(), whether there are news. Any context.
    pub(crate) fn wake_pollers() = rust_net_wake_pollers;
    /// Tasks that sleep in a call are to look again; pollers are not.
    pub(crate) fn wake_sleepers() = rust_net_wake_sleepers;
}}

// SAFETY: Each function takes a lock of `sk` itself: `lock_sock`, or `sk_callback_lock`, under
// which the file stays.
calls! { unsafe {
    impl Sk, |me| me.sk();
    fn take_lock() = rust_net_lock_sock;
    fn take_free_lock() -> bool = rust_net_try_lock_sock;
    /// There is room to write, if a writer has asked for it.
    pub(crate) fn wake_writable() = rust_net_wake_writable;
    /// There is a byte out of band.
    pub(crate) fn wake_urgent() = rust_net_wake_urgent;
}}

// The other wake-ups. The callbacks may be code of others, so a caller that has no lock cannot
// block itself. A socket without a file has no task to wake.
// SAFETY: Each function calls a callback of `sk`, which `rust_net_sock_init` has set, and which
// copes with any context up to softirq, and with a socket without a file; then it may look at the
// file's queue of SIGIO under RCU.
calls! { unsafe {
    impl Sk, |me| me.sk();
    /// There is something to read, or to accept.
    pub(crate) fn wake_readable() = rust_net_wake_readable;
    /// The state has changed.
    pub(crate) fn wake_state() = rust_net_wake_state;
    /// A connection is established.
    pub(crate) fn wake_connected() = rust_net_wake_connected;
    /// One direction has ended, or both.
    pub(crate) fn wake_hangup() = rust_net_wake_hangup;
    /// There is a pending error.
    pub(crate) fn wake_error() = rust_net_wake_error;
}}

// SAFETY: `sk` is valid, and locked by the invariant, which is what each function asks for.
calls! { unsafe {
    impl Guard<'_>, |me| me.0.sk();
    /// A peek moves the offset of SO_PEEK_OFF forward, a read moves it back.
    pub(crate) fn move_peek_off(peeked: bool, by: c_int) = rust_net_peek_moved;
    /// Counts a disconnect.
    pub(crate) fn note_disconnect() = rust_net_note_disconnect;
    /// Gives the file up: the socket has none any more.
    pub(crate) fn orphan() = rust_net_sock_orphan;
}}
