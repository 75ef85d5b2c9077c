// SPDX-License-Identifier: MIT

//! errno, which belongs to the program.

use libc::c_int;

/// The errno of this thread.
pub(crate) fn get() -> c_int {
    // SAFETY: The C library gives each thread an errno that lives as long as it.
    unsafe { *libc::__errno_location() }
}

/// It is this now.
pub(crate) fn set(errno: c_int) {
    // SAFETY: As above.
    unsafe { *libc::__errno_location() = errno };
}

/// Does something that must not show in errno.
pub(crate) fn keep<R>(f: impl FnOnce() -> R) -> R {
    let before = get();
    let result = f();
    set(before);
    result
}

/// The result of a system call that fails like this.
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
