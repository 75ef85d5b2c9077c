// SPDX-License-Identifier: GPL-2.0
/*
 * One world from its creation to its end, and the choice of its steps.
 *
 * Every request locks the bytes that it reads or writes, so that a model knows each byte at every
 * moment. It is compared where something has happened at once, and everywhere at quiet moments. A
 * part of the memory and a few requests are kept for these, so a world that does not come to rest is
 * the device's fault. At a difference the history of that connection is told. The acts of a world
 * follow from its seed, except the order in which completions come.
 */
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "fuzz.h"

/* The time without progress that counts as a stall. */
#define STALL_SECONDS	30
/* Steps between two comparisons of all memory. */
#define CHECK_STEPS	3000

u32 fz_random(struct fz_world *w, u32 below)
{
	return below ? prandom_u32_state(&w->random) % below : 0;
}

/* True once in @of times. */
bool fz_chance(struct fz_world *w, u32 of)
{
	return !fz_random(w, of);
}

void fz_note(struct fz_world *w, const char *what, struct fz_end *end, struct fz_op *op,
	     int status)
{
	struct fz_event *event = &w->history[w->steps++ % FZ_HISTORY];

	*event = (struct fz_event){
		.step = w->steps, .what = what, .pair = end->pair->number, .side = end->side,
		.status = status, .op = op ? op - w->ops : U32_MAX, .length = op ? op->length : 0,
		.aim = op ? op->aim | (op->is_recv ? 0x100 : op->opcode << 12) : 0,
		.flags = op ? op->flags | op->pieces << 8 : 0,
	};
}

static void tell_history(struct fz_world *w)
{
	u64 step = w->steps > FZ_HISTORY ? w->steps - FZ_HISTORY : 0;

	/* The last few steps of all pairs, and all steps of the culprit. */
	for (; step < w->steps; step++) {
		struct fz_event *event = &w->history[step % FZ_HISTORY];

		if (w->culprit ? event->pair != w->culprit->number : w->steps - step > 200)
			continue;
		if (event->op == U32_MAX)
			vb_say(w->run, "%llu: pair %u side %u: %s\n", event->step, event->pair,
			       event->side, event->what);
		else
			vb_say(w->run, "%llu: pair %u side %u: %s %s %u of %u bytes in %u pieces, flags %#x, aim %u, %s\n",
			       event->step, event->pair, event->side, event->what,
			       event->aim & 0x100 ? "receive" : vb_opcode_name(event->aim >> 12),
			       event->op, event->length, event->flags >> 8, event->flags & 0xff,
			       event->aim & 0xff,
			       ib_wc_status_msg(event->status));
	}
}

/* Waits a little; false if there was no completion for long. */
bool fz_progress(struct fz_world *w, const char *what, u64 *completed, unsigned long *since)
{
	if (*completed != w->completed) {
		*completed = w->completed;
		*since = jiffies;
	}
	if (time_after(jiffies, *since + STALL_SECONDS * HZ)) {
		vb_fail(w->run, "%s", what);
		return false;
	}
	usleep_range(50, 150);
	return true;
}

static void step(struct fz_world *w)
{
	struct fz_pair *pair = &w->pair[fz_random(w, w->pair_count)];
	struct fz_end *end = &pair->end[fz_random(w, 2)];

	if (pair->doomed && !pair->grace--) {
		fz_group_break(w, pair->group, fz_chance(w, 4));
		return;
	}
	switch (fz_random(w, 16)) {
	case 0 ... 4:
		fz_post_send(w, end);
		break;
	case 5 ... 8:
		fz_post_recv(w, end);
		break;
	case 9 ... 13:
		fz_post_rdma(w, end);
		break;
	default:
		fz_post_region(w, end);
	}
	if (fz_chance(w, 1500) && !pair->doomed)
		fz_kill(w, pair);
}

static void play(struct fz_world *w, u64 ms)
{
	unsigned long end = jiffies + msecs_to_jiffies(ms);
	u32 idle = 0, steps = 0;

	while (!w->run->failed && time_before(jiffies, end) && !fatal_signal_pending(current)) {
		step(w);
		idle = fz_poll(w) ? 0 : idle + 1;
		if (idle >= 24) {
			usleep_range(50, 100);
			idle = 0;
		}
		if (!(++steps % CHECK_STEPS))
			fz_calm_down(w);
		cond_resched();
	}
	if (!w->run->failed)
		fz_calm_down(w);
}

