// SPDX-License-Identifier: GPL-2.0

//! A socket: `struct sock` and the endpoint behind it in one allocation.
//!
//! Locks, in the order taken:
//!
//! 1. `lock_sock` serialises the system calls of one socket, and is released while one waits.
//!    Few workers take it: to resolve a peer again, to fall back to TCP, to act on SO_KEEPALIVE.
//! 2. `Body::inner` protects everything else. It is held for short times, never while user memory
//!    is copied, and never two of them at once.
//! 3. The innermost ones, of `net` and `rdma`.

pub(crate) use crate::handle::SockRef;

use crate::{
    addr::Family,
    alarm::{
        queue,
        Alarm,
        Alarms, //
    },
    calls::calls,
    endpoint::Inner,
    engine::{
        policy::answers::Pair,
        types::Ip, //
    },
    ffi,
    link::attendance::Attendance,
    net::{
        family::Creation,
        namespace::Namespace,
        proto::Whole,
        sk::{
            Guard,
            Object,
            SkRef, //
        },
        wait::WaitQueue, //
    },
    netns::{
        stats::{
            Counter,
            Traffic, //
        },
        Home,
        NetState, //
    },
    prelude::*,
    rdma::{
        holdings::User,
        lease::Holder,
        noio::NoIo, //
    },
};
use core::ptr::NonNull;
use kernel::{
    new_mutex,
    sync::{
        aref::ARef,
        Mutex, //
    },
};

/// Milliseconds until a worker asks again for a socket that a system call owns.
const OWNED_MS: u32 = 20;

/// Delay before memory is requested again.
const REFILL_MS: u32 = 100;

/// One socket.
pub(crate) type Sock = Whole<Body>;

/// This module's state of a socket.
#[pin_data]
pub(crate) struct Body {
    net: Home,
    #[pin]
    inner: Mutex<Inner>,
    #[pin]
    alarms: Alarms,
    /// Callers with pinned memory: they may have to wait although a signal is pending.
    #[pin]
    settled: WaitQueue,
    attendance: Attendance,
    traffic: Traffic,
    /// The user that has made the socket, or its listener: this user's share of a device counts.
    creator: u32,
}

const _: () = {
    const fn is_for_all_threads<T: Send + Sync>() {}
    is_for_all_threads::<Sock>();
};

impl core::ops::Deref for SockRef {
    type Target = Sock;

    fn deref(&self) -> &Sock {
        // SAFETY: An `Sk` is the beginning of a `Sock`, by its invariant, and this references it.
        unsafe { Sock::from_sk(self.as_sk().sk()) }
    }
}

impl SockRef {
    /// Another reference to `sock`.
    pub(crate) fn of(sock: &Sock) -> Self {
        Self::from_aref(sock.into())
    }

    fn from_aref(sock: ARef<Sock>) -> Self {
        // SAFETY: The reference of `sock` goes over.
        unsafe { Self::from_owned(ARef::into_raw(sock)) }
    }

    /// Takes over a reference.
    ///
    /// # Safety
    ///
    /// The caller owns a reference and gives it up.
    pub(crate) unsafe fn from_owned(sock: NonNull<Sock>) -> Self {
        // SAFETY: A `Sock` begins with its `Sk`, and the caller has promised to own the reference,
        // which counts for both.
        unsafe { SkRef::from_owned(sock.cast()) }.into()
    }

    /// The same reference in the type of the kernel crate.
    pub(crate) fn into_aref(self) -> ARef<Sock> {
        // SAFETY: The reference goes over.
        unsafe { ARef::from_raw(self.into_owned()) }
    }

    /// The reference as a pointer, still owned by the caller.
    pub(crate) fn into_owned(self) -> NonNull<Sock> {
        // An `Sk` is the beginning of a `Sock`, by its invariant.
        self.into_sk().into_owned().cast()
    }
}

impl Holder for SockRef {
    fn user(&self) -> User {
        Sock::user(self)
    }

    fn payer(&self) -> User {
        User {
            uid: self.body().creator,
            ..Sock::user(self)
        }
    }
}

impl Sock {
    /// Makes a socket in `net`, of `parent` unless it waits to be accepted; then it is made for
    /// the user of `listener`. The result carries the one reference that belongs to the socket's
    /// user.
    pub(crate) fn create(
        net: &Namespace,
        mut parent: Option<&mut Creation<'_>>,
        listener: Option<&Sock>,
        family: Family,
    ) -> Result<SockRef> {
        let creator = match listener {
            Some(listener) => listener.body().creator,
            // SAFETY: A plain question about the current task.
            None => unsafe { ffi::sdp_responsible_user() },
        };
        // SAFETY: The socket holds its namespace.
        let body = Body::new(unsafe { Home::new(net) }, family, creator);
        let sock = SockRef::from_aref(Sock::new(net, parent.as_deref_mut(), body)?);
        // SAFETY: A new socket, which no other code knows.
        unsafe { ffi::sdp_sock_prepare(sock.sk()) };
        if let Err(e) = sock.net().enlist(&sock) {
            if let Some(parent) = parent {
                // `sock_init_data` has connected the two.
                sock.lock().orphan();
                parent.forget();
            }
            return Err(e);
        }
        Ok(sock)
    }

