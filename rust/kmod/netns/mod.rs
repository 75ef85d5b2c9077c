// SPDX-License-Identifier: GPL-2.0

//! What one network namespace has: ports, counters, knobs, files, sockets.
//!
//! Contexts: may sleep. Locks: `ports`, `sockets`, `answers`: innermost, never together.

pub(crate) mod peers;
pub(crate) mod ports;
pub(crate) mod stats;

use crate::{
    engine::{
        policy::{
            answers::{
                self,
                Advice,
                Answer,
                Pair, //
            },
            chunk::Mode,
            threshold::Threshold, //
        },
        types::Ip, //
    },
    ffi,
    net::{
        namespace::Namespace,
        sk::{
            Sk,
            SkRef, //
        },
    },
    netns::{
        ports::table::PortTable,
        stats::{
            PerCpu,
            Stats,
            Traffic, //
        },
    },
    prelude::*,
    rdma::{
        cached::Held,
        noio::NoIo, //
    },
};
use core::{
    cell::UnsafeCell,
    ptr::NonNull, //
};
use kernel::{
    new_mutex,
    rbtree::RBTree,
    sync::{
        Arc,
        Mutex, //
    },
    time::{
        Instant,
        Monotonic, //
    }, //
};

/// State of one network namespace.
#[pin_data]
pub(crate) struct NetState {
    net: NonNull<ffi::net>,
    #[pin]
    pub(crate) ports: Mutex<PortTable>,
    #[pin]
    sockets: Mutex<RBTree<usize, ()>>,
    /// The peers that have answered, and those that were silent.
    #[pin]
    answers: Mutex<KVec<Option<Answer<Ip>>>>,
    born: Instant<Monotonic>,
    pub(crate) stats: PerCpu<Stats>,
    pub(crate) traffic: PerCpu<Traffic>,
    /// The part of the translation cache.
    pub(crate) held: Arc<Held>,
    pub(crate) knobs: UnsafeCell<ffi::sdp_knobs>,
    pub(crate) sysctl: UnsafeCell<*mut ffi::ctl_table_header>,
}

// SAFETY: `net` is only passed to C, the numbers of `knobs` are read and written as single
// words and its text by C alone, with a lock of its own, `sysctl` is touched by namespace
// init and exit alone. The rest is in a mutex or atomic.
unsafe impl Send for NetState {}
// SAFETY: Nothing here belongs to one thread.
unsafe impl Sync for NetState {}

/// The state of a namespace, found once, for an object that holds the namespace.
///
/// # Invariants
///
/// The state is there as long as this.
pub(crate) struct Home(NonNull<NetState>);

// SAFETY: It stands for a reference to the state, which may be used by all threads.
unsafe impl Send for Home {}
// SAFETY: It stands for a reference to the state, which may be used by all threads.
unsafe impl Sync for Home {}

impl Home {
    /// # Safety
    ///
    /// `net` stays alive for as long as the result, and the module's pernet operations are
    /// registered.
    pub(crate) unsafe fn new(net: &Namespace) -> Self {
        // SAFETY: By the caller's promise. INVARIANT: As well.
        Self(unsafe { NetState::of(net.as_ptr()) }.into())
    }
}

impl core::ops::Deref for Home {
    type Target = NetState;

    fn deref(&self) -> &NetState {
        // SAFETY: By the invariant.
        unsafe { self.0.as_ref() }
    }
}

/// Values of the knobs at one moment.
#[derive(Clone, Copy)]
pub(crate) struct Knobs {
    pub(crate) rcv_size: u32,
    pub(crate) rcv_size_initial: u32,
    pub(crate) rcv_depth: u16,
    pub(crate) send_depth: u16,
    pub(crate) keepalive_time: u32,
    pub(crate) keepalive_intvl: u32,
    pub(crate) keepalive_probes: u32,
    pub(crate) close_timeout_ms: u32,
    pub(crate) max_orphans: u32,
    pub(crate) tcp_after_ms: u32,
    pub(crate) zcopy_regions: u32,
}

