// SPDX-License-Identifier: GPL-2.0

//! Attributes of the kernel crate.

use proc_macro::TokenStream;

/// The tests of a file run in the kernel, and not here.
#[proc_macro_attribute]
pub fn kunit_tests(_name: TokenStream, _tests: TokenStream) -> TokenStream {
    TokenStream::new()
}