    /// The namespace, alive as long as the socket.
    pub(crate) fn net(&self) -> &NetState {
        &self.body().net
    }

    /// The user of the socket, with its namespace.
    pub(crate) fn user(&self) -> User {
        User {
            net: self.net().as_ptr().addr(),
            uid: self.kuid(),
        }
    }

    fn alarms(&self) -> &Alarms {
        &self.body().alarms
    }

    pub(crate) fn settled(&self) -> &WaitQueue {
        &self.body().settled
    }

    /// The threads that take the completions of the socket's connection.
    pub(crate) fn attendance(&self) -> &Attendance {
        &self.body().attendance
    }

    /// The socket's counters since it was made.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.body().traffic
    }

    /// Adds `n` to a counter of the socket and of the namespace.
    pub(crate) fn count(&self, which: impl Fn(&Traffic) -> &Counter, n: u32) {
        if n == 0 {
            return;
        }
        which(&self.body().traffic).add(n);
        which(&self.net().traffic).add(n);
    }

    /// Reads the endpoint, or changes state that does not concern the engine.
    pub(crate) fn look<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        // The worker of the completion queue may wait for the lock.
        let _noio = NoIo::new();
        f(&mut self.body().inner.lock())
    }

    /// Changes the endpoint and delivers the wake-ups; `f` calls [`Inner::settle`] after each
    /// change. May sleep.
    pub(crate) fn visit<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        let (result, wake) = {
            let _noio = NoIo::new();
            let mut inner = self.body().inner.lock();
            let result = f(&mut inner);
            (result, inner.take_wake())
        };
        if let Some(wake) = wake {
            wake.deliver(self);
        }
        result
    }
}

impl Sock {
    /// The ends by which an answer of `peer` is remembered.
    pub(crate) fn pair(&self, own: Ip, peer: Ip) -> Pair<Ip> {
        Pair {
            user: self.kuid(),
            own,
            peer,
        }
    }

    /// Sets `alarm` to go off after `msecs`, replacing an earlier setting.
    pub(crate) fn set_alarm(&self, alarm: Alarm, msecs: u32) {
        let holder = SockRef::of(self);
        // SAFETY: The queue lives as long as the module; the work is initialised, and lives as
        // long as the socket; it has a reference to that while it is pending.
        let was_pending = unsafe {
            ffi::sdp_mod_delayed_work(queue(), self.alarms().work(alarm), msecs as usize)
        };
        if !was_pending {
            // The work has it. Pending work already had one.
            let _ = holder.into_owned();
        }
    }

    /// Sets `alarm` to go off after `msecs`, unless it is set: a handler that runs
    /// later than this call sees what the caller has done before.
    pub(crate) fn set_alarm_once(&self, alarm: Alarm, msecs: u32) {
        let work = self.alarms().work(alarm);
        // SAFETY: The work is initialised. While its bit is set, its function has not
        // begun; the caller's changes have a full barrier behind them.
        if unsafe { ffi::sdp_is_delayed_work_pending(work) } {
            return;
        }
        let holder = SockRef::of(self);
        // SAFETY: As in `set_alarm`.
        if unsafe { ffi::sdp_queue_delayed_work(queue(), work, msecs as usize) } {
            // The work has it.
            let _ = holder.into_owned();
        }
    }

    /// Cancels `alarm`, if it has not gone off.
    pub(crate) fn clear_alarm(&self, alarm: Alarm) {
        // SAFETY: The work is initialised, and lives as long as the socket.
        let was_pending = unsafe { ffi::sdp_cancel_delayed_work(self.alarms().work(alarm)) };
        if was_pending {
            // SAFETY: It is the reference of the work, which will not run.
            drop(unsafe { SockRef::from_owned(NonNull::from(self)) });
        }
    }

    /// There is no memory for something that no later event would try again.
    pub(crate) fn refill_soon(&self) {
        self.set_alarm_once(Alarm::Refill, REFILL_MS);
    }

    /// `lock_sock` for the worker of `alarm`. While a call has it, `alarm` is set again, as
    /// TCP's timers are: a call that copies holds the lock until the program's memory has
    /// come, for as long as the owner of that memory likes, and the workers are few.
    pub(crate) fn lock_or_defer(&self, alarm: Alarm) -> Option<Guard<'_>> {
        let guard = self.try_lock();
        if guard.is_none() {
            self.set_alarm_once(alarm, OWNED_MS);
        }
        guard
    }
}

impl Body {
    fn new(net: Home, family: Family, creator: u32) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            net,
            inner <- new_mutex!(Inner::new(family), "sdp_endpoint"),
            alarms <- Alarms::new::<Sock>(),
            settled <- WaitQueue::new(),
            attendance: Attendance::new(),
            traffic: Traffic::new(),
            creator,
        })
    }
}

// SAFETY: The socket is valid. The function takes options and notices out of it, each once.
calls! { unsafe {
    impl Sock, |me| me.sk();
    /// Frees what C has stored in the socket. For its end.
    pub(crate) fn forget_stored() = sdp_sock_forget;
}}

/// The offset of the alarms in a socket, which leads from one to the other.
pub(crate) const ALARMS_OFFSET: usize = Sock::body_offset() + core::mem::offset_of!(Body, alarms);