const DEFAULT_KNOBS: ffi::sdp_knobs = ffi::sdp_knobs {
    // Without the header: pages of payload, so that writes of a power of two fill them.
    // Messages of 32 KiB double the rate of a stream of pages, and these add a fifth.
    rcv_size: 65536,
    // An idle connection pays for it: a page for its four buffers.
    rcv_size_initial: 1024,
    // Most receive buffers of one connection; SO_RCVBUF may ask for fewer. With
    // two more, the drain marker and the free slot this fills a 32-entry ring.
    rcv_depth: 28,
    // Work requests of one connection: 14, the drain marker and the free slot
    // of a 16-entry ring.
    send_depth: 14,
    keepalive_time: 7200,
    keepalive_intvl: 75,
    keepalive_probes: 9,
    close_timeout_ms: 60_000,
    // Some 35 KiB each while nothing flows.
    max_orphans: 4096,
    // Not for whom a sandbox may hold.
    companion: ffi::SDP_COMPANION_UNCONFINED as c_int,
    // Many times what an answer takes, and no time for a user.
    tcp_after_ms: 50,
    // On rlo copies are faster below it and zero copy is faster from it on, with one connection
    // and with eight alike. A policy that timed both ways on each connection was slower.
    zcopy_thresh: 262_144,
    // Of a mebibyte each: what all connections of a device keep pinned.
    zcopy_regions: 64,
    // Off, because of the limits that docs/translation-cache.md lists.
    zcopy_cache: 0,
    // As long as two wake-ups take, if waits are that short.
    busy_poll: -1,
    // As measured.
    chunk: -1,
    // No peer.
    zcopy_except: [0; PEERS_LEN],
};

/// Room for the text of a list of peers.
const PEERS_LEN: usize = ffi::SDP_PEERS_LEN as usize;

/// Which part of a device's queue pairs one user in one namespace may have, in percent.
pub(crate) fn user_share() -> u32 {
    // SAFETY: A word that sysctl writes.
    let share = unsafe { core::ptr::read_volatile(&raw const ffi::sdp_user_share) };
    u32::try_from(share).unwrap_or(0)
}

/// Where a knob lies among the others.
macro_rules! at {
    ($knob:ident) => {
        core::mem::offset_of!(ffi::sdp_knobs, $knob)
    };
}

