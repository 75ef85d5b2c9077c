// SPDX-License-Identifier: GPL-2.0
/*
 * Ordering: requests of one queue, completions, fences.
 */
#include "verbs.h"

#define ALL_RIGHTS (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)

/* Two ends, and a region over the first half of each end's memory. */
struct scene {
	struct vb_pair pair;
	struct vb_qp *q;
	struct vb_qp *peer;
	struct vb_mr *mine;
	struct vb_mr *theirs;
};

static bool scene(struct vb_run *run, struct scene *s, const struct vb_options *options)
{
	if (!vb_pair(run, &s->pair, options))
		return false;
	s->q = s->pair.q[0];
	s->peer = s->pair.q[1];
	s->mine = vb_mr(run, s->q->pd, s->q->mem, 0, SZ_32K);
	s->theirs = vb_mr(run, s->peer->pd, s->peer->mem, 0, SZ_32K);
	return s->mine && s->theirs && vb_register(run, s->q, s->mine, ALL_RIGHTS) &&
		vb_register(run, s->peer, s->theirs, ALL_RIGHTS);
}

/* Written bytes are visible when the following message has arrived. */
static void write_then_send(struct vb_run *run)
{
	struct scene s;
	int i;

	TRY(scene(run, &s, NULL));
	for (i = 0; i < 20; i++) {
		RETURNS(0, vb_recv(s.peer, i, vb_sge(s.peer->mem, 60000, 4)));
		RETURNS(0, vb_rdma(s.q, 100, IB_WR_RDMA_WRITE, vb_sge(s.q->mem, i * 16, 30000),
				   vb_mr_address(s.theirs, i), s.theirs->mr->rkey, 0));
		RETURNS(0, vb_send(s.q, i, IB_WR_SEND, vb_sge(s.q->mem, i, 4),
				   IB_SEND_SIGNALED, 0));
		TRY(vb_ok(run, s.peer->rcq, i));
		vb_moved(s.peer->mem, i, s.q->mem, i * 16, 30000);
		vb_moved(s.peer->mem, 60000, s.q->mem, i, 4);
		TRY(vb_memories_right(run));
		TRY(vb_ok(run, s.q->scq, i));
	}
}

/* A READ sees the preceding WRITE, and a following WRITE does not change its result. */
static void write_read_write(struct vb_run *run)
{
	struct scene s;
	int i;

	TRY(scene(run, &s, NULL));
	for (i = 0; i < 20; i++) {
		u64 there = vb_mr_address(s.theirs, 50);
		u32 key = s.theirs->mr->rkey;

		RETURNS(0, vb_rdma(s.q, 1, IB_WR_RDMA_WRITE, vb_sge(s.q->mem, i * 8, 9000), there,
				   key, IB_SEND_SIGNALED));
		RETURNS(0, vb_rdma(s.q, 2, IB_WR_RDMA_READ, vb_sge(s.q->mem, 40000, 9000), there,
				   key, IB_SEND_SIGNALED));
		RETURNS(0, vb_rdma(s.q, 3, IB_WR_RDMA_WRITE, vb_sge(s.q->mem, 10000 + i, 9000),
				   there, key, IB_SEND_SIGNALED));
		TRY(vb_ok(run, s.q->scq, 1));
		TRY(vb_ok(run, s.q->scq, 2));
		TRY(vb_ok(run, s.q->scq, 3));
		vb_moved(s.peer->mem, 50, s.q->mem, i * 8, 9000);
		vb_moved(s.q->mem, 40000, s.peer->mem, 50, 9000);
		vb_moved(s.peer->mem, 50, s.q->mem, 10000 + i, 9000);
		TRY(vb_memories_right(run));
	}
}

