// SPDX-License-Identifier: GPL-2.0

//! `kernel::sync::atomic`, as far as the modules use it.
//!
//! The memory model is C11's, as far as loom has it. `Full` is a read-modify-write between two
//! barriers, as in the kernel.

use loom::sync::atomic::{fence, Ordering};
use std::sync::OnceLock;

/// The order of an access.
pub trait Order {
    /// Barriers before and after it.
    const FULL: bool = false;
    /// In the terms of C11.
    const ORDERING: Ordering;
}

/// No order.
pub struct Relaxed;
/// Later accesses stay behind a load.
pub struct Acquire;
/// Earlier accesses stay before a store.
pub struct Release;
/// Both, of a read-modify-write.
pub struct Full;

impl Order for Relaxed {
    const ORDERING: Ordering = Ordering::Relaxed;
}
impl Order for Acquire {
    const ORDERING: Ordering = Ordering::Acquire;
}
impl Order for Release {
    const ORDERING: Ordering = Ordering::Release;
}
impl Order for Full {
    const FULL: bool = true;
    const ORDERING: Ordering = Ordering::Relaxed;
}

fn between_barriers<O: Order, R>(access: impl FnOnce(Ordering) -> R) -> R {
    if O::FULL {
        fence(Ordering::SeqCst);
    }
    let result = access(O::ORDERING);
    if O::FULL {
        fence(Ordering::SeqCst);
    }
    result
}

/// An atomic of the kernel crate. Its constructor is const there, so loom's is made with the first
/// access.
pub struct Atomic<T: Word> {
    first: T,
    word: OnceLock<T::Loom>,
}

/// A type of atomics.
pub trait Word: Copy {
    /// Loom's atomic of that type.
    type Loom;
}

macro_rules! words {
    ($($word:ty: $loom:ident),*) => {$(
        impl Word for $word {
            type Loom = loom::sync::atomic::$loom;
        }

        impl Atomic<$word> {
            fn word(&self) -> &loom::sync::atomic::$loom {
                self.word.get_or_init(|| loom::sync::atomic::$loom::new(self.first))
            }

            /// Loads it.
            pub fn load<O: Order>(&self, _: O) -> $word {
                self.word().load(O::ORDERING)
            }

            /// Stores into it.
            pub fn store<O: Order>(&self, value: $word, _: O) {
                self.word().store(value, O::ORDERING);
            }

            /// Exchanges the value.
            pub fn xchg<O: Order>(&self, value: $word, _: O) -> $word {
                between_barriers::<O, _>(|order| self.word().swap(value, order))
            }

            /// Exchanges the value if it is `old`. A failed exchange orders nothing in the kernel, so the
            /// barrier before it, which is there on success alone, is a release here, which is less.
            pub fn cmpxchg<O: Order>(&self, old: $word, new: $word, _: O) -> Result<$word, $word> {
                let order = if O::FULL { Ordering::AcqRel } else { O::ORDERING };
                let result = self.word().compare_exchange(old, new, order, Ordering::Relaxed);
                if O::FULL && result.is_ok() {
                    fence(Ordering::SeqCst);
                }
                result
            }

            /// Adds to the value.
            pub fn fetch_add<O: Order>(&self, value: $word, _: O) -> $word {
                between_barriers::<O, _>(|order| self.word().fetch_add(value, order))
            }

            /// Subtracts from the value.
            pub fn fetch_sub<O: Order>(&self, value: $word, _: O) -> $word {
                between_barriers::<O, _>(|order| self.word().fetch_sub(value, order))
            }
        }
    )*};
}

words!(i32: AtomicI32, u32: AtomicU32, i64: AtomicI64, u64: AtomicU64);

impl<T: Word> Atomic<T> {
    /// A new one.
    pub const fn new(first: T) -> Self {
        Self {
            first,
            word: OnceLock::new(),
        }
    }
}
