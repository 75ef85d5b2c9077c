// SPDX-License-Identifier: MIT

//! errno: the library must preserve it for the program.

use libc::c_int;

/// The errno of this thread.
pub(crate) fn get() -> c_int {
    // SAFETY: The C library gives each thread an errno that lives as long as it.
    unsafe { *libc::__errno_location() }
}

/// Sets errno.
pub(crate) fn set(errno: c_int) {
    // SAFETY: The C library gives each thread an errno that lives as long as it.
    unsafe { *libc::__errno_location() = errno };
}

/// Calls `f` and restores errno.
pub(crate) fn keep<R>(f: impl FnOnce() -> R) -> R {
    let before = get();
    let result = f();
    set(before);
    result
}

/// Sets errno, and returns the result of a failed system call.
pub(crate) fn fail(errno: c_int) -> c_int {
    set(errno);
    -1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_meanwhile_does_not_show() {
        let before = get();
        let inner = keep(|| {
            // SAFETY: There is no such descriptor.
            unsafe { libc::close(-1) };
            get()
        });
        assert_eq!(inner, libc::EBADF);
        assert_eq!(get(), before);
    }
}
