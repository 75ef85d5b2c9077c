// SPDX-License-Identifier: GPL-2.0

//! Whether one interface can be reached from another, and the device at the other end.
//!
//! Nothing is looked up. A frame is sent to the peer's hardware address, through the interface of
//! the source's GID, and the receiving device answers. So the network, with its bridges, VLANs and
//! filters, decides as for every other frame. While queue pairs use the result, the probe is
//! repeated. After three probes in a row without an answer, the peer is unreachable.
//!
//! On InfiniBand the frame is sent to the interface that has the LID. If only a GID is known, the
//! frame is a broadcast, which the owner of the GID answers.
//!
//! Contexts: [`Joint::join`] and [`Joint::leave`] sleep; the rest works in any.

use crate::{
    device::Device,
    ffi,
    irq_lock::{
        new_spinlock_irq,
        SpinLockIrq, //
    },
    prelude::*,
    task::{
        self,
        Run,
        Task, //
    },
};
use core::mem::offset_of;
use kernel::sync::Arc;

/// A path: source and destination. Holds the entry of the GID table.
///
/// # Invariants
///
/// `0` was filled by `rlo_av_init` or `rlo_av_search`, and not put.
pub(crate) struct Av(pub(crate) ffi::rlo_av);

// SAFETY: The table's entries are counted, and may be used from any thread.
unsafe impl Send for Av {}
// SAFETY: No part of a path that others read changes.
unsafe impl Sync for Av {}

impl Av {
    /// # Safety
    ///
    /// `attr` is valid, and its GID's entry held by the caller meanwhile; `device` is registered
    /// until the address is dropped.
    pub(crate) unsafe fn new(device: &Device, attr: *const ffi::rdma_ah_attr) -> Result<Self> {
        let mut av = ffi::rlo_av::default();
        // SAFETY: `attr` and its GID's entry are valid for the call, and the device's object until
        // the address is dropped, by the caller's promise.
        let made = unsafe { ffi::rlo_av_init(&mut av, device.object(), attr) };
        kernel::error::to_result(made)?;
        Ok(Self(av))
    }

    /// The path to the owner of a GID, from an InfiniBand port.
    ///
    /// # Safety
    ///
    /// `device` is registered until the address is dropped.
    pub(crate) unsafe fn search(device: &Device, dgid: [u8; 16]) -> Self {
        let mut av = ffi::rlo_av::default();
        let dgid = ffi::ib_gid { raw: dgid };
        // SAFETY: The device's object is valid until the address is dropped, by the caller's
        // promise; the rest is ours.
        unsafe { ffi::rlo_av_search(&mut av, device.object(), &dgid) };
        Self(av)
    }

    pub(crate) fn is_infiniband(&self) -> bool {
        self.0.slid != 0
    }

    /// Whether it leads back to its own interface.
    pub(crate) fn is_own(&self) -> bool {
        if self.is_infiniband() {
            return self.0.slid == self.0.dlid;
        }
        self.0.smac == self.0.dmac
    }

    /// Whether it leads to a group.
    pub(crate) fn is_multicast(&self) -> bool {
        self.is_infiniband() && is_multicast(self.0.dlid)
    }

    /// Whether it leads to the subnet administrator.
    pub(crate) fn is_administrator(&self) -> bool {
        self.is_infiniband() && u32::from(self.0.dlid) == ffi::RLO_LID_SM
    }

    pub(crate) fn sgid(&self) -> [u8; 16] {
        // SAFETY: Every bit pattern is a GID.
        unsafe { self.0.sgid.raw }
    }

    pub(crate) fn dgid(&self) -> [u8; 16] {
        // SAFETY: Every bit pattern is a GID.
        unsafe { self.0.dgid.raw }
    }

