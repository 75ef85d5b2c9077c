// SPDX-License-Identifier: GPL-2.0
/*
 * Tasks and softirqs, for task.rs and soft.rs.
 */
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/sched/mm.h>
#include <linux/workqueue.h>

#include "helpers.h"

/*
 * Unbound, so that copies run on an idle processor. A block device on top of
 * this one may write pages out, hence the rescuer.
 */
static struct workqueue_struct *queue;

int rlo_queue_create(void)
{
	queue = alloc_workqueue("rlo", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return queue ? 0 : -ENOMEM;
}

void rlo_queue_destroy(void)
{
	destroy_workqueue(queue);
}

static void task_run(struct work_struct *work)
{
	struct rlo_task *task = container_of(work, struct rlo_task, work);
	unsigned int flags = memalloc_noio_save();

	/* Storage over this device waits for it, so no memory here may wait for storage. */
	task->run(task);
	memalloc_noio_restore(flags);
}

static enum hrtimer_restart task_timer(struct hrtimer *timer)
{
	struct rlo_task *task = container_of(timer, struct rlo_task, timer);

	queue_work(queue, &task->work);
	return HRTIMER_NORESTART;
}

void rlo_task_init(struct rlo_task *task, void (*run)(struct rlo_task *task), bool stops)
{
	/* Two lock classes, because one may wait for the other. */
	if (stops)
		INIT_WORK(&task->work, task_run);
	else
		INIT_WORK(&task->work, task_run);
	task->run = run;
	hrtimer_setup(&task->timer, task_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
}

void rlo_task_kick(struct rlo_task *task)
{
	queue_work(queue, &task->work);
}

void rlo_task_kick_after(struct rlo_task *task, u64 nanoseconds)
{
	hrtimer_start(&task->timer, ns_to_ktime(nanoseconds), HRTIMER_MODE_REL);
}

void rlo_task_stop(struct rlo_task *task)
{
	/* The last run may start the timer, and the timer can queue nothing then. */
	disable_work_sync(&task->work);
	hrtimer_cancel(&task->timer);
	/* A task of a device may be used again. */
	enable_work(&task->work);
}

static void soft_run(struct work_struct *work)
{
	struct rlo_soft *soft = container_of(work, struct rlo_soft, work);

	soft->run(soft);
}

static void soft_irq(struct irq_work *irq)
{
	queue_work(system_bh_wq, &container_of(irq, struct rlo_soft, irq)->work);
}

void rlo_soft_init(struct rlo_soft *soft, void (*run)(struct rlo_soft *soft))
{
	init_irq_work(&soft->irq, soft_irq);
	INIT_WORK(&soft->work, soft_run);
	soft->run = run;
}

/*
 * A softirq that is raised with interrupts disabled runs in a thread, unless an
 * interrupt raises it: then it runs at the end of that.
 */
void rlo_soft_kick(struct rlo_soft *soft)
{
	if (!irqs_disabled() && !in_hardirq()) {
		local_bh_disable();
		queue_work(system_bh_wq, &soft->work);
		local_bh_enable();
	} else if (arch_irq_work_has_interrupt()) {
		irq_work_queue(&soft->irq);
	} else {
		/* An irq_work would wait for the next tick. */
		queue_work(system_bh_wq, &soft->work);
	}
}

void rlo_soft_stop(struct rlo_soft *soft)
{
	/* Without the interrupt it was never queued, and the call would wait for a grace period of RCU. */
	if (arch_irq_work_has_interrupt())
		irq_work_sync(&soft->irq);
	cancel_work_sync(&soft->work);
}

u64 rlo_now(void)
{
	return ktime_get_ns();
}
