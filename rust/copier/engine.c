// SPDX-License-Identifier: GPL-2.0
/*
 * A copy engine: a channel of dmaengine that copies memory while the caller
 * sleeps, or does something else. Each module includes this file, and has a
 * channel of its own.
 *
 * The channel is not shared. So it may be terminated if it does not answer,
 * and idxd, which has no public channels, can be used as well. It is
 * requested when there is something to copy, and released two seconds after
 * the last copy, because a driver cannot be removed while its channel is
 * held, and dmaengine does not announce such a removal.
 *
 * Every byte is copied even if the engine fails: the processor copies what
 * the engine does not accept, does not finish or copies with an error.
 *
 * Locks, outermost first: users, sending. Copies only try the first, so they
 * do not wait for memory that the work below allocates.
 */
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/sizes.h>

#include "engine.h"

/* The timeout of a descriptor. */
#define LIMIT		HZ
/* The channel is released after this time without a copy. */
#define IDLE		(2 * HZ)
/* Delay of the next attempt if there is no channel, or it fails. */
#define REST		(10 * HZ)
/* The channel is given up after this number of consecutive failures. */
#define FAILURES	16
/*
 * Measurements begin with this size; until then it is the threshold. None has
 * more pieces than a flight.
 */
#define SMALLEST	SZ_4K
#define LARGEST		SZ_1M
#define ROUNDS		8

enum state {
	/* Until copier_set(). */
	OFF,
	/* The next large copy requests a channel. */
	READY,
	ASKED,
	RUNNING,
	RESTING,
};

static DECLARE_RWSEM(users);
static DEFINE_MUTEX(sending);
static DECLARE_WAIT_QUEUE_HEAD(waiters);
static struct workqueue_struct *queue;

static struct {
	/* Maximum number of descriptors in flight. */
	unsigned int depth;
	/* The length of the pieces that memory has; 0: copies are contiguous. */
	size_t piece;
	/* The caller's wish: see copier_set(). */
	int bytes;
	/* Changes with `users` held for writing. */
	struct dma_chan *chan;
	/* Referenced: the channel's own pointer may be cleared before the channel is. */
	struct device *dev;
	size_t longest;
	/* Under `sending`: no more descriptors are submitted; and none is in flight. */
	bool refuses;
	bool stopped;
	bool stuck;
	enum state state;
	bool changed;
	/* The smallest copy for which the engine was faster; 0: not measured. */
	size_t measured;
	atomic_t under_way;
	atomic_t failures;
	unsigned long used;
	/* The end of RESTING. */
	unsigned long rested;
	char name[32];
	atomic_long_t copies;
	atomic_long_t refused;
	atomic_long_t failed;
	atomic_long_t stalls;
} engine;

size_t copier_threshold = SIZE_MAX;

static void tend(struct work_struct *work);
static DECLARE_DELAYED_WORK(tending, tend);

static size_t threshold(void)
{
	int bytes = READ_ONCE(engine.bytes);

	if (bytes > 0)
		return bytes;
	return engine.measured ?: SMALLEST;
}

/* Stops the use of the channel; it is released once no task waits for it. */
static void refuse(void)
{
	WRITE_ONCE(engine.refuses, true);
	WRITE_ONCE(copier_threshold, SIZE_MAX);
	mod_delayed_work(queue, &tending, 0);
}

static void note_failure(void)
{
	if (atomic_inc_return(&engine.failures) == FAILURES)
		refuse();
}

/* From any context. */
static void descriptor_done(void *context, const struct dmaengine_result *result)
{
	struct copier_descriptor *descriptor = context;
	struct copier_flight *flight = descriptor->flight;

	descriptor->good = result->result == DMA_TRANS_NOERROR;
	flight->finished = ktime_get_ns();
	atomic_dec(&engine.under_way);
	/* The flight may be freed once `left` is 0. */
	if (atomic_dec_and_test(&flight->left))
		wake_up(&waiters);
}

static bool is_suitable(const struct copier_run *run)
{
	const void *from = run->from, *to = run->to;
	size_t len = run->len;

	if (len > engine.longest || !virt_addr_valid(from) || !virt_addr_valid(to))
		return false;
	/* Overlapping memory must be copied in a certain order. */
	if (from < to + len && to < from + len)
		return false;
	/* If caches are not coherent, a cache line must not be shared with the engine. */
	if (!IS_ALIGNED((unsigned long)to | len, dma_get_cache_alignment()))
		return false;
	return is_dma_copy_aligned(engine.chan->device, offset_in_page(from),
				   offset_in_page(to), len);
}

