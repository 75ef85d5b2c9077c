// SPDX-License-Identifier: GPL-2.0

//! Delayed work of a socket.
//!
//! A queued alarm holds a reference to its socket, which the worker drops. `object` sets alarms,
//! and `events` has the handler of each.
//!
//! Contexts: setting never sleeps; handlers run in the module's workqueue and may sleep.

use crate::{
    ffi,
    prelude::*, //
};
use core::{
    cell::UnsafeCell,
    ptr::NonNull, //
};
use kernel::{
    sync::aref::{
        ARef,
        AlwaysRefCounted, //
    },
    types::Opaque, //
};

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
    /// The transport reports that the peer has begun to send.
    Notify,
    /// A DREQ may have been answered by now.
    Parting,
    /// A Hello has not been answered for so long that TCP's attempt begins beside SDP's, or that
    /// attempt may have ended.
    Race,
    /// Retired links must be destroyed.
    Reap,
    /// There was no memory for receive buffers, for bytes to send, or to post a request.
    Refill,
    /// SO_KEEPALIVE has been set.
    Switched,
    /// Bytes may have waited for longer than TCP_USER_TIMEOUT.
    UserTimeout,
}

/// A socket that alarms belong to.
///
/// # Safety
///
/// Its [`Alarms`] lie in it at the offset `ALARMS`, and were made by `Alarms::new::<Self>`.
pub(crate) unsafe trait Owner: AlwaysRefCounted {
    /// Where its alarms lie.
    const ALARMS: usize;

    /// `alarm` has gone off. May sleep.
    fn on_alarm(&self, alarm: Alarm);
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
    notify: Opaque<ffi::core::delayed_work>,
    #[pin]
    parting: Opaque<ffi::core::delayed_work>,
    #[pin]
    race: Opaque<ffi::core::delayed_work>,
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
    pub(crate) fn new<O: Owner>() -> impl PinInit<Self> {
        pin_init!(Self {
            attend <- work(Some(attend_cb::<O>)),
            engine <- work(Some(engine_cb::<O>)),
            idle <- work(Some(idle_cb::<O>)),
            keepalive <- work(Some(keepalive_cb::<O>)),
            notify <- work(Some(notify_cb::<O>)),
            parting <- work(Some(parting_cb::<O>)),
            race <- work(Some(race_cb::<O>)),
            reap <- work(Some(reap_cb::<O>)),
            refill <- work(Some(refill_cb::<O>)),
            switched <- work(Some(switched_cb::<O>)),
            user_timeout <- work(Some(user_timeout_cb::<O>)),
        })
    }

    /// The work of `alarm`, which is initialised.
    pub(crate) fn work(&self, alarm: Alarm) -> *mut ffi::core::delayed_work {
        match alarm {
            Alarm::Attend => self.attend.get(),
            Alarm::Engine => self.engine.get(),
            Alarm::Idle => self.idle.get(),
            Alarm::Keepalive => self.keepalive.get(),
            Alarm::Notify => self.notify.get(),
            Alarm::Parting => self.parting.get(),
            Alarm::Race => self.race.get(),
            Alarm::Reap => self.reap.get(),
            Alarm::Refill => self.refill.get(),
            Alarm::Switched => self.switched.get(),
            Alarm::UserTimeout => self.user_timeout.get(),
        }
    }
}

/// The socket of a work item, with the reference that the item held.
///
/// # Safety
///
/// `work` is the work of the alarm at the offset `field` of the [`Alarms`] of an `O`, and has just
/// started to run.
unsafe fn owner<O: Owner>(work: *mut ffi::core::work_struct, field: usize) -> ARef<O> {
    let offset = O::ALARMS + field + core::mem::offset_of!(ffi::core::delayed_work, work);
    // SAFETY: The item is inside of a socket at this offset, by the promises of the caller and of
    // `Owner`, so this is never null. `Sock::set_alarm` left a reference for us.
    unsafe { ARef::from_raw(NonNull::new_unchecked(work.byte_sub(offset).cast())) }
}

macro_rules! callbacks {
    ($($callback:ident: $field:ident, $alarm:ident;)*) => {
        $(
            /// # Safety
            ///
            /// Called from C, with the arguments that the slot it stands in promises.
            unsafe extern "C" fn $callback<O: Owner>(work: *mut ffi::core::work_struct) {
                // SAFETY: `Alarms::new::<O>` has set the work at this offset to call this.
                let owner = unsafe { owner::<O>(work, core::mem::offset_of!(Alarms, $field)) };
                owner.on_alarm(Alarm::$alarm);
            }
        )*
    };
}

callbacks! {
    attend_cb: attend, Attend;
    engine_cb: engine, Engine;
    idle_cb: idle, Idle;
    keepalive_cb: keepalive, Keepalive;
    notify_cb: notify, Notify;
    parting_cb: parting, Parting;
    race_cb: race, Race;
    user_timeout_cb: user_timeout, UserTimeout;
    reap_cb: reap, Reap;
    refill_cb: refill, Refill;
    switched_cb: switched, Switched;
}

struct QueuePtr(UnsafeCell<*mut ffi::core::workqueue_struct>);
// SAFETY: Written by the registration before sockets exist.
unsafe impl Sync for QueuePtr {}
static QUEUE: QueuePtr = QueuePtr(UnsafeCell::new(core::ptr::null_mut()));

/// The workqueue of all alarms.
pub(crate) fn queue() -> *mut ffi::core::workqueue_struct {
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
