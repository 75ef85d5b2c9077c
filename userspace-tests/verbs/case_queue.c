// SPDX-License-Identifier: GPL-2.0
/*
 * Queues: when and how much may be posted, and the fate of requests when the
 * queue pair fails.
 */
#include <linux/delay.h>
#include <linux/ktime.h>

#include "verbs.h"

#define ALL_RIGHTS (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)

static int post_send_64(struct vb_qp *q, u64 id, int flags)
{
	return vb_send(q, id, IB_WR_SEND, vb_sge(q->mem, 0, 64), flags, 0);
}

static int post_recv_64(struct vb_qp *q, u64 id)
{
	return vb_recv(q, id, vb_sge(q->mem, 40000, 64));
}

/* Two queue pairs in RESET. */
static bool unconnected(struct vb_run *run, struct vb_pair *pair,
			const struct vb_options *options)
{
	int i;

	for (i = 0; i < 2; i++) {
		pair->q[i] = vb_qp(run, &run->host[i], options);
		if (!pair->q[i])
			return false;
		pair->q[i]->mem = vb_mem(run, &run->host[i], SZ_64K);
		if (!pair->q[i]->mem)
			return false;
	}
	return true;
}

static void post_early(struct vb_run *run)
{
	struct vb_options options = { };
	struct vb_pair pair;

	TRY(unconnected(run, &pair, &options));
	RETURNS(-EINVAL, post_send_64(pair.q[0], 1, IB_SEND_SIGNALED));
	RETURNS(0, vb_modify_init(pair.q[0], &options));
	RETURNS(-EINVAL, post_send_64(pair.q[0], 1, IB_SEND_SIGNALED));
	RETURNS(0, vb_modify_rtr(pair.q[0], pair.q[1], &options));
	RETURNS(-EINVAL, post_send_64(pair.q[0], 1, IB_SEND_SIGNALED));
	TRY(vb_silent(run, pair.q[0]->scq, 20));
	RETURNS(0, vb_modify_init(pair.q[1], &options));
	RETURNS(0, vb_modify_rtr(pair.q[1], pair.q[0], &options));
	RETURNS(0, vb_modify_rts(pair.q[0], &options));
	RETURNS(0, vb_modify_rts(pair.q[1], &options));
	TRY(vb_alive(run, &pair));
}

static void receive_in_reset(struct vb_run *run)
{
	struct vb_options options = { };
	struct vb_pair pair;

	TRY(unconnected(run, &pair, &options));
	RETURNS(-EINVAL, post_recv_64(pair.q[0], 1));
}

/* The first messages use the receives that were posted in INIT and RTR. */
static void receive_early(struct vb_run *run)
{
	struct vb_options options = { };
	struct vb_pair pair;
	int i;

	TRY(unconnected(run, &pair, &options));
	for (i = 0; i < 2; i++)
		RETURNS(0, vb_modify_init(pair.q[i], &options));
	RETURNS(0, post_recv_64(pair.q[1], 1));
	for (i = 0; i < 2; i++)
		RETURNS(0, vb_modify_rtr(pair.q[i], pair.q[!i], &options));
	RETURNS(0, post_recv_64(pair.q[1], 2));
	RETURNS(0, vb_modify_rts(pair.q[0], &options));
	for (i = 1; i < 3; i++) {
		RETURNS(0, post_send_64(pair.q[0], i, IB_SEND_SIGNALED));
		/* [1] is not in RTS, but can receive. */
		TRY(vb_ok(run, pair.q[1]->rcq, i));
		TRY(vb_ok(run, pair.q[0]->scq, i));
	}
	vb_moved(pair.q[1]->mem, 40000, pair.q[0]->mem, 0, 64);
	RETURNS(0, vb_modify_rts(pair.q[1], &options));
	TRY(vb_alive(run, &pair));
}

