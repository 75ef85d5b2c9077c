// SPDX-License-Identifier: MIT

//! Functions in place of other libraries', so that this one needs the C library alone.
//!
//! musl's dynamic linker ends a program if it cannot find a library that a preloaded one needs. It is
//! its own `libc.so.6`, but it finds no `libgcc_s.so.1` and no `ld-linux-x86-64.so.2`. The functions
//! have the names of those that Rust's standard library calls. They are hidden: the program and its
//! other libraries keep their own.
//!
//! Tests unwind, so they have none of this.

#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    () => {
        "jmp {0}"
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    () => {
        "b {0}"
    };
}

/// Defines hidden functions that jump to another.
macro_rules! hidden {
    ($($name:literal)* => $function:path) => {$(
        core::arch::global_asm!(
            ".text",
            concat!(".hidden ", $name),
            concat!(".globl ", $name),
            concat!(".type ", $name, ", %function"),
            concat!($name, ":"),
            jump!(),
            concat!(".size ", $name, ", . - ", $name),
            sym $function,
        );
    )*};
}

hidden!(
    "_Unwind_Backtrace" "_Unwind_DeleteException" "_Unwind_FindEnclosingFunction" "_Unwind_GetCFA"
    "_Unwind_GetDataRelBase" "_Unwind_GetIP" "_Unwind_GetIPInfo" "_Unwind_GetLanguageSpecificData"
    "_Unwind_GetRegionStart" "_Unwind_GetTextRelBase" "_Unwind_RaiseException" "_Unwind_SetGR"
    "_Unwind_SetIP" => no_unwinder
);
hidden!("_Unwind_Resume" => not_resumed);

/// In place of the unwinder: its only use here is a panic, which ends the program. The result 0 means:
/// no backtrace, no table of this frame, a panic that cannot begin. Another unwinder, of a program in
/// C++ or of a cancelled thread, goes through the frames of this library by the same answers.
extern "C" fn no_unwinder() -> usize {
    0
}

/// In place of the function that goes on unwinding after a frame's own code. No frame has such code,
/// because no table is found.
extern "C" fn not_resumed() -> ! {
    // SAFETY: It has no conditions.
    unsafe { libc::abort() }
}

/// The dynamic linker's function that finds a variable of a thread. On other architectures none is
/// called.
#[cfg(target_arch = "x86_64")]
mod thread {
    use core::mem::transmute;
    use core::ptr::null_mut;
    use core::sync::atomic::{AtomicPtr, Ordering};
    use libc::c_void;

    type Find = unsafe extern "C" fn(*const c_void) -> *mut c_void;

    hidden!("__tls_get_addr" => find);

    static FIND: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

    /// # Safety
    ///
    /// The argument is the compiler's.
    unsafe extern "C" fn find(variable: *const c_void) -> *mut c_void {
        // Relaxed: every thread finds the same function.
        let mut found = FIND.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: The name is a string that ends.
            found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__tls_get_addr".as_ptr()) };
            if found.is_null() {
                // SAFETY: It has no conditions.
                unsafe { libc::abort() }
            }
            FIND.store(found, Ordering::Relaxed);
        }
        // SAFETY: The function of that name has this type.
        let find = unsafe { transmute::<*mut c_void, Find>(found) };
        // SAFETY: By the caller's promise.
        unsafe { find(variable) }
    }
}
