# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What all harness scripts share: where the caches lie, how an entry gets its
# name, and how work is announced. Sourced, never run.

set -euo pipefail

# Ordinary users often lack these, and chroot with them.
PATH=$PATH:/usr/sbin:/sbin

# The checkout this script belongs to, wherever it was called from.
SDP_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
SDP_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/sdp
SDP_SUITE=trixie
export SDP_TOP SDP_CACHE SDP_SUITE
mkdir -p "$SDP_CACHE"

# Cargo's output and the module's depend on the checkout they come from.
SDP_CHECKOUT=$(printf '%s' "$SDP_TOP" | sha256sum | cut -c1-12)
SDP_TARGET=$SDP_CACHE/target-$SDP_CHECKOUT
export SDP_CHECKOUT SDP_TARGET

# Progress goes to stderr: stdout belongs to whatever the caller asked for.
say() { printf '[sdp] %s\n' "$*" >&2; }
die() { printf '[sdp] error: %s\n' "$*" >&2; exit 1; }

# key FILE-OR-TEXT...: a short name for a set of inputs. An argument that names
# a file counts with its contents, anything else as it is written.
key() {
	local arg
	for arg in "$@"; do
		if [ -f "$arg" ]; then sha256sum <"$arg"; else printf '%s\n' "$arg"; fi
	done | sha256sum | cut -c1-12
}

# locked NAME COMMAND...: one builder per cache entry; the others wait and then
# find it finished.
locked() {
	local name=$1 lock
	shift
	exec {lock}>"$SDP_CACHE/.$name.lock"
	if ! flock -n "$lock"; then
		say "waiting for another process that is making $name"
		flock "$lock"
	fi
	"$@"
	exec {lock}>&-
}

# timed TEXT COMMAND...: announce, run with the output in a log, and say how
# long it took. The log's end is shown only on failure. COMMAND may be a
# function.
timed() {
	local text=$1 log start=$SECONDS pid shown=0
	shift
	log=$(mktemp "$SDP_CACHE/.log.XXXXXX")
	say "$text ..."
	# A process group of its own, so that an interrupt ends all of the work:
	# what a script starts in the background would not hear of it.
	set -m
	"$@" >"$log" 2>&1 </dev/null &
	pid=$!
	set +m
	# shellcheck disable=SC2064 # this work's number, not a later one's
	trap "kill -TERM -- -$pid 2>/dev/null; exit 130" INT TERM HUP
	while kill -0 "$pid" 2>/dev/null; do
		sleep 1
		if [ $((SECONDS - start - shown)) -ge 30 ]; then
			shown=$((SECONDS - start))
			say "  $text: $shown s, $(wc -l <"$log") lines of output"
		fi
	done
	trap - INT TERM HUP
	if ! wait "$pid"; then
		tail -n 40 "$log" >&2
		say "failed: $text (whole output: $log)"
		return 1
	fi
	say "  $text: done in $((SECONDS - start)) s"
	rm -f "$log"
}

# The prefix that gives a command the rights of root over a file tree: nothing
# for root, a user namespace with the caller's subordinate ids for others.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		unshare --map-root-user --map-auto --setuid 0 --setgid 0 -- "$@"
	fi
}
