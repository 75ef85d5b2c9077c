// SPDX-License-Identifier: GPL-2.0

//! How many written bytes the shell had better hold.

/// Bytes to hold so that the connection never lacks any: twice as many as are in flight at
/// a time, because the next are written while these travel. TCP holds twice its congestion
/// window. So many `messages` of `max_payload` would be in flight if there were bytes; the
/// send queue takes `depth`.
pub fn worth(messages: u16, depth: u16, max_payload: u32) -> u32 {
    let in_flight = u32::from(messages.min(depth)).saturating_mul(max_payload);
    in_flight.saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use super::worth;

    #[test]
    fn what_flies_is_held_twice() {
        assert_eq!(worth(8, 14, 32768), 16 * 32768);
        assert_eq!(worth(60, 14, 32768), 28 * 32768);
        assert_eq!(worth(0, 14, 32768), 0);
        assert_eq!(worth(u16::MAX, u16::MAX, 65536), u32::MAX);
    }
}