impl NetState {
    pub(crate) fn new(net: NonNull<ffi::net>) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            net,
            ports <- new_mutex!(PortTable::new(), "sdp_ports"),
            sockets <- new_mutex!(RBTree::new(), "sdp_sockets"),
            answers <- new_mutex!(KVec::from_elem(None, answers::SLOTS, GFP_KERNEL)?, "sdp_answers"),
            born: Instant::now(),
            stats: PerCpu::new()?,
            traffic: PerCpu::new()?,
            held: Held::new()?,
            knobs: UnsafeCell::new(DEFAULT_KNOBS),
            sysctl: UnsafeCell::new(core::ptr::null_mut()),
        })
    }

    /// The state of `net`.
    ///
    /// # Safety
    ///
    /// `net` is a namespace that stays alive for `'a`, and the module's pernet
    /// operations are registered.
    pub(crate) unsafe fn of<'a>(net: *mut ffi::net) -> &'a NetState {
        // SAFETY: Every live namespace has the slot filled by `init_cb`.
        unsafe { &**slot(net) }
    }

    /// The state of the namespace of a socket.
    pub(crate) fn of_sk(sk: &Sk) -> &NetState {
        // SAFETY: A socket of ours holds its namespace, and the module, which has the pernet
        // operations registered as long as it is loaded.
        unsafe { Self::of(sk.namespace().as_ptr()) }
    }

    pub(crate) fn namespace(&self) -> &Namespace {
        // SAFETY: The state goes before its namespace.
        unsafe { Namespace::from_raw(self.net.as_ptr()) }
    }

    pub(crate) fn as_ptr(&self) -> *mut ffi::net {
        self.net.as_ptr()
    }

    /// The knob at an offset. Sysctl keeps what is written to it inside the bounds of its type.
    fn knob<T: TryFrom<c_int> + Default>(&self, at: usize) -> T {
        let count = size_of::<ffi::sdp_knobs>() / size_of::<c_int>();
        let index = (at / size_of::<c_int>()).min(count.saturating_sub(1));
        // SAFETY: The knobs are words as far as that. Sysctl writes single words, at any time,
        // hence volatile.
        let value = unsafe {
            let words = self.knobs.get().cast::<c_int>();
            words.add(index).read_volatile()
        };
        T::try_from(value).unwrap_or_default()
    }

    /// The same of a knob that protects what all namespaces share: at most the first one's.
    fn bounded(&self, at: usize) -> u32 {
        // SAFETY: The first namespace never ends. Its state is there from before any socket to
        // after the last one, and sockets alone ask for knobs.
        let first = unsafe { Self::of(ffi::sdp_first_net()) };
        self.knob::<u32>(at).min(first.knob(at))
    }

    pub(crate) fn knobs(&self) -> Knobs {
        Knobs {
            rcv_size: self.knob(at!(rcv_size)),
            rcv_size_initial: self.knob(at!(rcv_size_initial)),
            rcv_depth: self.knob(at!(rcv_depth)),
            send_depth: self.knob(at!(send_depth)),
            keepalive_time: self.knob(at!(keepalive_time)),
            keepalive_intvl: self.knob(at!(keepalive_intvl)),
            keepalive_probes: self.knob(at!(keepalive_probes)),
            close_timeout_ms: self.bounded(at!(close_timeout_ms)),
            max_orphans: self.bounded(at!(max_orphans)),
            tcp_after_ms: self.knob(at!(tcp_after_ms)),
            zcopy_regions: self.bounded(at!(zcopy_regions)),
        }
    }

    /// Microseconds for which a call looks for completions before it sleeps, without
    /// SO_BUSY_POLL; none if each connection decides for itself.
    pub(crate) fn busy_poll_us(&self) -> Option<u32> {
        u32::try_from(self.knob::<i32>(at!(busy_poll))).ok()
    }

    /// How long writes are cut that find nothing in flight.
    pub(crate) fn chunk(&self) -> Mode {
        Mode::of(self.knob(at!(chunk)))
    }

    /// Which messages go without a copy, where the program has not said it.
    pub(crate) fn zcopy_thresh(&self) -> Threshold {
        Threshold::of(self.knob(at!(zcopy_thresh)))
    }

    /// Whether memory of programs goes to the translation cache.
    pub(crate) fn caches(&self) -> bool {
        self.knob::<u32>(at!(zcopy_cache)) > 0
    }

    /// The tasks that may use TCP beside SDP: one of `SDP_COMPANION_*`.
    pub(crate) fn companion(&self) -> u32 {
        self.knob(at!(companion))
    }

    /// Whether nothing goes to `ip` and comes from there without a copy.
    pub(crate) fn is_excepted(&self, ip: Ip) -> bool {
        let mut text = [0u8; PEERS_LEN];
        // SAFETY: The knobs of a live namespace; there is room for the text.
        unsafe { ffi::sdp_knob_peers(self.knobs.get(), text.as_mut_ptr().cast()) };
        peers::has(&text, ip)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis()).unwrap_or(0)
    }

    /// The way of a connect() that may use TCP to a peer.
    pub(crate) fn advice(&self, pair: &Pair<Ip>) -> Advice {
        answers::advice(&self.answers.lock(), pair, self.now_ms())
    }

    /// Shows the answers that are remembered, each with the milliseconds for which it counts.
    pub(crate) fn each_answer(&self, mut show: impl FnMut(&Answer<Ip>, u64)) {
        let (answers, now) = (self.answers.lock(), self.now_ms());
        for answer in answers::known(&answers, now) {
            show(answer, answer.until_ms.saturating_sub(now));
        }
    }

    /// Remembers whether a peer has answered.
    pub(crate) fn note_answer(&self, pair: Pair<Ip>, speaks: bool) {
        answers::remember(&mut self.answers.lock(), pair, speaks, self.now_ms());
    }

    /// A Hello has come from `peer` to `own`.
    pub(crate) fn forget_silence(&self, own: Ip, peer: Ip) {
        answers::forget_silence(&mut self.answers.lock(), &own, &peer);
    }

    /// Enters a socket into the list that `/proc/net/sdp` and netlink show.
    pub(crate) fn enlist(&self, sock: &Sk) -> Result {
        let _noio = NoIo::new();
        self.sockets.lock().try_create_and_insert(
            core::ptr::from_ref(sock).expose_provenance(),
            (),
            GFP_KERNEL,
        )?;
        sock.count_in_use(1);
        Ok(())
    }

    /// Ends what `enlist` began, if it did.
    pub(crate) fn delist(&self, sock: &Sk) {
        let key = core::ptr::from_ref(sock).addr();
        if self.sockets.lock().remove(&key).is_some() {
            sock.count_in_use(-1);
        }
    }

    /// The lowest address above `after` that a listed socket has.
    pub(crate) fn next_socket(&self, after: usize) -> Option<usize> {
        let sockets = self.sockets.lock();
        let found = sockets.cursor_lower_bound(&after.wrapping_add(1))?;
        Some(*found.current().0)
    }

    /// The listed socket with that address, kept alive.
    pub(crate) fn socket_at(&self, address: usize) -> Option<SkRef> {
        let sockets = self.sockets.lock();
        sockets.get(&address)?;
        // SAFETY: A listed socket's memory is there until `delist`, which needs the
        // lock held here.
        unsafe { SkRef::try_get(core::ptr::with_exposed_provenance(address)) }
    }
}

/// Index of our slot in every namespace; written by the registration alone.
pub(crate) struct Id(pub(crate) UnsafeCell<c_uint>);
// SAFETY: Written before any namespace calls `init_cb`, read afterwards.
unsafe impl Sync for Id {}
pub(crate) static ID: Id = Id(UnsafeCell::new(0));

/// # Safety
///
/// `net` is alive and the pernet operations are registered.
pub(crate) unsafe fn slot(net: *mut ffi::net) -> *mut *mut NetState {
    // SAFETY: The id was assigned at registration.
    unsafe { Namespace::from_raw(net).generic(*ID.0.get()) }.cast()
}
