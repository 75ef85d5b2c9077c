// SPDX-License-Identifier: GPL-2.0

//! The bytes that a program has written and that are not yet posted.
//!
//! They lie in pages of the socket, or in pinned memory of the program. Locks: under the
//! endpoint's lock.

use crate::{
    ffi,
    fifo::Fifo,
    net::account::{
        Charge,
        Need, //
    },
    net::sk::Sk,
    prelude::*,
    rdma::{
        page::Page,
        pages::UserPages, //
    },
};
use core::ptr::NonNull;
use kernel::{
    page::PAGE_SIZE,
    sync::Arc, //
};

/// Order of the pages that copies of a long rest go to: 32 KiB.
const COPY_ORDER: u32 = 3;

/// Pages for a copy of `len` bytes, or of the first of them.
fn copy_page(sk: &Sk, len: u32) -> Result<Page> {
    let alloc = |order| {
        // SAFETY: A socket of ours. A fresh allocation carries one reference.
        unsafe {
            NonNull::new(ffi::sdp_alloc_pages(sk.sk(), order)).map(|page| Page::from_raw(page))
        }
    };
    let long = len as usize >= PAGE_SIZE << COPY_ORDER;
    let page = if long { alloc(COPY_ORDER) } else { None };
    page.or_else(|| alloc(0)).ok_or(ENOMEM)
}

/// A range of stream bytes in a page.
pub(crate) struct Frag {
    pub(crate) page: Page,
    pub(crate) offset: u32,
    pub(crate) len: u32,
    /// Bytes charged for the rest of the page, counted at its last fragment.
    pub(crate) extra: u32,
}

/// The memory of stream bytes.
enum Store {
    /// In a page of the socket.
    Page(Page),
    /// In pinned memory of a program.
    Pinned(Arc<UserPages>),
}

/// A range of one store.
struct Piece {
    store: Store,
    offset: u32,
    len: u32,
    /// Bytes charged for the rest of the page.
    extra: u32,
}

/// Bytes written by the application, oldest first.
pub(crate) struct SendQueue {
    pieces: Fifo<Piece>,
    /// Bytes written and not completed: queued or in flight.
    held: u32,
    /// Bytes held in addition: the rest of pages that splice() gave. Each page may have
    /// brought a single byte.
    extra: u32,
    /// Of `held`, bytes in the memory of programs.
    pinned: u32,
    /// Charge for the other bytes, and for `extra`.
    charge: Charge,
    /// There was no memory for more. Some is returned when bytes have left.
    starved: bool,
    /// A writer has found SO_SNDBUF used up.
    full: bool,
}

impl SendQueue {
    pub(crate) const fn new() -> Self {
        Self {
            pieces: Fifo::new(),
            held: 0,
            extra: 0,
            pinned: 0,
            charge: Charge::none(),
            starved: false,
            full: false,
        }
    }

    /// A writer has found SO_SNDBUF used up.
    pub(crate) fn set_full(&mut self) {
        self.full = true;
    }

    /// Whether that has happened since the last call.
    pub(crate) fn take_full(&mut self) -> bool {
        core::mem::take(&mut self.full)
    }

    /// Bytes of memory that the socket owns.
    fn owned(&self) -> u32 {
        self.charged().saturating_sub(self.pinned)
    }

    /// Charges memory for up to `bytes` more, or for fewer; ENOBUFS if some has to be
    /// returned first. A socket that holds none gets a page, because its connection
    /// could not go on otherwise.
    pub(crate) fn provide(&mut self, sk: &Sk, bytes: u32) -> Result<u32> {
        let owned = self.owned();
        let reach = owned.saturating_add(bytes);
        let Err(e) = self.charge.reach(sk, reach, Need::Growth) else {
            return Ok(bytes);
        };
        if owned > 0 {
            self.starved = true;
            return Err(e);
        }
        let page = PAGE_SIZE as u32;
        self.charge.reach(sk, page, Need::Least)?;
        Ok(bytes.min(page))
    }

    /// Uncharges memory that was provided and not used.
    pub(crate) fn trim(&mut self) {
        self.charge.trim(self.owned());
    }

