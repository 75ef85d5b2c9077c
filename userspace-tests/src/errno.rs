// SPDX-License-Identifier: MIT
//! An errno, shown by name.

use std::fmt;

use libc::c_int;

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub c_int);

/// The result of every wrapped system call.
pub type Res<T> = Result<T, Errno>;

macro_rules! names {
    ($($name:ident)*) => { &[$((libc::$name, stringify!($name))),*] };
}

const NAMES: &[(c_int, &str)] = names! {
    EPERM ENOENT EINTR EIO ENXIO E2BIG EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT EBUSY EEXIST
    ENODEV ENOTDIR EINVAL ENFILE EMFILE ENOTTY EFBIG ENOSPC ESPIPE EROFS EPIPE EDOM ERANGE
    EDEADLK ENOSYS EPROTO EBADMSG EOVERFLOW ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE
    ENOPROTOOPT EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE
    EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN
    ENOTCONN ESHUTDOWN ETIMEDOUT ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS
    ECANCELED ETIME ENODATA ENOLINK
};

impl Errno {
    /// The errno of the call that just failed on this thread.
    pub fn last() -> Self {
        Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(number, _)| *number == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "errno {}", self.0),
        }
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Converts a C return value to a result: a negative value means that `errno` is set.
pub fn checked(returned: isize) -> Res<usize> {
    if returned < 0 {
        Err(Errno::last())
    } else {
        Ok(returned as usize)
    }
}

/// The same for calls that return an `int`.
pub fn checked_int(returned: c_int) -> Res<c_int> {
    checked(returned as isize).map(|value| value as c_int)
}

/// The same for calls with zero as their only success value.
pub fn checked_unit(returned: c_int) -> Res<()> {
    checked(returned as isize).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_numbers_have_names_and_unknown_ones_keep_their_number() {
        assert_eq!(Errno(libc::ECONNRESET).to_string(), "ECONNRESET");
        assert_eq!(Errno(4095).to_string(), "errno 4095");
    }

    #[test]
    fn a_failed_call_carries_its_errno() {
        // SAFETY: closing an invalid descriptor touches no memory.
        let closed = checked_unit(unsafe { libc::close(-1) });
        assert_eq!(closed, Err(Errno(libc::EBADF)));
    }
}
