// SPDX-License-Identifier: GPL-2.0
/* struct net for the empty module: see ../Kbuild. */
#include "../../net/ffi/names.c"
