// SPDX-License-Identifier: MIT

//! Network namespaces, by the numbers that rtnetlink(7) has for them.
//!
//! The namespace of a container may have no name, and for a while no process. So the kernel lists all
//! namespaces (listns(2)), and tells the number of each (RTM_GETNSID).

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::thread;

use netlink_packet_core::{
    parse_i32, DecodeError, NetlinkDeserializable, NetlinkHeader, NlasIterator,
};
use nix::sched::{setns, CloneFlags};
use sdp_netlink::protocols::NETLINK_ROUTE;
use sdp_netlink::{ask, number, Request, NLM_F_ACK};

const RTM_GETNSID: u16 = 90;
/// `struct rtgenmsg`, with its padding.
const HEAD_LEN: usize = 4;
const NETNSA_NSID: u16 = 1;
const NETNSA_FD: u16 = 3;

const SYS_LISTNS: libc::c_long = 470;
/// Numbers of namespaces that a call asks for.
const LISTED: usize = 128;
const CLONE_NEWNET: u32 = 0x4000_0000;
const FD_NSFS_ROOT: libc::c_int = -10003;
const FILEID_NSFS: i32 = 0xf1;

/// `struct ns_id_req`.
#[repr(C)]
struct Listing {
    size: u32,
    spare: u32,
    /// The last identifier of the call before.
    after: u64,
    kind: u32,
    spare2: u32,
    user: u64,
}

/// `struct file_handle` with `struct nsfs_file_handle`.
#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    id: u64,
    /// 0: of any kind.
    namespace_kind: u32,
    inode: u32,
}

/// The identifiers of up to [`LISTED`] network namespaces that come after this one.
fn list(after: u64) -> io::Result<Vec<u64>> {
    let listing = Listing {
        size: 32,
        spare: 0,
        after,
        kind: CLONE_NEWNET,
        spare2: 0,
        user: 0,
    };
    let mut found = vec![0u64; LISTED];
    // SAFETY: Both are valid for the call, `found` for this number of entries.
    let count = unsafe {
        libc::syscall(
            SYS_LISTNS,
            &raw const listing,
            found.as_mut_ptr(),
            found.len(),
            0,
        )
    };
    match usize::try_from(count) {
        Ok(count) => found.truncate(count),
        Err(_) => match io::Error::last_os_error() {
            // There is none with a larger identifier.
            e if e.kind() == io::ErrorKind::NotFound => found.clear(),
            e => return Err(e),
        },
    }
    Ok(found)
}

/// A network namespace, which may have ended. No other one ever has its identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Namespace(u64);

/// `NotFound` if it has ended.
fn open(Namespace(id): Namespace) -> io::Result<OwnedFd> {
    let handle = Handle {
        bytes: 16,
        kind: FILEID_NSFS,
        id,
        namespace_kind: 0,
        inode: 0,
    };
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: The handle is valid for the call, and as long as it says.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            FD_NSFS_ROOT,
            &raw const handle,
            flags,
        )
    };
    match libc::c_int::try_from(fd) {
        // SAFETY: The descriptor is new, and nothing else has it.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => match io::Error::last_os_error() {
            e if e.raw_os_error() == Some(libc::ESTALE) => Err(io::ErrorKind::NotFound.into()),
            e => Err(e),
        },
    }
}

/// The answer to RTM_GETNSID.
struct Number(Option<i32>);

impl NetlinkDeserializable for Number {
    type Error = DecodeError;

    fn deserialize(_: &NetlinkHeader, payload: &[u8]) -> Result<Self, DecodeError> {
        for attribute in NlasIterator::new(payload.get(HEAD_LEN..).unwrap_or_default()) {
            let attribute = attribute?;
            if attribute.kind() == NETNSA_NSID {
                return Ok(Self(Some(parse_i32(attribute.value())?)));
            }
        }
        Ok(Self(None))
    }
}

/// The number that the caller's namespace has for this one.
fn number_of(namespace: &OwnedFd) -> io::Result<Option<i32>> {
    let fd = u32::try_from(namespace.as_raw_fd()).map_err(io::Error::other)?;
    let request = Request {
        kind: RTM_GETNSID,
        flags: NLM_F_ACK,
        head: &[0; HEAD_LEN],
        attributes: &[number(NETNSA_FD, fd)],
    };
    let mut found = None;
    ask(NETLINK_ROUTE, request, &mut |answer: Number| {
        found = answer.0;
        Ok(())
    })?;
    Ok(found)
}

/// All network namespaces of the machine.
pub(crate) fn all() -> io::Result<Vec<Namespace>> {
    let mut ids = list(0)?;
    let mut more = ids.clone();
    while let Some(last) = more.last() {
        more = list(*last)?;
        ids.extend(&more);
    }
    Ok(ids.into_iter().map(Namespace).collect())
}

/// The namespace for which the caller's has this number. `NotFound` if it has ended.
pub(crate) fn by_number(number: i32) -> io::Result<Namespace> {
    for namespace in all()? {
        match open(namespace) {
            Ok(fd) if number_of(&fd)? == Some(number) => return Ok(namespace),
            // Those that cannot be opened have ended meanwhile.
            _ => {}
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Does something inside a namespace, in a thread that ends with it: it cannot fail to come back.
/// `NotFound` if the namespace has ended.
pub(crate) fn inside<T: Send>(
    namespace: Namespace,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    let fd = open(namespace)?;
    let enter_and_work = || {
        setns(fd.as_fd(), CloneFlags::CLONE_NEWNET)?;
        work()
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, enter_and_work)?;
        thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")))
    })
}
