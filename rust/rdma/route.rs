// SPDX-License-Identifier: GPL-2.0

//! From an address to a device and a path to the peer, by rdma_cm.
//!
//! C header: [`include/rdma/rdma_cm.h`](srctree/include/rdma/rdma_cm.h)
//!
//! Contexts: events come in a workqueue of rdma_cm, and their handlers may sleep. Dropping an
//! identifier waits for its handler, so that is not done by the handler, nor with a lock that
//! it takes; a handler ends its identifier by returning it.

use crate::{
    calls::calls,
    ffi,
    net::namespace::Namespace,
    prelude::*,
    rdma::{
        device::{
            Device,
            DeviceId, //
        },
        noio::NoIo, //
    }, //
};
use core::{
    marker::PhantomData,
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    new_mutex,
    sync::{
        Arc,
        Mutex, //
    },
};

/// A socket address of the Internet families.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct SockAddr(ffi::__kernel_sockaddr_storage);

impl SockAddr {
    pub(crate) fn new(storage: ffi::__kernel_sockaddr_storage) -> Self {
        Self(storage)
    }

    pub(crate) fn storage(&self) -> &ffi::__kernel_sockaddr_storage {
        &self.0
    }

    pub(crate) fn storage_mut(&mut self) -> &mut ffi::__kernel_sockaddr_storage {
        &mut self.0
    }

    /// The wildcard address of the same family.
    fn wildcard(&self) -> Self {
        let mut any = Self(pin_init::zeroed());
        // SAFETY: Both are addresses, which begin with their family.
        unsafe {
            let family = (*self.as_ptr()).sa_family;
            (*(&raw mut any.0).cast::<ffi::sockaddr>()).sa_family = family;
        }
        any
    }

    pub(in crate::rdma) fn as_ptr(&self) -> *const ffi::sockaddr {
        core::ptr::from_ref(&self.0).cast()
    }
}

impl Device {
    /// An address of `family` that the device has in the namespace, and that other hosts could
    /// reach.
    pub(crate) fn local_address(&self, net: &Namespace, family: u32) -> Option<SockAddr> {
        let mut address = SockAddr(pin_init::zeroed());
        let to = (&raw mut address.0).cast();
        let family = c_int::try_from(family).ok()?;
        // SAFETY: The device and the namespace are valid by their types' invariants, and the
        // place for the address is ours.
        let found =
            unsafe { ffi::rust_device_local_address(self.as_ptr(), net.as_ptr(), family, to) };
        (found == 0).then_some(address)
    }
}

/// Code that is told how a resolution goes on: the context of a [`Resolver`].
pub(crate) trait OnResolved: Send + Sync + Sized {
    /// An event of the identifier with this context. May sleep. Returns the identifier to have
    /// it destroyed; another thread that has it waits for this handler.
    fn on_event(&self, event: Event<'_>) -> Option<Resolver<Self>>;
}

/// An event of a resolution. Borrowed from rdma_cm while its handler runs.
pub(crate) enum Event<'a> {
    /// The address is resolved, and the identifier has a device.
    AddressResolved(Bound<'a>),
    /// The path is known.
    RouteResolved(Path<'a>),
    /// No answer, or an error of the route.
    AddressError(Error),
    RouteError,
    DeviceRemoved,
    Other,
}

/// An identifier that has a device.
///
/// # Invariants
///
/// `id` is valid and bound for `'a`: its handler runs.
pub(crate) struct Bound<'a> {
    id: NonNull<ffi::rdma_cm_id>,
    _handler: PhantomData<&'a ()>,
}

impl Bound<'_> {
    /// The hardware address that was found belongs to the next hop to `peer`, as on a route
    /// with a gateway.
    pub(crate) fn set_peer(&self, peer: &SockAddr) {
        self.enter_peer(&peer.0);
    }

    /// Whether the route leaves the namespace by the interface `interface` or by one of that
    /// VRF, if it is not 0.
    pub(crate) fn is_in(&self, net: &Namespace, interface: c_int) -> bool {
        self.leaves_net(net, interface)
    }

    /// Resolves the path.
    pub(crate) fn resolve_route(self, ms: u32) -> Result {
        to_result(self.begin_route(ms as usize))
    }
}

