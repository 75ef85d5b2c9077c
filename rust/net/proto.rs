// SPDX-License-Identifier: GPL-2.0

//! `struct proto`: the sockets of one protocol, from their allocation to their end.
//!
//! C header: [`include/net/sock.h`](srctree/include/net/sock.h)
//!
//! A socket is a `struct sock` and what the module has of it, in one allocation ([`Whole`]).
//!
//! Contexts: process context, may sleep, except where a comment says otherwise.

use crate::{
    ffi,
    net::{
        account::Account,
        family::Creation,
        namespace::Namespace,
        sk::{
            Object,
            Sk, //
        },
    },
    prelude::*, //
};
use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    sync::{
        aref::{
            ARef,
            AlwaysRefCounted, //
        },
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
            Release, //
        },
    },
};

/// The part of each socket that a protocol has behind the `struct sock`.
pub(crate) trait Protocol: Send + Sync + Sized + 'static {
    /// The number of the family.
    const FAMILY: c_int;

    /// The one table of the protocol.
    fn table() -> &'static Table<Self>;

    /// The answer to a request of ioctl(2) that the core asks for itself.
    fn ioctl(sock: &Whole<Self>, command: u32) -> Result<c_int>;

    /// SO_KEEPALIVE is set. With `lock_sock`.
    fn keepalive_switched(sock: &Whole<Self>);

    /// SO_SNDBUF has been set. Must not sleep: a BPF program may set it.
    fn room_set(sock: &Whole<Self>);

    /// The last reference is gone: ends what others know of the socket. Takes no reference. The
    /// state is dropped next, and the namespace goes after it.
    fn end(sock: &Whole<Self>);
}

/// A socket.
///
/// # Invariants
///
/// It was made by `sk_alloc` with this type's size, and `body` is initialised until `destruct_cb`.
/// It does not move.
#[repr(C)]
pub(crate) struct Whole<B> {
    sk: Sk,
    body: B,
}

// SAFETY: The references are those to the `sk` that a socket begins with, and count for
// the whole allocation.
unsafe impl<B> AlwaysRefCounted for Whole<B> {
    fn inc_ref(&self) {
        self.sk.inc_ref();
    }

    unsafe fn dec_ref(obj: NonNull<Self>) {
        // SAFETY: The caller gives up one reference.
        unsafe { Sk::dec_ref(obj.cast()) };
    }
}

// SAFETY: It begins with `sk`, to which it dereferences, and lies in the same allocation.
unsafe impl<B: Protocol> Object for Whole<B> {}

impl<B> core::ops::Deref for Whole<B> {
    type Target = Sk;

    fn deref(&self) -> &Sk {
        &self.sk
    }
}

impl<B> Whole<B> {
    pub(crate) fn body(&self) -> &B {
        &self.body
    }

    /// Where the body begins.
    pub(crate) const fn body_offset() -> usize {
        core::mem::offset_of!(Self, body)
    }
}

impl<B: Protocol> Whole<B> {
    /// Makes a socket in `net`, of `parent` unless it waits to be accepted. The result carries the
    /// one reference of the socket's user. ENODEV if the protocol is not registered.
    pub(crate) fn new(
        net: &Namespace,
        parent: Option<&mut Creation<'_>>,
        body: impl PinInit<B, Error>,
    ) -> Result<ARef<Self>> {
        let table = B::table();
        // Pairs with the end of the registration, which has made the slab.
        if table.registered.load(Acquire) != REGISTERED {
            return Err(ENODEV);
        }
        let (net, prot) = (net.as_ptr().cast(), table.proto.get());
        let parent = parent.map_or(core::ptr::null_mut(), |parent| parent.as_ptr());
        // SAFETY: The namespace is alive, and the protocol registered. `sk_alloc` uses our size, so
        // the body's place is ours to initialise, and nothing moves it. `sk` is fresh and ours, and
        // so is `parent`.
        unsafe {
            let sk = ffi::sk_alloc(net, B::FAMILY, ffi::core::GFP_KERNEL, prot, 0);
            let sock: NonNull<Self> = NonNull::new(sk.cast()).ok_or(ENOBUFS)?;
            if let Err(e) = raw_try_init(&raw mut (*sock.as_ptr()).body, body) {
                // It has no `sk_destruct` yet.
                ffi::sk_free(sk);
                return Err(e);
            }
            let (destruct, write_space) = (destruct_cb::<B>, write_space_cb::<B>);
            ffi::rust_net_sock_init(parent, sk, Some(destruct), Some(write_space));
            // INVARIANT: as just made. The reference is from `sk_alloc`.
            Ok(ARef::from_raw(sock))
        }
    }
}

