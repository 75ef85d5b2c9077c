// SPDX-License-Identifier: GPL-2.0
/*
 * Events, and shared receive queues.
 */
#include <linux/delay.h>

#include "verbs.h"

static int recv_64(struct vb_srq *srq, struct vb_mem *mem, u64 id)
{
	return vb_srq_recv(srq, id, vb_sge(mem, 128 * id, 64));
}

static int send_64(struct vb_qp *q, u64 id)
{
	return vb_send(q, id, IB_WR_SEND, vb_sge(q->mem, 3 * id, 64), IB_SEND_SIGNALED, 0);
}

/* The first message arrives in RTR: its receiver gets an event. */
static void established(struct vb_run *run)
{
	struct vb_options options = { };
	struct vb_pair pair;
	int i;

	for (i = 0; i < 2; i++) {
		TRY(pair.q[i] = vb_qp(run, &run->host[i], &options));
		TRY(pair.q[i]->mem = vb_mem(run, &run->host[i], SZ_64K));
	}
	for (i = 0; i < 2; i++) {
		RETURNS(0, vb_modify_init(pair.q[i], &options));
		RETURNS(0, vb_modify_rtr(pair.q[i], pair.q[!i], &options));
	}
	RETURNS(0, vb_modify_rts(pair.q[0], &options));
	RETURNS(0, vb_recv(pair.q[1], 1, vb_sge(pair.q[1]->mem, 0, 64)));
	CHECK(!atomic_read(&pair.q[1]->events[IB_EVENT_COMM_EST]), "before there was a message");
	RETURNS(0, send_64(pair.q[0], 0));
	TRY(vb_ok(run, pair.q[1]->rcq, 1));
	TRY(vb_ok(run, pair.q[0]->scq, 0));
	vb_moved(pair.q[1]->mem, 0, pair.q[0]->mem, 0, 64);
	TRY(vb_event(run, pair.q[1], IB_EVENT_COMM_EST));
	RETURNS(0, vb_modify_rts(pair.q[1], &options));
	TRY(vb_alive(run, &pair));
	CHECK(!atomic_read(&pair.q[0]->events[IB_EVENT_COMM_EST]), "the sender was told, too");
}

/* A side that refuses an access gets an event as well. */
static void access_event(struct vb_run *run)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	struct vb_pair pair;

	TRY(vb_pair(run, &pair, NULL));
	RETURNS(0, vb_recv(pair.q[1], 5, VB_NOTHING));
	RETURNS(0, vb_rdma(pair.q[0], 1, IB_WR_RDMA_WRITE, vb_sge(pair.q[0]->mem, 0, 64), 64,
			   0x1234, 0));
	TRY(vb_wait(run, pair.q[0]->scq, 1, IB_WC_REM_ACCESS_ERR, NULL));
	TRY(vb_flushed(run, pair.q[1]->rcq, 5, 1));
	RETURNS(0, ib_query_qp(pair.q[1]->qp, &attr, IB_QP_STATE, &init));
	CHECK(attr.qp_state == IB_QPS_ERR, "state %d", attr.qp_state);
	TRY(vb_event(run, pair.q[1], IB_EVENT_QP_ACCESS_ERR));
}

/* The same for an invalid request. */
static void request_event(struct vb_run *run)
{
	struct vb_pair pair;

	TRY(vb_pair(run, &pair, NULL));
	RETURNS(0, vb_recv(pair.q[1], 1, vb_sge(pair.q[1]->mem, 0, 63)));
	RETURNS(0, send_64(pair.q[0], 0));
	TRY(vb_error(run, pair.q[1]->rcq, 1));
	TRY(vb_error(run, pair.q[0]->scq, 0));
	vb_forget(pair.q[1]->mem, 0, 63);
	/* A completion has reported it, so there is no event. */
	msleep(20);
	CHECK(!atomic_read(&pair.q[1]->events[IB_EVENT_QP_FATAL]), "a fatal event");
}

