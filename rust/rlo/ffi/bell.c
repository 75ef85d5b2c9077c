// SPDX-License-Identifier: GPL-2.0
/*
 * Bells: calls of the handlers of completion queues.
 *
 * A bell rings while locks are held, of this driver and perhaps of the consumer
 * that posts. So an irq_work calls the handler, as an interrupt would. It
 * costs an interrupt, which is more than a short message costs. A post in a
 * context that may be preempted is made without locks that a handler may take,
 * because handlers run in hardirq context. There the handlers are called at
 * the end of the post, without an interrupt; so they are at the end of a frame
 * that was received, and of datagrams that were sent by a softirq.
 */
#include <linux/bottom_half.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <rdma/ib_verbs.h>

#include "helpers.h"

struct held {
	/* Changes with preemption disabled. */
	bool holds;
	struct llist_head bells;
};

static DEFINE_PER_CPU(struct held, held);

static void call(struct rlo_bell *bell)
{
	bell->cq->comp_handler(bell->cq, bell->cq->cq_context);
}

static void bell_rung(struct irq_work *work)
{
	call(container_of(work, struct rlo_bell, work));
}

void rlo_bell_init(struct rlo_bell *bell, struct ib_cq *cq)
{
	init_irq_work(&bell->work, bell_rung);
	atomic_set(&bell->is_held, 0);
	atomic_set(&bell->calls, 0);
	bell->cq = cq;
}

/* With interrupts disabled. */
static void hold(struct rlo_bell *bell)
{
	if (atomic_xchg(&bell->is_held, 1))
		return;
	atomic_inc(&bell->calls);
	llist_add(&bell->node, this_cpu_ptr(&held.bells));
}

void rlo_bell_ring(struct rlo_bell *bell)
{
	unsigned long flags;
	bool holds;

	local_irq_save(flags);
	holds = this_cpu_read(held.holds);
	if (holds)
		hold(bell);
	local_irq_restore(flags);
	if (!holds)
		irq_work_queue(&bell->work);
}

static void begin(void)
{
	/* The handlers may raise softirqs, which run at the end. */
	local_bh_disable();
	preempt_disable();
	this_cpu_write(held.holds, true);
}

bool rlo_bells_hold(void)
{
	if (!preemptible())
		return false;
	begin();
	return true;
}

/*
 * The interrupted thread may hold locks, but none that a handler takes,
 * because handlers may run in hardirq context. No consumer has called this
 * with further ones.
 */
bool rlo_bells_hold_in_softirq(void)
{
	if (!in_serving_softirq() || in_hardirq() || irqs_disabled())
		return false;
	begin();
	return true;
}

void rlo_bells_release(void)
{
	struct rlo_bell *bell, *next;

	local_irq_disable();
	this_cpu_write(held.holds, false);
	llist_for_each_entry_safe(bell, next, llist_del_all(this_cpu_ptr(&held.bells)), node) {
		/* From here on it may be held again, on another processor as well. */
		atomic_xchg(&bell->is_held, 0);
		call(bell);
		atomic_dec_return_release(&bell->calls);
	}
	local_irq_enable();
	preempt_enable();
	local_bh_enable();
}

void rlo_bell_sync(struct rlo_bell *bell)
{
	irq_work_sync(&bell->work);
	/* Holders do not sleep. */
	while (atomic_read_acquire(&bell->calls))
		cpu_relax();
}
