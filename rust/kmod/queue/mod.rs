// SPDX-License-Identifier: GPL-2.0

//! The bytes between the system calls and the engine.
//!
//! [`SendQueue`] holds bytes that were written and not yet posted, [`RecvQueue`] bytes
//! that arrived and were not yet read. The engine counts the same bytes without seeing
//! them. Locks: under the endpoint's lock.

mod buffer;
mod recv;
mod send;

pub(crate) use buffer::{
    RxBuffer,
    Sheet, //
};
pub(crate) use recv::{
    Kind,
    RecvQueue,
    Segment,
    Urgent, //
};
pub(crate) use send::{
    Frag,
    SendQueue, //
};

use crate::prelude::*;

#[kunit_tests(sdp_queue)]
mod tests {
    use super::*;
    use crate::{
        net::account::Charge,
        rdma::page::{
            Page,
            Part, //
        }, //
    };
    use kernel::{
        page::PAGE_SIZE,
        sync::Arc, //
    };

    const ALL: u32 = PAGE_SIZE as u32;

    fn page() -> Result<Page> {
        let page = kernel::page::Page::alloc_page(GFP_KERNEL)?;
        let page = core::ptr::NonNull::new(page.as_ptr()).ok_or(EINVAL)?;
        // SAFETY: It is valid, and a reference is taken before ours goes.
        Ok(unsafe { Page::get(page.cast()) })
    }

    /// Lengths of the pieces that messages of up to `max` bytes take.
    fn taken(queue: &mut SendQueue, max: u32) -> Result<KVec<(u32, u32)>> {
        let mut all = KVec::new();
        while let Some(frag) = queue.take(max) {
            all.push((frag.offset, frag.len), GFP_KERNEL)?;
            queue.complete(frag.len, frag.extra);
        }
        Ok(all)
    }

    #[test]
    fn bytes_that_follow_in_a_page_are_one_piece() -> Result {
        let mut queue = SendQueue::new();
        let (one, other) = (page()?, page()?);
        queue.push(one.clone(), 0, 100, false)?;
        queue.push(one.clone(), 100, 50, false)?;
        // These bytes do not continue the fragment.
        queue.push(one, 200, 10, false)?;
        queue.push(other, 210, 10, false)?;
        assert_eq!(queue.held(), 170);
        assert_eq!(queue.gatherable(2), 160);
        assert_eq!(queue.gatherable(3), u32::MAX);
        assert_eq!(
            *taken(&mut queue, 120)?,
            [(0, 120), (120, 30), (200, 10), (210, 10)]
        );
        assert_eq!(queue.charged(), 0);
        Ok(())
    }

    #[test]
    fn a_page_that_was_given_away_is_charged_whole() -> Result {
        let mut queue = SendQueue::new();
        let given = page()?;
        queue.push(given.clone(), 0, 1, true)?;
        assert_eq!(queue.charged(), ALL);
        // The rest of the page has been charged.
        queue.push(given, 1, 9, true)?;
        assert_eq!((queue.held(), queue.charged()), (10, ALL));
        let first = queue.take(4).ok_or(EINVAL)?;
        queue.complete(first.len, first.extra);
        assert_eq!(queue.charged(), ALL - 4);
        taken(&mut queue, ALL)?;
        assert_eq!(queue.charged(), 0);
        Ok(())
    }

    #[test]
    fn bytes_that_the_peer_has_read_are_not_sent() -> Result {
        let mut queue = SendQueue::new();
        queue.push(page()?, 0, 100, false)?;
        queue.push(page()?, 7, 100, false)?;
        queue.skip(120);
        assert_eq!(queue.held(), 80);
        assert_eq!(*taken(&mut queue, ALL)?, [(27, 80)]);
        queue.push(page()?, 0, 5, true)?;
        queue.clear();
        assert!(queue.take(ALL).is_none() && queue.charged() == 0);
        Ok(())
    }

    fn segment(offset: u32, len: u32) -> Result<Segment> {
        Ok(Segment {
            buffer: RxBuffer::unmapped(page()?.into(), Arc::new(Charge::none(), GFP_KERNEL)?),
            offset,
            len,
            kind: Kind::Last,
        })
    }

    #[test]
    fn a_buffer_is_free_when_its_last_byte_was_read() -> Result {
        let mut queue = RecvQueue::new();
        queue.push(segment(16, 100)?, false)?;
        queue.push(segment(0, 10)?, false)?;
        assert_eq!(queue.len(), 110);
        assert!(queue.consume(99).is_none());
        assert!(matches!(queue.peek(0), Some((_, 115, 1))));
        assert!(matches!(queue.peek(1), Some((_, 0, 10))));
        assert!(queue.peek(11).is_none());
        assert!(queue.consume(1).is_some());
        assert!(queue.take_front().is_some_and(|s| s.len == 10) && queue.is_empty());
        Ok(())
    }