/*
 * Regions of consumers may share cache lines, and requests for both may run
 * concurrently, peers included.
 */
static dma_addr_t map_one(void *start, size_t len, enum dma_data_direction direction)
{
	return dma_map_single_attrs(engine.dev, start, len, direction,
				    DMA_ATTR_DEBUGGING_IGNORE_CACHELINES);
}

static void unmap_one(dma_addr_t address, size_t len, enum dma_data_direction direction)
{
	dma_unmap_single_attrs(engine.dev, address, len, direction,
			       DMA_ATTR_DEBUGGING_IGNORE_CACHELINES);
}

static bool map(struct copier_descriptor *descriptor, const struct copier_run *run)
{
	descriptor->from = map_one((void *)run->from, run->len, DMA_TO_DEVICE);
	if (dma_mapping_error(engine.dev, descriptor->from))
		return false;
	descriptor->to = map_one(run->to, run->len, DMA_FROM_DEVICE);
	if (!dma_mapping_error(engine.dev, descriptor->to))
		return true;
	unmap_one(descriptor->from, run->len, DMA_TO_DEVICE);
	return false;
}

static void unmap(struct copier_descriptor *descriptor, const struct copier_run *run)
{
	unmap_one(descriptor->from, run->len, DMA_TO_DEVICE);
	unmap_one(descriptor->to, run->len, DMA_FROM_DEVICE);
}

/* Under `sending`, because drivers may hold a lock from prepare to submit. */
static bool prepare_and_submit(struct copier_descriptor *descriptor, size_t len)
{
	struct dma_async_tx_descriptor *txd;
	dma_cookie_t cookie;

	txd = dmaengine_prep_dma_memcpy(engine.chan, descriptor->to, descriptor->from, len,
					DMA_PREP_INTERRUPT | DMA_CTRL_ACK);
	if (!txd)
		return false;
	txd->callback_result = descriptor_done;
	txd->callback_param = descriptor;
	atomic_inc(&descriptor->flight->left);
	atomic_inc(&engine.under_way);
	cookie = dmaengine_submit(txd);
	if (!dma_submit_error(cookie))
		return true;
	atomic_dec(&descriptor->flight->left);
	atomic_dec(&engine.under_way);
	return false;
}

static void send(struct copier_flight *flight, struct copier_descriptor *descriptor,
		 const struct copier_run *run)
{
	if (engine.refuses || atomic_read(&engine.under_way) >= engine.depth || !is_suitable(run) ||
	    !map(descriptor, run))
		return;
	descriptor->flight = flight;
	descriptor->good = false;
	descriptor->sent = prepare_and_submit(descriptor, run->len);
	if (descriptor->sent)
		return;
	unmap(descriptor, run);
	atomic_long_inc(&engine.refused);
	note_failure();
}

/* Submits the runs of `least` bytes or more. */
static void launch(struct copier_flight *flight, size_t least)
{
	unsigned int i;

	mutex_lock(&sending);
	for (i = 0; i < flight->count; i++) {
		if (flight->runs[i].len >= least)
			send(flight, &flight->descriptors[i], &flight->runs[i]);
		flight->any |= flight->descriptors[i].sent;
	}
	if (flight->any)
		dma_async_issue_pending(engine.chan);
	mutex_unlock(&sending);
}

bool copier_is_over(struct copier_flight *flight)
{
	/* Makes the stores of descriptor_done() and the end of the copies visible. */
	return !atomic_read_acquire(&flight->left) || smp_load_acquire(&engine.stopped);
}

/* Terminates descriptors that the channel has not finished. */
static void stop(void)
{
	mutex_lock(&sending);
	if (!engine.stuck) {
		engine.stuck = true;
		refuse();
		atomic_long_inc(&engine.stalls);
		if (dmaengine_terminate_sync(engine.chan))
			/* Drivers without terminate watch their hardware themselves. */
			pr_warn(KBUILD_MODNAME ": copy engine %s does not answer and cannot be stopped: waiting for it\n",
				engine.name);
		else
			/* No callback runs any more; ordered after their stores. */
			smp_store_release(&engine.stopped, true);
		wake_up_all(&waiters);
	}
	mutex_unlock(&sending);
}

/* Waits until no descriptor of the flight can touch memory. */
static void wait_for(struct copier_flight *flight)
{
	if (wait_event_timeout(waiters, copier_is_over(flight), LIMIT))
		return;
	stop();
	wait_event(waiters, copier_is_over(flight));
}

static void copy_here(const struct copier_run *run)
{
	size_t done, len;

	for (done = 0; done < run->len; done += len) {
		len = min_t(size_t, run->len - done, SZ_64K);
		memmove(run->to + done, run->from + done, len);
		cond_resched();
	}
}

