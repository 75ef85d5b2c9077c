// SPDX-License-Identifier: MIT

//! What the kernel must allow and know: a full userfaultfd with write protection, or with protection
//! against reading and writing, and questions about single mappings. `sdp_run` and `sdp_chk` include this file, so that they ask as the library
//! does.

use core::ffi::CStr;
use libc::{c_int, c_ulong};

/// The library knows pages of this size alone.
pub(crate) const PAGE: usize = 4096;

/// Most architectures have these numbers of the requests. These others have their own.
const KNOWN_REQUESTS: bool = !cfg!(any(
    target_arch = "powerpc",
    target_arch = "powerpc64",
    target_arch = "mips",
    target_arch = "mips64",
    target_arch = "sparc",
    target_arch = "sparc64",
));

const API: u64 = 0xaa;
const UFFDIO_API: c_ulong = 0xc018_aa3f;
const USERFAULTFD_IOC_NEW: c_ulong = 0xaa00;

const FEATURE_PAGEFAULT_FLAG_WP: u64 = 1;
const FEATURE_EVENT_REMAP: u64 = 1 << 2;
/// mremap() keeps the protection and is reported.
const FEATURES: u64 = FEATURE_PAGEFAULT_FLAG_WP | FEATURE_EVENT_REMAP;
/// Protection against reading as well: since Linux 7.3.
const FEATURE_RWP: u64 = 1 << 17;

const PROCMAP_QUERY: c_ulong = 0xc068_6611;
const VMA_READABLE: u64 = 1;
const VMA_WRITABLE: u64 = 2;
const VMA_SHARED: u64 = 8;

/// The lowest number for the descriptors, if the process may have so many: programs expect the low
/// numbers to be theirs.
const NUMBER: c_int = 1000;

/// The userfaultfd, the list of mappings, which answers questions, the memory itself, and the state of
/// its pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptors {
    pub(crate) uffd: c_int,
    pub(crate) maps: c_int,
    pub(crate) memory: c_int,
    pub(crate) pages: c_int,
    /// Memory can be protected against reading as well.
    pub(crate) hides: bool,
}

impl Descriptors {
    pub(crate) const NONE: Self = Self {
        uffd: -1,
        maps: -1,
        memory: -1,
        pages: -1,
        hides: false,
    };

    pub(crate) const fn all(self) -> [c_int; 4] {
        [self.uffd, self.maps, self.memory, self.pages]
    }

    pub(crate) fn close(self) {
        for fd in self.all() {
            close(fd);
        }
    }
}

