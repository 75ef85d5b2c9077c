// SPDX-License-Identifier: GPL-2.0
/*
 * The copy engine of receivers, and what it reports of itself.
 */
#include <linux/module.h>
#include <linux/sysctl.h>

#include "helpers.h"
#include "../../copier/engine.c"

/* As many as the readers of two connections have in flight, and some. */
#define SDP_ENGINE_DEPTH 128

/* net.sdp.copy_engine: off, because few machines gain from it. */
int sdp_copy_engine;

int sdp_copy_engine_handler(const struct ctl_table *table, int write,
			    void *buffer, size_t *len, loff_t *pos)
{
	int err = proc_dointvec_minmax(table, write, buffer, len, pos);

	if (!err && write)
		copier_set(READ_ONCE(sdp_copy_engine));
	return err;
}

static int get_engine(char *buffer, const struct kernel_param *param)
{
	return copier_describe(buffer);
}

static const struct kernel_param_ops engine_ops = { .get = get_engine };

module_param_cb(engine, &engine_ops, NULL, 0444);
MODULE_PARM_DESC(engine, "the DMA engine in use, and what it has done");

/* Readers' memory comes in single pages. */
int sdp_engine_init(void)
{
	return copier_init(SDP_ENGINE_DEPTH, PAGE_SIZE, sdp_copy_engine);
}

void sdp_engine_exit(void)
{
	copier_exit();
}
