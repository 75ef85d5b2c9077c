// SPDX-License-Identifier: GPL-2.0

//! A socket: `struct sock` and the endpoint behind it in one allocation.
//!
//! Locks, in the order taken: `lock_sock` (serialises the system calls of one
//! socket, released while waiting; of the workers only the one that
//! tries again to resolve a peer takes it), then
//! [`Sock::inner`] (everything else; held for short times, never across a copy
//! from or to user memory, never two of them at once), then the innermost ones
//! of `net` and `verbs`.

use crate::{
    addr::Family,
    alarm,
    endpoint::Inner,
    ffi,
    link::attendance::Attendance,
    net::{
        stats::{
            Counter,
            Traffic, //
        },
        NetState, //
    },
    prelude::*,
    proto,
    sk::{
        Sk,
        SkRef, //
    },
    verbs::{
        domain::User,
        lease::Holder, //
    },
    wake, //
};
use core::ptr::NonNull;
use kernel::{
    new_mutex,
    sync::{
        aref::{
            ARef,
            AlwaysRefCounted, //
        },
        Mutex, //
    },
};

/// One socket.
///
/// # Invariants
///
/// `sk` was made by `sk_alloc` with this type's size, and `body` is
/// initialised from `create` until `destruct_cb`.
#[repr(C)]
pub(crate) struct Sock {
    sk: Sk,
    body: Body,
}

/// This module's state of a socket.
#[pin_data]
pub(crate) struct Body {
    #[pin]
    inner: Mutex<Inner>,
    #[pin]
    alarms: alarm::Alarms,
    #[pin]
    settled: wake::Settled,
    #[pin]
    starting: Mutex<()>,
    attendance: Attendance,
    traffic: Traffic,
}

const _: () = {
    const fn is_for_all_threads<T: Send + Sync>() {}
    is_for_all_threads::<Sock>();
};

// SAFETY: The references are those to the `sk` that a socket begins with, and count for
// the whole allocation.
unsafe impl AlwaysRefCounted for Sock {
    fn inc_ref(&self) {
        self.sk.inc_ref();
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up one reference.
        unsafe { Sk::dec_ref(obj.cast()) };
    }
}

impl core::ops::Deref for Sock {
    type Target = Sk;

    fn deref(&self) -> &Sk {
        &self.sk
    }
}

/// A counted reference to a socket. Dropping the last one frees it, which may
/// sleep: drop outside of locks.
#[derive(Clone)]
pub(crate) struct SockRef(ARef<Sock>);

impl core::ops::Deref for SockRef {
    type Target = Sock;

    fn deref(&self) -> &Sock {
        &self.0
    }
}

impl SockRef {
    /// Another reference to `sock`.
    pub(crate) fn of(sock: &Sock) -> Self {
        Self(sock.into())
    }

    /// Takes over a reference.
    ///
    /// # Safety
    ///
    /// The caller owns a reference and gives it up.
    pub(crate) unsafe fn from_owned(sock: NonNull<Sock>) -> Self {
        // SAFETY: The caller has promised to own the reference.
        Self(unsafe { ARef::from_raw(sock) })
    }

    /// The reference as a pointer, still owned by the caller.
    pub(crate) fn into_owned(self) -> NonNull<Sock> {
        ARef::into_raw(self.0)
    }
}

impl Holder for SockRef {
    fn user(&self) -> User {
        Sock::user(self)
    }
}

impl From<SkRef> for SockRef {
    fn from(sk: SkRef) -> Self {
        // SAFETY: An `Sk` is the beginning of a `Sock`, by its invariant, and its reference
        // goes over.
        unsafe { Self::from_owned(sk.into_owned().cast()) }
    }
}

impl Sock {
    /// Makes a socket in `net`. `parent` is null for a connection that waits to
    /// be accepted. The result carries the one reference that belongs to the
    /// socket's user.
    ///
    /// # Safety
    ///
    /// `net` is alive. `parent` is null, or a socket that nobody but the caller uses yet; its
    /// `sk` becomes this one, or null in the error case.
    pub(crate) unsafe fn create(
        net: *mut ffi::net,
        parent: *mut ffi::core::socket,
        family: Family,
    ) -> Result<SockRef> {
        let prot = proto::proto();
        // SAFETY: The protocol is registered while the module can be called.
        let sk = unsafe {
            ffi::sk_alloc(
                net.cast(),
                ffi::AF_INET_SDP as c_int,
                ffi::core::GFP_KERNEL,
                prot,
                0,
            )
        };
        let sock: NonNull<Sock> = NonNull::new(sk.cast()).ok_or(ENOBUFS)?;
        // SAFETY: `sk_alloc` used our object size, so the body's place is ours
        // to initialise, and nothing moves it.
        let ready = unsafe { raw_try_init(&raw mut (*sock.as_ptr()).body, Body::new(family)) };
        if let Err(e) = ready {
            // SAFETY: Allocated above; `sk_destruct` is not set yet.
            unsafe { ffi::sk_free(sk) };
            return Err(e);
        }
        // SAFETY: `sk` is fresh and ours.
        unsafe { ffi::sdp_sock_init(parent, sk, Some(destruct_cb)) };
        // SAFETY: `sk_alloc` returned one reference.
        let sock = unsafe { SockRef::from_owned(sock) };
        if let Err(e) = sock.net().enlist(&sock) {
            if !parent.is_null() {
                // SAFETY: `sock_init_data` connected the two; undone before
                // the caller reports the error.
                unsafe {
                    ffi::sdp_sock_orphan(sk);
                    (*parent).sk = core::ptr::null_mut();
                }
            }
            return Err(e);
        }
        Ok(sock)
    }

