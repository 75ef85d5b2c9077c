// SPDX-License-Identifier: GPL-2.0

//! `struct net`: what the Internet families know of a network namespace.
//!
//! C header: [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h)
//!
//! Contexts: any that may sleep. No locks.

use crate::{
    calls::calls,
    ffi,
    prelude::*, //
};
use core::ptr::NonNull;
use kernel::types::Opaque;

/// `struct net`.
///
/// # Invariants
///
/// It is alive as long as there is a reference.
#[repr(transparent)]
pub(crate) struct Namespace(Opaque<ffi::net>);

// SAFETY: It belongs to no thread.
unsafe impl Send for Namespace {}
// SAFETY: C changes it with locks of its own, and reads single words without.
unsafe impl Sync for Namespace {}

impl Namespace {
    /// # Safety
    ///
    /// `net` is alive for `'a`.
    pub(crate) unsafe fn from_raw<'a>(net: *mut ffi::net) -> &'a Self {
        // SAFETY: It is valid by the caller's promise, and `Self` transparent.
        unsafe { &*net.cast() }
    }

    /// The namespace of a `struct sock` that may be of any family.
    ///
    /// # Safety
    ///
    /// `sk` is valid for `'a`.
    pub(crate) unsafe fn of_sock<'a>(sk: *const ffi::sock) -> &'a Self {
        // SAFETY: A socket has a namespace, and holds it.
        unsafe { Self::from_raw(ffi::rust_net_sock_net(sk)) }
    }

    /// The namespace of the file that is read.
    ///
    /// # Safety
    ///
    /// `m` is seq_file's, for a file of a namespace that is made in one piece.
    pub(crate) unsafe fn of_single_file<'a>(m: *mut ffi::seq_file) -> &'a Self {
        // SAFETY: An open file of a namespace keeps it alive.
        unsafe { Self::from_raw(ffi::rust_net_seq_net(m)) }
    }

    /// The pointer that a subsystem has stored under its number.
    ///
    /// # Safety
    ///
    /// `id` is the number of a registered subsystem.
    pub(crate) unsafe fn generic(&self, id: c_uint) -> *mut c_void {
        // SAFETY: The namespace is alive, and the number valid, by the caller's promise.
        unsafe { ffi::rust_net_net_generic(self.as_ptr(), id) }
    }

    /// A user of the first namespace, as the owner of this one sees it.
    pub(crate) fn uid_of(&self, kuid: c_uint) -> c_uint {
        // SAFETY: The namespace is alive, any number will do.
        unsafe { ffi::rust_net_uid_of(self.as_ptr(), kuid) }
    }

    pub(crate) fn as_ptr(&self) -> *mut ffi::net {
        self.0.get()
    }

    /// The range of ephemeral ports: `net.ipv4.ip_local_port_range`.
    pub(crate) fn local_port_range(&self) -> (c_int, c_int) {
        let (mut low, mut high) = (0, 0);
        self.read_port_range(&mut low, &mut high);
        (low, high)
    }

    /// Whether an address of IPv6 is one of the namespace: of an interface, if that is not 0.
    pub(crate) fn is_local6(&self, addr: [u8; 16], device: c_int) -> bool {
        let mut in6: ffi::in6_addr = pin_init::zeroed();
        in6.in6_u.u6_addr8 = addr;
        self.has_address6(&in6, device)
    }

    /// Whether an address of IPv4 is one of the namespace: in the VRF of an interface, or outside
    /// of all if that is 0.
    pub(crate) fn is_local4(&self, addr: [u8; 4], device: c_int) -> bool {
        self.has_address(u32::from_ne_bytes(addr), device)
    }
}

// SAFETY: The namespace is alive, by the invariant. Each function reads words of it and of its user
// namespace, which it holds; words that belong together with the seqlock of C.
calls! { unsafe {
    impl Namespace, |me| me.as_ptr();
    fn read_port_range(low: &mut c_int, high: &mut c_int) = rust_net_local_port_range;
    /// Whether no socket gets a port unless it names it: `net.ipv4.ip_local_reserved_ports`.
    pub(crate) fn is_reserved(port: u16) -> bool = rust_net_port_is_reserved;
    /// Whether the caller may bind to a port below `net.ipv4.ip_unprivileged_port_start`.
    pub(crate) fn may_bind(port: u16) -> bool = rust_net_may_bind_low_port;
    /// `net.ipv6.bindv6only`.
    pub(crate) fn binds_v6only() -> bool = rust_net_v6only_by_default;
    /// Whether sockets outside of all VRFs serve all of them: `net.ipv4.tcp_l3mdev_accept`.
    pub(crate) fn serves_vrfs() -> bool = rust_net_vrfs_are_open;
}}

// SAFETY: The namespace is alive, by the invariant. Each function looks at its interfaces,
// addresses and routes under RCU.
calls! { unsafe {
    impl Namespace, |me| me.as_ptr();
    fn has_address6(addr: &ffi::in6_addr, device: c_int) -> bool = rust_net_addr_is_local6;
    fn has_address(addr: u32, device: c_int) -> bool = rust_net_addr_is_local4;
    /// The VRF of an interface, which may be the interface itself; 0 for none.
    pub(crate) fn vrf_of(device: c_int) -> c_int = rust_net_vrf_of;
}}

/// A reference to a namespace.
///
/// # Invariants
///
/// It is counted.
pub(crate) struct Held(NonNull<ffi::net>);

impl Held {
    /// # Safety
    ///
    /// The caller owns a counted reference, and gives it up.
    pub(crate) unsafe fn from_owned(net: NonNull<ffi::net>) -> Self {
        // INVARIANT: By the caller's promise.
        Self(net)
    }
}

impl core::ops::Deref for Held {
    type Target = Namespace;

    fn deref(&self) -> &Namespace {
        // SAFETY: The reference keeps it alive.
        unsafe { Namespace::from_raw(self.0.as_ptr()) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: The reference is ours.
        unsafe { ffi::rust_net_put_net(self.0.as_ptr()) };
    }
}
