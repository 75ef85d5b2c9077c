// SPDX-License-Identifier: GPL-2.0

//! Delayed work of a socket.
//!
//! A queued alarm holds a reference to its socket, which the worker drops. Contexts:
//! setting never sleeps; handlers run in the module's workqueue and may sleep.

use crate::{
    ffi,
    net::sk::Guard,
    object::{
        self,
        Sock,
        SockRef, //
    },
    prelude::*, //
};
use core::{
    cell::UnsafeCell,
    ptr::NonNull, //
};
use kernel::types::Opaque;

/// The purpose of an alarm.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// A thread was told of completions and may not have taken them, or no event announces them.
    Attend,
    /// A timer of the engine, the next try to resolve the peer, or the fallback to TCP.
    Engine,
    /// The connection may have been idle for a while.
    Idle,
    /// The next keepalive probe.
    Keepalive,
    /// A region in the registration cache expires.
    Kept,
    /// The transport reports that the peer has begun to send.
    Notify,
    /// A DREQ may have been answered by now.
    Parting,
    /// Retired links must be destroyed.
    Reap,
    /// There was no memory for receive buffers, for bytes to send, or to post a request.
    Refill,
    /// SO_KEEPALIVE has been set.
    Switched,
    /// Bytes may have waited for longer than TCP_USER_TIMEOUT.
    UserTimeout,
}

/// The alarms of one socket.
#[pin_data]
pub(crate) struct Alarms {
    #[pin]
    attend: Opaque<ffi::core::delayed_work>,
    #[pin]
    engine: Opaque<ffi::core::delayed_work>,
    #[pin]
    idle: Opaque<ffi::core::delayed_work>,
    #[pin]
    keepalive: Opaque<ffi::core::delayed_work>,
    #[pin]
    kept: Opaque<ffi::core::delayed_work>,
    #[pin]
    notify: Opaque<ffi::core::delayed_work>,
    #[pin]
    parting: Opaque<ffi::core::delayed_work>,
    #[pin]
    reap: Opaque<ffi::core::delayed_work>,
    #[pin]
    refill: Opaque<ffi::core::delayed_work>,
    #[pin]
    switched: Opaque<ffi::core::delayed_work>,
    #[pin]
    user_timeout: Opaque<ffi::core::delayed_work>,
}

// SAFETY: A work item belongs to no thread.
unsafe impl Send for Alarms {}
// SAFETY: The workqueue changes work items by atomic bits and with locks of its own.
unsafe impl Sync for Alarms {}

fn work(func: ffi::core::work_func_t) -> impl PinInit<Opaque<ffi::core::delayed_work>> {
    // SAFETY: The place is initialised by the C call and never moves.
    Opaque::ffi_init(move |slot| unsafe { ffi::sdp_init_delayed_work(slot, func) })
}

impl Alarms {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            attend <- work(Some(attend_cb)),
            engine <- work(Some(engine_cb)),
            idle <- work(Some(idle_cb)),
            keepalive <- work(Some(keepalive_cb)),
            kept <- work(Some(kept_cb)),
            notify <- work(Some(notify_cb)),
            parting <- work(Some(parting_cb)),
            reap <- work(Some(reap_cb)),
            refill <- work(Some(refill_cb)),
            switched <- work(Some(switched_cb)),
            user_timeout <- work(Some(user_timeout_cb)),
        })
    }

    fn work(&self, alarm: Alarm) -> *mut ffi::core::delayed_work {
        match alarm {
            Alarm::Attend => self.attend.get(),
            Alarm::Engine => self.engine.get(),
            Alarm::Idle => self.idle.get(),
            Alarm::Keepalive => self.keepalive.get(),
            Alarm::Kept => self.kept.get(),
            Alarm::Notify => self.notify.get(),
            Alarm::Parting => self.parting.get(),
            Alarm::Reap => self.reap.get(),
            Alarm::Refill => self.refill.get(),
            Alarm::Switched => self.switched.get(),
            Alarm::UserTimeout => self.user_timeout.get(),
        }
    }
}

impl Sock {
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
}

/// Milliseconds until a worker asks again for a socket that a system call owns.
const OWNED_MS: u32 = 20;

impl Sock {
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

/// The socket of a work item, with the reference that the item held.
///
/// # Safety
///
/// `work` is the work of the alarm at the offset `field` of [`Alarms`], and has just started
/// to run.
unsafe fn owner(work: *mut ffi::core::work_struct, field: usize) -> SockRef {
    let offset =
        object::alarms_offset() + field + core::mem::offset_of!(ffi::core::delayed_work, work);
    // SAFETY: The item is inside of a socket at this offset, by the caller's promise, so this is
    // never null. `set_alarm` left a reference for us.
    unsafe { SockRef::from_owned(NonNull::new_unchecked(work.byte_sub(offset).cast())) }
}

macro_rules! callbacks {
    ($($callback:ident: $field:ident, $method:ident;)*) => {
        $(
            /// # Safety
            ///
            /// Called from C, with the arguments that the slot it stands in promises.
            unsafe extern "C" fn $callback(work: *mut ffi::core::work_struct) {
                // SAFETY: `Alarms::new` has set the work at this offset to call this.
                unsafe { owner(work, core::mem::offset_of!(Alarms, $field)) }.$method();
            }
        )*
    };
}

callbacks! {
    attend_cb: attend, alarm_attend;
    engine_cb: engine, alarm_engine;
    idle_cb: idle, alarm_idle;
    keepalive_cb: keepalive, alarm_keepalive;
    kept_cb: kept, alarm_kept;
    notify_cb: notify, alarm_notify;
    parting_cb: parting, alarm_parting;
    user_timeout_cb: user_timeout, alarm_user_timeout;
    reap_cb: reap, alarm_reap;
    refill_cb: refill, alarm_refill;
    switched_cb: switched, alarm_switched;
}

struct QueuePtr(UnsafeCell<*mut ffi::core::workqueue_struct>);
// SAFETY: Written by the registration before sockets exist.
unsafe impl Sync for QueuePtr {}
static QUEUE: QueuePtr = QueuePtr(UnsafeCell::new(core::ptr::null_mut()));

fn queue() -> *mut ffi::core::workqueue_struct {
    // SAFETY: Written once, before the first socket.
    unsafe { *QUEUE.0.get() }
}

/// The module's workqueue; dropping it waits for everything queued.
pub(crate) struct Workqueue(());

impl Workqueue {
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: The name is a C string.
        let wq = unsafe { ffi::sdp_alloc_workqueue(c"sdp".to_bytes_with_nul().as_ptr().cast()) };
        if wq.is_null() {
            return Err(ENOMEM);
        }
        // SAFETY: No socket exists yet.
        unsafe { *QUEUE.0.get() = wq.cast() };
        Ok(Self(()))
    }
}

impl Drop for Workqueue {
    fn drop(&mut self) {
        // SAFETY: No socket is left to queue anything.
        unsafe { ffi::core::destroy_workqueue(queue()) };
    }
}
