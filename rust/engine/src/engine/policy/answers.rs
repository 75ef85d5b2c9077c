// SPDX-License-Identifier: GPL-2.0

//! The peers that have answered over SDP of late, and those that were silent.
//!
//! A host without SDP does not refuse a Hello, it is silent, and the CM repeats the Hello for a
//! quarter of a minute. A connect() that may use TCP instead need not wait for that: TCP's attempt
//! begins soon after the Hello, and the next connect() goes to TCP at once. A peer that has
//! answered is waited for, because a busy one may need longer.
//!
//! An answer is remembered for the user that got it and for the pair of addresses. So a user who
//! has answers suppressed, by a choice of the source or by load, changes nothing for others.

/// How many answers one namespace remembers. One that is not remembered costs a race.
pub const SLOTS: usize = 64;

/// How long each answer counts. A host that gets SDP is found within the first.
const SILENT_MS: u64 = 60_000;
const SPEAKS_MS: u64 = 600_000;

/// The way of a connect() that may use TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// Nothing is known: TCP's attempt begins while SDP's goes on.
    Race,
    /// The peer has answered: TCP's attempt begins when SDP's has failed.
    Wait,
    /// The peer has been silent: TCP's attempt alone.
    Skip,
}

/// The two ends of a connection, by addresses of type `A`, and the user who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair<A> {
    /// The user.
    pub user: u32,
    /// Our address.
    pub own: A,
    /// The peer's.
    pub peer: A,
}

/// A remembered answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer<A> {
    /// Between which ends.
    pub pair: Pair<A>,
    /// Whether the peer has answered; otherwise it was silent.
    pub speaks: bool,
    /// When the answer is forgotten, by the clock of the caller.
    pub until_ms: u64,
}

/// The answers that count at `now_ms`.
pub fn known<A>(slots: &[Option<Answer<A>>], now_ms: u64) -> impl Iterator<Item = &Answer<A>> {
    slots
        .iter()
        .flatten()
        .filter(move |answer| now_ms < answer.until_ms)
}

/// The advice about a peer.
pub fn advice<A: PartialEq>(slots: &[Option<Answer<A>>], pair: &Pair<A>, now_ms: u64) -> Advice {
    match known(slots, now_ms).find(|answer| answer.pair == *pair) {
        Some(answer) if answer.speaks => Advice::Wait,
        Some(_) => Advice::Skip,
        None => Advice::Race,
    }
}

/// Remembers an answer, in place of the one that would be forgotten next if there is no room.
pub fn remember<A: PartialEq>(
    slots: &mut [Option<Answer<A>>],
    pair: Pair<A>,
    speaks: bool,
    now_ms: u64,
) {
    let lasts = if speaks { SPEAKS_MS } else { SILENT_MS };
    let rank = |slot: &Option<Answer<A>>| match slot {
        Some(answer) if answer.pair == pair => (0, 0),
        None => (1, 0),
        Some(answer) => (2, answer.until_ms),
    };
    if let Some(slot) = slots.iter_mut().min_by_key(|slot| rank(slot)) {
        *slot = Some(Answer {
            pair,
            speaks,
            until_ms: now_ms.saturating_add(lasts),
        });
    }
}

/// A Hello has come from `peer` to `own`: no user takes that peer for silent any longer.
pub fn forget_silence<A: PartialEq>(slots: &mut [Option<Answer<A>>], own: &A, peer: &A) {
    for slot in slots {
        if slot.as_ref().is_some_and(|answer| {
            !answer.speaks && answer.pair.own == *own && answer.pair.peer == *peer
        }) {
            *slot = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(number: u8) -> Pair<[u8; 4]> {
        Pair {
            user: 0,
            own: [10, 0, 0, 1],
            peer: [10, 0, 0, number],
        }
    }

    #[test]
    fn an_unknown_peer_is_raced_for() {
        assert_eq!(advice(&[None; 4], &pair(2), 0), Advice::Race);
        assert_eq!(advice(&[], &pair(2), 0), Advice::Race);
    }

    #[test]
    fn both_answers_count_until_their_time() {
        let mut slots = [None; 4];
        remember(&mut slots, pair(2), false, 1000);
        remember(&mut slots, pair(3), true, 1000);
        let at = |number, now| advice(&slots, &pair(number), now);
        assert_eq!(
            (at(2, 1000), at(2, 60_999), at(2, 61_000)),
            (Advice::Skip, Advice::Skip, Advice::Race)
        );
        assert_eq!(
            (at(3, 60_999), at(3, 600_999), at(3, 601_000)),
            (Advice::Wait, Advice::Wait, Advice::Race)
        );
    }

    #[test]
    fn a_later_answer_replaces_an_earlier_one() {
        let mut slots = [None; 4];
        remember(&mut slots, pair(2), true, 0);
        remember(&mut slots, pair(2), false, 5);
        assert_eq!(advice(&slots, &pair(2), 6), Advice::Skip);
        assert_eq!(known(&slots, 6).count(), 1);
        remember(&mut slots, pair(2), true, 7);
        assert_eq!(advice(&slots, &pair(2), 8), Advice::Wait);
    }

    #[test]
    fn the_answers_of_other_users_and_addresses_are_their_own() {
        let mut slots = [None; 4];
        remember(&mut slots, pair(2), false, 0);
        let user = Pair { user: 1, ..pair(2) };
        let own = Pair {
            own: [10, 0, 1, 1],
            ..pair(2)
        };
        assert_eq!(advice(&slots, &user, 1), Advice::Race);
        assert_eq!(advice(&slots, &own, 1), Advice::Race);
    }

    #[test]
    fn without_room_the_answer_that_ends_first_goes() {
        let mut slots = [None; 3];
        remember(&mut slots, pair(2), true, 0);
        remember(&mut slots, pair(3), false, 0);
        remember(&mut slots, pair(4), false, 10);
        remember(&mut slots, pair(5), false, 20);
        let found = [2, 3, 4, 5].map(|number| advice(&slots, &pair(number), 21));
        assert_eq!(
            found,
            [Advice::Wait, Advice::Race, Advice::Skip, Advice::Skip]
        );
    }

    #[test]
    fn a_peer_that_asks_is_silent_for_no_user() {
        let mut slots = [None; 4];
        let other = Pair { user: 1, ..pair(2) };
        for one in [pair(2), other, pair(3)] {
            remember(&mut slots, one, false, 0);
        }
        remember(&mut slots, Pair { user: 2, ..pair(2) }, true, 0);
        forget_silence(&mut slots, &pair(2).own, &pair(2).peer);
        let found = [pair(2), other, pair(3)].map(|one| advice(&slots, &one, 1));
        assert_eq!(found, [Advice::Race, Advice::Race, Advice::Skip]);
        assert_eq!(known(&slots, 1).count(), 2);
    }

    #[test]
    fn the_end_of_time_is_no_trouble() {
        let mut slots = [None; 1];
        remember(&mut slots, pair(2), true, u64::MAX);
        assert_eq!(advice(&slots, &pair(2), u64::MAX - 1), Advice::Wait);
        remember(&mut [], pair(2), true, 0);
    }
}
