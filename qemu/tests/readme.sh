# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The commands of the documents, for tests that run them as they are written. Sourced, never run.

documents=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)

# readme BEGINNING: the one command in README.md that begins so, without its comment.
readme() {
	local found
	# shellcheck disable=SC2016 # a fence
	found=$(sed -n '/^```/,/^```/p' "$documents/README.md" | sed 's/ \{2,\}#.*//' |
		awk -v beginning="$1" 'index($0, beginning) == 1' | sort -u)
	if [ -z "$found" ] || [ "$(wc -l <<<"$found")" != 1 ]; then
		echo "README.md has not one command that begins with \"$1\": $found" >&2
		return 1
	fi
	printf '%s\n' "$found"
}

# fenced FILE LINE: the block of a document whose first line is LINE.
fenced() {
	awk -v first="$2" '/^```/ { inside = 0 } $0 == first && fence { inside = 1 } inside; { fence = /^```/ }' \
		"$documents/$1" | grep . || {
		echo "$1 has no block that begins with \"$2\"" >&2
		return 1
	}
}