    #[test]
    fn bytes_beyond_the_end_of_a_buffer_are_refused() -> Result {
        let mut queue = RecvQueue::new();
        assert!(queue.push(segment(ALL, 1)?, false).is_err());
        assert!(queue.push(segment(ALL - 1, 2)?, true).is_err());
        assert!(queue.push(segment(1, u32::MAX)?, false).is_err());
        assert!(queue.put_back(segment(0, ALL + 1)?).is_err());
        assert!(queue.is_empty() && queue.peek(0).is_none());
        assert!(queue.urgent() == Urgent::None);
        queue.push(segment(ALL - 1, 1)?, true)?;
        assert!(matches!(queue.urgent(), Urgent::Byte(_)));
        Ok(())
    }

    #[test]
    fn the_mark_stands_at_the_urgent_byte() -> Result {
        let mut queue = RecvQueue::new();
        queue.announce_urgent();
        assert!(queue.urgent() == Urgent::Announced && !queue.at_mark());
        queue.push(segment(0, 4)?, true)?;
        queue.push(segment(0, 6)?, false)?;
        assert_eq!(queue.to_mark(0), Some(3));
        assert_eq!((queue.readable(false), queue.readable(true)), (3, 10));
        let _ = queue.consume(3);
        assert!(queue.at_mark());
        assert_eq!(
            (queue.beyond_urgent(false), queue.beyond_urgent(true)),
            (6, 7)
        );
        let _ = queue.consume(1);
        assert!(queue.urgent() == Urgent::None && !queue.at_mark());
        assert_eq!(queue.readable(false), 6);
        Ok(())
    }

    #[test]
    fn what_is_put_back_is_read_first() -> Result {
        let mut queue = RecvQueue::new();
        queue.push(segment(0, 8)?, false)?;
        let _ = queue.consume(3);
        let front = queue.take_front().ok_or(EINVAL)?;
        assert!(queue.is_empty());
        queue.put_back(front)?;
        assert_eq!(queue.len(), 5);
        assert!(matches!(queue.peek(0), Some((_, 3, 5))));
        queue.clear();
        assert!(queue.is_empty() && queue.front().is_none());
        Ok(())
    }

    #[test]
    fn parts_of_a_page_follow_each_other() -> Result {
        let quarter = PAGE_SIZE / 4;
        let mut rest = Part::from(page()?);
        let from = rest.address();
        for at in 0..4 {
            let part = rest.cut(quarter).ok_or(EINVAL)?;
            assert_eq!((part.start(), part.size()), (at * quarter, quarter));
            assert_eq!(part.address(), from.wrapping_add(at * quarter));
            assert!(part.holds(1, quarter - 1) && !part.holds(1, quarter));
            assert!(!part.holds(usize::MAX, 2));
        }
        assert!(rest.size() == 0 && rest.cut(1).is_none());
        Ok(())
    }

    #[test]
    fn parts_are_equal_shares_of_a_page() {
        for (size, count) in [(PAGE_SIZE / 4, 4), (PAGE_SIZE / 2, 2), (PAGE_SIZE, 1)] {
            assert_eq!(RxBuffer::in_page(size), count);
        }
        // A part that would leave a rest, or is larger than a page, has pages of its own.
        for size in [0, PAGE_SIZE / 2 - 1, PAGE_SIZE / 2 + 1, 2 * PAGE_SIZE] {
            assert_eq!(RxBuffer::in_page(size), 1);
        }
    }

    #[test]
    fn a_part_keeps_its_page() -> Result {
        let mut rest = Part::from(page()?);
        let first = rest.cut(8).ok_or(EINVAL)?;
        let same = rest.page().as_ptr();
        drop(rest);
        // SAFETY: A byte of the page, which is kept and which no other code has.
        unsafe { first.address().write_volatile(1) };
        assert_eq!(first.into_page().as_ptr(), same);
        Ok(())
    }

    #[test]
    fn bytes_in_a_part_are_read_from_it() -> Result {
        let mut rest = Part::from(page()?);
        let _ = rest.cut(64).ok_or(EINVAL)?;
        let part = rest.cut(64).ok_or(EINVAL)?;
        // SAFETY: The last byte of the part, in a page that no other code has.
        unsafe { part.address().add(63).write_volatile(7) };
        let charge = Arc::new(Charge::none(), GFP_KERNEL)?;
        let of = |offset, len| Segment {
            buffer: RxBuffer::unmapped(part.clone(), charge.clone()),
            offset,
            len,
            kind: Kind::Last,
        };
        let mut queue = RecvQueue::new();
        // These lie in the page, but not in the part.
        assert!(queue.push(of(63, 2), false).is_err());
        queue.push(of(60, 4), true)?;
        assert!(queue.urgent() == Urgent::Byte(7));
        assert!(matches!(queue.peek(1), Some((_, 125, 3))));
        Ok(())
    }
}
