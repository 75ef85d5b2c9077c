// SPDX-License-Identifier: GPL-2.0
/*
 * The size of each struct of the bindings, and the offset of each field, as bindgen
 * understood them: the build fails where the C compiler knows better.
 */
#include <linux/build_bug.h>
#include <linux/stddef.h>
#include "bindings_helper.h"
#include "layout_generated.h"
