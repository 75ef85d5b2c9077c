// SPDX-License-Identifier: GPL-2.0

//! The spinlock that is taken in all contexts: its holder has no interrupts.
//!
//! The kernel crate has it since 7.3. Before that it is made here of `spin_lock_irqsave`. There a
//! guard restores the state of interrupts that it found, so guards must be dropped in the reverse
//! order of their locking.

#[cfg(not(linux_7_3))]
pub(crate) use before_7_3::*;
#[cfg(linux_7_3)]
pub(crate) use kernel::{
    new_spinlock_irq,
    sync::SpinLockIrq, //
};

#[cfg(not(linux_7_3))]
mod before_7_3 {
    use crate::ffi;
    use kernel::{
        bindings,
        ffi::c_char,
        sync::lock::{
            spinlock::SpinLockBackend,
            Backend,
            Lock, //
        },
    };

    pub(crate) type SpinLockIrq<T> = Lock<T, SpinLockIrqBackend>;

    pub(crate) struct SpinLockIrqBackend;

    // SAFETY: A `spinlock_t` has one owner at a time. `relock` is the default, which calls `lock`.
    unsafe impl Backend for SpinLockIrqBackend {
        type State = bindings::spinlock_t;
        /// The state of interrupts before.
        type GuardState = usize;

        unsafe fn init(
            ptr: *mut Self::State,
            name: *const c_char,
            key: *mut bindings::lock_class_key,
        ) {
            // SAFETY: By the caller's promise.
            unsafe { SpinLockBackend::init(ptr, name, key) }
        }

        unsafe fn lock(ptr: *mut Self::State) -> Self::GuardState {
            // SAFETY: The lock is initialised, by the caller's promise.
            unsafe { ffi::rlo_spin_lock_irqsave(ptr.cast()) }
        }

        unsafe fn unlock(ptr: *mut Self::State, flags: &Self::GuardState) {
            // SAFETY: The caller owns the lock, and `flags` is what `lock` returned.
            unsafe { ffi::rlo_spin_unlock_irqrestore(ptr.cast(), *flags) }
        }

        unsafe fn try_lock(ptr: *mut Self::State) -> Option<Self::GuardState> {
            let mut flags = 0;
            // SAFETY: The lock is initialised, by the caller's promise.
            unsafe { ffi::rlo_spin_trylock_irqsave(ptr.cast(), &raw mut flags) }.then_some(flags)
        }

        unsafe fn assert_is_held(ptr: *mut Self::State) {
            // SAFETY: By the caller's promise.
            unsafe { SpinLockBackend::assert_is_held(ptr) }
        }
    }

    macro_rules! new_spinlock_irq {
        ($inner:expr $(,)?) => {
            $crate::irq_lock::SpinLockIrq::new(
                $inner,
                ::kernel::optional_name!(),
                ::kernel::static_lock_class!(),
            )
        };
    }
    pub(crate) use new_spinlock_irq;
}
