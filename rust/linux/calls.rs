// SPDX-License-Identifier: GPL-2.0

//! Methods that are one call in C each.

/// Makes such methods. Arguments that C takes in another form than Rust are given behind the function; they are
/// computed outside of the unsafe block.
///
/// ```ignore
/// // SAFETY: A `Thing` is valid. Each function reads or stores one word of it.
/// calls! { unsafe {
///     impl Thing, |me| me.as_ptr();
///     /// The size.
///     pub(crate) fn size() -> c_int = thing_size;
///     fn set_word(word: c_uint) = thing_set_word;
///     fn write(bytes: &[u8]) -> c_int = thing_write(at: bytes.as_ptr(), len: bytes.len());
/// }}
/// ```
///
/// # Safety
///
/// Each function is sound for the pointer, with any other arguments of the types that the method
/// has, and has the types that are given, which the compiler checks. The `SAFETY` comment is one
/// sentence that is true of each function of the block and says why: a function with another
/// reason stands in another block. A function that asks for a lock is a method of the lock's guard.
macro_rules! calls {
    (unsafe {
        impl $target:ty, |$me:ident| $pointer:expr;
        $($(#[$doc:meta])* $access:vis fn $name:ident($($arg:ident: $kind:ty),*)
            $(-> $result:ty)? = $call:ident $(($($given:ident: $value:expr),*))?;)*
    }) => {
        impl $target {
            $(
                $(#[$doc])*
                $access fn $name(&self $(, $arg: $kind)*) $(-> $result)? {
                    let $me = self;
                    $crate::calls::calls!(
                        @$call, $pointer, [$($arg),*] $(, $($given: $value),*)?
                    )
                }
            )*
        }
    };
    (@$call:ident, $pointer:expr, [$($arg:ident),*]) => {
        // SAFETY: By the promise of the macro's user.
        unsafe { crate::ffi::$call($pointer $(, $arg)*) }
    };
    (@$call:ident, $pointer:expr, [$($arg:ident),*] $(, $given:ident: $value:expr)+) => {{
        $(
            #[allow(clippy::redundant_locals, reason = "an argument that is passed on as it is")]
            let $given = $value;
        )+
        // SAFETY: By the promise of the macro's user.
        unsafe { crate::ffi::$call($pointer $(, $given)+) }
    }};
}

pub(crate) use calls;
