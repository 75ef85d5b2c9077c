// SPDX-License-Identifier: GPL-2.0
/*
 * A copy engine: a channel of dmaengine that copies memory while the worker
 * sleeps.
 *
 * The channel is not shared. So it may be terminated if it does not answer,
 * and idxd, whose channels are never public, can be used as well. It is
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

#include "helpers.h"

/* Maximum number of descriptors in flight. */
#define DEPTH		RLO_RUNS
/* The timeout of a descriptor. */
#define LIMIT		HZ
/* The channel is released after this time without a copy. */
#define IDLE		(2 * HZ)
/* Delay of the next attempt if there is no channel, or it fails. */
#define REST		(10 * HZ)
/* The channel is given up after this number of consecutive failures. */
#define FAILURES	16
/* Measurements begin with this size; until then it is the threshold. */
#define SMALLEST	SZ_4K
#define LARGEST		SZ_1M
#define ROUNDS		8

enum state {
	/* Until engine_bytes is written. */
	OFF,
	/* The next large copy requests a channel. */
	READY,
	ASKED,
	RUNNING,
	RESTING,
};

struct flight;

struct descriptor {
	struct flight *flight;
	dma_addr_t from;
	dma_addr_t to;
	bool sent;
	bool good;
};

/* The progress of one copy; on the stack of the copier, which waits for it. */
struct flight {
	atomic_t left;
	u64 finished;
	struct descriptor descriptors[RLO_RUNS];
};

static DECLARE_RWSEM(users);
static DEFINE_MUTEX(sending);
static DECLARE_WAIT_QUEUE_HEAD(waiters);
static struct workqueue_struct *queue;
/* Parameters may start work. Protected by the lock of parameters. */
static bool is_open;

static struct {
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

size_t rlo_engine_threshold = SIZE_MAX;

/* -1: the measured threshold. */
static int engine_bytes = -1;

static void tend(struct work_struct *work);
static DECLARE_DELAYED_WORK(tending, tend);

static size_t threshold(void)
{
	if (engine_bytes > 0)
		return engine_bytes;
	return engine.measured ?: SMALLEST;
}

/* Stops the use of the channel; it is released once nobody waits for it. */
static void refuse(void)
{
	WRITE_ONCE(engine.refuses, true);
	WRITE_ONCE(rlo_engine_threshold, SIZE_MAX);
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
	struct descriptor *descriptor = context;
	struct flight *flight = descriptor->flight;

	descriptor->good = result->result == DMA_TRANS_NOERROR;
	flight->finished = ktime_get_ns();
	atomic_dec(&engine.under_way);
	/* The flight may be freed once `left` is 0. */
	if (atomic_dec_and_test(&flight->left))
		wake_up(&waiters);
}

static bool is_suitable(const struct rlo_run *run)
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
	return is_dma_copy_aligned(engine.chan->device, offset_in_page(from), offset_in_page(to), len);
}

/*
 * Regions of consumers may share cache lines, and requests for both may run
 * concurrently, those of peers included.
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

static bool map(struct descriptor *descriptor, const struct rlo_run *run)
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

static void unmap(struct descriptor *descriptor, const struct rlo_run *run)
{
	unmap_one(descriptor->from, run->len, DMA_TO_DEVICE);
	unmap_one(descriptor->to, run->len, DMA_FROM_DEVICE);
}

/* Under `sending`, because drivers may hold a lock from prepare to submit. */
static bool prepare_and_submit(struct descriptor *descriptor, size_t len)
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

static void send(struct flight *flight, struct descriptor *descriptor, const struct rlo_run *run)
{
	if (engine.refuses || atomic_read(&engine.under_way) >= DEPTH || !is_suitable(run) ||
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

/* Submits the large runs. Returns true if there is something to wait for. */
static bool launch(struct flight *flight, const struct rlo_run *runs, unsigned int count, size_t least)
{
	bool any = false;
	unsigned int i;

	atomic_set(&flight->left, 0);
	mutex_lock(&sending);
	for (i = 0; i < count; i++) {
		flight->descriptors[i].sent = false;
		if (runs[i].len >= least)
			send(flight, &flight->descriptors[i], &runs[i]);
		any |= flight->descriptors[i].sent;
	}
	if (any)
		dma_async_issue_pending(engine.chan);
	mutex_unlock(&sending);
	return any;
}

static bool is_over(struct flight *flight)
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
			pr_warn("rlo: copy engine %s does not answer and cannot be stopped: waiting for it\n",
				engine.name);
		else
			/* No callback runs any more; ordered after their stores. */
			smp_store_release(&engine.stopped, true);
		wake_up_all(&waiters);
	}
	mutex_unlock(&sending);
}

/* Waits until no descriptor of the flight can touch memory. */
static void wait_for(struct flight *flight)
{
	if (wait_event_timeout(waiters, is_over(flight), LIMIT))
		return;
	stop();
	wait_event(waiters, is_over(flight));
}

static void copy_here(const struct rlo_run *run)
{
	size_t done, len;

	for (done = 0; done < run->len; done += len) {
		len = min_t(size_t, run->len - done, SZ_64K);
		memmove(run->to + done, run->from + done, len);
		cond_resched();
	}
}

/* Ends a flight. Returns the bytes that the engine has moved. */
static size_t land(struct flight *flight, const struct rlo_run *runs, unsigned int count)
{
	size_t moved = 0;
	unsigned int i;

	for (i = 0; i < count; i++) {
		struct descriptor *descriptor = &flight->descriptors[i];

		if (!descriptor->sent)
			continue;
		unmap(descriptor, &runs[i]);
		if (descriptor->good) {
			moved += runs[i].len;
			atomic_set(&engine.failures, 0);
			atomic_long_inc(&engine.copies);
		} else {
			copy_here(&runs[i]);
			atomic_long_inc(&engine.failed);
			note_failure();
		}
	}
	return moved;
}