    /// Whether frames along `other` come from this path's destination.
    pub(crate) fn is_reverse_of(&self, other: &Self) -> bool {
        if self.is_infiniband() {
            return self.0.slid == other.0.dlid && self.0.dlid == other.0.slid;
        }
        self.sgid() == other.dgid() && self.dgid() == other.sgid() && self.0.dmac == other.0.smac
    }
}

impl Drop for Av {
    fn drop(&mut self) {
        // SAFETY: It was filled by `rlo_av_init`, and is put once.
        unsafe { ffi::rlo_av_put(&mut self.0) }
    }
}

/// Whether a LID is that of a group.
pub(crate) fn is_multicast(lid: u16) -> bool {
    (ffi::RLO_LID_MULTICAST..ffi::RLO_LID_PERMISSIVE).contains(&u32::from(lid))
}

/// Between the first probes, in nanoseconds; doubled until `SLOW`.
const FAST: u64 = 10_000_000;
const SLOW: u64 = 1_000_000_000;
const PATIENCE: u32 = 3;
const UNUSED: u32 = 2;

struct State {
    peer: Option<Arc<Device>>,
    /// Probes without an answer since the last answer.
    unanswered: u32,
    interval: u64,
    /// Queue pairs that use it. Without users there are no probes.
    users: usize,
    /// How often the task has found no users. The second time it asks for the end of the joint.
    unused: u32,
}

/// What a new user of a known joint has to do.
pub(crate) struct Reuse {
    /// To ask again whether the peer is there.
    asks: bool,
    /// A device that is gone, whose last reference may not be dropped under a lock.
    _lost: Option<Arc<Device>>,
}

/// A path from one of our interfaces to a hardware address.
#[pin_data]
pub(crate) struct Joint {
    pub(crate) av: Av,
    nonce: u64,
    /// Our own device, for the counters. It outlives its queue pairs, and these outlive the joint's
    /// task.
    device: Arc<Device>,
    #[pin]
    state: SpinLockIrq<State>,
    #[pin]
    task: Task<Joint>,
}

// SAFETY: The offset is that of the field. `leave` stops the task of a joint that was kicked.
unsafe impl Run for Joint {
    const TASK_OFFSET: usize = offset_of!(Joint, task);

    fn run(&self) {
        let (wait, lost) = {
            let mut guard = self.state.lock();
            let state = &mut *guard;
            if state.users == 0 {
                state.unused += 1;
                let over = state.unused >= UNUSED;
                drop(guard);
                if over {
                    self.device.joints.on_unused();
                } else {
                    self.task.kick_after(SLOW);
                }
                return;
            }
            let mut lost = None;
            if state.unanswered >= PATIENCE {
                lost = state.peer.take();
            }
            state.unanswered = state.unanswered.saturating_add(1);
            state.interval = match state.peer {
                Some(_) => SLOW,
                None => (state.interval * 2).clamp(FAST, SLOW),
            };
            (state.interval, lost)
        };
        drop(lost);
        self.ask();
        self.task.kick_after(wait);
    }
}

impl Joint {
    /// The joint for the path `av`: an existing one, or a new one.
    pub(crate) fn join(device: &Arc<Device>, mut av: Av) -> Result<Arc<Self>> {
        if !av.is_infiniband() && !av.is_own() && av.0.dmac == [0; 6] {
            // SMC-R's server does not know its peer's hardware address, unless the peer has RoCE v1
            // as well.
            // SAFETY: An address of RoCE has the entry of its GID, by the invariant of `Av`.
            unsafe { ffi::rlo_av_resolve(&mut av.0) };
        }
        let known = device.joints.reuse(|joint| {
            joint.av.0.sgid_attr == av.0.sgid_attr
                && joint.av.0.dmac == av.0.dmac
                && joint.av.0.smac == av.0.smac
                && joint.av.0.dlid == av.0.dlid
                && joint.av.dgid() == av.dgid()
        });
        if let Some((known, reuse)) = known {
            if reuse.asks {
                known.ask();
                known.task.kick_after(FAST);
            }
            return Ok(known);
        }
        let own = av.is_own();
        let nonce = device.random();
        let joint = Arc::pin_init(
            pin_init!(Self {
                av,
                nonce,
                device: device.clone(),
                state <- new_spinlock_irq!(State {
                    peer: own.then(|| device.clone()),
                    unanswered: 0,
                    interval: FAST,
                    users: 1,
                    unused: 0,
                }),
                task <- Task::new(),
            }),
            GFP_KERNEL,
        )?;
        if own {
            return Ok(joint);
        }
        device.joints.add(&joint)?;
        joint.ask();
        joint.task.kick_after(FAST);
        Ok(joint)
    }

