# SPDX-License-Identifier: GPL-2.0
#
# What the C compiler says of structs (ffi/offsets.c, as assembler) in, assertions in
# Rust out: rustc checks what `kernel::bindings` says of the same structs.
#
# A field whose name Rust reserves has a `_` behind.

match($0, /->(size|offset) [^"]*"/) {
	words = split(substr($0, RSTART + 2, RLENGTH - 3), word, " ")
	number = word[words]
	sub(/^[$#]/, "", number)
	type = "kernel::bindings::" word[2]
	if (word[1] == "size") {
		print "const _: () = assert!(core::mem::size_of::<" type ">() == " number ");"
	} else {
		sub(/^type$/, "type_", word[3])
		print "const _: () = assert!(core::mem::offset_of!(" type ", " word[3] ") == " number ");"
	}
	count++
}

END { if (!count) { print "no struct in the assembler's text" >"/dev/stderr"; exit 1 } }
