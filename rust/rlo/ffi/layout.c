// SPDX-License-Identifier: GPL-2.0
/*
 * The size of each struct of the bindings and the offset of each field,
 * according to bindgen. The build fails if the C compiler disagrees.
 */
#include <linux/build_bug.h>
#include <linux/stddef.h>
#include "bindings_helper.h"
#include "layout_generated.h"
