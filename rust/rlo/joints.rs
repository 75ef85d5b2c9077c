// SPDX-License-Identifier: GPL-2.0

//! The joints of a device.
//!
//! A joint that was answered stays for up to a second after its last user has left it: the next
//! queue pair on the same path sends no probe. It holds the entry of a GID, which the device's removal
//! does not wait for. So joints stay only while the device has the queue pair of connection
//! managers, which ib_core destroys before the table of GIDs.
//!
//! Contexts: [`Joints::join`], [`Joints::leave`], [`Joints::close`] and the task sleep; the rest works in any. Locks:
//! the list's, and under it the joints'.

use crate::{
    ffi,
    irq_lock::{
        new_spinlock_irq,
        SpinLockIrq, //
    },
    joint::{
        Joint,
        Node,
        Reuse, //
    },
    path::Av,
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

/// See the module.
#[pin_data]
pub(crate) struct Joints<N: Node> {
    /// In the order of their nonces: any host that reaches the interface can send answers, so the search
    /// for the joint of an answer must be short.
    #[pin]
    list: SpinLockIrq<KVVec<Arc<Joint<N>>>>,
    /// 1: joints may stay without users. Changed under the lock.
    open: Atomic<i32>,
    #[pin]
    task: Task<Joints<N>>,
}

// SAFETY: The offset is the field's. `close` stops the task, and no code kicks it from then on.
unsafe impl<N: Node> Run for Joints<N> {
    const TASK_OFFSET: usize = offset_of!(Joints<N>, task);
    const STOPS_OTHERS: bool = true;

    fn run(&self) {
        self.sweep();
    }
}

impl<N: Node> Joints<N> {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            list <- new_spinlock_irq!(KVVec::new()),
            open: Atomic::new(0),
            task <- Task::new(),
        })
    }

    /// From here on joints stay for a moment without users.
    pub(crate) fn open(&self) {
        let _list = self.list.lock();
        self.open.store(1, Relaxed);
    }

    /// No joint stays without users any more.
    pub(crate) fn close(&self) {
        {
            let _list = self.list.lock();
            self.open.store(0, Relaxed);
        }
        self.task.stop();
        self.sweep();
    }

    /// Whether the device is there for its peers.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Relaxed) != 0
    }

    /// Frees all joints; their users are gone.
    pub(crate) fn clear(&self) {
        let joints = core::mem::replace(&mut *self.list.lock(), KVVec::new());
        drop(joints);
    }

    pub(crate) fn each(&self, mut visit: impl FnMut(&Joint<N>)) {
        for joint in self.list.lock().iter() {
            visit(joint);
        }
    }

    /// Calls `visit` for the joint with this nonce.
    pub(crate) fn with_nonce(&self, nonce: u64, visit: impl FnOnce(&Joint<N>)) {
        let list = self.list.lock();
        let found = list.binary_search_by_key(&nonce, |joint| joint.nonce);
        if let Some(joint) = found.ok().and_then(|at| list.get(at)) {
            visit(joint);
        }
    }

    /// The joint of `device`, which has this list, for the path `av`: an existing one, or a new one.
    pub(crate) fn join(&self, device: &Arc<N>, mut av: Av) -> Result<Arc<Joint<N>>> {
        if !av.is_infiniband() && !av.is_own() && av.0.dmac == [0; 6] {
            // SMC-R's server does not know its peer's hardware address, unless the peer has RoCE v1
            // as well.
            // SAFETY: An address of RoCE has the entry of its GID, by the invariant of `Av`.
            unsafe { ffi::rlo_av_resolve(&mut av.0) };
        }
        if let Some((known, reuse)) = self.reuse(|joint| joint.is_along(&av)) {
            if reuse.asks {
                known.begin();
            }
            return Ok(known);
        }
        let joint = Joint::new(device, av)?;
        if !joint.av.is_own() {
            self.add(&joint)?;
            joint.begin();
        }
        Ok(joint)
    }

    /// The joint that `wanted` accepts, with one user more.
    fn reuse(&self, wanted: impl Fn(&Joint<N>) -> bool) -> Option<(Arc<Joint<N>>, Reuse<N>)> {
        let list = self.list.lock();
        let known = list.iter().find(|joint| wanted(joint))?;
        Some((known.clone(), known.add_user()))
    }

    /// Removes one user, which has no reference afterwards.
    pub(crate) fn leave(&self, joint: Arc<Joint<N>>) {
        if self.remove_user(&joint) {
            joint.stop();
        }
    }

    /// Removes one user of `joint`. Returns true if the caller must end it: it was the last one,
    /// and the joint does not stay.
    fn remove_user(&self, joint: &Joint<N>) -> bool {
        // The list's lock is taken first, so that no lookup finds the joint meanwhile.
        let mut list = self.list.lock();
        let at = list.iter().position(|one| core::ptr::eq(&**one, joint));
        if !joint.remove_user(self.is_open() && at.is_some()) {
            return false;
        }
        if let Some(at) = at {
            // The last reference is dropped later, by the caller.
            let _ = list.remove(at);
        }
        true
    }

    /// A joint has had no user for a while.
    pub(crate) fn on_unused(&self) {
        // Under the lock, because after `close` there may be no kick.
        let _list = self.list.lock();
        if self.is_open() {
            self.task.kick();
        }
    }

    fn sweep(&self) {
        loop {
            let unused = {
                let mut list = self.list.lock();
                let waits = self.is_open();
                let at = list.iter().position(|joint| joint.is_over(waits));
                at.and_then(|at| list.remove(at).ok())
            };
            let Some(unused) = unused else {
                return;
            };
            unused.stop();
        }
    }

    fn add(&self, joint: &Arc<Joint<N>>) -> Result {
        loop {
            let len = {
                let mut joints = self.list.lock();
                if joints.len() < joints.capacity() {
                    let at = joints.partition_point(|known| known.nonce < joint.nonce);
                    return joints
                        .insert_within_capacity(at, joint.clone())
                        .map_err(|_| ENOMEM);
                }
                joints.len()
            };
            let mut grown = KVVec::with_capacity((len * 2).max(8), GFP_KERNEL)?;
            let old = {
                let mut joints = self.list.lock();
                if joints.len() >= grown.capacity() {
                    continue;
                }
                for joint in joints.iter() {
                    let _ = grown.push_within_capacity(joint.clone());
                }
                core::mem::replace(&mut *joints, grown)
            };
            drop(old);
        }
    }
}