static void too_many_pieces(struct vb_run *run)
{
	struct vb_options options = { .sge = 2 };
	struct ib_sge list[40];
	struct ib_send_wr send = { .sg_list = list, .opcode = IB_WR_SEND };
	struct ib_recv_wr recv = { .sg_list = list };
	struct vb_pair pair;
	u32 i;

	TRY(vb_pair(run, &pair, &options));
	for (i = 0; i < ARRAY_SIZE(list); i++)
		list[i] = vb_sge(pair.q[0]->mem, 8 * i, 8);
	CHECK(pair.q[0]->cap.max_send_sge >= 2 && pair.q[0]->cap.max_recv_sge >= 2,
	      "fewer pieces than were asked for");
	if (pair.q[0]->cap.max_send_sge < ARRAY_SIZE(list)) {
		send.num_sge = pair.q[0]->cap.max_send_sge + 1;
		RETURNS(-EINVAL, vb_post(pair.q[0], &send));
	}
	if (pair.q[0]->cap.max_recv_sge < ARRAY_SIZE(list)) {
		recv.num_sge = pair.q[0]->cap.max_recv_sge + 1;
		RETURNS(-EINVAL, ib_post_recv(pair.q[0]->qp, &recv, NULL));
	}
	TRY(vb_alive(run, &pair));
}

static void unknown_opcode(struct vb_run *run)
{
	struct ib_send_wr wr = { .wr_id = 1, .opcode = 0x77, .send_flags = IB_SEND_SIGNALED };
	struct vb_pair pair;

	TRY(vb_pair(run, &pair, NULL));
	CHECK(vb_post(pair.q[0], &wr), "it was taken");
	TRY(vb_silent(run, pair.q[0]->scq, 20));
	TRY(vb_alive(run, &pair));
}

/* As many sends as the queue's reported capacity, without receives, and then no more. */
static void send_queue_full(struct vb_run *run)
{
	struct vb_options options = { .send_wr = 5, .recv_wr = 300, .send_cqe = 300,
				      .recv_cqe = 400, .rnr_timer = IB_RNR_TIMER_010_24 };
	struct vb_pair pair;
	int posted = 0, i, err = 0;

	TRY(vb_pair(run, &pair, &options));
	CHECK(pair.q[0]->cap.max_send_wr >= 5, "%u requests", pair.q[0]->cap.max_send_wr);
	while (posted < 290) {
		err = post_send_64(pair.q[0], posted, IB_SEND_SIGNALED);
		if (err)
			break;
		posted++;
	}
	CHECK(err == -ENOMEM, "errno %d", err);
	CHECK(posted >= 5, "full with %d", posted);
	for (i = 0; i < posted; i++)
		RETURNS(0, post_recv_64(pair.q[1], i));
	for (i = 0; i < posted; i++) {
		TRY(vb_ok(run, pair.q[0]->scq, i));
		TRY(vb_ok(run, pair.q[1]->rcq, i));
	}
	vb_moved(pair.q[1]->mem, 40000, pair.q[0]->mem, 0, 64);
	TRY(vb_silent(run, pair.q[1]->rcq, 20));
	TRY(vb_alive(run, &pair));
}

static void receive_queue_full(struct vb_run *run)
{
	struct vb_options options = { .recv_wr = 5, .recv_cqe = 400 };
	struct vb_pair pair;
	int posted = 0, i, err = 0;

	TRY(vb_pair(run, &pair, &options));
	while (posted < 290) {
		err = post_recv_64(pair.q[1], posted);
		if (err)
			break;
		posted++;
	}
	CHECK(err == -ENOMEM, "errno %d", err);
	CHECK(posted >= 5, "full with %d", posted);
	for (i = 0; i < posted; i++) {
		RETURNS(0, post_send_64(pair.q[0], i, IB_SEND_SIGNALED));
		TRY(vb_ok(run, pair.q[1]->rcq, i));
		TRY(vb_ok(run, pair.q[0]->scq, i));
	}
	vb_moved(pair.q[1]->mem, 40000, pair.q[0]->mem, 0, 64);
	TRY(vb_alive(run, &pair));
}

