# SPDX-License-Identifier: GPL-2.0
#
# Bindings of bindgen in, assertions in C out: bindgen says with its layout tests how
# large it takes each struct for, and where each field lies. The C compiler, which has
# flags that libclang has not, checks what it says; rustc checks the tests themselves.
#
# What has no tag in C ends in `_t`. A field whose name Rust reserves has a `_` behind.

BEGIN { RS = ";" }

{ gsub(/\n/, " ") }

match($0, /pub union [A-Za-z0-9_]+/) { kind[substr($0, RSTART + 10, RLENGTH - 10)] = "union" }

match($0, /(size|offset)_of(!\(|::<) *[A-Za-z0-9_]+(, *[A-Za-z0-9_]+)?,?[ )>(]* - *[0-9]+usize/) {
	test = substr($0, RSTART, RLENGTH)
	gsub(/[^A-Za-z0-9_]+/, " ", test)
	words = split(test, word, " ")
	if (test ~ /__bindgen/ || word[2] ~ /_t$/)
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
