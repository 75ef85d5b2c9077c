# SPDX-License-Identifier: GPL-2.0
#
# Converts bindgen's bindings to assertions in C. bindgen's layout tests contain the size of
# each struct and the offset of each field. The C compiler has flags that libclang lacks, so it
# checks these numbers; rustc checks the tests themselves. The output is a C file.
#
# Types without a tag in C end in `_t` or `_tracker`. A field with a name that Rust reserves ends in `_`.

BEGIN {
	RS = ";"
	print "#include <linux/build_bug.h>"
	print "#include <linux/stddef.h>"
	print "#include \"bindings_helper.h\""
}

{ gsub(/\n/, " ") }

match($0, /pub union [A-Za-z0-9_]+/) { kind[substr($0, RSTART + 10, RLENGTH - 10)] = "union" }

match($0, /(size|offset)_of(!\(|::<) *[A-Za-z0-9_]+(, *[A-Za-z0-9_]+)?,?[ )>(]* - *[0-9]+usize/) {
	test = substr($0, RSTART, RLENGTH)
	gsub(/[^A-Za-z0-9_]+/, " ", test)
	words = split(test, word, " ")
	if (test ~ /__bindgen/ || word[2] ~ /_(t|tracker)$/)
		next
	type = (word[2] in kind ? kind[word[2]] : "struct") " " word[2]
	number = word[words]
	sub(/usize/, "", number)
	if (word[1] == "size_of") {
		print "static_assert(sizeof(" type ") == " number ");"
	} else {
		sub(/_$/, "", word[3])
		print "static_assert(offsetof(" type ", " word[3] ") == " number ");"
	}
}
