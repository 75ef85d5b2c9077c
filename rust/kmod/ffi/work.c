// SPDX-License-Identifier: GPL-2.0
/*
 * Delayed work.
 * helpers.h has the declarations.
 */
#include <linux/workqueue.h>

#include "helpers.h"

struct workqueue_struct *sdp_alloc_workqueue(const char *name)
{
	return alloc_workqueue("%s", WQ_UNBOUND, 0, name);
}

void sdp_init_delayed_work(struct delayed_work *work, work_func_t func)
{
	INIT_DELAYED_WORK(work, func);
}

bool sdp_mod_delayed_work(struct workqueue_struct *wq,
			  struct delayed_work *work, unsigned long msecs)
{
	return mod_delayed_work(wq, work, msecs_to_jiffies(msecs));
}

bool sdp_queue_delayed_work(struct workqueue_struct *wq,
			    struct delayed_work *work, unsigned long msecs)
{
	return queue_delayed_work(wq, work, msecs_to_jiffies(msecs));
}

bool sdp_is_delayed_work_pending(const struct delayed_work *work)
{
	return delayed_work_pending(work);
}

bool sdp_cancel_delayed_work(struct delayed_work *work)
{
	return cancel_delayed_work(work);
}