/// The last reference has been dropped.
///
/// # Safety
///
/// Called by `sk_destruct` once, on a socket of ours.
unsafe extern "C" fn destruct_cb<B: Protocol>(sk: *mut ffi::sock) {
    let sock: *mut Whole<B> = sk.cast();
    // SAFETY: The memory is still there, and `body` initialised, by the invariant; no code has a
    // reference any more.
    unsafe {
        B::end(&*sock);
        core::ptr::drop_in_place(&raw mut (*sock).body);
    }
}

/// The registration is under way, or has failed.
const BEGUN: i32 = -1;
const REGISTERED: i32 = 1;

/// A `struct proto`.
pub(crate) struct Table<B> {
    proto: UnsafeCell<ffi::proto>,
    /// 0, [`BEGUN`] or [`REGISTERED`].
    registered: Atomic<i32>,
    _body: PhantomData<fn() -> B>,
}

// SAFETY: Handed to C, which writes to it when it is registered and unregistered, and
// otherwise with locks of its own; Rust never looks at it.
unsafe impl<B> Sync for Table<B> {}

const fn name(text: &[u8]) -> [c_char; 32] {
    let mut name = [0 as c_char; 32];
    let mut i = 0;
    while i < text.len() && i < 31 {
        name[i] = text[i] as c_char;
        i += 1;
    }
    name
}

impl<B: Protocol> Table<B> {
    /// A protocol of that name.
    pub(crate) const fn new(text: &[u8], owner: *mut ffi::core::module) -> Self {
        Self {
            proto: UnsafeCell::new(ffi::proto {
                name: name(text),
                owner: owner.cast(),
                obj_size: core::mem::size_of::<Whole<B>>() as c_uint,
                keepalive: Some(keepalive_cb::<B>),
                ioctl: Some(ioctl_cb::<B>),
                ..pin_init::zeroed()
            }),
            registered: Atomic::new(0),
            _body: PhantomData,
        }
    }
}

/// The registration of a protocol: its slab, its line in /proc/net/protocols. The account goes
/// after it.
///
/// Each socket holds the module, so none is left when this is dropped with it.
pub(crate) struct Registration<B: Protocol>(Account, PhantomData<fn() -> B>);

impl<B: Protocol> Registration<B> {
    /// Registers the protocol of `B`; EBUSY a second time.
    pub(crate) fn new() -> Result<Self> {
        let table = B::table();
        if table.registered.cmpxchg(0, BEGUN, Relaxed).is_err() {
            return Err(EBUSY);
        }
        let proto = table.proto.get();
        // SAFETY: The struct is static, and not registered yet, so nothing else uses it.
        let account = unsafe { Account::of(proto) }?;
        // SAFETY: The struct is static, and not registered yet, so nothing else uses it.
        to_result(unsafe { ffi::proto_register(proto, 1) })?;
        // `Whole::new` uses what was made above.
        table.registered.store(REGISTERED, Release);
        Ok(Self(account, PhantomData))
    }
}

impl<B: Protocol> Drop for Registration<B> {
    fn drop(&mut self) {
        // SAFETY: Registered by `new`, and no socket is left.
        unsafe { ffi::proto_unregister(B::table().proto.get()) };
    }
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn ioctl_cb<B: Protocol>(
    sk: *mut ffi::sock,
    command: c_int,
    result: *mut c_int,
) -> c_int {
    from_result(|| {
        // SAFETY: A live socket of ours and a place for the answer.
        unsafe { *result = B::ioctl(Whole::from_sk(sk), command as u32)? };
        Ok(0)
    })
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn keepalive_cb<B: Protocol>(sk: *mut ffi::sock, _on: c_int) {
    // SAFETY: Called by `sock_setsockopt` for a socket of ours.
    B::keepalive_switched(unsafe { Whole::from_sk(sk) });
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn write_space_cb<B: Protocol>(sk: *mut ffi::sock) {
    // SAFETY: Called by `sock_setsockopt` for a socket of ours.
    unsafe {
        ffi::rust_net_write_space(sk);
        B::room_set(Whole::from_sk(sk));
    }
}
