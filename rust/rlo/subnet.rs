// SPDX-License-Identifier: GPL-2.0

//! The subnet administrator, which an InfiniBand port reaches at the LID of its subnet manager.
//!
//! Every device has its own, without a database. A frame asks for the owner of a GID (see `joint`),
//! and the answer to a path query is the owner's LID. All multicast groups exist, with the same
//! properties, and their LIDs are computed from their GIDs. So all administrators agree.
//!
//! Contexts: [`Administrator::ask`] in a task; [`Administrator::stop`] sleeps.

use crate::{
    ffi,
    irq_lock::{
        new_spinlock_irq,
        SpinLockIrq, //
    },
    joint::{
        Joint,
        Node, //
    },
    joints::Joints,
    path::Av,
    port::{
        GSI,
        GSI_QKEY, //
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

const LEN: usize = 256;

// Offsets in a message of this class.
const METHOD: usize = 3;
const STATUS: usize = 4;
const TRANSACTION: usize = 8;
const ATTRIBUTE: usize = 16;
const ATTRIBUTE_OFFSET: usize = 44;
const MASK: usize = 48;
const DATA: usize = 56;

const BASE_VERSION: u8 = 1;
const CLASS: u8 = 3;
const CLASS_VERSION: u8 = 2;

const GET: u8 = 0x01;
const SET: u8 = 0x02;
const DELETE: u8 = 0x15;
const RESPONSE: u8 = 0x80;

const CLASS_PORT_INFO: u16 = 0x01;
const PATH_RECORD: u16 = 0x35;
const MC_MEMBER_RECORD: u16 = 0x38;

const UNSUPPORTED: u16 = 0x000c;
const REQUEST_INVALID: u16 = 0x0200;
const NO_RECORDS: u16 = 0x0300;

/// The bits of components that a request names.
mod named {
    pub(super) const PATH_DGID: u64 = 1 << 2;
    pub(super) const PATH_SGID: u64 = 1 << 3;
    pub(super) const PATH_PKEY: u64 = 1 << 13;
    pub(super) const GROUP_MGID: u64 = 1;
    pub(super) const GROUP_QKEY: u64 = 1 << 2;
    pub(super) const GROUP_PKEY: u64 = 1 << 7;
}

const PKEY: u16 = 0xffff;
/// The qkey of IPoIB's groups, for requests that name none.
const QKEY: u32 = 0x0b1b;
/// Selects exactly the given value.
const EXACTLY: u8 = 2 << 6;
/// 100 Gb/s, the rate of the port.
const RATE: u8 = 16;
/// 4.096 us times a power of two: rdma_cm's value for RoCE.
const LIFE: u8 = 16;

/// The time limit of a search for the owner of a GID, in nanoseconds, and the interval of checks.
const PATIENCE: u64 = 500_000_000;
const STEP: u64 = 5_000_000;

#[derive(Clone)]
struct Message([u8; LEN]);

impl Message {
    /// A request of this class.
    fn request(payload: &[u8]) -> Option<Self> {
        let bytes: [u8; LEN] = payload.try_into().ok()?;
        match bytes {
            [BASE_VERSION, CLASS, CLASS_VERSION, method, ..] if method & RESPONSE == 0 => {
                Some(Self(bytes))
            }
            _ => None,
        }
    }

    fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        let part = self.0.get(at..at + N);
        part.and_then(|part| part.try_into().ok()).unwrap_or([0; N])
    }

    fn put<const N: usize>(&mut self, at: usize, value: [u8; N]) {
        if let Some(part) = self.0.get_mut(at..at + N) {
            part.copy_from_slice(&value);
        }
    }

    fn method(&self) -> u8 {
        let [method] = self.get(METHOD);
        method
    }

    fn attribute(&self) -> u16 {
        u16::from_be_bytes(self.get(ATTRIBUTE))
    }

    fn names(&self, component: u64) -> bool {
        u64::from_be_bytes(self.get(MASK)) & component != 0
    }

    fn transaction(&self) -> [u8; 8] {
        self.get(TRANSACTION)
    }

    /// The answer with the same record; its size is in units of 8 bytes.
    fn answer(&self, size: u16) -> Self {
        let mut answer = self.clone();
        let method = match self.method() {
            SET => GET,
            method => method,
        };
        answer.put(METHOD, [method | RESPONSE]);
        answer.put(ATTRIBUTE_OFFSET, size.to_be_bytes());
        answer
    }

    fn refusal(&self, status: u16) -> Self {
        let mut answer = self.answer(0);
        answer.put(STATUS, status.to_be_bytes());
        answer
    }

    fn class_port_info(&self) -> Self {
        let mut answer = self.answer(9);
        answer.put(DATA, [0; LEN - DATA]);
        answer.put(DATA, [BASE_VERSION, CLASS_VERSION]);
        // The response time: 4.096 us times a power of two.
        answer.put(DATA + 4, 18u32.to_be_bytes());
        answer
    }

    /// A path between two LIDs.
    fn path(&self, slid: u16, dlid: u16, mtu: u8) -> Self {
        let mut answer = self.answer(8);
        answer.put(DATA + 40, dlid.to_be_bytes());
        answer.put(DATA + 42, slid.to_be_bytes());
        // No flow label and no hop limit: LIDs need no GIDs.
        answer.put(DATA + 44, [0; 4]);
        // The path is reversible, and the only one.
        answer.put(DATA + 49, [0x81]);
        answer.put(DATA + 50, PKEY.to_be_bytes());
        answer.put(DATA + 52, [0; 2]);
        answer.put(
            DATA + 54,
            [EXACTLY | mtu, EXACTLY | RATE, EXACTLY | LIFE, 0],
        );
        answer
    }

    /// A membership in a group.
    fn membership(&self, mtu: u8) -> Self {
        let mut answer = self.answer(7);
        let group: [u8; 16] = self.get(DATA);
        if !self.names(named::GROUP_QKEY) {
            answer.put(DATA + 32, QKEY.to_be_bytes());
        }
        answer.put(DATA + 36, group_lid(group).to_be_bytes());
        answer.put(DATA + 38, [EXACTLY | mtu]);
        if !self.names(named::GROUP_PKEY) {
            answer.put(DATA + 40, PKEY.to_be_bytes());
        }
        answer.put(DATA + 42, [EXACTLY | RATE, EXACTLY | LIFE]);
        answer
    }
}

/// The LID of a group; several groups may share one.
fn group_lid(group: [u8; 16]) -> u16 {
    let count = ffi::RLO_LID_PERMISSIVE - ffi::RLO_LID_MULTICAST;
    let hash = group.iter().fold(0x811c_9dc5u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    (ffi::RLO_LID_MULTICAST + hash % count) as u16
}

/// A device that has an administrator.
pub(crate) trait Client: Node {
    fn joints(&self) -> &Joints<Self>;

    /// A datagram of the administrator to the queue pair of connection managers.
    fn on_answer(this: &Arc<Self>, head: &ffi::rlo_frame, payload: &[u8]);
}

/// A path query that waits for the owner of the GID.
struct Question<C: Client> {
    request: Message,
    from: u32,
    joint: Arc<Joint<C>>,
    since: u64,
}

/// The path queries of a device that have no answer yet.
#[pin_data]
pub(crate) struct Administrator<C: Client> {
    #[pin]
    questions: SpinLockIrq<KVec<Question<C>>>,
    #[pin]
    task: Task<Administrator<C>>,
}

// SAFETY: The offset is the field's. `stop` stops the task, before the device is freed.
unsafe impl<C: Client> Run for Administrator<C> {
    const TASK_OFFSET: usize = offset_of!(Administrator<C>, task);
    const STOPS_OTHERS: bool = true;

    fn run(&self) {
        while let Some(question) = self.next_decided() {
            let device = question.joint.device();
            let answer = match question.joint.peer() {
                Some(peer) => {
                    question
                        .request
                        .path(device.port().lid, peer.port().lid, device.port().mtu())
                }
                None => question.request.refusal(NO_RECORDS),
            };
            reply(device, question.from, &answer);
            leave(question.joint);
        }
        if !self.questions.lock().is_empty() {
            self.task.kick_after(STEP);
        }
    }
}

impl<C: Client> Administrator<C> {
    pub(crate) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            questions <- new_spinlock_irq!(KVec::new()),
            task <- Task::new(),
        })
    }

    /// Takes a query with a GID that was found, or with a time that has passed.
    fn next_decided(&self) -> Option<Question<C>> {
        let now = task::now();
        let mut questions = self.questions.lock();
        let at = questions.iter().position(|question| {
            question.joint.has_peer() || now.saturating_sub(question.since) > PATIENCE
        })?;
        questions.remove(at).ok()
    }

    fn has(&self, request: &Message, from: u32) -> bool {
        self.questions.lock().iter().any(|question| {
            question.from == from && question.request.transaction() == request.transaction()
        })
    }

    /// The device is removed, and there are no more queries.
    pub(crate) fn stop(&self) {
        self.task.stop();
        let questions = core::mem::replace(&mut *self.questions.lock(), KVec::new());
        for question in questions {
            leave(question.joint);
        }
    }

    /// Handles a datagram to the self.
    pub(crate) fn ask(&self, device: &Arc<C>, head: &ffi::rlo_frame, payload: &[u8]) {
        let Some(request) = Message::request(payload) else {
            return;
        };
        if head.dest_qpn != GSI || head.qkey != GSI_QKEY {
            return;
        }
        let answer = match (request.attribute(), request.method()) {
            (CLASS_PORT_INFO, GET) => request.class_port_info(),
            (PATH_RECORD, GET) => match self.find_path(device, head.src_qpn, &request) {
                Some(answer) => answer,
                None => return,
            },
            (MC_MEMBER_RECORD, SET | DELETE) if request.names(named::GROUP_MGID) => {
                request.membership(device.port().mtu())
            }
            (MC_MEMBER_RECORD, SET | DELETE) => request.refusal(REQUEST_INVALID),
            _ => request.refusal(UNSUPPORTED),
        };
        reply(device, head.src_qpn, &answer);
    }

    /// The answer to a path query. None if the answer comes later, or not at all.
    fn find_path(&self, device: &Arc<C>, from: u32, request: &Message) -> Option<Message> {
        if !request.names(named::PATH_DGID) {
            return Some(request.refusal(REQUEST_INVALID));
        }
        let pkey = u16::from_be_bytes(request.get(DATA + 50));
        if (request.names(named::PATH_SGID) && request.get(DATA + 24) != device.port().gid())
            || (request.names(named::PATH_PKEY) && pkey | 0x8000 != PKEY)
        {
            return Some(request.refusal(NO_RECORDS));
        }
        let dgid = request.get(DATA + 8);
        if dgid == device.port().gid() {
            return Some(request.path(device.port().lid, device.port().lid, device.port().mtu()));
        }
        // A repeated query gets the answer that is being prepared.
        if self.has(request, from) {
            return None;
        }
        // SAFETY: The joint is left before the device is gone, in `run` or `stop`.
        let av = unsafe { Av::search(device.port(), dgid) };
        // If a request is lost, its sender repeats it.
        let joint = device.joints().join(device, av).ok()?;
        let question = Question {
            request: request.clone(),
            from,
            joint: joint.clone(),
            since: task::now(),
        };
        let pushed = self.questions.lock().push(question, GFP_ATOMIC);
        if pushed.is_err() {
            leave(joint);
            return None;
        }
        self.task.kick_after(STEP);
        None
    }
}

fn leave<C: Client>(joint: Arc<Joint<C>>) {
    let device = joint.device().clone();
    device.joints().leave(joint);
}

fn reply<C: Client>(device: &Arc<C>, to: u32, answer: &Message) {
    let head = ffi::rlo_frame {
        magic: ffi::RLO_FRAME_MAGIC,
        kind: ffi::rlo_frame_kind_RLO_FRAME_DATAGRAM as u16,
        src_qpn: GSI,
        dest_qpn: to,
        qkey: GSI_QKEY,
        len: LEN as u32,
        pkey: PKEY,
        slid: ffi::RLO_LID_SM as u16,
        dlid: device.port().lid,
        ..Default::default()
    };
    C::on_answer(device, &head, &answer.0);
}
