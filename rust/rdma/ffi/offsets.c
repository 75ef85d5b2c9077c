// SPDX-License-Identifier: GPL-2.0
/*
 * The structs of kernel::bindings that the library uses: see offsets.h.
 */
#include <linux/scatterlist.h>

#include "../../linux/offsets.h"

void offsets(void)
{
	SIZE(scatterlist, struct scatterlist);
}
