# SPDX-License-Identifier: GPL-2.0
#
# Converts the C compiler's layout of structs (offsets.c, as assembler) to assertions in
# Rust. With them rustc checks the same structs of `kernel::bindings`.
#
# A field with a name that Rust reserves ends in `_`.

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
