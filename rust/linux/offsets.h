/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The structs that Rust reads or makes, as kernel::bindings describes them. The
 * kernel's own run of bindgen leaves out the tests of their layout. In a file
 * offsets.c the C compiler says how large each of them is and where each field
 * lies that Rust names; offsets.awk makes assertions for rustc of it. The
 * bindings of the module itself are checked by layout_generated.c.
 *
 * A field that Rust begins to use is entered there.
 */
#ifndef RUST_LINUX_OFFSETS_H
#define RUST_LINUX_OFFSETS_H

#include <linux/stddef.h>

#define SIZE(name, type)						\
	asm volatile("\n.ascii \"->size " #name " %0\"" : : "i" (sizeof(type)))
#define AT(name, field)							\
	asm volatile("\n.ascii \"->offset " #name " " #field " %0\"" : :	\
		     "i" (offsetof(struct name, field)))

/* Compiled, and never called. */
void offsets(void);

#endif /* RUST_LINUX_OFFSETS_H */
