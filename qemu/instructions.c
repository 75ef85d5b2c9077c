// SPDX-License-Identifier: GPL-2.0
/*
 * A plugin of QEMU: counts the instructions that the guest executes, by the
 * address of the block of code that they are in. qemu/counter builds it.
 *
 * Arguments: `out=FILE`, and `trigger=ADDRESS` in hexadecimal. Each execution
 * of the block at that address writes the counts since the one before to
 * FILE.0, FILE.1, ..., a line for each block: its address, its instructions,
 * its executions. Address 0 stands for all code of programs.
 *
 * Under emulation times differ from run to run, and these counts hardly do.
 * A repeated string instruction counts once for each repetition.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is used of qemu-plugin.h, which Debian does not package everywhere. */
struct qemu_plugin_tb;
typedef uint64_t plugin_id;
typedef void (*translated_cb)(plugin_id id, struct qemu_plugin_tb *tb);
typedef void (*executed_cb)(unsigned int cpu, void *data);

uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, translated_cb cb);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, executed_cb cb, int flags,
					  void *data);

#define EXPORTED __attribute__((visibility("default")))

/* The version of the interface: qemu/counter asks QEMU. */
EXPORTED int qemu_plugin_version = PLUGIN_VERSION;

#define KERNEL 0xffff800000000000ull
#define BLOCKS (1u << 20)
#define CPUS 8

struct block {
	uint64_t address, length;
	/* By processor, so that none is lost; with more, a few are. */
	uint64_t executions[CPUS];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks[BLOCKS];
static const char *out;
static uint64_t trigger;

/* Programs are one block for each length. */
static struct block *find(uint64_t address, uint64_t length)
{
	uint64_t hash = (address ^ length << 56) * 0x9e3779b97f4a7c15ull >> 44;
	struct block **place;

	for (;;) {
		place = &blocks[hash % BLOCKS];
		if (!*place)
			break;
		if ((*place)->address == address && (*place)->length == length)
			return *place;
		hash++;
	}
	*place = calloc(1, sizeof(**place));
	if (!*place)
		abort();
	(*place)->address = address;
	(*place)->length = length;
	return *place;
}

static void count(unsigned int cpu, void *data)
{
	struct block *block = data;

	block->executions[cpu % CPUS]++;
}

static void write_counts(unsigned int cpu, void *data)
{
	static unsigned int number;
	char name[4096];
	FILE *file;

	(void)cpu;
	(void)data;
	pthread_mutex_lock(&lock);
	snprintf(name, sizeof(name), "%s.%u", out, number++);
	file = fopen(name, "w");
	for (size_t i = 0; file && i < BLOCKS; i++) {
		uint64_t sum = 0;

		for (size_t at = 0; blocks[i] && at < CPUS; at++) {
			sum += blocks[i]->executions[at];
			blocks[i]->executions[at] = 0;
		}
		if (sum)
			fprintf(file, "%llx %llu %llu\n",
				(unsigned long long)blocks[i]->address,
				(unsigned long long)blocks[i]->length, (unsigned long long)sum);
	}
	if (file)
		fclose(file);
	pthread_mutex_unlock(&lock);
}

static void translated(plugin_id id, struct qemu_plugin_tb *tb)
{
	uint64_t address = qemu_plugin_tb_vaddr(tb);
	bool triggers = address == trigger;
	struct block *block;

	(void)id;
	pthread_mutex_lock(&lock);
	block = find(address < KERNEL ? 0 : address, qemu_plugin_tb_n_insns(tb));
	pthread_mutex_unlock(&lock);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, count, 0, block);
	if (triggers)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, write_counts, 0, NULL);
}

EXPORTED int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
	(void)info;
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "out=", 4))
			out = strdup(argv[i] + 4);
		if (!strncmp(argv[i], "trigger=", 8))
			trigger = strtoull(argv[i] + 8, NULL, 16);
	}
	if (!out || !trigger)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
