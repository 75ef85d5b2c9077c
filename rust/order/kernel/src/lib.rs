// SPDX-License-Identifier: GPL-2.0

//! The names of the kernel crate that lock-free files of the modules import, with atomics of loom.

/// `kernel::prelude`
pub mod prelude {
    pub use sdp_order_macros::kunit_tests;
}

/// `kernel::time`
pub mod time {
    /// A clock.
    pub trait ClockSource {
        /// Nanoseconds.
        fn ktime_get() -> i64;
    }

    /// A clock that stands still.
    pub struct Monotonic;

    impl ClockSource for Monotonic {
        fn ktime_get() -> i64 {
            1
        }
    }
}

/// `kernel::sync`
pub mod sync {
    pub mod atomic;
}
