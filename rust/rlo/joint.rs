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
//! Contexts: [`Joint::new`] and [`Joint::stop`] sleep; the rest works in any.

use crate::{
    ffi,
    irq_lock::{
        new_spinlock_irq,
        SpinLockIrq, //
    },
    path::{
        send,
        Av, //
    },
    port::{
        random,
        Port, //
    },
    prelude::*,
    task::{
        Run,
        Task, //
    },
};
use core::mem::offset_of;
use kernel::sync::{
    atomic::{
        Atomic,
        Relaxed, //
    },
    Arc, //
};

/// Between the first probes, in nanoseconds; doubled until `SLOW`.
const FAST: u64 = 10_000_000;
const SLOW: u64 = 1_000_000_000;
const PATIENCE: u32 = 3;
const UNUSED: u32 = 2;

/// A device, as its joints know it, and those that lead to it.
pub(crate) trait Node: Sized + Send + Sync + 'static {
    fn port(&self) -> &Port;

    /// Whether it is there for its peers.
    fn is_open(&self) -> bool;

    /// A joint of it has had no user for a while.
    fn on_unused(&self);
}

struct State<N> {
    peer: Option<Arc<N>>,
    /// Probes without an answer since the last answer.
    unanswered: u32,
    interval: u64,
    /// Queue pairs that use it. Without users there are no probes.
    users: usize,
    /// How often the task has found no users. The second time it asks for the end of the joint.
    unused: u32,
}

/// The duties of a new user of a known joint.
pub(crate) struct Reuse<N> {
    /// To ask again whether the peer is there.
    pub(crate) asks: bool,
    /// A device that is gone; its last reference may not be dropped under a lock.
    _lost: Option<Arc<N>>,
}

/// A path from one of our interfaces to a hardware address.
#[pin_data]
pub(crate) struct Joint<N: Node> {
    pub(crate) av: Av,
    /// Only devices that its frames reach know it.
    pub(crate) nonce: u64,
    /// The token of the device that has answered last, or 0. It stays when the peer is lost.
    answerer: Atomic<u64>,
    /// Our own device, for the counters. It outlives its queue pairs, and these outlive the joint's
    /// task.
    device: Arc<N>,
    #[pin]
    state: SpinLockIrq<State<N>>,
    #[pin]
    task: Task<Joint<N>>,
}

// SAFETY: The offset is the field's. `leave` stops the task of a joint that was kicked.
unsafe impl<N: Node> Run for Joint<N> {
    const TASK_OFFSET: usize = offset_of!(Joint<N>, task);

    fn run(&self) {
        let (wait, lost) = {
            let mut guard = self.state.lock();
            let state = &mut *guard;
            if state.users == 0 {
                state.unused += 1;
                let over = state.unused >= UNUSED;
                drop(guard);
                if over {
                    self.device.on_unused();
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

impl<N: Node> Joint<N> {
    /// A joint for the path `av`, with one user. It asks when it is begun.
    pub(crate) fn new(device: &Arc<N>, av: Av) -> Result<Arc<Self>> {
        let own = av.is_own();
        let token = device.port().token;
        Arc::pin_init(
            pin_init!(Self {
                av,
                nonce: random(),
                answerer: Atomic::new(if own { token } else { 0 }),
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
        )
    }

    /// Whether it leads where `av` does.
    pub(crate) fn is_along(&self, av: &Av) -> bool {
        self.av.0.sgid_attr == av.0.sgid_attr
            && self.av.0.dmac == av.0.dmac
            && self.av.0.smac == av.0.smac
            && self.av.0.dlid == av.0.dlid
            && self.av.dgid() == av.dgid()
    }

    /// Asks whether the peer is there, and from now on again and again.
    pub(crate) fn begin(&self) {
        self.ask();
        self.task.kick_after(FAST);
    }

    /// One user more. Under the lock of the list.
    pub(crate) fn add_user(&self) -> Reuse<N> {
        let mut state = self.state.lock();
        let was_unused = state.users == 0;
        state.users += 1;
        // Its probes may have ended, and the peer may have been removed.
        let ended = core::mem::take(&mut state.unused) >= UNUSED;
        let is_there = |peer: &Arc<N>| peer.is_open();
        let mut reuse = Reuse {
            asks: ended,
            _lost: None,
        };
        let is_gone = state.peer.as_ref().is_some_and(|peer| !is_there(peer));
        if is_gone || (was_unused && state.peer.is_none()) {
            state.interval = FAST;
            state.unanswered = 0;
            self.answerer.store(0, Relaxed);
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
    pub(crate) fn peer(&self) -> Option<Arc<N>> {
        self.state.lock().peer.clone()
    }

    /// Whether requests along this path may come from `device`: only from the device that has
    /// answered, once there is one. Addresses can be copied, by a tenant that chooses the addresses of its
    /// interface.
    pub(crate) fn accepts(&self, device: &N) -> bool {
        let answerer = self.answerer.load(Relaxed);
        answerer == 0 || answerer == device.port().token
    }

    /// The device at our end.
    pub(crate) fn device(&self) -> &Arc<N> {
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
        self.device.port().counters.probes_sent.one();
        send(&self.av, &head, |_| true);
    }

    /// Handles an answer. In softirq context.
    pub(crate) fn answered(&self, peer: &Arc<N>) {
        let former = {
            let mut state = self.state.lock();
            if state.users == 0 {
                return;
            }
            state.unanswered = 0;
            self.answerer.store(peer.port().token, Relaxed);
            state.peer.replace(peer.clone())
        };
        drop(former);
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