/* A list whose last request is invalid: the others are executed, and the invalid one is named. */
static void bad_in_list(struct vb_run *run)
{
	struct ib_sge sge, many[40] = { };
	struct ib_send_wr bad = { .opcode = IB_WR_SEND, .wr_id = 3, .sg_list = many };
	struct ib_send_wr second = { .next = &bad, .opcode = IB_WR_SEND, .wr_id = 2,
				     .sg_list = &sge, .num_sge = 1,
				     .send_flags = IB_SEND_SIGNALED };
	struct ib_send_wr first = second;
	struct ib_recv_wr bad_recv = { .wr_id = 3, .sg_list = many };
	struct ib_recv_wr second_recv = { .next = &bad_recv, .wr_id = 2, .sg_list = &sge };
	struct ib_recv_wr first_recv = { .next = &second_recv, .wr_id = 1, .sg_list = &sge };
	const struct ib_send_wr *where = NULL;
	const struct ib_recv_wr *where_recv = NULL;
	struct vb_pair pair;

	TRY(vb_pair(run, &pair, NULL));
	first.next = &second;
	first.wr_id = 1;
	bad.num_sge = pair.q[0]->cap.max_send_sge + 1;
	bad_recv.num_sge = pair.q[1]->cap.max_recv_sge + 1;
	CHECK(bad.num_sge <= 40 && bad_recv.num_sge <= 40, "too many pieces for this case");
	sge = vb_sge(pair.q[1]->mem, 40000, 64);
	second_recv.num_sge = 1;
	first_recv.num_sge = 1;
	RETURNS(-EINVAL, ib_post_recv(pair.q[1]->qp, &first_recv, &where_recv));
	CHECK(where_recv == &bad_recv, "another receive is said to be bad");
	sge = vb_sge(pair.q[0]->mem, 0, 64);
	RETURNS(-EINVAL, ib_post_send(pair.q[0]->qp, &first, &where));
	CHECK(where == &bad, "another request is said to be bad");
	TRY(vb_ok(run, pair.q[0]->scq, 1));
	TRY(vb_ok(run, pair.q[0]->scq, 2));
	TRY(vb_ok(run, pair.q[1]->rcq, 1));
	TRY(vb_ok(run, pair.q[1]->rcq, 2));
	vb_moved(pair.q[1]->mem, 40000, pair.q[0]->mem, 0, 64);
	TRY(vb_alive(run, &pair));
}

/* Every request completes once, in order, signaled or not. */
static void flush(struct vb_run *run)
{
	struct vb_pair pair;
	int i;

	TRY(vb_pair(run, &pair, NULL));
	for (i = 0; i < 10; i++) {
		RETURNS(0, post_send_64(pair.q[0], i, i & 1 ? IB_SEND_SIGNALED : 0));
		RETURNS(0, post_recv_64(pair.q[0], 100 + i));
	}
	RETURNS(0, vb_modify_to(pair.q[0], IB_QPS_ERR));
	TRY(vb_flushed(run, pair.q[0]->scq, 0, 10));
	TRY(vb_flushed(run, pair.q[0]->rcq, 100, 10));
	/* In ERR every post is accepted, and completes. */
	for (i = 0; i < 5; i++) {
		RETURNS(0, post_send_64(pair.q[0], i, 0));
		RETURNS(0, post_recv_64(pair.q[0], 100 + i));
	}
	TRY(vb_flushed(run, pair.q[0]->scq, 0, 5));
	TRY(vb_flushed(run, pair.q[0]->rcq, 100, 5));
}

static void flush_operations(struct vb_run *run)
{
	struct vb_pair pair;
	struct vb_mr *mr;

	TRY(vb_pair(run, &pair, NULL));
	TRY(mr = vb_mr(run, run->host[0].pd, pair.q[0]->mem, 0, SZ_16K));
	TRY(vb_register(run, pair.q[0], mr, ALL_RIGHTS));
	RETURNS(0, vb_modify_to(pair.q[0], IB_QPS_ERR));
	RETURNS(0, vb_inv(pair.q[0], 1, mr->mr->rkey, 0));
	RETURNS(0, vb_reg(pair.q[0], 2, mr, ALL_RIGHTS, 0));
	RETURNS(0, vb_rdma(pair.q[0], 3, IB_WR_RDMA_READ, vb_sge(pair.q[0]->mem, 0, 64), 0, 1, 0));
	TRY(vb_flushed(run, pair.q[0]->scq, 1, 3));
}

/* From RTR, INIT and RESET to ERR: receives of the first two complete. */
static void flush_early(struct vb_run *run)
{
	struct vb_options options = { };
	struct vb_pair pair;
	int i;

	for (i = 0; i < 2; i++) {
		TRY(unconnected(run, &pair, &options));
		RETURNS(0, vb_modify_init(pair.q[0], &options));
		RETURNS(0, post_recv_64(pair.q[0], 1));
		RETURNS(0, post_recv_64(pair.q[0], 2));
		if (i)
			RETURNS(0, vb_modify_rtr(pair.q[0], pair.q[1], &options));
		RETURNS(0, vb_modify_to(pair.q[0], IB_QPS_ERR));
		TRY(vb_flushed(run, pair.q[0]->rcq, 1, 2));
	}
}