// SAFETY: The identifier is valid and bound by the invariant. Its handler runs, and until that
// returns rdma_cm leaves the route to it; each function reads or changes the route.
calls! { unsafe {
    impl Bound<'_>, |me| me.id.as_ptr();
    fn enter_peer(peer: &ffi::__kernel_sockaddr_storage) = rust_route_set_peer;
    fn leaves_net(net: &Namespace, interface: c_int) -> bool = rust_route_is_in_net(
        net: net.as_ptr(), interface: interface
    );
    fn begin_route(ms: c_ulong) -> c_int = rdma_resolve_route;
}}

/// The path to a peer, for the handler that is told of it.
///
/// # Invariants
///
/// During `'a` the handler of `id` runs, so `id` is valid, and its route is resolved.
pub(crate) struct Path<'a> {
    id: NonNull<ffi::rdma_cm_id>,
    _handler: PhantomData<&'a ()>,
}

impl Path<'_> {
    /// The device that it leaves by.
    pub(crate) fn device(&self) -> DeviceId {
        // SAFETY: Valid by the invariant; the word stays the same while the handler runs.
        DeviceId::of(unsafe { (*self.id.as_ptr()).device })
    }

    /// The port that it leaves by, and its partition key.
    pub(crate) fn port(&self) -> (u32, u16) {
        // SAFETY: Valid by the invariant, with a path record. Both stay the same, as in `device`.
        let (port, pkey) = unsafe { ((*self.id.as_ptr()).port_num, (*self.record()).pkey) };
        (port, u16::from_be(pkey))
    }

    pub(super) fn record(&self) -> *mut ffi::sa_path_rec {
        // SAFETY: As in `device`.
        unsafe { (*self.id.as_ptr()).route.path_rec }
    }

    pub(super) fn source(&self) -> *const ffi::ib_gid_attr {
        // SAFETY: As in `device`.
        unsafe { (*self.id.as_ptr()).route.addr.dev_addr.sgid_attr }
    }
}

/// The state that an identifier and a query for it share.
#[pin_data]
struct Shared<C> {
    /// The identifier, until it is about to be destroyed. Held while rdma_cm is told to resolve
    /// the address.
    #[pin]
    id: Mutex<Option<Id>>,
    context: C,
}

/// A pointer to an identifier.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Id(NonNull<ffi::rdma_cm_id>);

// SAFETY: An identifier may be used from any thread.
unsafe impl Send for Id {}
// SAFETY: An identifier may be used from any thread.
unsafe impl Sync for Id {}

/// An identifier of rdma_cm; its events go to its context.
///
/// # Invariants
///
/// `id` is valid, its context is the one of `shared`, and this or a running handler that was
/// given this destroys it, after it has left `shared`.
pub(crate) struct Resolver<C> {
    id: Id,
    shared: Arc<Shared<C>>,
}

impl<C: OnResolved> Resolver<C> {
    /// A new identifier, without an event before [`Query::start`]. `class` is the traffic
    /// class; 0 leaves it to the device. The peer is reached by the interface of that index,
    /// if it is not 0. May sleep.
    pub(crate) fn new(net: &Namespace, context: C, class: u8, interface: c_int) -> Result<Self> {
        let shared = Arc::pin_init(
            pin_init!(Shared {
                id <- new_mutex!(None, "rdma_resolver"),
                context,
            }),
            GFP_KERNEL,
        )?;
        let raw = (&raw const shared.context).cast_mut().cast();
        // SAFETY: The namespace is alive. The context is dropped behind the identifier, by
        // which no event comes from then on.
        let id = unsafe { ffi::rust_rdma_create_id(net.as_ptr(), Some(event_cb::<C>), raw) };
        let id = Id(NonNull::new(kernel::error::from_err_ptr(id)?).ok_or(ENOMEM)?);
        // SAFETY: The identifier is new and ours.
        unsafe {
            if class != 0 {
                ffi::rdma_set_service_type(id.0.as_ptr(), class.into());
            }
            ffi::rust_route_set_device(id.0.as_ptr(), interface);
        }
        *shared.id.lock() = Some(id);
        // INVARIANT: just made.
        Ok(Self { id, shared })
    }

    pub(crate) fn context(&self) -> &C {
        &self.shared.context
    }

    /// To start the resolution when others can find the identifier already.
    pub(crate) fn query(&self) -> Query<C> {
        Query(self.shared.clone())
    }

    /// For the handler of the identifier, which has the core destroy it. Waits for a query that
    /// is being started.
    fn leave_to_core(self) -> Arc<Shared<C>> {
        let this = ManuallyDrop::new(self);
        *this.shared.id.lock() = None;
        // SAFETY: `this` is never used again, so the reference is moved out once.
        unsafe { core::ptr::read(&this.shared) }
    }
}

