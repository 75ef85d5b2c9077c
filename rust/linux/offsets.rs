// SPDX-License-Identifier: GPL-2.0

//! The layout, by C, of the structs of `kernel::bindings` that a module reads or makes: see the
//! files `offsets.c`.

include!(env!("MODULE_OFFSETS"));
