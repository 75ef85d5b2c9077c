// SPDX-License-Identifier: GPL-2.0

//! The joints of a device.
//!
//! A joint that was answered stays for up to a second after its last user has left it: the next
//! queue pair on the same path asks nobody. It holds the entry of a GID, which the device's removal
//! does not wait for. So joints stay only while the device has the queue pair of connection
//! managers, which ib_core destroys before the table of GIDs.
//!
//! Contexts: [`Joints::add`], [`Joints::close`] and the task sleep; the rest works in any. Locks:
//! the list's, and under it those of joints.

use crate::{
    irq_lock::{
        new_spinlock_irq,
        SpinLockIrq, //
    },
    joint::{
        Joint,
        Reuse, //
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

/// See the module.
#[pin_data]
pub(crate) struct Joints {
    #[pin]
    list: SpinLockIrq<KVVec<Arc<Joint>>>,
    /// 1: joints may stay without users. Changed under the lock.
    open: Atomic<i32>,
    #[pin]
    task: Task<Joints>,
}

// SAFETY: The offset is that of the field. `close` stops the task, and nobody kicks it from then on.
unsafe impl Run for Joints {
    const TASK_OFFSET: usize = offset_of!(Joints, task);
    const STOPS_OTHERS: bool = true;

    fn run(&self) {
        self.sweep();
    }
}

impl Joints {
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

    /// Frees all joints, whose users are gone.
    pub(crate) fn clear(&self) {
        let joints = core::mem::replace(&mut *self.list.lock(), KVVec::new());
        drop(joints);
    }

    /// Calls `visit` for each until it returns true.
    pub(crate) fn each(&self, mut visit: impl FnMut(&Joint) -> bool) {
        for joint in self.list.lock().iter() {
            if visit(joint) {
                break;
            }
        }
    }

    /// The joint that `wanted` accepts, with one user more.
    pub(crate) fn reuse(&self, wanted: impl Fn(&Joint) -> bool) -> Option<(Arc<Joint>, Reuse)> {
        let list = self.list.lock();
        let known = list.iter().find(|joint| wanted(joint))?;
        Some((known.clone(), known.add_user()))
    }

    /// Removes one user of `joint`. Returns true if the caller must end it: it was the last one,
    /// and the joint does not stay.
    pub(crate) fn leave(&self, joint: &Joint) -> bool {
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

    pub(crate) fn add(&self, joint: &Arc<Joint>) -> Result {
        loop {
            let len = {
                let mut joints = self.list.lock();
                if joints.len() < joints.capacity() {
                    return joints
                        .push_within_capacity(joint.clone())
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
