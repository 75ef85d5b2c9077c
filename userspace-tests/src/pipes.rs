// SPDX-License-Identifier: MIT
//! Pipes, files in memory, and calls that move bytes between descriptors.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::ptr;

use libc::{c_int, c_uint, off_t};

use crate::errno::{checked, checked_int, checked_unit, Res};

pub struct Pipe {
    pub out: File,
    pub into: File,
}

impl Pipe {
    #[track_caller]
    pub fn new() -> Self {
        let mut fds = [0; 2];
        // SAFETY: the array has room for two descriptors, which are fresh and owned here.
        unsafe {
            checked_unit(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC)).expect("pipe");
            Pipe { out: File::from_raw_fd(fds[0]), into: File::from_raw_fd(fds[1]) }
        }
    }

    #[track_caller]
    pub fn put(&self, data: &[u8]) {
        (&self.into).write_all(data).expect("writing to a pipe");
    }

    #[track_caller]
    pub fn take(&self, len: usize) -> Vec<u8> {
        let mut data = vec![0; len];
        (&self.out).read_exact(&mut data).expect("reading from a pipe");
        data
    }
}

/// A file that exists in memory only.
#[track_caller]
pub fn file_with(data: &[u8]) -> File {
    // SAFETY: the name is a C string; the descriptor is fresh and owned here.
    let mut file = unsafe {
        let fd = checked_int(libc::memfd_create(c"payload".as_ptr(), libc::MFD_CLOEXEC));
        File::from_raw_fd(fd.expect("memfd_create"))
    };
    file.write_all(data).expect("writing a file");
    file
}

/// `sendfile` from an offset, which it advances.
pub fn sendfile(to: RawFd, from: &File, offset: &mut off_t, len: usize) -> Res<usize> {
    // SAFETY: the offset lives through the call.
    checked(unsafe { libc::sendfile(to, from.as_raw_fd(), offset, len) })
}

pub fn splice(from: RawFd, to: RawFd, len: usize, flags: c_uint) -> Res<usize> {
    // SAFETY: integers only; no offsets are passed.
    checked(unsafe { libc::splice(from, ptr::null_mut(), to, ptr::null_mut(), len, flags) })
}

pub fn tee(from: &Pipe, to: &Pipe, len: usize) -> Res<usize> {
    // SAFETY: integers only.
    checked(unsafe { libc::tee(from.out.as_raw_fd(), to.into.as_raw_fd(), len, 0) })
}

/// Sends a descriptor over a Unix socket.
#[track_caller]
pub fn pass_fd(over: RawFd, fd: RawFd) {
    let mut byte = [0_u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut control = [0_u64; 4];
    let mut message = crate::message::header(std::slice::from_mut(&mut part));
    message.msg_control = control.as_mut_ptr().cast();
    // SAFETY: the control buffer is aligned and has room for one descriptor's message.
    unsafe {
        message.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as c_uint) as usize;
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        (*head).cmsg_level = libc::SOL_SOCKET;
        (*head).cmsg_type = libc::SCM_RIGHTS;
        (*head).cmsg_len = libc::CMSG_LEN(size_of::<c_int>() as c_uint) as usize;
        libc::CMSG_DATA(head).cast::<c_int>().write_unaligned(fd);
        checked(libc::sendmsg(over, &raw const message, 0)).expect("passing a descriptor");
    }
}

/// Takes the descriptor that `pass_fd` sent.
#[track_caller]
pub fn take_fd(over: RawFd) -> RawFd {
    let mut byte = [0_u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut control = [0_u64; 4];
    let mut message = crate::message::header(std::slice::from_mut(&mut part));
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: the control buffer is aligned; its first message is checked before it is read.
    unsafe {
        checked(libc::recvmsg(over, &raw mut message, 0)).expect("taking a descriptor");
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        assert!(!head.is_null() && (*head).cmsg_type == libc::SCM_RIGHTS, "no descriptor came");
        libc::CMSG_DATA(head).cast::<c_int>().read_unaligned()
    }
}