static bool world_make(struct fz_world *w, char *words)
{
	u32 pairs = clamp_t(u64, vb_number(words, "pairs", 12), 1, FZ_PAIRS_MAX);
	u32 parts = clamp_t(u64, vb_number(words, "parts", VB_PARTS), 2, VB_PARTS);
	size_t longest = clamp_t(u64, vb_number(words, "longest", FZ_LONGEST), SZ_32K, FZ_LONGEST);
	struct vb_run *run = w->run;
	u32 side, i;

	longest = min3(longest, vb_mappable(&run->host[0]), vb_mappable(&run->host[1]));
	w->longest = longest & PAGE_MASK;
	w->arena = (parts - 1) * w->longest;
	for (side = 0; side < 2; side++) {
		struct ib_device *device = run->host[side].device;

		w->mem[side] = vb_mem_parts(run, &run->host[side], w->longest, parts);
		w->cells[side] = kvcalloc(parts * w->longest / FZ_CELL, sizeof(u16), GFP_KERNEL);
		if (!w->mem[side] || !w->cells[side])
			return false;
		for (i = 0; i < FZ_PDS; i++) {
			w->pd[side][i] = vb_pd(run, &run->host[side], 0);
			if (!w->pd[side][i])
				return false;
		}
		for (i = 0; i < FZ_CQS; i++) {
			struct vb_cq *cq = vb_cq(run, &run->host[side],
						 min(pairs * 84 + 100,
						     (u32)device->attrs.max_cqe));

			if (!cq)
				return false;
			w->cq[side][i] = cq->cq;
		}
	}
	if (!fz_mrs_make(w))
		return false;
	/* Groups of two and three share receive queues; half of all pairs share none. */
	for (i = 0; i < pairs;) {
		struct fz_group *group = &w->group[w->group_count];

		group->first = i;
		group->shares = w->group_count % 3 == 2;
		group->count = group->shares ? min(pairs - i, 2 + fz_random(w, 2)) : 1;
		i += group->count;
		w->group_count++;
		w->pair_count = i;
		if (!fz_group_make(w, group))
			return false;
	}
	return true;
}

static void world_end(struct fz_world *w)
{
	u32 i;

	/* No comparison from here on. */
	w->run->failed |= w->pair_count == 0;
	for (i = 0; i < w->group_count; i++)
		fz_group_end(w, &w->group[i]);
	fz_mrs_end(w);
	kvfree(w->ops);
	for (i = 0; i < 2; i++)
		kvfree(w->cells[i]);
	kvfree(w);
}

/* fuzz DEVICE DEVICE seed= ms= pairs= longest= parts= */
int vb_fuzz(struct vb_run *run, char *words)
{
	struct fz_world *w = kvzalloc(sizeof(*w), GFP_KERNEL);
	u32 i;

	if (!w)
		return -ENOMEM;
	w->run = run;
	w->seed = vb_number(words, "seed", 1);
	w->rxe = run->host[0].device->ops.driver_id == RDMA_DRIVER_RXE ||
		 run->host[1].device->ops.driver_id == RDMA_DRIVER_RXE;
	prandom_seed_state(&w->random, w->seed);
	w->ops = kvcalloc(FZ_OPS, sizeof(*w->ops), GFP_KERNEL);
	if (!w->ops) {
		kvfree(w);
		return -ENOMEM;
	}
	INIT_LIST_HEAD(&w->free_ops);
	for (i = 0; i < FZ_OPS; i++)
		list_add_tail(&w->ops[i].entry, &w->free_ops);
	w->free_count = FZ_OPS;
	if (world_make(w, words))
		play(w, clamp_t(u64, vb_number(words, "ms", 1000), 10, 86400000));
	else if (!run->failed)
		vb_fail(run, "no memory");
	if (run->failed && w->pair_count) {
		fz_look_on(w);
		tell_history(w);
	}
	vb_say(run, "seed=%llu arena=%u steps=%llu send=%llu receive=%llu read=%llu write=%llu write_imm=%llu region=%llu completed=%llu in_error=%llu rebuilt=%llu checks=%llu mib=%llu\n",
	       w->seed, w->arena, w->steps, w->posted[0], w->posted[1], w->posted[2], w->posted[3],
	       w->posted[4], w->posted[5], w->completed, w->failures, w->rebuilt, w->checks,
	       w->bytes / SZ_1M);
	world_end(w);
	return 0;
}