size_t rlo_engine_copy(const struct rlo_run *runs, unsigned int count)
{
	struct flight flight;
	bool held = down_read_trylock(&users);
	size_t moved = 0;
	bool any = false;
	unsigned int i;

	if (held && engine.chan) {
		WRITE_ONCE(engine.used, jiffies);
		any = launch(&flight, runs, count, READ_ONCE(rlo_engine_threshold));
	} else if (held && cmpxchg(&engine.state, READY, ASKED) == READY) {
		WRITE_ONCE(rlo_engine_threshold, SIZE_MAX);
		mod_delayed_work(queue, &tending, 0);
	}
	for (i = 0; i < count; i++) {
		if (!any || !flight.descriptors[i].sent)
			copy_here(&runs[i]);
	}
	if (any) {
		wait_for(&flight);
		moved = land(&flight, runs, count);
	}
	if (held)
		up_read(&users);
	return moved;
}

/* The processor time of one copy by the engine: its total without the engine's own time. */
static u64 time_engine(const struct rlo_run *run)
{
	struct flight flight;
	u64 begin = ktime_get_ns(), started;

	if (!launch(&flight, run, 1, 0))
		return U64_MAX;
	started = ktime_get_ns();
	wait_for(&flight);
	if (land(&flight, run, 1) != run->len)
		return U64_MAX;
	return started - begin + ktime_get_ns() - max(started, flight.finished);
}

static u64 time_processor(const struct rlo_run *run)
{
	u64 begin = ktime_get_ns();

	memmove(run->to, run->from, run->len);
	return ktime_get_ns() - begin;
}

/* The smallest copy for which the engine costs less time, or SIZE_MAX. */
static size_t measure(void)
{
	void *memory = alloc_pages_exact(2 * LARGEST, GFP_KERNEL | __GFP_NOWARN | __GFP_ZERO);
	size_t found = SIZE_MAX, len;
	unsigned int i;

	if (!memory)
		return LARGEST;
	for (len = SMALLEST; len <= LARGEST && found == SIZE_MAX; len *= 2) {
		struct rlo_run run = { .to = memory + len, .from = memory, .len = len };
		u64 engines = U64_MAX, processors = U64_MAX;

		for (i = 0; i < ROUNDS && !READ_ONCE(engine.refuses); i++) {
			processors = min(processors, time_processor(&run));
			engines = min(engines, time_engine(&run));
		}
		if (engines < processors)
			found = len;
	}
	free_pages_exact(memory, 2 * LARGEST);
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
	if (engine_bytes < 0 && !engine.measured) {
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
		engine.state = engine_bytes ? READY : OFF;
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
		pr_info("rlo: copy engine %s %s\n", engine.name,
			engine.stuck ? "does not answer: not used until engine_bytes is written" :
				       "fails: not used for a while");
	}
	if (engine.state == RUNNING)
		wait = IDLE;
	else if (engine.state == RESTING)
		wait = time_before(jiffies, engine.rested) ? engine.rested - jiffies : 1;
	WRITE_ONCE(rlo_engine_threshold, engine.state == READY || engine.state == RUNNING ?
					 threshold() : SIZE_MAX);
	/* A caller that needs the channel at once does not wait here. */
	if (wait)
		queue_delayed_work(queue, &tending, wait);
	up_write(&users);
}

static int set_engine_bytes(const char *value, const struct kernel_param *param)
{
	int ret = param_set_int(value, param);

	/* Parameters exist before the module is initialised, and after its exit. */
	if (!ret && is_open) {
		xchg(&engine.changed, true);
		mod_delayed_work(queue, &tending, 0);
	}
	return ret;
}

static const struct kernel_param_ops engine_bytes_ops = {
	.set = set_engine_bytes,
	.get = param_get_int,
};

module_param_cb(engine_bytes, &engine_bytes_ops, &engine_bytes, 0644);
MODULE_PARM_DESC(engine_bytes, "runs of memory from so many bytes on are copied by a DMA engine; 0: none; -1: what is measured (default)");

static int get_engine(char *buffer, const struct kernel_param *param)
{
	size_t least;
	int len;

	down_read(&users);
	least = READ_ONCE(rlo_engine_threshold);
	len = sysfs_emit(buffer, "channel=%s bytes=%zu copies=%ld refused=%ld failed=%ld stalls=%ld\n",
			 engine.chan ? engine.name : "none", least == SIZE_MAX ? 0 : least,
			 atomic_long_read(&engine.copies), atomic_long_read(&engine.refused),
			 atomic_long_read(&engine.failed), atomic_long_read(&engine.stalls));
	up_read(&users);
	return len;
}

static const struct kernel_param_ops engine_ops = { .get = get_engine };

module_param_cb(engine, &engine_ops, NULL, 0444);
MODULE_PARM_DESC(engine, "the DMA engine in use, and what it has done");

int rlo_engine_init(void)
{
	queue = alloc_workqueue("rlo_engine", WQ_UNBOUND, 1);
	if (!queue)
		return -ENOMEM;
	engine.state = engine_bytes ? READY : OFF;
	if (engine_bytes)
		WRITE_ONCE(rlo_engine_threshold, threshold());

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
	cancel_delayed_work_sync(&tending);
	down_write(&users);
	give_back();
	up_write(&users);
	destroy_workqueue(queue);
}