/* Two WRITEs to one place: the later one wins. */
static void write_write(struct vb_run *run)
{
	struct scene s;
	int i;

	TRY(scene(run, &s, NULL));
	for (i = 0; i < 12; i++)
		RETURNS(0, vb_rdma(s.q, i, IB_WR_RDMA_WRITE, vb_sge(s.q->mem, i * 100, 8000 - i),
				   vb_mr_address(s.theirs, 0), s.theirs->mr->rkey,
				   IB_SEND_SIGNALED));
	for (i = 0; i < 12; i++) {
		TRY(vb_ok(run, s.q->scq, i));
		vb_moved(s.peer->mem, 0, s.q->mem, i * 100, 8000 - i);
	}
}

/* A fenced SEND sends the bytes of the preceding READ. */
static void fence_send(struct vb_run *run)
{
	struct scene s;
	int i;

	TRY(scene(run, &s, NULL));
	for (i = 0; i < 20; i++) {
		RETURNS(0, vb_recv(s.peer, 1, vb_sge(s.peer->mem, 40000, 20000)));
		RETURNS(0, vb_rdma(s.q, 2, IB_WR_RDMA_READ, vb_sge(s.q->mem, 100, 20000),
				   vb_mr_address(s.theirs, 10 * i), s.theirs->mr->rkey, 0));
		RETURNS(0, vb_send(s.q, 3, IB_WR_SEND, vb_sge(s.q->mem, 100, 20000),
				   IB_SEND_FENCE | IB_SEND_SIGNALED, 0));
		TRY(vb_ok(run, s.q->scq, 3));
		TRY(vb_ok(run, s.peer->rcq, 1));
		vb_moved(s.q->mem, 100, s.peer->mem, 10 * i, 20000);
		vb_moved(s.peer->mem, 40000, s.q->mem, 100, 20000);
		TRY(vb_memories_right(run));
	}
}

/* With a fence the region of a preceding READ may be invalidated. */
static void fence_invalidate(struct vb_run *run)
{
	struct scene s;
	int i;

	TRY(scene(run, &s, NULL));
	for (i = 0; i < 20; i++) {
		RETURNS(0, vb_rdma(s.q, 1, IB_WR_RDMA_READ, vb_mr_sge(s.mine, 100, 20000),
				   vb_mr_address(s.theirs, 10 * i), s.theirs->mr->rkey,
				   IB_SEND_SIGNALED));
		RETURNS(0, vb_inv(s.q, 2, s.mine->mr->rkey, IB_SEND_FENCE | IB_SEND_SIGNALED));
		TRY(vb_ok(run, s.q->scq, 1));
		TRY(vb_ok(run, s.q->scq, 2));
		vb_moved(s.q->mem, 100, s.peer->mem, 10 * i, 20000);
		TRY(vb_memories_right(run));
		vb_step_key(s.mine);
		TRY(vb_register(run, s.q, s.mine, ALL_RIGHTS));
	}
}

/* Registered, used and invalidated by one list of requests, like in storage drivers. */
static void register_use_invalidate(struct vb_run *run)
{
	struct scene s;
	int i;

	TRY(scene(run, &s, NULL));
	for (i = 0; i < 20; i++) {
		struct ib_send_wr inv = { .opcode = IB_WR_LOCAL_INV, .wr_id = 3 };
		struct ib_sge sge;
		struct ib_rdma_wr write = {
			.wr = {
				.next = &inv, .opcode = IB_WR_RDMA_WRITE, .wr_id = 2,
				.sg_list = &sge, .num_sge = 1,
			},
		};
		struct ib_reg_wr reg = {
			.wr = { .next = &write.wr, .opcode = IB_WR_REG_MR, .wr_id = 1 },
			.mr = s.mine->mr, .access = IB_ACCESS_LOCAL_WRITE,
		};

		TRY(vb_invalidate(run, s.q, s.mine->mr->rkey));
		vb_step_key(s.mine);
		reg.key = s.mine->mr->rkey;
		sge = vb_mr_sge(s.mine, 20 * i, 10000);
		write.remote_addr = vb_mr_address(s.theirs, i);
		write.rkey = s.theirs->mr->rkey;
		inv.ex.invalidate_rkey = s.mine->mr->rkey;
		inv.send_flags = IB_SEND_SIGNALED;
		RETURNS(0, vb_post(s.q, &reg.wr));
		TRY(vb_ok(run, s.q->scq, 3));
		vb_moved(s.peer->mem, i, s.q->mem, 20 * i, 10000);
		TRY(vb_memories_right(run));
		vb_step_key(s.mine);
		TRY(vb_register(run, s.q, s.mine, ALL_RIGHTS));
	}
}

