// SPDX-License-Identifier: GPL-2.0
/*
 * The copy engine of this module, and its parameters.
 */
#include <linux/module.h>

#include "helpers.h"
#include "../../copier/engine.c"

/* Parameters may start work. Protected by the lock of parameters. */
static bool is_open;
static int engine_bytes = -1;

static int set_engine_bytes(const char *value, const struct kernel_param *param)
{
	int ret = param_set_int(value, param);

	/* Parameters exist before the module is initialised, and after its exit. */
	if (!ret && is_open)
		copier_set(engine_bytes);
	return ret;
}

static const struct kernel_param_ops engine_bytes_ops = {
	.set = set_engine_bytes,
	.get = param_get_int,
};

module_param_cb(engine_bytes, &engine_bytes_ops, &engine_bytes, 0644);
MODULE_PARM_DESC(engine_bytes, "minimum length of runs of memory that a DMA engine copies; 0: none; -1: as measured (default)");

static int get_engine(char *buffer, const struct kernel_param *param)
{
	return copier_describe(buffer);
}

static const struct kernel_param_ops engine_ops = { .get = get_engine };

module_param_cb(engine, &engine_ops, NULL, 0444);
MODULE_PARM_DESC(engine, "the DMA engine in use, and what it has done");

int rlo_engine_init(void)
{
	int ret = copier_init(COPIER_RUNS, 0, engine_bytes);

	if (ret)
		return ret;
	kernel_param_lock(THIS_MODULE);
	is_open = true;
	kernel_param_unlock(THIS_MODULE);
	return 0;
}

void rlo_engine_exit(void)
{
	kernel_param_lock(THIS_MODULE);
	is_open = false;
	kernel_param_unlock(THIS_MODULE);
	copier_exit();
}
