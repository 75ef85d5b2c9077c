// SPDX-License-Identifier: GPL-2.0

//! `struct net_proto_family`: a family of sockets, from its registration to socket(2).
//!
//! C header: [`include/linux/net.h`](srctree/include/linux/net.h)
//!
//! Contexts: process context, may sleep, no lock held.

use crate::{
    ffi,
    net::{
        namespace::Namespace,
        proto_ops::Operations, //
    },
    prelude::*, //
};
use core::{
    cell::UnsafeCell,
    marker::PhantomData, //
};
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    sync::aref::ARef, //
};

/// A family of sockets with the operations of `Self`.
pub(crate) trait Family: Operations {
    /// socket(2), or a socket that the kernel makes for itself (`kern`). The result is the one
    /// that `sock_init_data` has connected with `socket`.
    fn create(
        net: &Namespace,
        socket: &mut Creation<'_>,
        protocol: c_int,
        kern: bool,
    ) -> Result<ARef<Self::Object>>;
}

/// A `struct socket` that is being created.
///
/// # Invariants
///
/// It is valid, and no other code uses it for `'a`.
pub(crate) struct Creation<'a>(*mut ffi::core::socket, PhantomData<&'a mut ()>);

impl Creation<'_> {
    /// # Safety
    ///
    /// `socket` is valid, and for the chosen lifetime no other code uses it.
    pub(crate) unsafe fn from_raw(socket: *mut ffi::core::socket) -> Self {
        // INVARIANT: By the caller's promise.
        Self(socket, PhantomData)
    }

    /// Makes the socket one without a `struct sock`.
    pub(crate) fn forget(&mut self) {
        // SAFETY: It is valid, by the invariant.
        unsafe { (*self.0).sk = core::ptr::null_mut() };
    }

    pub(crate) fn as_ptr(&mut self) -> *mut ffi::core::socket {
        self.0
    }

    /// SOCK_STREAM or another type.
    pub(crate) fn kind(&self) -> u32 {
        // SAFETY: It is valid, by the invariant.
        unsafe { (*self.0).type_ as u32 }
    }
}

/// A `struct net_proto_family`.
pub(crate) struct Table<F: Family>(
    UnsafeCell<ffi::core::net_proto_family>,
    PhantomData<fn() -> F>,
);

// SAFETY: Handed to C, which only reads it.
unsafe impl<F: Family> Sync for Table<F> {}

impl<F: Family> Table<F> {
    /// A family of the number `family`.
    pub(crate) const fn new(family: c_int, owner: *mut ffi::core::module) -> Self {
        Self(
            UnsafeCell::new(ffi::core::net_proto_family {
                family,
                create: Some(create_cb::<F>),
                owner,
            }),
            PhantomData,
        )
    }

    /// Makes the family known: from here on socket(2) finds it. EEXIST if its number is taken.
    pub(crate) fn register(&'static self) -> Result<Registration> {
        // SAFETY: The struct is static.
        to_result(unsafe { ffi::core::sock_register(self.0.get()) })?;
        // SAFETY: C only reads it.
        let family = unsafe { (*self.0.get()).family };
        // INVARIANT: registered just above.
        Ok(Registration(family))
    }
}

/// A family that socket(2) finds.
///
/// # Invariants
///
/// It is registered under that number.
pub(crate) struct Registration(c_int);

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: Registered, by the invariant.
        unsafe { ffi::core::sock_unregister(self.0) };
    }
}

/// # Safety
///
/// Called from C, with the arguments that the slot it stands in promises.
unsafe extern "C" fn create_cb<F: Family>(
    net: *mut ffi::core::net,
    socket: *mut ffi::core::socket,
    protocol: c_int,
    kern: c_int,
) -> c_int {
    from_result(|| {
        // SAFETY: The namespace is the caller's.
        let net = unsafe { Namespace::from_raw(net.cast()) };
        // INVARIANT: No other code uses the socket yet.
        let mut creation = Creation(socket, PhantomData);
        let sock = F::create(net, &mut creation, protocol, kern != 0)?;
        // SAFETY: No other code uses the socket yet. Its `sk` is the beginning of an object, and it
        // gets the reference to that.
        unsafe {
            if !core::ptr::eq((*socket).sk.cast(), sock.sk()) {
                return Err(EINVAL);
            }
            let _ = ARef::into_raw(sock);
            F::table().adopt(socket);
        }
        Ok(0)
    })
}