/* Requests after a failed one have no effect. */
static void nothing_behind_error(struct vb_run *run)
{
	struct scene s;
	int i;

	TRY(scene(run, &s, NULL));
	RETURNS(0, vb_rdma(s.q, 1, IB_WR_RDMA_WRITE, vb_sge(s.q->mem, 0, 9000),
			   vb_mr_address(s.theirs, 0), s.theirs->mr->rkey, IB_SEND_SIGNALED));
	RETURNS(0, vb_rdma(s.q, 2, IB_WR_RDMA_WRITE, vb_sge(s.q->mem, 0, 9000),
			   vb_mr_address(s.theirs, SZ_32K), s.theirs->mr->rkey,
			   IB_SEND_SIGNALED));
	for (i = 3; i < 8; i++)
		RETURNS(0, vb_rdma(s.q, i, i & 1 ? IB_WR_RDMA_WRITE : IB_WR_RDMA_READ,
				   vb_sge(s.q->mem, 20000, 9000), vb_mr_address(s.theirs, 10000),
				   s.theirs->mr->rkey, 0));
	TRY(vb_ok(run, s.q->scq, 1));
	TRY(vb_wait(run, s.q->scq, 2, IB_WC_REM_ACCESS_ERR, NULL));
	TRY(vb_flushed(run, s.q->scq, 3, 5));
	vb_moved(s.peer->mem, 0, s.q->mem, 0, 9000);
}

/* A hundred of all kinds: completions come in the order of the requests. */
static void mixed_order(struct vb_run *run)
{
	struct vb_options options = { .send_wr = 128, .recv_wr = 128 };
	struct scene s;
	int i, receives = 0, next = 1000;

	TRY(scene(run, &s, &options));
	for (i = 0; i < 100; i++)
		if (i % 4 == 0 || i % 4 == 3)
			RETURNS(0, vb_recv(s.peer, next++, vb_sge(s.peer->mem, 40000, 500)));
	for (i = 0; i < 100; i++) {
		u64 there = vb_mr_address(s.theirs, 100 * i);
		u32 key = s.theirs->mr->rkey;

		switch (i % 4) {
		case 0:
			RETURNS(0, vb_send(s.q, i, IB_WR_SEND, vb_sge(s.q->mem, i, 500),
					   IB_SEND_SIGNALED, 0));
			break;
		case 1:
			RETURNS(0, vb_rdma(s.q, i, IB_WR_RDMA_WRITE, vb_sge(s.q->mem, i, 5000),
					   there, key, IB_SEND_SIGNALED));
			break;
		case 2:
			RETURNS(0, vb_rdma(s.q, i, IB_WR_RDMA_READ,
					   vb_sge(s.q->mem, 40000 + 90 * i, 5000), there, key,
					   IB_SEND_SIGNALED));
			break;
		default:
			RETURNS(0, vb_rdma(s.q, i, IB_WR_RDMA_WRITE_WITH_IMM,
					   vb_sge(s.q->mem, i, 50), there, key,
					   IB_SEND_SIGNALED));
		}
	}
	for (i = 0; i < 100; i++) {
		TRY(vb_ok(run, s.q->scq, i));
		switch (i % 4) {
		case 0:
			vb_moved(s.peer->mem, 40000, s.q->mem, i, 500);
			break;
		case 1:
			vb_moved(s.peer->mem, 100 * i, s.q->mem, i, 5000);
			break;
		case 2:
			vb_moved(s.q->mem, 40000 + 90 * i, s.peer->mem, 100 * i, 5000);
			break;
		default:
			vb_moved(s.peer->mem, 100 * i, s.q->mem, i, 50);
		}
	}
	for (i = 1000; i < next; i++, receives++)
		TRY(vb_ok(run, s.peer->rcq, i));
	TRY(vb_silent(run, s.peer->rcq, 20));
}