/// Why memory cannot be protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// This process may have no userfaultfd that stops the kernel's writes as well.
    Right,
    /// The kernel is too old, or was built without it.
    Feature,
    /// The machine has other pages, or its kernel has other numbers of requests.
    Machine,
    /// Another errno.
    Other(c_int),
}

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct procmap_query`
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

const _: () = assert!(size_of::<Query>() == 104);

/// A mapping.
#[derive(Clone, Copy)]
pub(crate) struct Vma {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Private, without a file, readable and writable.
    pub(crate) plain: bool,
}

pub(crate) fn errno() -> c_int {
    // SAFETY: The C library gives each thread an errno that lives as long as it.
    unsafe { *libc::__errno_location() }
}

/// ioctl(2) with a struct.
pub(crate) fn ioctl<T>(fd: c_int, request: c_ulong, argument: &mut T) -> Result<(), c_int> {
    // SAFETY: `argument` is the struct that belongs to the request, and lives through the call.
    let result = unsafe { libc::ioctl(fd, request, core::ptr::from_mut(argument)) };
    if result < 0 {
        Err(errno())
    } else {
        Ok(())
    }
}

fn close(fd: c_int) {
    if fd >= 0 {
        // SAFETY: It takes a number; the callers own the descriptor.
        unsafe { libc::close(fd) };
    }
}

fn open_file(name: &CStr, flags: c_int) -> Result<c_int, c_int> {
    // SAFETY: The name is a string that ends.
    let fd = unsafe { libc::open(name.as_ptr(), flags | libc::O_CLOEXEC) };
    if fd < 0 {
        Err(errno())
    } else {
        Ok(fd)
    }
}

/// The same descriptor with a high number, if there is one.
fn raised(fd: c_int) -> c_int {
    // SAFETY: It takes numbers.
    let high = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, NUMBER) };
    if high < 0 {
        return fd;
    }
    close(fd);
    high
}

/// A new userfaultfd, by the system call or by the device. Neither is for user mode alone: the
/// writes of system calls would fail.
fn new_uffd() -> Result<c_int, Missing> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: It takes an integer.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    if let Ok(fd @ 0..) = c_int::try_from(fd) {
        return Ok(fd);
    }
    let refusal = match errno() {
        libc::EPERM => Missing::Right,
        libc::ENOSYS => Missing::Feature,
        other => Missing::Other(other),
    };
    let device = open_file(c"/dev/userfaultfd", libc::O_RDWR).map_err(|_| refusal)?;
    // SAFETY: The request takes flags.
    let fd = unsafe { libc::ioctl(device, USERFAULTFD_IOC_NEW, flags) };
    let result = if fd < 0 {
        Err(Missing::Other(errno()))
    } else {
        Ok(fd)
    };
    close(device);
    result
}

/// Opens them, if the kernel allows and knows what is needed to lend memory. If it knows what is needed
/// to receive ahead, they are for that, too.
pub(crate) fn open() -> Result<Descriptors, Missing> {
    let mut opened = Descriptors::NONE;
    let result = open_into(&mut opened);
    if result.is_err() {
        opened.close();
    }
    result.map(|()| Descriptors {
        uffd: raised(opened.uffd),
        maps: raised(opened.maps),
        memory: raised(opened.memory),
        pages: raised(opened.pages),
        hides: opened.hides,
    })
}

/// Has the userfaultfd work with these features.
fn knows(uffd: c_int, features: u64) -> bool {
    let mut api = Api {
        api: API,
        features,
        ioctls: 0,
    };
    ioctl(uffd, UFFDIO_API, &mut api).is_ok()
}

fn open_into(opened: &mut Descriptors) -> Result<(), Missing> {
    // SAFETY: It takes a number.
    let page_size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    if !KNOWN_REQUESTS || usize::try_from(page_size) != Ok(PAGE) {
        return Err(Missing::Machine);
    }
    opened.uffd = new_uffd()?;
    // EINVAL for a feature that it does not know. Then another try is possible.
    opened.hides = knows(opened.uffd, FEATURES | FEATURE_RWP);
    if !opened.hides && !knows(opened.uffd, FEATURES) {
        return Err(Missing::Feature);
    }
    opened.maps = open_file(c"/proc/self/maps", libc::O_RDONLY).map_err(Missing::Other)?;
    opened.memory = open_file(c"/proc/self/mem", libc::O_RDONLY).map_err(Missing::Other)?;
    opened.pages =
        open_file(c"/proc/self/pagemap", libc::O_RDONLY).map_err(|errno| match errno {
            libc::ENOENT => Missing::Feature,
            other => Missing::Other(other),
        })?;
    let own = core::ptr::from_ref(opened).addr();
    vma(opened.maps, own).map(|_| ()).ok_or(Missing::Feature)
}

/// The mapping that `address` is in, by the list of mappings.
#[expect(clippy::cast_possible_truncation, reason = "addresses have 64 bits")]
pub(crate) fn vma(maps: c_int, address: usize) -> Option<Vma> {
    let mut query = Query {
        size: size_of::<Query>() as u64,
        query_addr: address as u64,
        ..Query::default()
    };
    ioctl(maps, PROCMAP_QUERY, &mut query).ok()?;
    let wanted = VMA_READABLE | VMA_WRITABLE;
    Some(Vma {
        start: query.vma_start as usize,
        end: query.vma_end as usize,
        plain: query.inode == 0 && query.vma_flags & (wanted | VMA_SHARED) == wanted,
    })
}