/* Ends a flight. Returns the bytes that the engine has moved. */
static size_t land(struct copier_flight *flight)
{
	size_t moved = 0;
	unsigned int i;

	for (i = 0; i < flight->count; i++) {
		const struct copier_run *run = &flight->runs[i];

		if (!flight->descriptors[i].sent)
			continue;
		unmap(&flight->descriptors[i], run);
		if (flight->descriptors[i].good) {
			moved += run->len;
			atomic_set(&engine.failures, 0);
			atomic_long_inc(&engine.copies);
		} else {
			copy_here(run);
			atomic_long_inc(&engine.failed);
			note_failure();
		}
	}
	return moved;
}

static void prepare(struct copier_flight *flight, const struct copier_run *runs, unsigned int count)
{
	unsigned int i;

	atomic_set(&flight->left, 0);
	flight->finished = 0;
	flight->runs = runs;
	flight->count = count;
	flight->held = false;
	flight->any = false;
	for (i = 0; i < count; i++)
		flight->descriptors[i].sent = false;
}

void copier_begin(struct copier_flight *flight, const struct copier_run *runs,
		  unsigned int count, size_t least)
{
	unsigned int i;

	prepare(flight, runs, count);
	flight->held = down_read_trylock(&users);
	if (flight->held && engine.chan) {
		WRITE_ONCE(engine.used, jiffies);
		launch(flight, least);
	} else if (flight->held && cmpxchg(&engine.state, READY, ASKED) == READY) {
		WRITE_ONCE(copier_threshold, SIZE_MAX);
		mod_delayed_work(queue, &tending, 0);
	}
	/* A flight that does not use the channel must not keep it. */
	if (flight->held && !flight->any) {
		up_read(&users);
		flight->held = false;
	}
	for (i = 0; i < count; i++) {
		if (!flight->descriptors[i].sent)
			copy_here(&runs[i]);
	}
}

size_t copier_end(struct copier_flight *flight)
{
	size_t moved;

	if (!flight->any)
		return 0;
	wait_for(flight);
	moved = land(flight);
	up_read(&users);
	return moved;
}

size_t copier_copy(const struct copier_run *runs, unsigned int count)
{
	struct copier_flight flight;

	copier_begin(&flight, runs, count, READ_ONCE(copier_threshold));
	return copier_end(&flight);
}

/*
 * The processor time of one copy by the engine: its total without the
 * engine's own time.
 */
static u64 time_engine(const struct copier_run *runs, unsigned int count)
{
	struct copier_flight flight;
	u64 begin = ktime_get_ns(), started;
	size_t len = 0;
	unsigned int i;

	for (i = 0; i < count; i++)
		len += runs[i].len;
	prepare(&flight, runs, count);
	launch(&flight, 0);
	if (!flight.any)
		return U64_MAX;
	started = ktime_get_ns();
	wait_for(&flight);
	if (land(&flight) != len)
		return U64_MAX;
	return started - begin + ktime_get_ns() - max(started, flight.finished);
}

static u64 time_processor(const struct copier_run *run)
{
	u64 begin = ktime_get_ns();

	memmove(run->to, run->from, run->len);
	return ktime_get_ns() - begin;
}

/* Divides a copy of `len` bytes. Returns the number of pieces. */
static unsigned int divide(struct copier_run *runs, void *to, const void *from, size_t len)
{
	size_t piece = engine.piece ?: len, done;
	unsigned int count = 0;

	for (done = 0; done < len; done += piece)
		runs[count++] = (struct copier_run){
			.to = to + done, .from = from + done, .len = piece
		};
	return count;
}

/* The smallest copy for which the engine costs less time, or SIZE_MAX. */
static size_t measure(void)
{
	size_t largest = engine.piece ? min(LARGEST, engine.piece * COPIER_RUNS) : LARGEST;
	void *memory = alloc_pages_exact(2 * largest, GFP_KERNEL | __GFP_NOWARN | __GFP_ZERO);
	struct copier_run pieces[COPIER_RUNS];
	size_t found = SIZE_MAX, len;
	unsigned int i;

	if (!memory)
		return largest;
	for (len = SMALLEST; len <= largest && found == SIZE_MAX; len *= 2) {
		struct copier_run run = { .to = memory + len, .from = memory, .len = len };
		unsigned int count = divide(pieces, run.to, run.from, len);
		u64 engines = U64_MAX, processors = U64_MAX;

		for (i = 0; i < ROUNDS && !READ_ONCE(engine.refuses); i++) {
			processors = min(processors, time_processor(&run));
			engines = min(engines, time_engine(pieces, count));
		}
		if (engines < processors)
			found = len;
	}
	free_pages_exact(memory, 2 * largest);
	return found;
}

