// SPDX-License-Identifier: MIT

//! Which statements are about a program, and how it lends its memory (`async`).

use crate::config::Statement;
use std::ffi::CStr;

/// Whether a statement about PROGRAM is about this one.
pub(crate) fn is_about(pattern: &CStr, program: &CStr) -> bool {
    // SAFETY: Two C strings.
    unsafe { libc::fnmatch(pattern.as_ptr(), program.as_ptr(), 0) == 0 }
}

/// How `program` lends its memory: the first statement about it decides.
pub(crate) fn way(statements: &[Statement], program: &CStr) -> Option<&'static CStr> {
    let found = statements.iter().find_map(|statement| match statement {
        Statement::Async(lending) => is_about(&lending.program, program).then_some(lending.way),
        Statement::Log { .. } | Statement::Use(_) => None,
    });
    found.flatten()
}