    /// Removes one user.
    pub(crate) fn leave(this: Arc<Self>) {
        if this.device.joints.leave(&this) {
            this.stop();
        }
    }

    /// One user more. Under the lock of the list.
    pub(crate) fn add_user(&self) -> Reuse {
        let mut state = self.state.lock();
        let was_unused = state.users == 0;
        state.users += 1;
        // Its probes may have ended, and the peer may have been removed.
        let ended = core::mem::take(&mut state.unused) >= UNUSED;
        let is_there = |peer: &Arc<Device>| peer.joints.is_open();
        let mut reuse = Reuse {
            asks: ended,
            _lost: None,
        };
        if was_unused && !state.peer.as_ref().is_some_and(is_there) {
            state.interval = FAST;
            state.unanswered = 0;
            reuse.asks = true;
            reuse._lost = state.peer.take();
        }
        reuse
    }

    /// One user less. Returns whether the joint has none, and does not stay: only an answer that
    /// was heard lately is worth that. On InfiniBand, LIDs may change hands. Under the lock of the
    /// list.
    pub(crate) fn remove_user(&self, stays: bool) -> bool {
        let mut state = self.state.lock();
        state.users -= 1;
        let answered = state.peer.is_some() && state.unanswered <= 1;
        state.users == 0 && !(stays && answered && !self.av.is_infiniband())
    }

    /// Whether it has no users, and has had none for a while if `waits`. Under the lock of the
    /// list.
    pub(crate) fn is_over(&self, waits: bool) -> bool {
        let state = self.state.lock();
        state.users == 0 && (state.unused >= UNUSED || !waits)
    }

    /// Ends the probes. It is in no list, and has no users.
    pub(crate) fn stop(&self) {
        let peer = self.state.lock().peer.take();
        drop(peer);
        self.task.stop();
    }

    /// The device at the other end, if it can be reached.
    pub(crate) fn peer(&self) -> Option<Arc<Device>> {
        self.state.lock().peer.clone()
    }

    /// The device at our end.
    pub(crate) fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Whether the device at the other end can be reached.
    pub(crate) fn has_peer(&self) -> bool {
        self.state.lock().peer.is_some()
    }

    fn ask(&self) {
        let mut head = ffi::rlo_frame {
            magic: ffi::RLO_FRAME_MAGIC,
            kind: ffi::rlo_frame_kind_RLO_FRAME_PING as u16,
            nonce: self.nonce,
            slid: self.av.0.slid,
            dlid: self.av.0.dlid,
            ..Default::default()
        };
        head.sgid = self.av.0.sgid;
        head.dgid = self.av.0.dgid;
        self.device.counters.probes_sent.one();
        send(&self.av, &head, |_| true);
    }

    /// Handles an answer. In softirq context.
    pub(crate) fn answered(&self, nonce: u64, peer: &Arc<Device>) -> bool {
        if self.nonce != nonce {
            return false;
        }
        let former = {
            let mut state = self.state.lock();
            if state.users == 0 {
                return true;
            }
            state.unanswered = 0;
            state.peer.replace(peer.clone())
        };
        drop(former);
        true
    }

