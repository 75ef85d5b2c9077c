// SPDX-License-Identifier: GPL-2.0

//! splice(2) from a socket into a pipe.
//!
//! C headers: [`include/linux/pipe_fs_i.h`](srctree/include/linux/pipe_fs_i.h),
//! [`include/linux/splice.h`](srctree/include/linux/splice.h)
//!
//! Contexts: process context, may sleep. Locks: the pipe's is held.

use crate::{
    ffi,
    net::socket::Socket,
    prelude::*, //
};

/// A splice(2) from a socket, at its beginning.
///
/// # Invariants
///
/// `pipe` is locked, and has readers. `socket` has a file.
pub(crate) struct Splice<'a> {
    socket: &'a Socket,
    position: &'a mut ffi::core::loff_t,
    pipe: *mut ffi::core::pipe_inode_info,
    len: usize,
    flags: c_uint,
}

impl<'a> Splice<'a> {
    /// ESPIPE where the program has named a position.
    ///
    /// # Safety
    ///
    /// For `'a`, `pipe` is locked, and has readers, and `socket` has a file.
    pub(super) unsafe fn new(
        socket: &'a Socket,
        position: &'a mut ffi::core::loff_t,
        pipe: *mut ffi::core::pipe_inode_info,
        len: usize,
        flags: c_uint,
    ) -> Result<Self> {
        if *position != 0 {
            return Err(ESPIPE);
        }
        // INVARIANT: By the caller's promise.
        Ok(Self {
            socket,
            position,
            pipe,
            len,
            flags,
        })
    }

    /// The number of bytes to move.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether the file of the socket is not to wait.
    pub(crate) fn is_nonblocking(&self) -> bool {
        // SAFETY: The socket has a file, by the invariant.
        unsafe { ffi::rust_net_is_nonblocking(self.socket.as_ptr().cast()) }
    }

    /// The pipe. Every buffer of it that the call adds is added through this.
    pub(crate) fn pipe(&mut self) -> PipeEnd<'_> {
        // INVARIANT: It is locked by our own invariant.
        PipeEnd {
            pipe: self.pipe.cast(),
            copying: false,
            _splice: core::marker::PhantomData,
        }
    }

    /// Moves copies of the bytes, which recvmsg(2) gives. Returns their number.
    pub(crate) fn copy_all(&mut self) -> Result<usize> {
        // SAFETY: The socket has a file, and the pipe is locked, by the invariant.
        let moved = unsafe {
            ffi::rust_net_splice_copies(
                self.socket.as_ptr().cast(),
                self.position,
                self.pipe.cast(),
                self.len,
                self.flags,
            )
        };
        usize::try_from(moved).map_err(|_| Error::from_errno(moved as c_int))
    }
}

/// The end of a locked pipe that has readers.
///
/// # Invariants
///
/// `pipe` is locked as long as this exists. If `copying`, its newest buffer was added by
/// [`PipeEnd::copy`].
pub(crate) struct PipeEnd<'a> {
    pipe: *mut ffi::pipe_inode_info,
    copying: bool,
    _splice: core::marker::PhantomData<&'a mut ()>,
}

impl PipeEnd<'_> {
    pub(crate) fn has_room(&self) -> bool {
        // SAFETY: The pipe is locked.
        unsafe { ffi::rust_net_pipe_has_room(self.pipe) }
    }

    /// Adds the bytes from `offset` on of a page, with a reference to it. EAGAIN if there is no
    /// room.
    ///
    /// # Safety
    ///
    /// The caller owns a reference to `page`, and gives it up if the result is `Ok`. The page
    /// has `len` bytes from `offset` on, and no code writes to them any more.
    pub(crate) unsafe fn give(&mut self, page: *mut ffi::page, offset: u32, len: u32) -> Result {
        if !self.has_room() {
            return Err(EAGAIN);
        }
        // SAFETY: The pipe is locked and has room; the reference goes with the page.
        unsafe { ffi::rust_net_pipe_give(self.pipe, page, offset, len) };
        self.copying = false;
        Ok(())
    }

    /// Adds a copy of `bytes`, or of their beginning. Returns how many; 0 if there is no room.
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> Result<usize> {
        // SAFETY: The pipe is locked, and the bytes are there.
        let n = unsafe {
            ffi::rust_net_pipe_copy(self.pipe, bytes.as_ptr().cast(), bytes.len(), self.copying)
        };
        let n = usize::try_from(n).map_err(|_| ENOMEM)?;
        // INVARIANT: It was added by this call, if there were bytes to add.
        self.copying |= n > 0;
        Ok(n)
    }
}
