// SPDX-License-Identifier: GPL-2.0
/*
 * One load: its memory, its two threads, and their end.
 */
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/string.h>

#include "sockets.h"

/* Only the first failure counts, because it causes the later ones. */
void ks_fail(struct ks_run *run, const char *step, int err)
{
	spin_lock(&run->lock);
	if (!run->err) {
		run->err = err;
		strscpy(run->why, step, sizeof(run->why));
	}
	spin_unlock(&run->lock);
}

/* Whether a thread may go on. Signals reach it from here on. */
static bool goes_on(struct ks_run *run)
{
	allow_signal(SIGINT);
	/* Pairs with the barrier of end(): either it sees that the signal is allowed, or this sees the end. */
	smp_mb();
	return !READ_ONCE(run->ending);
}

static int client(void *data)
{
	struct ks_run *run = data;

	if (goes_on(run))
		ks_client(run);
	complete(&run->over);
	return 0;
}

static int server(void *data)
{
	struct ks_run *run = data;

	if (goes_on(run) && ks_server(run))
		complete(&run->over);
	return 0;
}

static int start(struct ks_run *run, int side)
{
	struct task_struct *task;

	task = kthread_create(side ? server : client, run, "sockets_%c", side ? 'b' : 'a');
	if (IS_ERR(task))
		return PTR_ERR(task);
	if (run->processor[side] != KS_ANY_PROCESSOR)
		kthread_bind(task, run->processor[side]);
	run->thread[side] = get_task_struct(task);
	return 0;
}

static void end(struct ks_run *run)
{
	int side;

	WRITE_ONCE(run->ending, true);
	/* Pairs with the barrier of goes_on(). */
	smp_mb();
	for (side = 0; side < 2; side++) {
		if (!run->thread[side])
			continue;
		send_sig(SIGINT, run->thread[side], 1);
		kthread_stop(run->thread[side]);
		put_task_struct(run->thread[side]);
	}
}

static int supervise(struct ks_run *run)
{
	int side;
	long left;

	for (side = 0; side < 2; side++) {
		int err = start(run, side);

		if (err)
			return err;
	}
	wake_up_process(run->thread[1]);
	wake_up_process(run->thread[0]);
	left = wait_for_completion_interruptible_timeout(&run->over, run->patience_s * HZ);
	if (!left)
		ks_fail(run, "it did not end in time", -ETIMEDOUT);
	/* The answer of an interrupted call is lost, so it may not begin again by itself. */
	return left < 0 ? -EINTR : 0;
}

int ks_execute(struct ks_run *run)
{
	int side, err;

	run->back = kvzalloc(run->size, GFP_KERNEL);
	for (side = 0; side < 2; side++)
		run->memory[side] = kvzalloc(run->size, GFP_KERNEL);
	err = run->back && run->memory[0] && run->memory[1] ? 0 : -ENOMEM;
	if (!err) {
		int listens = ks_listen(run);

		if (listens)
			ks_fail(run, "listen", listens);
		else
			err = supervise(run);
	}
	end(run);
	if (run->listener)
		sock_release(run->listener);
	for (side = 0; side < 2; side++)
		kvfree(run->memory[side]);
	kvfree(run->back);
	return err;
}