/* With one completion queue for both directions. */
static void one_queue(struct vb_run *run)
{
	struct vb_options options = { .one_cq = true };
	struct vb_pair pair;
	struct ib_wc wc;
	int i, sent = 0, received = 0;

	TRY(vb_pair(run, &pair, &options));
	for (i = 0; i < 8; i++) {
		RETURNS(0, vb_recv(pair.q[0], 100 + i, vb_sge(pair.q[0]->mem, 40000, 64)));
		RETURNS(0, vb_recv(pair.q[1], 100 + i, vb_sge(pair.q[1]->mem, 40000, 64)));
	}
	for (i = 0; i < 8; i++) {
		RETURNS(0, vb_send(pair.q[0], i, IB_WR_SEND, vb_sge(pair.q[0]->mem, i, 64),
				   IB_SEND_SIGNALED, 0));
		RETURNS(0, vb_send(pair.q[1], i, IB_WR_SEND, vb_sge(pair.q[1]->mem, i, 64),
				   IB_SEND_SIGNALED, 0));
	}
	for (i = 0; i < 16; i++) {
		CHECK(vb_poll(pair.q[0]->scq, &wc, VB_PATIENCE_MS), "%d of 16 completions", i);
		CHECK(wc.status == IB_WC_SUCCESS, "%s", ib_wc_status_msg(wc.status));
		if (wc.opcode & IB_WC_RECV)
			CHECK(wc.wr_id == 100 + received++, "receive %llu", wc.wr_id);
		else
			CHECK(wc.wr_id == sent++, "send %llu", wc.wr_id);
	}
	for (i = 0; i < 16; i++)
		CHECK(vb_poll(pair.q[1]->scq, &wc, VB_PATIENCE_MS), "%d of 16 there", i);
	for (i = 0; i < 2; i++)
		vb_moved(pair.q[i]->mem, 40000, pair.q[!i]->mem, 7, 64);
}

/* One READ in flight, or many: the same bytes. */
static void reads_at_once(struct vb_run *run)
{
	static const u8 depths[] = { 1, 2, 16 };
	int i, j;

	for (i = 0; i < ARRAY_SIZE(depths); i++) {
		struct vb_options options = {
			.rd_atomic_plus_1 = depths[i] + 1, .send_wr = 32,
		};
		struct scene s;

		TRY(scene(run, &s, &options));
		for (j = 0; j < 30; j++)
			RETURNS(0, vb_rdma(s.q, j, IB_WR_RDMA_READ,
					   vb_sge(s.q->mem, 32768 + 1000 * j, 900 + j),
					   vb_mr_address(s.theirs, 700 * j), s.theirs->mr->rkey,
					   IB_SEND_SIGNALED));
		for (j = 0; j < 30; j++) {
			TRY(vb_ok(run, s.q->scq, j));
			vb_moved(s.q->mem, 32768 + 1000 * j, s.peer->mem, 700 * j, 900 + j);
		}
		TRY(vb_memories_right(run));
	}
}

/*
 * An end that allows no READs: the request is refused. An end that may not
 * send READs itself must not hang either, but its error is not specified.
 */
