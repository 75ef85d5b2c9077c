# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Shared by the scripts of this directory. They run on the user's machine, with its own tools,
# from the checkout or from /usr/src/sdp-VERSION. Sourced, never run.

set -euo pipefail
export LC_ALL=C.UTF-8

PACKAGING=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
# The checkout, or /usr/src/sdp-VERSION.
# shellcheck disable=SC2034
TOP=$(cd "$PACKAGING/../.." && pwd -P)
# Where modprobe, depmod and dkms are.
PATH=$PATH:/usr/sbin:/sbin

# Progress goes to stderr, because callers read the result from stdout.
say() { printf 'sdp: %s\n' "$*" >&2; }
die() { printf 'sdp: error: %s\n' "$*" >&2; exit 1; }

# Problems are collected, so that one run names all of them.
problems=0
problem() {
	printf 'sdp: error: %s\n' "$*" >&2
	problems=$((problems + 1))
}

# The versions in the file kernels, one a line.
supported_versions() { sed -n 's/^\([0-9][0-9.]*\)$/\1/p' "$PACKAGING/kernels"; }

# needed_options: those in the file options, one a line.
needed_options() { sed '/^#/d' "$PACKAGING/options"; }

# value TREE CONFIG_NAME: y, m, a text without its quotes, or nothing.
value() { sed -n "s/^$2=\"\{0,1\}\([^\"]*\)\"\{0,1\}\$/\1/p" "$1/include/config/auto.conf"; }

# release TREE: the output of `uname -r` on the kernel of this tree; nothing if it is not configured.
release() { cat "$1/include/config/kernel.release" 2>/dev/null || :; }

# version RELEASE: for example 7.3 for 7.3.4+deb13-amd64.
version() { sed -n 's/^\([0-9]\{1,\}\.[0-9]\{1,\}\).*/\1/p' <<<"$1"; }

# has_metadata TREE: whether modules in Rust can be compiled against it.
has_metadata() {
	local name
	for name in core compiler_builtins ffi bindings build_error kernel; do
		[ -e "$1/rust/lib$name.rmeta" ] || return 1
	done
	compgen -G "$1/rust/libmacros.*" >/dev/null
}

# secure_boot: whether this machine was started with Secure Boot. The variable has
# four bytes of attributes before its value.
secure_boot() {
	local file
	for file in "${EFIVARS:-/sys/firmware/efi/efivars}"/SecureBoot-*; do
		[ -e "$file" ] && [ "$(tail -c 1 "$file" | od -An -tu1 | tr -d ' ')" = 1 ] && return
	done
	return 1
}
