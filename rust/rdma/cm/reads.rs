// SPDX-License-Identifier: GPL-2.0

//! The number of RDMA Reads in flight, which the two sides agree on.

use crate::rdma::device::Device;

/// RDMA Reads in flight, as the peer's message has them.
#[derive(Clone, Copy)]
pub(crate) struct PeerReads {
    /// Those that the peer begins.
    pub(crate) begins: u8,
    /// Those that it answers.
    pub(crate) answers: u8,
}

/// RDMA Reads in flight on a queue pair.
#[derive(Clone, Copy)]
pub(crate) struct ReadDepths {
    /// Reads of the peer, which our device answers.
    pub(crate) answered: u8,
    /// Our own Reads.
    pub(crate) begun: u8,
}

impl ReadDepths {
    /// The limits of `device`, at most `most`.
    pub(crate) fn of_device(device: &Device, most: u8) -> Self {
        let depth = device.limits().reads.min(most);
        Self {
            answered: depth,
            begun: depth,
        }
    }

    /// The minimum of these and of the numbers that the peer begins and answers.
    pub(crate) fn meet(self, begins: u8, answers: u8) -> Self {
        Self {
            answered: self.answered.min(begins),
            begun: self.begun.min(answers),
        }
    }
}