    /// The interface, or its peer, has gone down: probe at once. Without users there is nothing
    /// to find out. Under the lock of the list.
    pub(crate) fn doubt(&self) {
        {
            let mut state = self.state.lock();
            if state.users == 0 {
                state.unused = UNUSED;
            }
        }
        self.task.kick();
    }
}

/// Sends a frame whose payload `fill` writes, or none if `fill` returns an error. In process
/// context, with interrupts enabled.
pub(crate) fn send(av: &Av, head: &ffi::rlo_frame, fill: impl FnOnce(&mut [u8]) -> bool) -> bool {
    let mut payload = core::ptr::null_mut();
    // SAFETY: All are valid, by the invariant of `Av`.
    let frame = unsafe { ffi::rlo_frame_new(&av.0, head, &mut payload) };
    if frame.is_null() {
        return false;
    }
    let bytes = if head.len == 0 {
        &mut []
    } else {
        // SAFETY: The frame has so many bytes there, which C has cleared, and nobody else has the
        // frame.
        unsafe { core::slice::from_raw_parts_mut(payload.cast::<u8>(), head.len as usize) }
    };
    let good = fill(bytes);
    // SAFETY: The frame is ours, and goes, the one way or the other.
    unsafe {
        if good {
            ffi::rlo_frame_send(frame);
        } else {
            ffi::rlo_frame_drop(frame);
        }
    }
    good
}

/// Handles a frame from the wire. Its contents are not trusted.
///
/// # Safety
///
/// All are valid for the call, and `head.len` bytes follow at `payload`.
#[no_mangle]
unsafe extern "C" fn rlo_frame_received(
    dev: *mut ffi::net_device,
    skb: *mut ffi::sk_buff,
    head: *const ffi::rlo_frame,
    payload: *const c_void,
) {
    // SAFETY: Valid for the call, by the caller's promise, and a copy that nobody writes to.
    let head = unsafe { &*head };
    // SAFETY: As many bytes follow as `len` says, by the caller's promise; nobody writes to a frame
    // that is being received.
    let payload = unsafe { core::slice::from_raw_parts(payload.cast::<u8>(), head.len as usize) };
    let Some(device) = Device::on(dev) else {
        return;
    };
    // Ports of the two link layers never communicate.
    if (head.slid != 0) != device.is_infiniband() {
        return;
    }
    match u32::from(head.kind) {
        ffi::rlo_frame_kind_RLO_FRAME_PING => {
            if device.is_silent() || !device.is_meant(head) {
                return;
            }
            let answer = ffi::rlo_frame {
                kind: ffi::rlo_frame_kind_RLO_FRAME_PONG as u16,
                token: device.token,
                len: 0,
                ..*head
            };
            device.counters.probes_answered.one();
            // SAFETY: Both are valid for the call.
            unsafe { ffi::rlo_frame_answer(skb, &answer) };
        }
        ffi::rlo_frame_kind_RLO_FRAME_PONG => {
            if let Some(peer) = Device::with_token(head.token) {
                device
                    .joints
                    .each(|joint| joint.answered(head.nonce, &peer));
            }
        }
        ffi::rlo_frame_kind_RLO_FRAME_DATAGRAM if device.is_meant_as_datagram(head) => {
            crate::datagram::receive(&device, head, payload);
        }
        _ => {}
    }
}

/// An interface went down, or its address changed: its peers are probed at once.
///
/// # Safety
///
/// `own` is what Rust has of a device that is registered.
#[no_mangle]
unsafe extern "C" fn rlo_link_changed(own: *const c_void) {
    // SAFETY: The device is registered, so that `own` is its Arc, by the caller's promise.
    let device = unsafe { kernel::sync::ArcBorrow::<'_, Device>::from_raw(own.cast()) };
    device.joints.each(|joint| {
        joint.doubt();
        false
    });
}

/// The delay before a request tries an unreachable peer again.
pub(crate) fn pause(since: u64) -> u64 {
    (task::now().saturating_sub(since) / 2).clamp(200_000, 20_000_000)
}