/* After an error: posted requests, and those posted later. */
static void flush_after_error(struct vb_run *run)
{
	struct vb_pair pair;
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	int i;

	TRY(vb_pair(run, &pair, NULL));
	for (i = 0; i < 5; i++)
		RETURNS(0, post_recv_64(pair.q[0], 100 + i));
	RETURNS(0, vb_rdma(pair.q[0], 1, IB_WR_RDMA_READ, vb_sge(pair.q[0]->mem, 0, 64), 64, 0x1234,
			   0));
	TRY(vb_wait(run, pair.q[0]->scq, 1, IB_WC_REM_ACCESS_ERR, NULL));
	TRY(vb_flushed(run, pair.q[0]->rcq, 100, 5));
	RETURNS(0, ib_query_qp(pair.q[0]->qp, &attr, IB_QP_STATE, &init));
	CHECK(attr.qp_state == IB_QPS_ERR, "state %d", attr.qp_state);
	RETURNS(0, post_send_64(pair.q[0], 7, 0));
	TRY(vb_flushed(run, pair.q[0]->scq, 7, 1));
}

struct drained {
	struct ib_cqe cqe;
	atomic_t count;
};

static void drain_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct drained *drained = container_of(wc->wr_cqe, struct drained, cqe);

	atomic_inc(&drained->count);
}

