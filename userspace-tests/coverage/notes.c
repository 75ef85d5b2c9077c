// SPDX-License-Identifier: GPL-2.0
/*
 * Notes which basic blocks of sdp.ko and rlo.ko run. `qemu/module -c` builds
 * both with a call of __sanitizer_cov_trace_pc() in each block, as the kernel's
 * KCOV does. KCOV itself counts for the task that asks for it only, but much of
 * both runs in workers and softirqs.
 *
 * A block has one bit, at the offset of its call's return address in the code
 * of its module. The module may be unloaded and loaded again, elsewhere. Files
 * of /sys/kernel/debug/sdp_coverage have the bits: sdp.text, sdp.init, rlo.text
 * and rlo.init.
 *
 * Contexts: all. A note takes no lock and does not sleep.
 */
#include <linux/bitops.h>
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/notifier.h>

/* More than the code of a module with these calls has. */
#define LIMIT (4UL << 20)

struct area {
	const char *module;
	enum mod_mem_type type;
	const char *file;
	/* 0 while the module is not loaded. */
	unsigned long begin;
	unsigned long len;
	unsigned long bits[LIMIT / BITS_PER_LONG];
};

static struct area areas[] = {
	{ "sdp", MOD_TEXT, "sdp.text" },
	{ "sdp", MOD_INIT_TEXT, "sdp.init" },
	{ "rlo", MOD_TEXT, "rlo.text" },
	{ "rlo", MOD_INIT_TEXT, "rlo.init" },
};

static struct debugfs_blob_wrapper blobs[ARRAY_SIZE(areas)];

void __sanitizer_cov_trace_pc(void);

notrace void __sanitizer_cov_trace_pc(void)
{
	unsigned long address = (unsigned long)__builtin_return_address(0);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(areas); i++) {
		unsigned long offset = address - READ_ONCE(areas[i].begin);

		if (offset >= READ_ONCE(areas[i].len))
			continue;
		/* Most have run before, and a read costs less. */
		if (!test_bit(offset, areas[i].bits))
			set_bit(offset, areas[i].bits);
		return;
	}
}
EXPORT_SYMBOL_GPL(__sanitizer_cov_trace_pc);

/* Before the first code of a module runs, and after the last. */
static int note_module(struct notifier_block *block, unsigned long state, void *data)
{
	struct module *mod = data;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(areas); i++) {
		struct area *area = &areas[i];
		struct module_memory *memory = &mod->mem[area->type];

		if (strcmp(mod->name, area->module))
			continue;
		/* The code of the initialisation is freed when it has ended. */
		if (state != MODULE_STATE_LIVE || area->type == MOD_INIT_TEXT)
			WRITE_ONCE(area->len, 0);
		if (state != MODULE_STATE_COMING)
			continue;
		if (memory->size > LIMIT) {
			pr_err("%s: %u bytes of code\n", area->file, memory->size);
			continue;
		}
		WRITE_ONCE(area->begin, (unsigned long)memory->base);
		WRITE_ONCE(area->len, memory->size);
	}
	return NOTIFY_OK;
}

static struct notifier_block watch = { .notifier_call = note_module };

static int __init notes_init(void)
{
	struct dentry *dir = debugfs_create_dir("sdp_coverage", NULL);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(areas); i++) {
		blobs[i].data = areas[i].bits;
		blobs[i].size = sizeof(areas[i].bits);
		debugfs_create_blob(areas[i].file, 0400, dir, &blobs[i]);
	}
	return register_module_notifier(&watch);
}
module_init(notes_init);

MODULE_DESCRIPTION("Notes of the basic blocks of sdp.ko and rlo.ko that run");
MODULE_LICENSE("GPL");