/* One queue feeds two queue pairs, in the order in which messages arrive. */
static void shared(struct vb_run *run)
{
	struct vb_options options = { };
	struct vb_pair one, two;
	struct ib_wc wc;
	struct vb_mem *mem;
	int i;

	TRY(options.srq = vb_srq(run, &run->host[1], 16));
	TRY(mem = vb_mem(run, &run->host[1], PAGE_SIZE));
	TRY(vb_pair(run, &one, &options));
	TRY(vb_pair(run, &two, &options));
	for (i = 0; i < 12; i++)
		RETURNS(0, recv_64(options.srq, mem, i));
	for (i = 0; i < 12; i++) {
		struct vb_pair *pair = i % 3 ? &one : &two;

		RETURNS(0, send_64(pair->q[0], i));
		TRY(vb_ok(run, pair->q[0]->scq, i));
		TRY(vb_wait(run, pair->q[1]->rcq, i, IB_WC_SUCCESS, &wc));
		CHECK(wc.qp == pair->q[1]->qp, "the wrong queue pair");
		CHECK(wc.byte_len == 64, "%u bytes", wc.byte_len);
		vb_moved(mem, 128 * i, pair->q[0]->mem, 3 * i, 64);
	}
	/* The queue is empty: senders wait, and continue when it is not. */
	RETURNS(0, send_64(one.q[0], 1));
	TRY(vb_silent(run, one.q[1]->rcq, 50));
	RETURNS(0, recv_64(options.srq, mem, 20));
	TRY(vb_ok(run, one.q[1]->rcq, 20));
	vb_moved(mem, 128 * 20, one.q[0]->mem, 3, 64);
}

static void shared_full(struct vb_run *run)
{
	struct vb_srq *srq;
	int posted = 0, err = 0;

	TRY(srq = vb_srq(run, &run->host[1], 5));
	CHECK(srq->max_wr >= 5, "%u receives", srq->max_wr);
	while (posted < 300) {
		err = vb_srq_recv(srq, posted, VB_NOTHING);
		if (err)
			break;
		posted++;
	}
	CHECK(err == -ENOMEM, "errno %d", err);
	CHECK(posted >= 5, "full with %d", posted);
}

static void shared_not_own(struct vb_run *run)
{
	struct vb_options options = { };
	struct vb_pair pair;

	TRY(options.srq = vb_srq(run, &run->host[1], 16));
	TRY(vb_pair(run, &pair, &options));
	RETURNS(-EINVAL, vb_recv(pair.q[1], 1, VB_NOTHING));
}

/* One event when there are fewer than the limit, and none before the limit was set. */
static void shared_limit(struct vb_run *run)
{
	struct ib_srq_attr attr = { .srq_limit = 4 };
	struct vb_options options = { };
	struct vb_pair pair;
	struct vb_mem *mem;
	int i;

	TRY(options.srq = vb_srq(run, &run->host[1], 16));
	TRY(mem = vb_mem(run, &run->host[1], PAGE_SIZE));
	TRY(vb_pair(run, &pair, &options));
	for (i = 0; i < 8; i++)
		RETURNS(0, recv_64(options.srq, mem, i));
	RETURNS(0, ib_modify_srq(options.srq->srq, &attr, IB_SRQ_LIMIT));
	RETURNS(0, ib_query_srq(options.srq->srq, &attr));
	CHECK(attr.srq_limit == 4, "limit %u", attr.srq_limit);
	for (i = 0; i < 8; i++) {
		RETURNS(0, send_64(pair.q[0], i));
		TRY(vb_ok(run, pair.q[1]->rcq, i));
		TRY(vb_ok(run, pair.q[0]->scq, i));
		vb_moved(mem, 128 * i, pair.q[0]->mem, 3 * i, 64);
		msleep(10);
		/* Four is not below the limit of four. */
		if (i < 4)
			CHECK(!atomic_read(&options.srq->limits), "told with %d left", 7 - i);
	}
	CHECK(vb_counts(&options.srq->limits, 1), "not told");
	msleep(20);
	CHECK(atomic_read(&options.srq->limits) == 1, "told %d times",
	      atomic_read(&options.srq->limits));
	RETURNS(0, ib_query_srq(options.srq->srq, &attr));
	CHECK(!attr.srq_limit, "the limit is still armed");
}

/* Receives that the queue pair has taken come back; the others stay for other queue pairs. */
static void shared_last(struct vb_run *run)
{
	struct vb_options options = { };
	struct vb_pair one, two;
	struct vb_mem *mem;
	int i;

	TRY(options.srq = vb_srq(run, &run->host[1], 16));
	TRY(mem = vb_mem(run, &run->host[1], PAGE_SIZE));
	TRY(vb_pair(run, &one, &options));
	TRY(vb_pair(run, &two, &options));
	for (i = 0; i < 4; i++)
		RETURNS(0, recv_64(options.srq, mem, i));
	RETURNS(0, send_64(one.q[0], 0));
	TRY(vb_ok(run, one.q[1]->rcq, 0));
	TRY(vb_ok(run, one.q[0]->scq, 0));
	vb_moved(mem, 0, one.q[0]->mem, 0, 64);
	RETURNS(0, vb_modify_to(one.q[1], IB_QPS_ERR));
	TRY(vb_event(run, one.q[1], IB_EVENT_QP_LAST_WQE_REACHED));
	TRY(vb_silent(run, one.q[1]->rcq, 20));
	for (i = 1; i < 4; i++) {
		RETURNS(0, send_64(two.q[0], i));
		TRY(vb_ok(run, two.q[1]->rcq, i));
		TRY(vb_ok(run, two.q[0]->scq, i));
		vb_moved(mem, 128 * i, two.q[0]->mem, 3 * i, 64);
	}
}

