// SPDX-License-Identifier: GPL-2.0

//! Fault injection, and the link that a device models: numbers in /sys/kernel/debug/rlo/NAME.
//!
//! Contexts: reading works in any; making and removing the files sleep.

use crate::{
    ffi,
    prelude::*, //
};
use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// All 0: no faults, and no modelled link.
        pub(crate) struct Faults {
            $($(#[$doc])* pub(crate) $name: Atomic<u32>,)*
        }

        impl Faults {
            pub(crate) fn new() -> Self {
                Self { $($name: Atomic::new(0),)* }
            }

            fn each(&self, mut show: impl FnMut(&'static CStr, &Atomic<u32>)) {
                $(show(
                    // The name ends with the only zero byte.
                    match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => c"",
                    },
                    &self.$name,
                );)*
            }
        }
    };
}

faults!(
    /// Rate of the modelled link, in Mb/s. 0: unlimited.
    rate_mbps,
    /// Its latency one way, in microseconds.
    latency_us,
    /// Number of posts that fail with ENOMEM.
    fail_posts,
    /// Number of requests that fail with `fail_status`.
    fail_requests,
    /// A completion status of the standard; 0: IB_WC_RETRY_EXC_ERR.
    fail_status,
    /// Number of messages for which no receive is posted.
    not_ready,
    /// Not 0: requests of peers get no answer.
    silent,
    /// Not 0: no request completes until it is 0 again.
    hold,
    /// Number of registrations that fail.
    fail_registrations,
);

/// Decrements a number. Returns false if it was 0.
pub(crate) fn take(number: &Atomic<u32>) -> bool {
    let mut left = number.load(Relaxed);
    while left > 0 {
        match number.cmpxchg(left, left - 1, Relaxed) {
            Ok(_) => return true,
            Err(now) => left = now,
        }
    }
    false
}

/// The directory of all devices.
pub(crate) struct Root(*mut ffi::dentry);

// SAFETY: debugfs locks for itself.
unsafe impl Send for Root {}
// SAFETY: debugfs locks for itself.
unsafe impl Sync for Root {}

impl Root {
    pub(crate) fn new() -> Self {
        // SAFETY: The name is a C string. Failure is an error pointer, which debugfs takes.
        Self(unsafe { ffi::rlo_faults_dir(c"rlo".as_char_ptr(), core::ptr::null_mut()) })
    }

    pub(crate) fn dir(&self) -> *mut ffi::dentry {
        self.0
    }

    /// Called when the module is removed.
    pub(crate) fn remove(&self) {
        // SAFETY: The directory that was made above, or an error pointer.
        unsafe { ffi::rlo_faults_remove(self.0) }
    }
}

/// The files of one device.
pub(crate) struct Files(*mut ffi::dentry);

// SAFETY: debugfs locks for itself.
unsafe impl Send for Files {}
// SAFETY: debugfs locks for itself.
unsafe impl Sync for Files {}

impl Files {
    /// # Safety
    ///
    /// `faults` outlives the files.
    pub(crate) unsafe fn new(root: *mut ffi::dentry, name: &CStr, faults: &Faults) -> Self {
        // SAFETY: The name is a C string, which debugfs copies.
        let dir = unsafe { ffi::rlo_faults_dir(name.as_char_ptr(), root) };
        faults.each(|name, number| {
            // SAFETY: The number outlives the file, as the caller promises, and an aligned u32 is
            // what debugfs reads and writes, atomically.
            unsafe {
                ffi::rlo_faults_file(
                    name.as_char_ptr(),
                    dir,
                    core::ptr::from_ref(number).cast_mut().cast(),
                );
            }
        });
        Self(dir)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        // SAFETY: The directory that was made above, or an error pointer.
        unsafe { ffi::rlo_faults_remove(self.0) }
    }
}
