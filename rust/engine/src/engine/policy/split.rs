// SPDX-License-Identifier: GPL-2.0

//! How a long buffer is cut into runs.

/// Length of the next run of `left` bytes, when one registration can map `most`.
///
/// \[Z05, 2.4\]: a write that one registration cannot map is cut into pieces. They
/// are advertised one by one, or together in Pipelined mode. The last piece must
/// not be so short that it would be copied: a rest for two pieces is cut in halves.
/// `least`: the threshold below which a piece would be copied.
pub fn next_run(left: u64, most: u32, least: u32) -> u32 {
    let whole = u32::try_from(left).unwrap_or(u32::MAX);
    if whole <= most {
        return whole;
    }
    let rest = left.saturating_sub(most.into());
    if rest >= u64::from(least) {
        return most;
    }
    // Less than two pieces; the second would be short.
    let half = (left >> 1).saturating_add(left & 1);
    u32::try_from(half).unwrap_or(most).min(most)
}

#[cfg(test)]
mod tests {
    use super::next_run;
    use std::vec::Vec;

    fn runs(mut left: u64, most: u32, least: u32) -> Vec<u32> {
        let mut all = Vec::new();
        while left > 0 {
            let run = next_run(left, most, least);
            assert!(run > 0 && run <= most);
            left -= u64::from(run);
            all.push(run);
        }
        all
    }

    #[test]
    fn pieces_cover_everything_and_the_last_is_not_short() {
        assert_eq!(runs(100, 100, 20), [100]);
        assert_eq!(runs(300, 100, 20), [100, 100, 100]);
        assert_eq!(runs(250, 100, 20), [100, 100, 50]);
        assert_eq!(runs(210, 100, 20), [100, 55, 55]);
        assert_eq!(runs(101, 100, 20), [51, 50]);
        for left in 1..1000 {
            let all = runs(left, 100, 40);
            assert_eq!(all.iter().map(|n| u64::from(*n)).sum::<u64>(), left);
            assert!(left < 40 || all.iter().all(|n| *n >= 40), "{all:?}");
        }
    }

    #[test]
    fn more_than_can_be_counted_is_cut_at_the_limit() {
        assert_eq!(next_run(u64::MAX, 1 << 20, 1 << 16), 1 << 20);
    }
}
