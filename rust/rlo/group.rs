// SPDX-License-Identifier: GPL-2.0

//! Multicast groups of a port: the queue pairs that receive datagrams to a group.
//!
//! Contexts: any.

use crate::{
    irq_lock::{
        new_spinlock_irq,
        SpinLockIrq, //
    },
    prelude::*, //
};

#[derive(Clone, Copy, PartialEq, Eq)]
struct Member {
    gid: [u8; 16],
    qp: u32,
}

/// The members, by queue pair number.
#[pin_data]
pub(crate) struct Groups {
    #[pin]
    members: SpinLockIrq<KVec<Member>>,
}

impl Groups {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            members <- new_spinlock_irq!(KVec::new()),
        })
    }

    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn join(&self, gid: [u8; 16], qp: u32) -> Result {
        let member = Member { gid, qp };
        let mut members = self.members.lock();
        if !members.contains(&member) {
            members.push(member, GFP_ATOMIC)?;
        }
        Ok(())
    }

    /// # Errors
    ///
    /// `EINVAL` if the queue pair is not a member.
    pub(crate) fn leave(&self, gid: [u8; 16], qp: u32) -> Result {
        let mut members = self.members.lock();
        let at = members.iter().position(|it| *it == Member { gid, qp });
        members.remove(at.ok_or(EINVAL)?).map_err(|_| EINVAL)?;
        Ok(())
    }

    /// Calls `visit` without a lock held. A member that joins or leaves meanwhile may be missed.
    pub(crate) fn each(&self, gid: [u8; 16], mut visit: impl FnMut(u32)) {
        let mut at = 0;
        loop {
            let found = {
                let members = self.members.lock();
                let rest = members.iter().enumerate().skip(at);
                rest.into_iter()
                    .find(|(_, member)| member.gid == gid)
                    .map(|(index, member)| (index, member.qp))
            };
            let Some((index, qp)) = found else {
                return;
            };
            visit(qp);
            at = index + 1;
        }
    }
}
