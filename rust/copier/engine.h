/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Copies by a DMA engine: see engine.c.
 */
#ifndef COPIER_ENGINE_H
#define COPIER_ENGINE_H

#include <linux/atomic.h>
#include <linux/types.h>

/* Maximum number of runs of a flight. */
#define COPIER_RUNS 16

/* Memory that is contiguous at both ends. */
struct copier_run {
	void *to;
	const void *from;
	size_t len;
};

struct copier_descriptor {
	struct copier_flight *flight;
	dma_addr_t from;
	dma_addr_t to;
	bool sent;
	bool good;
};

/* The progress of one copy. It stays in place until it has ended. */
struct copier_flight {
	atomic_t left;
	u64 finished;
	const struct copier_run *runs;
	unsigned int count;
	/* The channel is held for it. */
	bool held;
	/* A descriptor was sent. */
	bool any;
	struct copier_descriptor descriptors[COPIER_RUNS];
};

/*
 * At most `depth` descriptors are in flight. Memory is measured in pieces of
 * `piece` bytes, a power of two; with 0 copies are contiguous. `bytes` is as
 * of copier_set().
 */
int copier_init(unsigned int depth, size_t piece, int bytes);
/* No flight is left. */
void copier_exit(void);
/* Copies of at least so many bytes use the engine; 0: none; -1: as measured. */
void copier_set(int bytes);
/* The channel in use, and what it has done: a page of text for sysfs. */
int copier_describe(char *buffer);
/* The smallest copy for which the engine is worthwhile now. SIZE_MAX: none. */
extern size_t copier_threshold;

/*
 * Begins to copy all of the runs, COPIER_RUNS at most, in no particular
 * order: runs of `least` bytes or more by the engine, as far as it has room,
 * and the others before it returns. The runs, their memory and the flight
 * stay until copier_end(). Sleeps.
 */
void copier_begin(struct copier_flight *flight, const struct copier_run *runs,
		  unsigned int count, size_t least);
/* Whether copier_end() would not wait. */
bool copier_is_over(struct copier_flight *flight);
/*
 * Waits until all is copied, once, in the task that began. Returns the number
 * of bytes that the engine has moved.
 */
size_t copier_end(struct copier_flight *flight);
/* Both, with the threshold. */
size_t copier_copy(const struct copier_run *runs, unsigned int count);

#endif
