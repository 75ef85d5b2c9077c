// SPDX-License-Identifier: GPL-2.0
/* The engine of the empty module: see ../Kbuild. */
#include "../engine.c"
