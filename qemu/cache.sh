# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Shared by all harness scripts: the directories of the cache, the names of its entries, and
# messages about progress. Sourced, never run.

set -euo pipefail

# Ordinary users often lack these directories, and with them chroot.
PATH=$PATH:/usr/sbin:/sbin

# The checkout of this script, for callers in any directory.
SDP_TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
SDP_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/sdp
SDP_SUITE=trixie
export SDP_TOP SDP_CACHE SDP_SUITE
mkdir -p "$SDP_CACHE"

# The outputs of cargo and of the module build belong to one checkout.
SDP_CHECKOUT=$(printf '%s' "$SDP_TOP" | sha256sum | cut -c1-12)
SDP_TARGET=$SDP_CACHE/target-$SDP_CHECKOUT
export SDP_CHECKOUT SDP_TARGET

# Progress goes to stderr, because callers read the result from stdout.
say() { printf '[sdp] %s\n' "$*" >&2; }
die() { printf '[sdp] error: %s\n' "$*" >&2; exit 1; }

# key FILE-OR-TEXT...: a short name for a set of inputs. The argument is replaced by its
# contents if it is a file, and used as text otherwise.
key() {
	local arg
	for arg in "$@"; do
		if [ -f "$arg" ]; then sha256sum <"$arg"; else printf '%s\n' "$arg"; fi
	done | sha256sum | cut -c1-12
}

# locked NAME COMMAND...: one builder per cache entry; the others wait until it is finished.
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

# timed TEXT COMMAND...: announce COMMAND, write its output to a log, and report its duration.
# The end of the log is shown only on failure. COMMAND may be a function.
timed() {
	local text=$1 log start=$SECONDS pid shown=0
	shift
	log=$(mktemp "$SDP_CACHE/.log.XXXXXX")
	say "$text ..."
	# A separate process group, so that an interrupt ends all of the work. Background processes of
	# a script would not get the signal otherwise.
	set -m
	"$@" >"$log" 2>&1 </dev/null &
	pid=$!
	set +m
	# shellcheck disable=SC2064 # expand now: this process's number, not a later one's
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

# The prefix that gives a command root's rights over a file tree: empty for root, otherwise a
# user namespace with the caller's subordinate ids.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		unshare --map-root-user --map-auto --setuid 0 --setgid 0 -- "$@"
	fi
}