/* With `users` held for writing, like the functions below. */
static void give_back(void)
{
	if (!engine.chan)
		return;
	dma_release_channel(engine.chan);
	put_device(engine.dev);
	engine.chan = NULL;
	engine.dev = NULL;
}

static bool obtain(void)
{
	struct dma_chan *chan;
	dma_cap_mask_t mask;

	dma_cap_zero(mask);
	dma_cap_set(DMA_MEMCPY, mask);
	chan = dma_request_chan_by_mask(&mask);
	if (IS_ERR(chan))
		return false;
	engine.dev = get_device(dmaengine_get_dma_device(chan));
	engine.longest = dma_max_mapping_size(engine.dev);
	if (strcmp(engine.name, dma_chan_name(chan)))
		engine.measured = 0;
	strscpy(engine.name, dma_chan_name(chan));
	atomic_set(&engine.under_way, 0);
	atomic_set(&engine.failures, 0);
	engine.refuses = false;
	engine.stopped = false;
	engine.stuck = false;
	engine.chan = chan;
	return true;
}

/* Called after a copier has requested a channel. */
static enum state start(void)
{
	engine.rested = jiffies + REST;
	if (!obtain())
		return RESTING;
	if (engine.bytes < 0 && !engine.measured) {
		size_t found = measure();

		if (engine.refuses)
			return RUNNING;
		engine.measured = found;
		if (found == SIZE_MAX) {
			give_back();
			return OFF;
		}
	}
	engine.used = jiffies;
	return RUNNING;
}

static void tend(struct work_struct *work)
{
	unsigned long wait = 0;

	down_write(&users);
	if (xchg(&engine.changed, false)) {
		give_back();
		engine.refuses = false;
		engine.measured = 0;
		engine.state = engine.bytes ? READY : OFF;
	} else if (engine.state == ASKED) {
		engine.state = start();
	} else if (engine.state == RESTING && time_after_eq(jiffies, engine.rested)) {
		engine.state = READY;
	} else if (engine.state == RUNNING && !engine.refuses &&
		   time_after_eq(jiffies, engine.used + IDLE)) {
		give_back();
		engine.state = READY;
	}
	if (engine.state == RUNNING && engine.refuses) {
		give_back();
		engine.state = engine.stuck ? OFF : RESTING;
		engine.rested = jiffies + REST;
		pr_info(KBUILD_MODNAME ": copy engine %s %s\n", engine.name,
			engine.stuck ? "does not answer: not used until its setting is written" :
				       "fails: not used for a while");
	}
	if (engine.state == RUNNING)
		wait = IDLE;
	else if (engine.state == RESTING)
		wait = time_before(jiffies, engine.rested) ? engine.rested - jiffies : 1;
	WRITE_ONCE(copier_threshold, engine.state == READY || engine.state == RUNNING ?
					 threshold() : SIZE_MAX);
	/* A caller that needs the channel at once does not wait here. */
	if (wait)
		queue_delayed_work(queue, &tending, wait);
	up_write(&users);
}

void copier_set(int bytes)
{
	WRITE_ONCE(engine.bytes, bytes);
	xchg(&engine.changed, true);
	mod_delayed_work(queue, &tending, 0);
}

int copier_describe(char *buffer)
{
	size_t least;
	int len;

	down_read(&users);
	least = READ_ONCE(copier_threshold);
	len = sysfs_emit(buffer, "channel=%s bytes=%zu copies=%ld refused=%ld failed=%ld stalls=%ld\n",
			 engine.chan ? engine.name : "none", least == SIZE_MAX ? 0 : least,
			 atomic_long_read(&engine.copies), atomic_long_read(&engine.refused),
			 atomic_long_read(&engine.failed), atomic_long_read(&engine.stalls));
	up_read(&users);
	return len;
}

int copier_init(unsigned int depth, size_t piece, int bytes)
{
	queue = alloc_workqueue(KBUILD_MODNAME "_engine", WQ_UNBOUND, 1);
	if (!queue)
		return -ENOMEM;
	engine.depth = depth;
	engine.piece = piece;
	engine.bytes = bytes;
	engine.state = bytes ? READY : OFF;
	if (bytes)
		WRITE_ONCE(copier_threshold, threshold());
	return 0;
}

void copier_exit(void)
{
	cancel_delayed_work_sync(&tending);
	down_write(&users);
	give_back();
	up_write(&users);
	destroy_workqueue(queue);
}