/* The same after a message that did not fit; its receive completes with an error. */
static void shared_error(struct vb_run *run)
{
	struct vb_options options = { };
	struct vb_pair one, two;
	struct vb_mem *mem;

	TRY(options.srq = vb_srq(run, &run->host[1], 16));
	TRY(mem = vb_mem(run, &run->host[1], PAGE_SIZE));
	TRY(vb_pair(run, &one, &options));
	TRY(vb_pair(run, &two, &options));
	RETURNS(0, recv_64(options.srq, mem, 0));
	RETURNS(0, recv_64(options.srq, mem, 1));
	RETURNS(0, vb_send(one.q[0], 9, IB_WR_SEND, vb_sge(one.q[0]->mem, 0, 65),
			   IB_SEND_SIGNALED, 0));
	TRY(vb_error(run, one.q[1]->rcq, 0));
	TRY(vb_error(run, one.q[0]->scq, 9));
	TRY(vb_event(run, one.q[1], IB_EVENT_QP_LAST_WQE_REACHED));
	vb_forget(mem, 0, 64);
	RETURNS(0, send_64(two.q[0], 1));
	TRY(vb_ok(run, two.q[1]->rcq, 1));
	vb_moved(mem, 128, two.q[0]->mem, 3, 64);
}

/* Receives stay in the queue while queue pairs are created and destroyed. */
static void shared_churn(struct vb_run *run)
{
	struct vb_options options = { };
	struct vb_mem *mem;
	int i, next = 0;

	TRY(options.srq = vb_srq(run, &run->host[1], 8));
	TRY(mem = vb_mem(run, &run->host[1], PAGE_SIZE));
	for (i = 0; i < 30; i++) {
		struct vb_pair pair;

		TRY(vb_pair(run, &pair, &options));
		RETURNS(0, recv_64(options.srq, mem, next % 8));
		RETURNS(0, send_64(pair.q[0], 0));
		TRY(vb_ok(run, pair.q[1]->rcq, next % 8));
		vb_moved(mem, 128 * (next % 8), pair.q[0]->mem, 0, 64);
		next++;
		vb_end(&pair.q[i & 1]->thing);
		vb_end(&pair.q[!(i & 1)]->thing);
	}
}

/*
 * A consumer frees its completion queues when it has destroyed their queue pairs, and expects no call of a
 * handler any more. The handler of a message that was sent with preemption disabled is called late.
 */
static void no_notice_after_the_end(struct vb_run *run)
{
	int i;

	for (i = 0; i < 20; i++) {
		struct vb_pair pair;
		struct vb_cq *rcq;
		int notices;

		TRY(vb_pair(run, &pair, NULL));
		rcq = pair.q[1]->rcq;
		RETURNS(0, vb_recv(pair.q[1], 1, vb_sge(pair.q[1]->mem, 0, 64)));
		RETURNS(0, ib_req_notify_cq(rcq->cq, IB_CQ_NEXT_COMP));
		preempt_disable();
		run->line = __LINE__;
		if (send_64(pair.q[0], 0))
			vb_fail(run, "the message was refused");
		preempt_enable();
		TRY(vb_ok(run, rcq, 1));
		vb_moved(pair.q[1]->mem, 0, pair.q[0]->mem, 0, 64);
		vb_end(&pair.q[1]->thing);
		notices = atomic_read(&rcq->notices);
		vb_end(&pair.q[0]->thing);
		msleep(30);
		CHECK(atomic_read(&rcq->notices) == notices, "a handler was called late, in round %d", i);
	}
}

/* The port's events, seen by a registered handler. */
struct watch {
	struct ib_event_handler handler;
	atomic_t down;
	atomic_t up;
};

/* The end of a queue pair with a notice that is on its way. */
struct ending {
	struct work_struct work;
	struct vb_run *run;
	struct vb_pair pair;
};

