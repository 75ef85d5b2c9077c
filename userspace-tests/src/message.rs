// SPDX-License-Identifier: MIT
//! Scatter/gather and multi-message calls: readv, writev, sendmsg, recvmsg, sendmmsg, recvmmsg.

use std::ffi::c_void;
use std::ptr;

use libc::{c_int, c_uint, iovec, msghdr};

use crate::errno::{checked, checked_int, Res};
use crate::sock::Sock;

pub fn io(base: *const u8, len: usize) -> iovec {
    iovec { iov_base: base.cast_mut().cast::<c_void>(), iov_len: len }
}

pub fn gather(parts: &[&[u8]]) -> Vec<iovec> {
    parts.iter().map(|part| io(part.as_ptr(), part.len())).collect()
}

pub fn scatter(rooms: &mut [&mut [u8]]) -> Vec<iovec> {
    rooms.iter_mut().map(|room| io(room.as_mut_ptr(), room.len())).collect()
}

pub fn header(parts: &mut [iovec]) -> msghdr {
    // SAFETY: all zeroes is a valid, empty `msghdr`.
    let mut header: msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = if parts.is_empty() { ptr::null_mut() } else { parts.as_mut_ptr() };
    header.msg_iovlen = parts.len();
    header
}

/// The results of one `recvmsg` besides the bytes.
#[derive(Debug, PartialEq, Eq)]
pub struct Received {
    pub count: usize,
    pub flags: c_int,
    pub name_len: usize,
    pub control_len: usize,
}

impl Sock {
    pub fn writev(&self, parts: &[&[u8]]) -> Res<usize> {
        self.writev_raw(&gather(parts))
    }

    pub fn writev_raw(&self, parts: &[iovec]) -> Res<usize> {
        // SAFETY: the kernel checks every element; a bad one is answered with EFAULT.
        checked(unsafe { libc::writev(self.fd(), parts.as_ptr(), parts.len() as c_int) })
    }

    pub fn readv(&self, rooms: &mut [&mut [u8]]) -> Res<usize> {
        self.readv_raw(&scatter(rooms))
    }

    pub fn readv_raw(&self, rooms: &[iovec]) -> Res<usize> {
        // SAFETY: the caller's rooms are good for their lengths or deliberately unmapped.
        checked(unsafe { libc::readv(self.fd(), rooms.as_ptr(), rooms.len() as c_int) })
    }

    pub fn sendmsg(&self, parts: &[&[u8]], flags: c_int) -> Res<usize> {
        self.sendmsg_raw(&mut gather(parts), flags)
    }

    pub fn sendmsg_raw(&self, parts: &mut [iovec], flags: c_int) -> Res<usize> {
        let header = header(parts);
        self.sendmsg_header(&raw const header, flags)
    }

    pub fn sendmsg_header(&self, header: *const msghdr, flags: c_int) -> Res<usize> {
        // SAFETY: as in `writev_raw`.
        checked(unsafe { libc::sendmsg(self.fd(), header, flags) })
    }

    pub fn recvmsg(&self, rooms: &mut [&mut [u8]], flags: c_int) -> Res<Received> {
        let mut parts = scatter(rooms);
        let mut header = header(&mut parts);
        let mut name = crate::addr::Addr::empty();
        let mut control = [0_u64; 16];
        header.msg_name = name.as_mut_ptr().cast();
        header.msg_namelen = name.len() as libc::socklen_t;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&control);
        let count = self.recvmsg_header(&raw mut header, flags)?;
        Ok(Received {
            count,
            flags: header.msg_flags,
            name_len: header.msg_namelen as usize,
            control_len: header.msg_controllen,
        })
    }

    pub fn recvmsg_header(&self, header: *mut msghdr, flags: c_int) -> Res<usize> {
        // SAFETY: as in `readv_raw`.
        checked(unsafe { libc::recvmsg(self.fd(), header, flags) })
    }

    /// One message per element, each with one part; returns the bytes sent of each.
    pub fn sendmmsg(&self, messages: &[&[u8]], flags: c_int) -> Res<Vec<usize>> {
        let mut parts = gather(messages);
        let mut headers = headers(&mut parts);
        // SAFETY: headers and parts live through the call.
        let sent = checked_int(unsafe {
            libc::sendmmsg(self.fd(), headers.as_mut_ptr(), headers.len() as c_uint, flags)
        })?;
        Ok(lengths(&headers, sent))
    }

    /// One buffer per message; returns the bytes received in each.
    pub fn recvmmsg(
        &self,
        rooms: &mut [&mut [u8]],
        flags: c_int,
        limit: Option<libc::timespec>,
    ) -> Res<Vec<usize>> {
        let mut parts = scatter(rooms);
        let mut headers = headers(&mut parts);
        let mut limit = limit;
        let limit = limit.as_mut().map_or(ptr::null_mut(), |limit| &raw mut *limit);
        // SAFETY: headers, parts and the limit live through the call.
        let taken = checked_int(unsafe {
            libc::recvmmsg(self.fd(), headers.as_mut_ptr(), headers.len() as c_uint, flags, limit)
        })?;
        Ok(lengths(&headers, taken))
    }
}

fn headers(parts: &mut [iovec]) -> Vec<libc::mmsghdr> {
    parts.chunks_mut(1).map(|part| libc::mmsghdr { msg_hdr: header(part), msg_len: 0 }).collect()
}

fn lengths(headers: &[libc::mmsghdr], count: c_int) -> Vec<usize> {
    headers.iter().take(count as usize).map(|header| header.msg_len as usize).collect()
}
