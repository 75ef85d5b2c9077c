// SPDX-License-Identifier: MIT

//! Limits of memory below the present use, for a moment.

use crate::random::Random;
use crate::{arena, Shared};

/// Writes to memory meanwhile. No thread asks for memory, except the peers.
pub(crate) fn lower<W>(shared: &Shared<'_, W>, random: &mut Random) {
    let _scarce = shared.scarce.write().expect("no thread has failed");
    let limit = if random.below(2) == 0 {
        libc::RLIMIT_AS
    } else {
        libc::RLIMIT_DATA
    };
    let mut before = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: There is room for the answer; limits.
    unsafe {
        assert_eq!(libc::getrlimit(limit, &raw mut before), 0, "getrlimit");
        let low = libc::rlimit {
            rlim_cur: 1 << 20,
            ..before
        };
        assert_eq!(libc::setrlimit(limit, &raw const low), 0, "setrlimit");
        arena::write_alone(shared, random);
        assert_eq!(libc::setrlimit(limit, &raw const before), 0, "setrlimit");
    }
}