impl<C> Drop for Resolver<C> {
    fn drop(&mut self) {
        *self.shared.id.lock() = None;
        // SAFETY: Valid by the invariant. The call waits for a running handler.
        unsafe { ffi::rdma_destroy_id(self.id.0.as_ptr()) };
    }
}

/// A resolution to be started.
pub(crate) struct Query<C>(Arc<Shared<C>>);

impl<C> Query<C> {
    /// Has rdma_cm resolve `to`, from `from` if there is one. ENODEV if the identifier is gone,
    /// which is not destroyed before this returns.
    ///
    /// The source address binds the identifier to its device, and from then on the device
    /// may be removed. A separate call binds it, because a device that goes
    /// between the two halves of `rdma_resolve_addr` causes a warning there. Between the
    /// two calls the same removal gives EINVAL, which has no other cause here, and is ENODEV.
    ///
    /// A handler may be told of the removal before the query is queued. If it could end the
    /// identifier then, no code would cancel the query.
    pub(crate) fn start(self, from: Option<SockAddr>, mut to: SockAddr, ms: u32) -> Result {
        let place = self.0.id.lock();
        let id = place.as_ref().ok_or(ENODEV)?.0.as_ptr();
        // The wildcard of the peer's family stands for no source.
        let mut from = from.unwrap_or_else(|| to.wildcard());
        let from = &raw mut from.0;
        // SAFETY: The identifier is there while it is in its place, which is locked; the
        // address is ours.
        let bound = unsafe { ffi::rust_route_bind(id, from) };
        let resolved = if bound == 0 {
            // SAFETY: The identifier is there while it is in its place, which is locked; the
            // addresses are ours.
            unsafe { ffi::rdma_resolve_addr(id, from.cast(), (&raw mut to.0).cast(), ms as usize) }
        } else {
            bound
        };
        to_result(resolved).map_err(|e| if e == EINVAL { ENODEV } else { e })
    }
}

/// # Safety
///
/// Called by rdma_cm with an identifier that has this handler, and its event.
unsafe extern "C" fn event_cb<C: OnResolved>(
    id: *mut ffi::rdma_cm_id,
    event: *mut ffi::rdma_cm_event,
) -> c_int {
    // SAFETY: Both are valid for the call. The context belongs to the `Resolver`, which is
    // there as long as handlers run: by its drop, and by the end of this one.
    let (kind, status, context) =
        unsafe { ((*event).event, (*event).status, &*(*id).context.cast::<C>()) };
    let Some(valid) = NonNull::new(id) else {
        return 0;
    };
    let _handler = PhantomData;
    let event = match kind {
        // INVARIANT: the handler runs, and the identifier has got a device.
        ffi::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_RESOLVED => Event::AddressResolved(Bound {
            id: valid,
            _handler,
        }),
        // INVARIANT: the handler runs, and the identifier has got a route.
        ffi::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_RESOLVED => Event::RouteResolved(Path {
            id: valid,
            _handler,
        }),
        ffi::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_ERROR => {
            Event::AddressError(Error::from_errno(status))
        }
        ffi::rdma_cm_event_type_RDMA_CM_EVENT_ROUTE_ERROR => Event::RouteError,
        ffi::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL => Event::DeviceRemoved,
        _ => Event::Other,
    };
    // Storage over RDMA connects again by way of this workqueue.
    let _noio = NoIo::new();
    match context.on_event(event) {
        Some(own) if own.id.0 == valid => {
            drop(own.leave_to_core());
            1
        }
        // Another one, which is dropped here.
        Some(_) | None => 0,
    }
}

/// The context of an identifier that resolves nothing.
struct NoEvent;

impl OnResolved for NoEvent {
    fn on_event(&self, _event: Event<'_>) -> Option<Resolver<Self>> {
        // The only event of a bound identifier is the removal of its device, which rdma_cm
        // sees to.
        None
    }
}

/// ENODEV unless a device has this local address in the namespace. May sleep.
pub(crate) fn check_local(net: &Namespace, mut address: SockAddr) -> Result {
    let id = Resolver::new(net, NoEvent, 0, 0)?;
    // SAFETY: The identifier is ours, and the address too.
    let bound = unsafe { ffi::rust_route_bind(id.id.0.as_ptr(), &raw mut address.0) };
    to_result(bound).map_err(|e| if e == ENOMEM { e } else { ENODEV })
}