/* No request posted before ib_drain_qp() is outstanding after it. */
static void drain_with(struct vb_run *run, enum ib_poll_context context)
{
	struct drained drained = { .cqe.done = drain_done };
	struct vb_options options = { };
	struct ib_qp_init_attr attr = {
		.cap = { .max_send_wr = 20, .max_recv_wr = 20, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	struct vb_qp q = { .host = &run->host[0], .pd = run->host[0].pd };
	struct vb_mem *mem;
	struct vb_qp *peer;
	struct ib_cq *cq;
	int i, err;

	TRY(mem = vb_mem(run, &run->host[0], PAGE_SIZE));
	TRY(peer = vb_qp(run, &run->host[1], &options));
	cq = ib_alloc_cq(q.host->device, NULL, 64, 0, context);
	CHECK(!IS_ERR(cq), "no completion queue");
	attr.send_cq = cq;
	attr.recv_cq = cq;
	q.qp = ib_create_qp(q.pd, &attr);
	if (IS_ERR(q.qp)) {
		ib_free_cq(cq);
		return vb_fail(run, "no queue pair");
	}
	err = vb_modify_init(&q, &options) ?: vb_modify_init(peer, &options) ?:
	      vb_modify_rtr(&q, peer, &options) ?: vb_modify_rtr(peer, &q, &options) ?:
	      vb_modify_rts(&q, &options);
	for (i = 0; !err && i < 10; i++) {
		struct ib_sge sge = vb_sge(mem, 64 * i, 64);
		struct ib_send_wr send = { .wr_cqe = &drained.cqe, .sg_list = &sge, .num_sge = 1,
					   .opcode = IB_WR_SEND,
					   .send_flags = i & 1 ? IB_SEND_SIGNALED : 0 };
		struct ib_recv_wr recv = { .wr_cqe = &drained.cqe, .sg_list = &sge, .num_sge = 1 };

		err = ib_post_send(q.qp, &send, NULL) ?: ib_post_recv(q.qp, &recv, NULL);
	}
	if (!err)
		ib_drain_qp(q.qp);
	ib_destroy_qp(q.qp);
	ib_free_cq(cq);
	CHECK(!err, "errno %d", err);
	CHECK(atomic_read(&drained.count) == 20, "%d of 20 had come back",
	      atomic_read(&drained.count));
}

static void drain_by_polling(struct vb_run *run)
{
	drain_with(run, IB_POLL_DIRECT);
}

static void drain_by_softirq(struct vb_run *run)
{
	drain_with(run, IB_POLL_SOFTIRQ);
}

static void drain_by_workqueue(struct vb_run *run)
{
	drain_with(run, IB_POLL_WORKQUEUE);
}

/* They have no completions, and their places in the queue are freed. */
static void unsignaled(struct vb_run *run)
{
	struct vb_options options = { .send_wr = 8, .recv_wr = 64 };
	struct vb_pair pair;
	int i, j;

	TRY(vb_pair(run, &pair, &options));
	for (i = 0; i < 6; i++) {
		for (j = 0; j < 8; j++)
			RETURNS(0, post_recv_64(pair.q[1], 100 * i + j));
		for (j = 0; j < 8; j++)
			RETURNS(0, post_send_64(pair.q[0], 100 * i + j,
						j == 7 ? IB_SEND_SIGNALED : 0));
		TRY(vb_ok(run, pair.q[0]->scq, 100 * i + 7));
		for (j = 0; j < 8; j++)
			TRY(vb_ok(run, pair.q[1]->rcq, 100 * i + j));
	}
	vb_moved(pair.q[1]->mem, 40000, pair.q[0]->mem, 0, 64);
	TRY(vb_silent(run, pair.q[0]->scq, 20));
}

static void all_signaled(struct vb_run *run)
{
	struct vb_options options = { .all_signaled = true };
	struct vb_pair pair;
	int i;

	TRY(vb_pair(run, &pair, &options));
	for (i = 0; i < 6; i++)
		RETURNS(0, post_recv_64(pair.q[1], i));
	for (i = 0; i < 6; i++)
		RETURNS(0, post_send_64(pair.q[0], i, 0));
	for (i = 0; i < 6; i++)
		TRY(vb_ok(run, pair.q[0]->scq, i));
	vb_moved(pair.q[1]->mem, 40000, pair.q[0]->mem, 0, 64);
}

static void unsignaled_error(struct vb_run *run)
{
	struct vb_pair pair;

	TRY(vb_pair(run, &pair, NULL));
	RETURNS(0, vb_rdma(pair.q[0], 1, IB_WR_RDMA_WRITE, VB_NOTHING, 0, 0, 0));
	RETURNS(0, vb_rdma(pair.q[0], 2, IB_WR_RDMA_WRITE, vb_sge(pair.q[0]->mem, 0, 64), 0, 0x1234,
			   0));
	RETURNS(0, vb_rdma(pair.q[0], 3, IB_WR_RDMA_WRITE, VB_NOTHING, 0, 0, 0));
	TRY(vb_wait(run, pair.q[0]->scq, 2, IB_WC_REM_ACCESS_ERR, NULL));
	TRY(vb_flushed(run, pair.q[0]->scq, 3, 1));
}

/* After RESET a queue pair is as new, without its old requests. */
static void reset_and_again(struct vb_run *run)
{
	struct vb_options options = { };
	struct vb_pair pair;
	int i, j;

	TRY(vb_pair(run, &pair, &options));
	for (i = 0; i < 4; i++) {
		for (j = 0; j < 5; j++)
			RETURNS(0, post_recv_64(pair.q[1], j));
		if (i & 1)
			RETURNS(0, vb_modify_to(pair.q[1], IB_QPS_ERR));
		for (j = 0; j < 2; j++)
			RETURNS(0, vb_modify_to(pair.q[j], IB_QPS_RESET));
		if (i & 1) {
			struct ib_wc wc;

			/* Completions from before the reset may still be there. */
			while (vb_poll(pair.q[1]->rcq, &wc, 20))
				CHECK(wc.status == IB_WC_WR_FLUSH_ERR, "%s",
				      ib_wc_status_msg(wc.status));
		}
		TRY(vb_silent(run, pair.q[1]->rcq, 20));
		TRY(vb_connect(run, &pair, &options));
		TRY(vb_alive(run, &pair));
	}
}

static void destroy_full(struct vb_run *run)
{
	struct vb_mr *mr;
	int i, j;

	for (i = 0; i < 12; i++) {
		struct vb_pair pair;
		struct vb_mem *mem;

		TRY(vb_pair(run, &pair, NULL));
		TRY(mr = vb_mr(run, run->host[1].pd, pair.q[1]->mem, 0, SZ_32K));
		TRY(vb_register(run, pair.q[1], mr, ALL_RIGHTS));
		for (j = 0; j < 12; j++) {
			RETURNS(0, vb_recv(pair.q[1], 1, vb_sge(pair.q[1]->mem, 40000, 20000)));
			RETURNS(0, j % 3 ? vb_rdma(pair.q[0], j, j % 3 == 1 ? IB_WR_RDMA_WRITE :
						   IB_WR_RDMA_READ,
						   vb_sge(pair.q[0]->mem, 0, 20000),
						   vb_mr_address(mr, 0), mr->mr->rkey, 0) :
				vb_send(pair.q[0], j, IB_WR_SEND, vb_sge(pair.q[0]->mem, 0, 20000),
					IB_SEND_SIGNALED, 0));
		}
		if (i & 1)
			usleep_range(10, 1500);
		if (i & 2)
			vb_end(&pair.q[0]->thing);
		vb_end(&pair.q[1]->thing);
		if (!(i & 2))
			vb_end(&pair.q[0]->thing);
		/* All transfers have ended, so the present contents are final. */
		list_for_each_entry(mem, &run->memories, entry)
			vb_forget(mem, 0, mem->length);
		vb_end(&mr->thing);
		usleep_range(1000, 3000);
		TRY(vb_memories_right(run));
	}
}

/* Completions of a destroyed queue pair are earlier ones, or none. */
static void completions_outlive(struct vb_run *run)
{
	struct vb_pair pair;
	struct vb_cq *cq;
	struct ib_wc wc;
	int i, seen = 0;

	TRY(vb_pair(run, &pair, NULL));
	for (i = 0; i < 10; i++)
		RETURNS(0, post_recv_64(pair.q[1], i));
	for (i = 0; i < 10; i++)
		RETURNS(0, post_send_64(pair.q[0], i, IB_SEND_SIGNALED));
	for (i = 0; i < 10; i++)
		TRY(vb_ok(run, pair.q[1]->rcq, i));
	vb_moved(pair.q[1]->mem, 40000, pair.q[0]->mem, 0, 64);
	cq = pair.q[0]->scq;
	vb_end(&pair.q[0]->thing);
	while (vb_poll(cq, &wc, 20))
		CHECK(wc.wr_id == seen++, "completion of %llu", wc.wr_id);
}

static void notify(struct vb_run *run)
{
	struct vb_pair pair;
	struct vb_cq *cq;

	TRY(vb_pair(run, &pair, NULL));
	cq = pair.q[1]->rcq;
	RETURNS(0, post_recv_64(pair.q[1], 1));
	RETURNS(0, post_recv_64(pair.q[1], 2));
	RETURNS(0, post_recv_64(pair.q[1], 3));
	/* No notification without a request for it. */
	RETURNS(0, post_send_64(pair.q[0], 1, IB_SEND_SIGNALED));
	TRY(vb_ok(run, pair.q[0]->scq, 1));
	TRY(vb_ok(run, cq, 1));
	CHECK(!atomic_read(&cq->notices), "told without having asked");
	/* One notification for a request. */
	RETURNS(0, ib_req_notify_cq(cq->cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS));
	RETURNS(0, post_send_64(pair.q[0], 2, IB_SEND_SIGNALED));
	RETURNS(0, post_send_64(pair.q[0], 3, IB_SEND_SIGNALED));
	TRY(vb_ok(run, cq, 2));
	TRY(vb_ok(run, cq, 3));
	CHECK(vb_counts(&cq->notices, 1), "not told");
	msleep(20);
	CHECK(atomic_read(&cq->notices) == 1, "told %d times", atomic_read(&cq->notices));
	vb_moved(pair.q[1]->mem, 40000, pair.q[0]->mem, 0, 64);
}

/* Existing completions cause no event, but the call reports them. */
static void notify_missed(struct vb_run *run)
{
	struct vb_pair pair;
	struct vb_cq *cq;

	TRY(vb_pair(run, &pair, NULL));
	cq = pair.q[1]->rcq;
	RETURNS(0, post_recv_64(pair.q[1], 1));
	RETURNS(0, post_send_64(pair.q[0], 1, IB_SEND_SIGNALED));
	TRY(vb_ok(run, pair.q[0]->scq, 1));
	CHECK(ib_req_notify_cq(cq->cq, IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS) > 0,
	      "nothing was missed, though a completion is there");
	TRY(vb_ok(run, cq, 1));
	vb_moved(pair.q[1]->mem, 40000, pair.q[0]->mem, 0, 64);
}

static void notify_solicited(struct vb_run *run)
{
	struct vb_pair pair;
	struct vb_cq *cq;
	int i;

	TRY(vb_pair(run, &pair, NULL));
	cq = pair.q[1]->rcq;
	for (i = 0; i < 4; i++)
		RETURNS(0, post_recv_64(pair.q[1], i));
	RETURNS(0, ib_req_notify_cq(cq->cq, IB_CQ_SOLICITED));
	for (i = 0; i < 3; i++)
		RETURNS(0, post_send_64(pair.q[0], i, IB_SEND_SIGNALED));
	for (i = 0; i < 3; i++)
		TRY(vb_ok(run, cq, i));
	msleep(20);
	CHECK(!atomic_read(&cq->notices), "told of what was not solicited");
	RETURNS(0, post_send_64(pair.q[0], 3, IB_SEND_SIGNALED | IB_SEND_SOLICITED));
	TRY(vb_ok(run, cq, 3));
	CHECK(vb_counts(&cq->notices, 1), "not told");
	msleep(20);
	CHECK(atomic_read(&cq->notices) == 1, "told %d times", atomic_read(&cq->notices));
	vb_moved(pair.q[1]->mem, 40000, pair.q[0]->mem, 0, 64);
}

/* An error counts as solicited. */
static void notify_solicited_error(struct vb_run *run)
{
	struct vb_pair pair;
	struct vb_cq *cq;

	TRY(vb_pair(run, &pair, NULL));
	cq = pair.q[1]->rcq;
	RETURNS(0, post_recv_64(pair.q[1], 1));
	RETURNS(0, ib_req_notify_cq(cq->cq, IB_CQ_SOLICITED));
	RETURNS(0, vb_modify_to(pair.q[1], IB_QPS_ERR));
	TRY(vb_flushed(run, cq, 1, 1));
	CHECK(vb_counts(&cq->notices, 1), "not told");
	msleep(20);
	CHECK(atomic_read(&cq->notices) == 1, "told %d times", atomic_read(&cq->notices));
}

/* A request for the next solicited one and for the next one: the latter wins, in either order. */
static void notify_both(struct vb_run *run)
{
	struct vb_pair pair;
	struct vb_cq *cq;
	int i;

	TRY(vb_pair(run, &pair, NULL));
	cq = pair.q[1]->rcq;
	for (i = 0; i < 2; i++) {
		RETURNS(0, post_recv_64(pair.q[1], 1));
		RETURNS(0, ib_req_notify_cq(cq->cq, i ? IB_CQ_SOLICITED : IB_CQ_NEXT_COMP));
		RETURNS(0, ib_req_notify_cq(cq->cq, i ? IB_CQ_NEXT_COMP : IB_CQ_SOLICITED));
		RETURNS(0, post_send_64(pair.q[0], 1, IB_SEND_SIGNALED));
		TRY(vb_ok(run, pair.q[0]->scq, 1));
		TRY(vb_ok(run, cq, 1));
		CHECK(vb_counts(&cq->notices, i + 1), "not told");
		msleep(20);
		CHECK(atomic_read(&cq->notices) == i + 1, "told %d times",
		      atomic_read(&cq->notices));
	}
	vb_moved(pair.q[1]->mem, 40000, pair.q[0]->mem, 0, 64);
}

/* Completions are not taken: those in the queue are right, and the overrun is reported. */
static void overflow(struct vb_run *run)
{
	struct vb_options options = { .recv_wr = 200, .recv_cqe = 4, .send_wr = 200,
				      .send_cqe = 500, .retry_plus_1 = 2, .timeout_plus_1 = 15 };
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	struct vb_pair pair;
	struct ib_wc wc;
	int room, i, seen = 0, last = -1;

	TRY(vb_pair(run, &pair, &options));
	room = pair.q[1]->rcq->cq->cqe;
	CHECK(room >= 4, "a queue of %d", room);
	if (room > 180)
		return vb_absent(run, "the smallest completion queue has %d", room);
	for (i = 0; i < room + 10; i++) {
		RETURNS(0, vb_recv(pair.q[1], i, VB_NOTHING));
		RETURNS(0, vb_send(pair.q[0], i, IB_WR_SEND, VB_NOTHING, 0, 0));
	}
	for (i = 0; !atomic_read(&pair.q[1]->rcq->errors) && i < 5000; i++)
		usleep_range(1000, 2000);
	CHECK(atomic_read(&pair.q[1]->rcq->errors), "no event of the completion queue");
	/* Its queue pair fails, and its peer learns that. */
	for (i = 0; i < 5000; i++) {
		RETURNS(0, ib_query_qp(pair.q[1]->qp, &attr, IB_QP_STATE, &init));
		if (attr.qp_state == IB_QPS_ERR)
			break;
		usleep_range(1000, 2000);
	}
	CHECK(attr.qp_state == IB_QPS_ERR, "state %d", attr.qp_state);
	while (vb_poll(pair.q[1]->rcq, &wc, 20)) {
		/* Behind those that were lost, receives come back. */
		if (wc.status == IB_WC_SUCCESS)
			CHECK(wc.wr_id == last + 1, "completion of %llu, not %d", wc.wr_id, last + 1);
		else
			CHECK(wc.status == IB_WC_WR_FLUSH_ERR && (int)wc.wr_id > last,
			      "completion of %llu: %s", wc.wr_id, ib_wc_status_msg(wc.status));
		last = wc.wr_id;
		seen++;
	}
	CHECK(seen >= room && seen < room + 10, "%d completions of a queue of %d", seen, room);
	RETURNS(0, vb_send(pair.q[0], 999, IB_WR_SEND, VB_NOTHING, IB_SEND_SIGNALED, 0));
	do {
		CHECK(vb_poll(pair.q[0]->scq, &wc, VB_PATIENCE_MS), "the sender waits for ever");
	} while (wc.wr_id != 999);
	CHECK(wc.status == IB_WC_RETRY_EXC_ERR || wc.status == IB_WC_WR_FLUSH_ERR, "%s",
	      ib_wc_status_msg(wc.status));
}

/* Filled up to its reported capacity, many times, with its end wrapping around. */
static void completion_queue_full(struct vb_run *run)
{
	struct vb_options options = { .recv_wr = 64, .send_wr = 64, .send_cqe = 7, .recv_cqe = 7 };
	struct vb_pair pair;
	int i, round, room;

	TRY(vb_pair(run, &pair, &options));
	room = min(pair.q[0]->scq->cq->cqe, pair.q[1]->rcq->cq->cqe);
	CHECK(room >= 7, "a queue of %d", room);
	room = min(room, 60);
	for (round = 0; round < 8; round++) {
		for (i = 0; i < room; i++)
			RETURNS(0, vb_recv(pair.q[1], i, VB_NOTHING));
		for (i = 0; i < room; i++)
			RETURNS(0, vb_send(pair.q[0], i, IB_WR_SEND, VB_NOTHING, IB_SEND_SIGNALED,
					   0));
		msleep(10);
		for (i = 0; i < room; i++)
			TRY(vb_ok(run, pair.q[0]->scq, i));
		for (i = 0; i < room; i++)
			TRY(vb_ok(run, pair.q[1]->rcq, i));
	}
	CHECK(!atomic_read(&pair.q[1]->rcq->errors), "the queue says that it overflowed");
}

const struct vb_case vb_queue_cases[] = {
	{ "queue: no request before RTS", post_early },
	{ "queue: no receive in RESET", receive_in_reset },
	{ "queue: receives from INIT on", receive_early },
	{ "queue: more pieces than there may be", too_many_pieces },
	{ "queue: a request that does not exist", unknown_opcode },
	{ "queue: a full send queue", send_queue_full },
	{ "queue: a full receive queue", receive_queue_full },
	{ "queue: a bad request at the end of a list", bad_in_list },
	{ "queue: in ERR all comes back, once and in order", flush },
	{ "queue: in ERR operations on regions come back", flush_operations },
	{ "queue: in ERR receives come back from INIT and RTR", flush_early },
	{ "queue: after an error all comes back", flush_after_error },
	{ "queue: drained, polled", drain_by_polling },
	{ "queue: drained, in softirq", drain_by_softirq },
	{ "queue: drained, in a workqueue", drain_by_workqueue },
	{ "queue: requests that are not signaled", unsignaled },
	{ "queue: all requests are signaled", all_signaled },
	{ "queue: an error of what is not signaled", unsignaled_error },
	{ "queue: used again after RESET", reset_and_again },
	{ "queue: destroyed while bytes move", destroy_full },
	{ "queue: completions of who is gone", completions_outlive },
	{ "queue: a notice for who has asked", notify },
	{ "queue: what was there when asked", notify_missed },
	{ "queue: a notice of what is solicited", notify_solicited },
	{ "queue: an error is solicited", notify_solicited_error,
	  "rxe: does not count errors as solicited" },
	{ "queue: the next completion outweighs the next solicited one", notify_both },
	{ "queue: completions that nobody takes", overflow },
	{ "queue: a full completion queue", completion_queue_full },
	{ }
};
