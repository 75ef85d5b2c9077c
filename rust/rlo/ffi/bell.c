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
 *
 * Where the architecture has no interrupt for an irq_work, it would wait for the
 * next tick. There a softirq calls the handler.
 */
#include <linux/bottom_half.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/wait_bit.h>
#include <linux/workqueue.h>
#include <asm/irq_work.h>
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

/*
 * With interrupts disabled, as handlers expect it. On PREEMPT_RT they expect a thread,
 * because their locks may sleep.
 */
static void bell_rung_late(struct work_struct *work)
{
	struct rlo_bell *bell = container_of(work, struct rlo_bell, soft);
	unsigned long flags;

	if (IS_ENABLED(CONFIG_PREEMPT_RT)) {
		call(bell);
	} else {
		local_irq_save(flags);
		call(bell);
		local_irq_restore(flags);
	}
	/* The bell may be gone afterwards. */
	atomic_dec_and_wake_up(&bell->late);
}

static void ring_late(struct rlo_bell *bell)
{
	atomic_inc(&bell->late);
	/* If it is queued already, that call is this one's. */
	if (!queue_work(system_bh_highpri_wq, &bell->soft))
		atomic_dec_and_wake_up(&bell->late);
}

void rlo_bell_init(struct rlo_bell *bell, struct ib_cq *cq)
{
	init_irq_work(&bell->work, bell_rung);
	INIT_WORK(&bell->soft, bell_rung_late);
	atomic_set(&bell->is_held, 0);
	atomic_set(&bell->calls, 0);
	atomic_set(&bell->late, 0);
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
	if (holds)
		return;
	if (arch_irq_work_has_interrupt())
		irq_work_queue(&bell->work);
	else
		ring_late(bell);
}

static void begin(void)
{
	/* The handlers may raise softirqs, which run at the end. */
	local_bh_disable();
	preempt_disable();
	this_cpu_write(held.holds, true);
}

/*
 * On PREEMPT_RT the locks of the driver and of handlers sleep, and none may be
 * taken here. There an irq_work calls the handlers, in a thread.
 */
bool rlo_bells_hold(void)
{
	if (IS_ENABLED(CONFIG_PREEMPT_RT) || !preemptible())
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
	if (IS_ENABLED(CONFIG_PREEMPT_RT) || !in_serving_softirq() || in_hardirq() ||
	    irqs_disabled())
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

/*
 * Calls of the softirq are counted. flush_work() would warn in a worker that
 * reclaims memory, because the queue of softirqs is not known as one that does.
 * irq_work_sync() waits for a grace period of RCU where there is no interrupt.
 */
void rlo_bell_sync(struct rlo_bell *bell)
{
	might_sleep();
	if (arch_irq_work_has_interrupt())
		irq_work_sync(&bell->work);
	else
		wait_var_event(&bell->late, !atomic_read_acquire(&bell->late));
	/* Holders do not sleep. */
	while (atomic_read_acquire(&bell->calls))
		cpu_relax();
}
