// SPDX-License-Identifier: GPL-2.0
/*
 * The list of cases, and the verdict about one.
 */
#include <linux/string.h>

#include "verbs.h"

static const struct vb_case *const groups[] = {
	vb_key_cases, vb_message_cases, vb_order_cases, vb_queue_cases,
	vb_retry_cases, vb_event_cases, vb_state_cases, vb_datagram_cases,
};

void vb_cases_list(struct vb_run *run)
{
	const struct vb_case *one;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(groups); i++)
		for (one = groups[i]; one->name; one++)
			vb_say(run, "%s\n", one->name);
}

static const struct vb_case *find(const char *name)
{
	const struct vb_case *one;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(groups); i++)
		for (one = groups[i]; one->name; one++)
			if (!strcmp(one->name, name))
				return one;
	return NULL;
}

/*
 * Declared differences count for rxe only, and only while rxe shows them:
 * once rxe conforms, the declaration is an error.
 */
static void excuse(struct vb_run *run, const struct vb_case *one)
{
	if (run->failed) {
		vb_say(run, "seen=%s (line %d)\n", run->why, run->line);
		run->failed = false;
		vb_absent(run, "%s", one->rxe);
	} else {
		vb_fail(run, "passes, but a difference is declared: %s", one->rxe);
	}
}

int vb_case_run(struct vb_run *run, const char *name)
{
	const struct vb_case *one = find(name);
	bool excused;

	if (!one)
		return -ENOENT;
	excused = one->rxe && (run->host[0].device->ops.driver_id == RDMA_DRIVER_RXE ||
			       run->host[1].device->ops.driver_id == RDMA_DRIVER_RXE);
	if (excused && one->rxe_harmful) {
		vb_absent(run, "%s", one->rxe);
		return 0;
	}
	one->run(run);
	if (!run->failed && !run->absent)
		vb_memories_right(run);
	if (excused)
		excuse(run, one);
	return 0;
}
