// SPDX-License-Identifier: GPL-2.0
/*
 * The structs of kernel::bindings that no library uses: see offsets.h.
 */
#include <linux/page_frag_cache.h>
#include <linux/workqueue.h>

#include "../../linux/offsets.h"

void offsets(void)
{
	SIZE(delayed_work, struct delayed_work);
	AT(delayed_work, work);
	SIZE(page_frag, struct page_frag);
	AT(page_frag, page);
	AT(page_frag, offset);
	AT(page_frag, size);
}
