// SPDX-License-Identifier: GPL-2.0

//! The bytes of a sendmsg(2) on their way to the send queue: copies in page fragments of the
//! socket, or pages that the caller gives away.
//!
//! Contexts: process context, may sleep. Locks: `lock_sock`.

use crate::{
    ffi,
    net::{
        msg::SendMsg,
        sk::Guard, //
    },
    object::Sock,
    prelude::*,
    rdma::page::Page,
};
use core::{
    mem::MaybeUninit,
    ptr::NonNull, //
};
use kernel::page::PAGE_SIZE;

/// The next bytes to take over.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub(super) len: usize,
    /// No other bytes are queued or in flight, and none follow.
    pub(super) alone: bool,
}

/// Pages that the caller gives away.
const PAGES: usize = ffi::SDP_SPLICE_PAGES as usize;

/// Bytes in a page: the page, where they begin, their number.
type Bytes = (Page, u32, u32);

/// Bytes in pages that the caller gives away. Mostly there are none, so they have no room then.
pub(super) struct Given(Option<[Option<Bytes>; PAGES]>);

impl Given {
    pub(super) const fn none() -> Self {
        Self(None)
    }

    /// Number of pages.
    pub(super) fn len(&self) -> usize {
        self.0.iter().flatten().flatten().count()
    }

    /// Takes all of them out.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Bytes> + '_ {
        let all = self.0.iter_mut().flatten();
        all.filter_map(Option::take)
    }

    /// Takes up to `len` bytes from the front of `msg`, as many as lie in so many pages as they
    /// would fill: each page counts as a whole one. Returns their number; 0 if they must be copied.
    fn fill(&mut self, msg: &mut SendMsg, len: usize) -> u32 {
        let most = (len / PAGE_SIZE).clamp(1, PAGES);
        let mut found = [const { MaybeUninit::<ffi::sdp_spliced>::uninit() }; PAGES];
        // SAFETY: The message is ours for the call, and there is room for `most`.
        let count = unsafe {
            ffi::sdp_splice_pages(
                msg.as_ptr().cast(),
                len,
                found.as_mut_ptr().cast(),
                most as c_uint,
            )
        };
        let mut sum = 0u32;
        let places = self.0.insert([const { None }; PAGES]);
        for (place, spliced) in places.iter_mut().zip(found.iter().take(count as usize)) {
            // SAFETY: The call has written `count` of them.
            let spliced = unsafe { spliced.assume_init_ref() };
            let Some(page) = NonNull::new(spliced.page.cast()) else {
                break;
            };
            sum = sum.saturating_add(spliced.len);
            // SAFETY: The message's references hold the page until ours does.
            let page = unsafe { Page::get(page) };
            *place = Some((page, spliced.offset, spliced.len));
        }
        sum
    }
}

/// Copies up to `want` bytes from the message into the fragment of the locked socket.
/// ENOBUFS without memory, EFAULT if nothing could be read.
fn fill_fragment(lock: &Guard<'_>, msg: &mut SendMsg, want: Wanted) -> Result<Bytes> {
    // SAFETY: `lock_sock` is held, which protects the socket's fragment. The bytes go behind all
    // the bytes of the page that other code has.
    unsafe {
        let frag = ffi::sdp_sk_frag(lock.sk());
        let small = want.alone && want.len <= PAGE_SIZE;
        if !ffi::sdp_page_frag_refill(lock.sk(), frag, small) {
            return Err(ENOBUFS);
        }
        let page = NonNull::new((*frag).page.cast()).ok_or(ENOBUFS)?;
        let offset = (*frag).offset;
        let size = (*frag).size;
        let n = want.len.min(size.saturating_sub(offset) as usize);
        let to = ffi::sdp_page_address(page.as_ptr())
            .cast::<MaybeUninit<u8>>()
            .add(offset as usize);
        let to = core::slice::from_raw_parts_mut(to, n);
        let n = msg.source().copy_from_iter_raw(to).len();
        if n == 0 {
            return Err(EFAULT);
        }
        let n = n as u32;
        (*frag).offset = offset.saturating_add(n);
        Ok((Page::get(page), offset as u32, n))
    }
}

impl Sock {
    /// The next bytes of the message: in their own pages where the caller gives those away, as
    /// sendfile() does, which `given` has then, or copied. Returns their number, and where they
    /// were copied to.
    pub(super) fn next_fragments(
        &self,
        lock: &Guard<'_>,
        msg: &mut SendMsg,
        want: Wanted,
        flags: u32,
        given: &mut Given,
    ) -> Result<(u32, Option<(Page, u32)>)> {
        if flags & ffi::MSG_SPLICE_PAGES != 0 {
            let n = given.fill(msg, want.len);
            if n > 0 {
                self.net().stats.spliced_bytes.add(n);
                return Ok((n, None));
            }
        }
        let (page, offset, n) = fill_fragment(lock, msg, want)?;
        Ok((n, Some((page, offset))))
    }
}