    /// The socket behind a C pointer.
    ///
    /// # Safety
    ///
    /// `sk` was made by [`Sock::create`] and stays referenced for `'a`.
    pub(crate) unsafe fn from_sk<'a>(sk: *mut ffi::sock) -> &'a Sock {
        // SAFETY: `create` made it, and it is referenced for `'a`, by the caller's promise;
        // a `Sock` begins with its `sk`.
        unsafe { &*sk.cast() }
    }

    /// The namespace, alive as long as the socket.
    pub(crate) fn net(&self) -> &NetState {
        // SAFETY: A socket holds its namespace.
        unsafe { NetState::of(ffi::sdp_sock_net(self.sk())) }
    }

    /// The user of the socket, with its namespace.
    pub(crate) fn user(&self) -> User {
        // SAFETY: Plain questions about a valid socket.
        unsafe {
            let net = ffi::sdp_sock_net(self.sk());
            User {
                net: net.addr(),
                uid: ffi::sdp_sock_kuid(self.sk()),
            }
        }
    }

    pub(crate) fn alarms(&self) -> &alarm::Alarms {
        &self.body.alarms
    }

    pub(crate) fn settled(&self) -> &wake::Settled {
        &self.body.settled
    }

    /// Held while rdma_cm is told to resolve the peer; see [`crate::cm::resolve`].
    /// Taken with `lock_sock` held, or by a handler of the resolving identifier. No
    /// code that waits for such a handler runs under it.
    pub(crate) fn starting(&self) -> &Mutex<()> {
        &self.body.starting
    }

    /// The threads that take the completions of the socket's connection.
    pub(crate) fn attendance(&self) -> &Attendance {
        &self.body.attendance
    }

    /// The socket's counters since it was made.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.body.traffic
    }

    /// Adds `n` to a counter of the socket and of the namespace.
    pub(crate) fn count(&self, which: impl Fn(&Traffic) -> &Counter, n: u32) {
        if n == 0 {
            return;
        }
        which(&self.body.traffic).add(n);
        which(&self.net().traffic).add(n);
    }

    /// Reads the endpoint, or changes state that does not concern the engine.
    pub(crate) fn look<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        f(&mut self.body.inner.lock())
    }

    /// Changes the endpoint, carries out the engine's outputs, and delivers the
    /// wake-ups. May sleep.
    pub(crate) fn drive<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        self.visit(|inner| {
            let attends = inner.begin_attending(self);
            let result = f(inner);
            inner.settle(self);
            inner.end_attending(self, attends);
            result
        })
    }

    /// As `drive`, if `f` calls [`Inner::settle`] after each change.
    pub(crate) fn visit<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        let (result, wake) = {
            let mut inner = self.body.inner.lock();
            let result = f(&mut inner);
            (result, inner.take_wake())
        };
        wake.deliver(self);
        result
    }

    /// Serialises with the other system calls on this socket.
    pub(crate) fn lock(&self) -> CallGuard<'_> {
        // SAFETY: `sk` is valid as long as `self`, for which the guard borrows it.
        unsafe {
            ffi::sdp_lock_sock(self.sk());
            CallGuard::assume(self.sk())
        }
    }
}

/// `lock_sock` held.
pub(crate) struct CallGuard<'a> {
    sk: *mut ffi::sock,
    _sock: core::marker::PhantomData<&'a Sock>,
}

impl CallGuard<'_> {
    /// # Safety
    ///
    /// `lock_sock` was taken on `sk` and is handed over; the socket lives for
    /// the chosen lifetime.
    unsafe fn assume(sk: *mut ffi::sock) -> Self {
        Self {
            sk,
            _sock: core::marker::PhantomData,
        }
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: Taken by `Sock::lock`.
        unsafe { ffi::release_sock(self.sk) };
    }
}

impl Body {
    fn new(family: Family) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            inner <- new_mutex!(Inner::new(family), "sdp_endpoint"),
            alarms <- alarm::Alarms::new(),
            settled <- wake::Settled::new(),
            starting <- new_mutex!((), "sdp_starting"),
            attendance: Attendance::new(),
            traffic: Traffic::new(),
        })
    }
}

/// The last reference has been dropped.
///
/// # Safety
///
/// Called by `sk_destruct` once, on a socket of ours.
unsafe extern "C" fn destruct_cb(sk: *mut ffi::sock) {
    let sock: *mut Sock = sk.cast();
    // SAFETY: The memory is still there, and `body` initialised; nobody has a reference any
    // more. The namespace is released later.
    unsafe {
        (*sock).net().delist(&*sock);
        ffi::sdp_purge_notices(sk);
        ffi::sdp_sock_forget_options(sk);
        core::ptr::drop_in_place(&raw mut (*sock).body);
    }
}

/// The offset of the alarms in a socket, which leads from one to the other.
pub(crate) fn alarms_offset() -> usize {
    core::mem::offset_of!(Sock, body) + core::mem::offset_of!(Body, alarms)
}