    /// Whether no more can be queued before bytes have left.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved
    }

    /// Makes room for `count` more pieces, so that `push` can't fail.
    pub(crate) fn reserve(&mut self, count: usize) -> Result {
        self.pieces.reserve_for(count, GFP_KERNEL)
    }

    /// Appends bytes in `page`. Either the page was `given` away with all its contents,
    /// or it is the socket's own and will take more bytes.
    pub(crate) fn push(&mut self, page: Page, offset: u32, len: u32, given: bool) -> Result {
        let mut merged = false;
        if let Some(last) = self.pieces.back_mut() {
            // The bytes continue the last fragment: one SGE instead of two.
            let same = matches!(&last.store, Store::Page(p) if p.as_ptr() == page.as_ptr());
            if same && last.offset.wrapping_add(last.len) == offset {
                last.len = last.len.saturating_add(len);
                merged = true;
                // This part is charged already.
                let known = last.extra.min(len);
                last.extra = last.extra.saturating_sub(known);
                self.extra = self.extra.saturating_sub(known);
            }
        }
        if !merged {
            let extra = if given {
                (PAGE_SIZE as u32).saturating_sub(len)
            } else {
                0
            };
            let piece = Piece {
                store: Store::Page(page),
                offset,
                len,
                extra,
            };
            self.pieces.push(piece, GFP_KERNEL)?;
            self.extra = self.extra.saturating_add(extra);
        }
        self.held = self.held.saturating_add(len);
        Ok(())
    }

    /// Appends the bytes of a program's pinned memory.
    pub(crate) fn push_pinned(&mut self, pages: Arc<UserPages>, len: u32) -> Result {
        let store = Store::Pinned(pages);
        self.pieces.push(
            Piece {
                store,
                offset: 0,
                len,
                extra: 0,
            },
            GFP_KERNEL,
        )?;
        self.held = self.held.saturating_add(len);
        self.pinned = self.pinned.saturating_add(len);
        Ok(())
    }

    /// Takes up to `max` bytes off the front, if they are in a page of the socket.
    pub(crate) fn take(&mut self, max: u32) -> Option<Frag> {
        let front = self.pieces.front_mut()?;
        let Store::Page(page) = &front.store else {
            return None;
        };
        if max < front.len {
            let frag = Frag {
                page: page.clone(),
                offset: front.offset,
                len: max,
                extra: 0,
            };
            front.offset = front.offset.saturating_add(max);
            front.len = front.len.saturating_sub(max);
            return Some(frag);
        }
        // All of it: its reference moves, too.
        let piece = self.pieces.pop()?;
        match piece.store {
            Store::Page(page) => Some(Frag {
                page,
                offset: piece.offset,
                len: piece.len,
                extra: piece.extra,
            }),
            Store::Pinned(_) => None,
        }
    }

    /// Whether the next bytes are in a program's memory.
    pub(crate) fn is_pinned(&self) -> bool {
        matches!(
            self.pieces.get(0),
            Some(Piece {
                store: Store::Pinned(_),
                ..
            })
        )
    }

    /// Drops the next `len` bytes, which are in a program's memory: the peer has read
    /// them itself.
    pub(crate) fn skip(&mut self, len: u32) {
        self.pass(len);
        self.forget_pinned(len);
    }

    fn forget_pinned(&mut self, len: u32) {
        self.held = self.held.saturating_sub(len);
        self.pinned = self.pinned.saturating_sub(len);
    }

    /// Drops the next `len` bytes: they are in flight.
    pub(crate) fn pass(&mut self, len: u32) {
        let mut left = len;
        while left > 0 {
            let Some(front) = self.pieces.front_mut() else {
                break;
            };
            let n = front.len.min(left);
            front.offset = front.offset.saturating_add(n);
            front.len = front.len.saturating_sub(n);
            left = left.saturating_sub(n);
            if front.len == 0 {
                self.pieces.pop();
            }
        }
    }

    /// Drops the rest of a run in `pages`: it must not be sent.
    pub(crate) fn drop_pinned(&mut self, pages: &Arc<UserPages>) {
        let of_run =
            |piece: &Piece| matches!(&piece.store, Store::Pinned(p) if Arc::ptr_eq(p, pages));
        let at = (0..self.pieces.len()).find(|i| self.pieces.get(*i).is_some_and(of_run));
        if let Some(piece) = at.and_then(|at| self.pieces.remove(at)) {
            self.forget_pinned(piece.len);
        }
    }

    /// Copies the next `len` bytes of a run in `pages` to pages of the socket, in their place.
    /// Changes nothing if it fails.
    pub(crate) fn copy_pinned(&mut self, sk: &Sk, pages: &Arc<UserPages>, len: u32) -> Result {
        let of_run =
            |piece: &Piece| matches!(&piece.store, Store::Pinned(p) if Arc::ptr_eq(p, pages));
        let Some(at) = (0..self.pieces.len()).find(|i| self.pieces.get(*i).is_some_and(of_run))
        else {
            return Err(EINVAL);
        };
        let (from, left) = self.pieces.get(at).map_or((0, 0), |p| (p.offset, p.len));
        if len > left {
            return Err(EINVAL);
        }
        self.charge
            .reach(sk, self.owned().saturating_add(len), Need::Growth)?;
        let before = self.pieces.len();
        if let Err(e) = self.append_copies(sk, pages, from, len) {
            while self.pieces.len() > before {
                drop(self.pieces.remove(before));
            }
            self.trim();
            return Err(e);
        }
        // From the end of the queue to the place in front of the run.
        let behind = at.saturating_add(self.pieces.len().saturating_sub(before));
        self.reverse(at, before);
        self.reverse(before, self.pieces.len());
        self.reverse(at, self.pieces.len());
        if len == left {
            drop(self.pieces.remove(behind));
        } else if let Some(rest) = self.pieces.get_mut(behind) {
            rest.offset = rest.offset.saturating_add(len);
            rest.len = rest.len.saturating_sub(len);
        }
        self.pinned = self.pinned.saturating_sub(len);
        Ok(())
    }

    /// Appends copies of `len` bytes of `pages` from byte `from` on, without counting them.
    fn append_copies(&mut self, sk: &Sk, pages: &UserPages, from: u32, len: u32) -> Result {
        let mut done = 0u32;
        while done < len {
            let left = len.saturating_sub(done);
            let page = copy_page(sk, left)?;
            let n = left.min(u32::try_from(page.size()).unwrap_or(u32::MAX));
            let at = from.saturating_add(done);
            pages.copy_to(at as usize, n as usize, &page)?;
            let piece = Piece {
                store: Store::Page(page),
                offset: 0,
                len: n,
                extra: 0,
            };
            self.pieces.push(piece, GFP_KERNEL)?;
            done = done.saturating_add(n);
        }
        Ok(())
    }

    /// Reverses the pieces from `first` to before `end`.
    fn reverse(&mut self, first: usize, end: usize) {
        let (mut first, mut end) = (first, end);
        while first.saturating_add(1) < end {
            end = end.saturating_sub(1);
            self.pieces.swap(first, end);
            first = first.saturating_add(1);
        }
    }

    /// Maximum bytes of the next message with that many pieces; no limit if everything
    /// fits. A message never mixes pinned bytes with others.
    pub(crate) fn gatherable(&self, pieces: usize) -> u32 {
        let mut sum = 0u32;
        let mut used = 0usize;
        for i in 0.. {
            let Some(piece) = self.pieces.get(i) else {
                return u32::MAX;
            };
            if matches!(piece.store, Store::Pinned(_)) {
                // Registered, so all of it is one piece.
                return u32::MAX;
            }
            if used >= pieces {
                return sum;
            }
            used = used.saturating_add(1);
            sum = sum.saturating_add(piece.len);
        }
        u32::MAX
    }

    /// The most pieces that the next message can have, if a message has at most `most`.
    pub(crate) fn pieces(&self, most: usize) -> usize {
        self.pieces.len().min(most)
    }

    /// `bytes` have left the send queue of the hardware; the rest of their pages is
    /// uncharged with them.
    pub(crate) fn complete(&mut self, bytes: u32, extra: u32) {
        self.held = self.held.saturating_sub(bytes);
        self.extra = self.extra.saturating_sub(extra);
        self.starved = false;
        self.trim();
    }

    /// The same for bytes in a program's memory.
    pub(crate) fn complete_pinned(&mut self, bytes: u32) {
        self.forget_pinned(bytes);
    }

    /// Bytes that the queue keeps, with the rest of their pages.
    pub(crate) fn charged(&self) -> u32 {
        self.held.saturating_add(self.extra)
    }

    /// The ones of them that are in the memory of programs.
    pub(crate) fn pinned(&self) -> u32 {
        self.pinned
    }

    pub(crate) fn held(&self) -> u32 {
        self.held
    }

    /// Returns memory that only further bytes would need.
    pub(crate) fn shrink(&mut self) {
        self.pieces.shrink();
    }

    /// Drops everything: the connection has ended.
    pub(crate) fn clear(&mut self) {
        while self.pieces.pop().is_some() {}
        self.held = 0;
        self.extra = 0;
        self.pinned = 0;
        self.starved = false;
        self.full = false;
        self.trim();
    }
}