static void no_reads(struct vb_run *run)
{
	struct vb_options none = { .rd_atomic_plus_1 = 1 }, some = { };
	struct vb_pair pair;
	struct vb_mr *mr;
	struct ib_wc wc;
	int i;

	for (i = 0; i < 2; i++)
		TRY(pair.q[i] = vb_qp(run, &run->host[i], &some));
	for (i = 0; i < 2; i++) {
		TRY(pair.q[i]->mem = vb_mem(run, &run->host[i], SZ_64K));
		RETURNS(0, vb_modify_init(pair.q[i], &some));
		RETURNS(0, vb_modify_rtr(pair.q[i], pair.q[!i], i ? &none : &some));
	}
	for (i = 0; i < 2; i++)
		RETURNS(0, vb_modify_rts(pair.q[i], &some));
	TRY(mr = vb_mr(run, run->host[1].pd, pair.q[1]->mem, 0, SZ_32K));
	TRY(vb_register(run, pair.q[1], mr, ALL_RIGHTS));
	RETURNS(0, vb_rdma(pair.q[0], 1, IB_WR_RDMA_READ, vb_sge(pair.q[0]->mem, 0, 64),
			   vb_mr_address(mr, 0), mr->mr->rkey, IB_SEND_SIGNALED));
	CHECK(vb_poll(pair.q[0]->scq, &wc, VB_PATIENCE_MS), "no completion");
	CHECK(wc.status == IB_WC_REM_INV_REQ_ERR, "%s", ib_wc_status_msg(wc.status));
}

/* More concurrent READs than the other side allows: they are refused, not mixed up. */
static void too_many_reads(struct vb_run *run)
{
	struct vb_options many = { .rd_atomic_plus_1 = 17, .send_wr = 32 };
	struct vb_options one = { .rd_atomic_plus_1 = 2, .send_wr = 32 };
	struct vb_pair pair;
	struct vb_mr *mr;
	struct ib_wc wc;
	int i, good = 0;

	for (i = 0; i < 2; i++)
		TRY(pair.q[i] = vb_qp(run, &run->host[i], &many));
	for (i = 0; i < 2; i++) {
		TRY(pair.q[i]->mem = vb_mem(run, &run->host[i], SZ_64K));
		RETURNS(0, vb_modify_init(pair.q[i], &many));
		RETURNS(0, vb_modify_rtr(pair.q[i], pair.q[!i], i ? &one : &many));
	}
	for (i = 0; i < 2; i++)
		RETURNS(0, vb_modify_rts(pair.q[i], &many));
	TRY(mr = vb_mr(run, run->host[1].pd, pair.q[1]->mem, 0, SZ_32K));
	TRY(vb_register(run, pair.q[1], mr, ALL_RIGHTS));
	for (i = 0; i < 16; i++)
		RETURNS(0, vb_rdma(pair.q[0], i, IB_WR_RDMA_READ,
				   vb_sge(pair.q[0]->mem, 4000 * i, 3000), vb_mr_address(mr, 100 * i),
				   mr->mr->rkey, IB_SEND_SIGNALED));
	for (i = 0; i < 16; i++) {
		CHECK(vb_poll(pair.q[0]->scq, &wc, VB_PATIENCE_MS), "%d completions", i);
		CHECK(wc.wr_id == i, "completion of %llu, not %d", wc.wr_id, i);
		if (wc.status == IB_WC_SUCCESS) {
			CHECK(good == i, "success behind an error");
			vb_moved(pair.q[0]->mem, 4000 * i, pair.q[1]->mem, 100 * i, 3000);
			good++;
		}
	}
}

const struct vb_case vb_order_cases[] = {
	{ "order: WRITE, then SEND", write_then_send },
	{ "order: WRITE, READ and WRITE of one place", write_read_write },
	{ "order: WRITEs to one place", write_write },
	{ "order: a fenced SEND of what a READ brings", fence_send },
	{ "order: a fenced LOCAL_INV behind a READ", fence_invalidate },
	{ "order: REG_MR, WRITE and LOCAL_INV in one list", register_use_invalidate },
	{ "order: nothing happens behind an error", nothing_behind_error },
	{ "order: a hundred requests of all kinds", mixed_order },
	{ "order: one completion queue for both directions", one_queue },
	{ "order: one, two, and sixteen READs at once", reads_at_once },
	{ "order: a READ to who answers none", no_reads },
	{ "order: more READs than the other side answers", too_many_reads },
	{ }
};