static void end_amid_a_notice(struct work_struct *work)
{
	struct ending *ending = container_of(work, struct ending, work);
	unsigned long flags;
	int err;

	/* So that no softirq calls the handler before this waits. */
	sched_set_fifo_low(current);
	local_irq_save(flags);
	err = send_64(ending->pair.q[0], 0);
	local_irq_restore(flags);
	vb_end(&ending->pair.q[0]->thing);
	sched_set_normal(current, 0);
	if (err)
		vb_fail(ending->run, "the message was refused");
}

/* Storage ends its queue pairs in workers that reclaim memory; the kernel warns if such a one waits for others. */
static void ends_in_reclaim(struct vb_run *run)
{
	struct workqueue_struct *queue = alloc_workqueue("sdp_verbs_reclaim", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	struct ending ending = { .run = run };
	int i;

	CHECK(queue, "no memory");
	INIT_WORK_ONSTACK(&ending.work, end_amid_a_notice);
	for (i = 0; i < 20 && vb_pair(run, &ending.pair, NULL) && vb_alive(run, &ending.pair); i++) {
		struct vb_qp *q = ending.pair.q[1];
		/* The queue pair that has it will be gone. */
		struct vb_mem *sent = ending.pair.q[0]->mem;

		if (vb_recv(q, 1, vb_sge(q->mem, 0, 64)) ||
		    ib_req_notify_cq(q->rcq->cq, IB_CQ_NEXT_COMP) ||
		    ib_req_notify_cq(ending.pair.q[0]->scq->cq, IB_CQ_NEXT_COMP))
			vb_fail(run, "the receive was refused");
		queue_work(queue, &ending.work);
		flush_work(&ending.work);
		if (!vb_wait(run, q->rcq, 1, IB_WC_SUCCESS, NULL))
			break;
		vb_moved(q->mem, 0, sent, 0, 64);
		vb_end(&q->thing);
	}
	destroy_work_on_stack(&ending.work);
	destroy_workqueue(queue);
}

static void port_event(struct ib_event_handler *handler, struct ib_event *event)
{
	struct watch *watch = container_of(handler, struct watch, handler);

	if (event->event == IB_EVENT_PORT_ERR)
		atomic_inc(&watch->down);
	else if (event->event == IB_EVENT_PORT_ACTIVE)
		atomic_inc(&watch->up);
}

static bool comes(atomic_t *what)
{
	int i;

	/* A minute: an emulated machine takes seconds to start each program that changes the port. */
	for (i = 0; i < 12000; i++) {
		if (atomic_read(what))
			return true;
		usleep_range(5000, 6000);
	}
	return false;
}

/*
 * The driver of this module takes the network device of [0] down and up again
 * meanwhile. Afterwards the connection must work.
 */
static void port_goes(struct vb_run *run)
{
	struct vb_options options = { };
	struct ib_port_attr attr;
	struct vb_pair pair;
	struct watch watch = { };

	TRY(vb_pair(run, &pair, &options));
	TRY(vb_alive(run, &pair));
	INIT_IB_EVENT_HANDLER(&watch.handler, run->host[0].device, port_event);
	ib_register_event_handler(&watch.handler);
	run->line = __LINE__;
	if (!comes(&watch.down))
		vb_fail(run, "no event when the port goes down");
	else if (!comes(&watch.up))
		vb_fail(run, "no event when the port comes back");
	ib_unregister_event_handler(&watch.handler);
	if (run->failed)
		return;
	RETURNS(0, ib_query_port(run->host[0].device, run->host[0].port, &attr));
	CHECK(attr.state == IB_PORT_ACTIVE, "the port's state is %d", attr.state);
	TRY(vb_alive(run, &pair));
}

const struct vb_case vb_event_cases[] = {
	{ "event: the first message in RTR", established,
	  "rxe: has no such event" },
	{ "event: an access that was refused", access_event },
	{ "event: none where a completion tells", request_event },
	{ "event: a queue of receives for two", shared },
	{ "event: a shared queue that is full", shared_full },
	{ "event: no receives of its own beside a shared queue", shared_not_own },
	{ "event: the limit of a shared queue", shared_limit },
	{ "event: the last receive of a shared queue", shared_last },
	{ "event: the last receive of a shared queue, after an error", shared_error },
	{ "event: a shared queue outlives its queue pairs", shared_churn },
	{ "event: no notice when the queue pair is gone", no_notice_after_the_end },
	{ "event: a queue pair ends in a worker that reclaims memory", ends_in_reclaim },
	{ "event: the port goes down and up", port_goes },
	{ }
};
