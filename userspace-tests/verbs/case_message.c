// SPDX-License-Identifier: GPL-2.0
/*
 * The contents of one message: its bytes, its length, its immediate data, the
 * key that it invalidates.
 */
#include "verbs.h"

#define ALL_RIGHTS (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)

/* Checks all fields of a receive completion. */
static bool received(struct vb_run *run, struct vb_qp *q, u64 id, enum ib_wc_opcode opcode,
		     u32 length, int flags, u32 extra)
{
	int known = IB_WC_WITH_IMM | IB_WC_WITH_INVALIDATE;
	struct ib_wc wc;

	if (!vb_wait(run, q->rcq, id, IB_WC_SUCCESS, &wc))
		return false;
	if (wc.opcode != opcode || wc.byte_len != length || (wc.wc_flags & known) != flags ||
	    wc.qp != q->qp) {
		vb_fail(run, "receive %llu: opcode %d, %u bytes, flags %#x, not %d, %u, %#x%s", id,
			wc.opcode, wc.byte_len, wc.wc_flags, opcode, length, flags,
			wc.qp == q->qp ? "" : "; the wrong queue pair");
		return false;
	}
	if (flags & IB_WC_WITH_IMM && be32_to_cpu(wc.ex.imm_data) != extra) {
		vb_fail(run, "immediate data %#x, not %#x", be32_to_cpu(wc.ex.imm_data), extra);
		return false;
	}
	if (flags & IB_WC_WITH_INVALIDATE && wc.ex.invalidate_rkey != extra) {
		vb_fail(run, "invalidated key %#x, not %#x", wc.ex.invalidate_rkey, extra);
		return false;
	}
	return true;
}

static bool completed(struct vb_run *run, struct vb_qp *q, u64 id, enum ib_wc_opcode opcode)
{
	struct ib_wc wc;

	if (!vb_wait(run, q->scq, id, IB_WC_SUCCESS, &wc))
		return false;
	if (wc.opcode == opcode && wc.qp == q->qp)
		return true;
	vb_fail(run, "completion of %llu: opcode %d, not %d%s", id, wc.opcode, opcode,
		wc.qp == q->qp ? "" : "; the wrong queue pair");
	return false;
}

/* Around the sizes at which messages are divided into packets. */
static void send_lengths(struct vb_run *run)
{
	static const enum ib_mtu mtus[] = { IB_MTU_256, IB_MTU_1024, 0 };
	int i, j;

	for (i = 0; i < ARRAY_SIZE(mtus); i++) {
		struct vb_options options = { .mtu = mtus[i] };
		struct vb_pair pair;
		u32 mtu;

		TRY(vb_pair(run, &pair, &options));
		mtu = ib_mtu_enum_to_int(mtus[i] ?: min(run->host[0].mtu, run->host[1].mtu));
		for (j = 0; j < 24; j++) {
			static const int near[] = { 0, 1, 2, 3, 4, 5, 7, -1 };
			static const u32 packets[] = { 0, 1, 3 };
			s32 length = packets[j / 8] * mtu + near[j % 8];

			if (length < 0)
				length = 30000;
			RETURNS(0, vb_recv(pair.q[1], 1, vb_sge(pair.q[1]->mem, j, length + 3)));
			RETURNS(0, vb_send(pair.q[0], 2, IB_WR_SEND,
					   vb_sge(pair.q[0]->mem, 3 * j, length),
					   IB_SEND_SIGNALED, 0));
			TRY(received(run, pair.q[1], 1, IB_WC_RECV, length, 0, 0));
			TRY(completed(run, pair.q[0], 2, IB_WC_SEND));
			vb_moved(pair.q[1]->mem, j, pair.q[0]->mem, 3 * j, length);
			TRY(vb_memories_right(run));
		}
	}
}

static void rdma_lengths(struct vb_run *run)
{
	static const enum ib_mtu mtus[] = { IB_MTU_256, 0 };
	int i, j;

	for (i = 0; i < ARRAY_SIZE(mtus); i++) {
		struct vb_options options = { .mtu = mtus[i] };
		struct vb_mr *near_mr, *far_mr;
		struct vb_pair pair;
		u32 mtu;

		TRY(vb_pair(run, &pair, &options));
		mtu = ib_mtu_enum_to_int(mtus[i] ?: min(run->host[0].mtu, run->host[1].mtu));
		TRY(near_mr = vb_mr(run, run->host[0].pd, pair.q[0]->mem, 11, SZ_64K - 11));
		TRY(far_mr = vb_mr(run, run->host[1].pd, pair.q[1]->mem, 7, SZ_64K - 7));
		TRY(vb_register(run, pair.q[0], near_mr, IB_ACCESS_LOCAL_WRITE));
		TRY(vb_register(run, pair.q[1], far_mr, ALL_RIGHTS));
		for (j = 0; j < 21; j++) {
			static const int near[] = { 0, 1, 2, 3, 4, 5, -1 };
			static const u32 packets[] = { 0, 1, 3 };
			s32 length = packets[j / 7] * mtu + near[j % 7];

			if (length < 0)
				length = 50000;
			RETURNS(0, vb_rdma(pair.q[0], 1, IB_WR_RDMA_WRITE,
					   vb_mr_sge(near_mr, j, length),
					   vb_mr_address(far_mr, 3 * j), far_mr->mr->rkey,
					   IB_SEND_SIGNALED));
			TRY(completed(run, pair.q[0], 1, IB_WC_RDMA_WRITE));
			vb_moved(far_mr->mem, 7 + 3 * j, near_mr->mem, 11 + j, length);
			TRY(vb_memories_right(run));
			RETURNS(0, vb_rdma(pair.q[0], 2, IB_WR_RDMA_READ,
					   vb_mr_sge(near_mr, 2 * j, length),
					   vb_mr_address(far_mr, j), far_mr->mr->rkey,
					   IB_SEND_SIGNALED));
			TRY(completed(run, pair.q[0], 2, IB_WC_RDMA_READ));
			vb_moved(near_mr->mem, 11 + 2 * j, far_mr->mem, 7 + j, length);
			TRY(vb_memories_right(run));
		}
	}
}

static void send_nothing(struct vb_run *run)
{
	struct vb_pair pair;

	TRY(vb_pair(run, &pair, NULL));
	RETURNS(0, vb_recv(pair.q[1], 1, vb_sge(pair.q[1]->mem, 0, 64)));
	RETURNS(0, vb_recv(pair.q[1], 2, VB_NOTHING));
	RETURNS(0, vb_send(pair.q[0], 3, IB_WR_SEND, VB_NOTHING, IB_SEND_SIGNALED, 0));
	TRY(received(run, pair.q[1], 1, IB_WC_RECV, 0, 0, 0));
	RETURNS(0, vb_send(pair.q[0], 4, IB_WR_SEND_WITH_IMM, VB_NOTHING, IB_SEND_SIGNALED, 7));
	TRY(received(run, pair.q[1], 2, IB_WC_RECV, 0, IB_WC_WITH_IMM, 7));
	TRY(vb_ok(run, pair.q[0]->scq, 3));
	TRY(vb_ok(run, pair.q[0]->scq, 4));
}

/* Pieces of the source and of the target with unrelated limits. */
static void gather_scatter(struct vb_run *run)
{
	static const u32 from[][2] = { { 5, 1 }, { 4090, 20 }, { 9000, 0 }, { 10001, 6000 } };
	static const u32 to[][2] = { { 20000, 3000 }, { 1, 2 }, { 30000, 3018 }, { 50000, 100 } };
	struct ib_sge source[4], target[4];
	struct ib_recv_wr recv = { .wr_id = 1, .sg_list = target, .num_sge = 4 };
	struct ib_send_wr send = {
		.wr_id = 2, .sg_list = source, .num_sge = 4, .opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
	struct vb_pair pair;
	u32 at, i;

	TRY(vb_pair(run, &pair, NULL));
	for (i = 0; i < 4; i++) {
		source[i] = vb_sge(pair.q[0]->mem, from[i][0], from[i][1]);
		target[i] = vb_sge(pair.q[1]->mem, to[i][0], to[i][1]);
	}
	RETURNS(0, ib_post_recv(pair.q[1]->qp, &recv, NULL));
	RETURNS(0, vb_post(pair.q[0], &send));
	TRY(received(run, pair.q[1], 1, IB_WC_RECV, 6021, 0, 0));
	TRY(vb_ok(run, pair.q[0]->scq, 2));
	for (at = 0; at < 6021; at++) {
		u32 s = at, t = at, k, l;

		for (k = 0; s >= from[k][1]; k++)
			s -= from[k][1];
		for (l = 0; t >= to[l][1]; l++)
			t -= to[l][1];
		vb_moved(pair.q[1]->mem, to[l][0] + t, pair.q[0]->mem, from[k][0] + s, 1);
	}
}

static void gather_rdma(struct vb_run *run)
{
	struct ib_sge list[3];
	struct ib_rdma_wr wr = {
		.wr = {
			.sg_list = list, .num_sge = 3, .send_flags = IB_SEND_SIGNALED,
		},
	};
	struct vb_pair pair;
	struct vb_mem *mine, *theirs;
	struct vb_mr *mr;

	TRY(vb_pair(run, &pair, NULL));
	mine = pair.q[0]->mem;
	theirs = pair.q[1]->mem;
	TRY(mr = vb_mr(run, run->host[1].pd, theirs, 100, 20000));
	TRY(vb_register(run, pair.q[1], mr, ALL_RIGHTS));
	list[0] = vb_sge(mine, 8000, 5000);
	list[1] = vb_sge(mine, 1, 1);
	list[2] = vb_sge(mine, 40000, 3333);
	wr.remote_addr = vb_mr_address(mr, 9);
	wr.rkey = mr->mr->rkey;
	wr.wr.opcode = IB_WR_RDMA_WRITE;
	RETURNS(0, vb_post(pair.q[0], &wr.wr));
	TRY(vb_ok(run, pair.q[0]->scq, 0));
	vb_moved(theirs, 109, mine, 8000, 5000);
	vb_moved(theirs, 5109, mine, 1, 1);
	vb_moved(theirs, 5110, mine, 40000, 3333);
	TRY(vb_memories_right(run));
	list[0] = vb_sge(mine, 0, 7);
	list[1] = vb_sge(mine, 50000, 4096);
	list[2] = vb_sge(mine, 20000, 4000);
	wr.remote_addr = vb_mr_address(mr, 8000);
	wr.wr.opcode = IB_WR_RDMA_READ;
	RETURNS(0, vb_post(pair.q[0], &wr.wr));
	TRY(vb_ok(run, pair.q[0]->scq, 0));
	vb_moved(mine, 0, theirs, 8100, 7);
	vb_moved(mine, 50000, theirs, 8107, 4096);
	vb_moved(mine, 20000, theirs, 12203, 4000);
}

static void too_long(struct vb_run *run)
{
	static const u32 lengths[] = { 65, 40000 };
	int i;

	for (i = 0; i < 2; i++) {
		struct vb_pair pair;

		TRY(vb_pair(run, &pair, NULL));
		RETURNS(0, vb_recv(pair.q[1], 1, vb_sge(pair.q[1]->mem, 100, lengths[i] - 1)));
		RETURNS(0, vb_recv(pair.q[1], 2, vb_sge(pair.q[1]->mem, 50000, 64)));
		RETURNS(0, vb_send(pair.q[0], 3, IB_WR_SEND, vb_sge(pair.q[0]->mem, 0, lengths[i]),
				   IB_SEND_SIGNALED, 0));
		RETURNS(0, vb_send(pair.q[0], 4, IB_WR_SEND, vb_sge(pair.q[0]->mem, 0, 64),
				   IB_SEND_SIGNALED, 0));
		TRY(vb_wait(run, pair.q[1]->rcq, 1, IB_WC_LOC_LEN_ERR, NULL));
		TRY(vb_wait(run, pair.q[0]->scq, 3, IB_WC_REM_INV_REQ_ERR, NULL));
		TRY(vb_flushed(run, pair.q[0]->scq, 4, 1));
		TRY(vb_flushed(run, pair.q[1]->rcq, 2, 1));
		/* The receive has the sender's bytes, as far as they fit. */
		vb_forget(pair.q[1]->mem, 100, lengths[i] - 1);
	}
}

static void immediate(struct vb_run *run)
{
	static const u32 values[] = { 0, 1, 0x01020304, 0xffffffff };
	struct vb_pair pair;
	int i;

	TRY(vb_pair(run, &pair, NULL));
	for (i = 0; i < ARRAY_SIZE(values); i++) {
		RETURNS(0, vb_recv(pair.q[1], 1, vb_sge(pair.q[1]->mem, 0, 6000)));
		RETURNS(0, vb_send(pair.q[0], 2, IB_WR_SEND_WITH_IMM,
				   vb_sge(pair.q[0]->mem, 10 * i, 5000), IB_SEND_SIGNALED,
				   values[i]));
		TRY(received(run, pair.q[1], 1, IB_WC_RECV, 5000, IB_WC_WITH_IMM, values[i]));
		TRY(completed(run, pair.q[0], 2, IB_WC_SEND));
		vb_moved(pair.q[1]->mem, 0, pair.q[0]->mem, 10 * i, 5000);
	}
}

/* It uses a receive but not its memory. */
static void write_immediate(struct vb_run *run)
{
	struct vb_pair pair;
	struct vb_mr *mr;

	TRY(vb_pair(run, &pair, NULL));
	TRY(mr = vb_mr(run, run->host[1].pd, pair.q[1]->mem, 0, SZ_32K));
	TRY(vb_register(run, pair.q[1], mr, ALL_RIGHTS));
	RETURNS(0, vb_recv(pair.q[1], 1, vb_sge(pair.q[1]->mem, 40000, 100)));
	RETURNS(0, vb_recv(pair.q[1], 2, VB_NOTHING));
	RETURNS(0, vb_rdma(pair.q[0], 0x11223344, IB_WR_RDMA_WRITE_WITH_IMM,
			   vb_sge(pair.q[0]->mem, 5, 9001), vb_mr_address(mr, 1),
			   mr->mr->rkey, IB_SEND_SIGNALED));
	TRY(received(run, pair.q[1], 1, IB_WC_RECV_RDMA_WITH_IMM, 9001, IB_WC_WITH_IMM,
		     0x11223344));
	vb_moved(mr->mem, 1, pair.q[0]->mem, 5, 9001);
	TRY(vb_memories_right(run));
	TRY(completed(run, pair.q[0], 0x11223344, IB_WC_RDMA_WRITE));
	RETURNS(0, vb_rdma(pair.q[0], 9, IB_WR_RDMA_WRITE_WITH_IMM, VB_NOTHING, 0, 0,
			   IB_SEND_SIGNALED));
	TRY(received(run, pair.q[1], 2, IB_WC_RECV_RDMA_WITH_IMM, 0, IB_WC_WITH_IMM, 9));
	TRY(completed(run, pair.q[0], 9, IB_WC_RDMA_WRITE));
}

/* Without a receive it behaves like a SEND: RNR NAK. */
static void write_immediate_waits(struct vb_run *run)
{
	struct vb_pair pair;
	struct vb_mr *mr;

	TRY(vb_pair(run, &pair, NULL));
	TRY(mr = vb_mr(run, run->host[1].pd, pair.q[1]->mem, 0, SZ_32K));
	TRY(vb_register(run, pair.q[1], mr, ALL_RIGHTS));
	RETURNS(0, vb_rdma(pair.q[0], 5, IB_WR_RDMA_WRITE_WITH_IMM,
			   vb_sge(pair.q[0]->mem, 5, 600), vb_mr_address(mr, 1),
			   mr->mr->rkey, IB_SEND_SIGNALED));
	TRY(vb_silent(run, pair.q[0]->scq, VB_SILENCE_MS));
	RETURNS(0, vb_recv(pair.q[1], 1, VB_NOTHING));
	TRY(received(run, pair.q[1], 1, IB_WC_RECV_RDMA_WITH_IMM, 600, IB_WC_WITH_IMM, 5));
	vb_moved(mr->mem, 1, pair.q[0]->mem, 5, 600);
	TRY(vb_ok(run, pair.q[0]->scq, 5));
}

static void send_invalidate(struct vb_run *run)
{
	struct vb_pair pair;
	struct vb_mr *mr;
	u32 key;

	TRY(vb_pair(run, &pair, NULL));
	TRY(mr = vb_mr(run, run->host[1].pd, pair.q[1]->mem, 0, SZ_32K));
	TRY(vb_register(run, pair.q[1], mr, ALL_RIGHTS));
	key = mr->mr->rkey;
	RETURNS(0, vb_recv(pair.q[1], 1, vb_sge(pair.q[1]->mem, 40000, 9000)));
	RETURNS(0, vb_send(pair.q[0], 2, IB_WR_SEND_WITH_INV, vb_sge(pair.q[0]->mem, 3, 8999),
			   IB_SEND_SIGNALED, key));
	TRY(received(run, pair.q[1], 1, IB_WC_RECV, 8999, IB_WC_WITH_INVALIDATE, key));
	TRY(completed(run, pair.q[0], 2, IB_WC_SEND));
	vb_moved(pair.q[1]->mem, 40000, pair.q[0]->mem, 3, 8999);
	/* Free now, so it can be registered again without an invalidation. */
	vb_step_key(mr);
	TRY(vb_register(run, pair.q[1], mr, ALL_RIGHTS));
	RETURNS(0, vb_rdma(pair.q[0], 3, IB_WR_RDMA_WRITE, vb_sge(pair.q[0]->mem, 0, 64),
			   vb_mr_address(mr, 0), key, IB_SEND_SIGNALED));
	TRY(vb_wait(run, pair.q[0]->scq, 3, IB_WC_REM_ACCESS_ERR, NULL));
}

static void send_invalidate_nothing(struct vb_run *run)
{
	struct vb_pair pair;
	struct vb_mr *mr;

	TRY(vb_pair(run, &pair, NULL));
	TRY(mr = vb_mr(run, run->host[1].pd, pair.q[1]->mem, 0, SZ_32K));
	TRY(vb_register(run, pair.q[1], mr, ALL_RIGHTS));
	RETURNS(0, vb_recv(pair.q[1], 1, VB_NOTHING));
	RETURNS(0, vb_send(pair.q[0], 2, IB_WR_SEND_WITH_INV, VB_NOTHING, IB_SEND_SIGNALED,
			   mr->mr->rkey));
	TRY(received(run, pair.q[1], 1, IB_WC_RECV, 0, IB_WC_WITH_INVALIDATE, mr->mr->rkey));
	TRY(completed(run, pair.q[0], 2, IB_WC_SEND));
}

/* @change of the key, or a region of another protection domain: both ends get an error. */
static void send_invalidate_wrong(struct vb_run *run, u32 change, bool other_pd)
{
	struct vb_options options = { };
	struct vb_pair pair, owner;
	struct vb_mr *mr;
	struct ib_wc wc;

	if (other_pd)
		TRY(options.pd = vb_pd(run, &run->host[1], 0));
	TRY(vb_pair(run, &owner, &options));
	TRY(vb_pair(run, &pair, NULL));
	TRY(mr = vb_mr(run, owner.q[1]->pd, owner.q[1]->mem, 0, SZ_32K));
	TRY(vb_register(run, owner.q[1], mr, ALL_RIGHTS));
	RETURNS(0, vb_recv(pair.q[1], 1, vb_sge(pair.q[1]->mem, 0, 64)));
	RETURNS(0, vb_send(pair.q[0], 2, IB_WR_SEND_WITH_INV, vb_sge(pair.q[0]->mem, 0, 64),
			   IB_SEND_SIGNALED, mr->mr->rkey ^ change));
	CHECK(vb_poll(pair.q[0]->scq, &wc, VB_PATIENCE_MS), "no completion at the sender");
	CHECK(wc.status != IB_WC_SUCCESS && wc.status != IB_WC_WR_FLUSH_ERR, "the sender has %s",
	      ib_wc_status_msg(wc.status));
	CHECK(vb_poll(pair.q[1]->rcq, &wc, VB_PATIENCE_MS), "no completion at the receiver");
	CHECK(wc.status != IB_WC_SUCCESS, "the receiver has success");
	vb_forget(pair.q[1]->mem, 0, 64);
	/* The region is unchanged. */
	RETURNS(0, vb_rdma(owner.q[0], 2, IB_WR_RDMA_WRITE, vb_sge(owner.q[0]->mem, 0, 64),
			   vb_mr_address(mr, 0), mr->mr->rkey, IB_SEND_SIGNALED));
	TRY(vb_ok(run, owner.q[0]->scq, 2));
	vb_moved(mr->mem, 0, owner.q[0]->mem, 0, 64);
}

static void send_invalidate_stranger(struct vb_run *run)
{
	send_invalidate_wrong(run, 0x00f00000, false);
}

static void send_invalidate_old_key(struct vb_run *run)
{
	send_invalidate_wrong(run, 1, false);
}

static void send_invalidate_other_pd(struct vb_run *run)
{
	send_invalidate_wrong(run, 0, true);
}

/* The target region of the READ is invalid after its completion. */
static void read_invalidate(struct vb_run *run)
{
	struct vb_mr *mine, *theirs;
	struct vb_pair pair;

	TRY(vb_pair(run, &pair, NULL));
	TRY(mine = vb_mr(run, run->host[0].pd, pair.q[0]->mem, 10, SZ_16K));
	TRY(theirs = vb_mr(run, run->host[1].pd, pair.q[1]->mem, 20, SZ_16K));
	TRY(vb_register(run, pair.q[0], mine, ALL_RIGHTS));
	TRY(vb_register(run, pair.q[1], theirs, ALL_RIGHTS));
	RETURNS(0, vb_rdma(pair.q[0], 1, IB_WR_RDMA_READ_WITH_INV, vb_mr_sge(mine, 0, 9999),
			   vb_mr_address(theirs, 0), theirs->mr->rkey, IB_SEND_SIGNALED));
	TRY(completed(run, pair.q[0], 1, IB_WC_RDMA_READ));
	vb_moved(mine->mem, 10, theirs->mem, 20, 9999);
	TRY(vb_memories_right(run));
	/* The other side still has its region, and one's own is free again. */
	vb_step_key(mine);
	TRY(vb_register(run, pair.q[0], mine, ALL_RIGHTS));
	RETURNS(0, vb_rdma(pair.q[0], 2, IB_WR_RDMA_READ, vb_mr_sge(mine, 1, 500),
			   vb_mr_address(theirs, 0), theirs->mr->rkey, IB_SEND_SIGNALED));
	TRY(vb_ok(run, pair.q[0]->scq, 2));
	vb_moved(mine->mem, 11, theirs->mem, 20, 500);
}

static void read_invalidate_then_use(struct vb_run *run)
{
	struct vb_mr *mine, *theirs;
	struct vb_pair pair;

	TRY(vb_pair(run, &pair, NULL));
	TRY(mine = vb_mr(run, run->host[0].pd, pair.q[0]->mem, 10, SZ_16K));
	TRY(theirs = vb_mr(run, run->host[1].pd, pair.q[1]->mem, 20, SZ_16K));
	TRY(vb_register(run, pair.q[0], mine, ALL_RIGHTS));
	TRY(vb_register(run, pair.q[1], theirs, ALL_RIGHTS));
	RETURNS(0, vb_rdma(pair.q[0], 1, IB_WR_RDMA_READ_WITH_INV, vb_mr_sge(mine, 0, 999),
			   vb_mr_address(theirs, 0), theirs->mr->rkey, IB_SEND_SIGNALED));
	TRY(vb_ok(run, pair.q[0]->scq, 1));
	vb_moved(mine->mem, 10, theirs->mem, 20, 999);
	RETURNS(0, vb_rdma(pair.q[0], 2, IB_WR_RDMA_READ, vb_mr_sge(mine, 0, 999),
			   vb_mr_address(theirs, 0), theirs->mr->rkey, IB_SEND_SIGNALED));
	TRY(vb_wait(run, pair.q[0]->scq, 2, IB_WC_LOC_PROT_ERR, NULL));
}

/* Inline bytes may be overwritten as soon as they are posted. */
static void send_inline(struct vb_run *run)
{
	struct vb_options options = { .inline_data = 64 };
	struct ib_sge sge = { .length = 60 };
	struct vb_pair pair;
	u8 kept[60];

	if (rdma_protocol_iwarp(run->host[0].device, run->host[0].port))
		return vb_absent(run, "iWARP");
	if (!vb_pair(run, &pair, &options) || pair.q[0]->cap.max_inline_data < 60) {
		run->failed = false;
		return vb_absent(run, "the device has no inline data for users in the kernel");
	}
	memcpy(kept, pair.q[0]->mem->bytes, 60);
	sge.addr = (uintptr_t)pair.q[0]->mem->bytes;
	RETURNS(0, vb_send(pair.q[0], 2, IB_WR_SEND, sge, IB_SEND_SIGNALED | IB_SEND_INLINE, 0));
	memset(pair.q[0]->mem->bytes, 0xee, 60);
	RETURNS(0, vb_recv(pair.q[1], 1, vb_sge(pair.q[1]->mem, 0, 64)));
	TRY(received(run, pair.q[1], 1, IB_WC_RECV, 60, 0, 0));
	TRY(vb_ok(run, pair.q[0]->scq, 2));
	memcpy(pair.q[0]->mem->bytes, kept, 60);
	vb_moved(pair.q[1]->mem, 0, pair.q[0]->mem, 0, 60);
}

/* Larger than any window of packets. */
static void large_messages(struct vb_run *run)
{
	struct vb_mem *from, *to;
	struct vb_pair pair;
	u32 length = SZ_2M - 5;

	TRY(vb_pair(run, &pair, NULL));
	TRY(from = vb_mem(run, &run->host[0], SZ_2M));
	TRY(to = vb_mem(run, &run->host[1], SZ_2M));
	RETURNS(0, vb_recv(pair.q[1], 1, vb_sge(to, 2, length)));
	RETURNS(0, vb_send(pair.q[0], 2, IB_WR_SEND_WITH_IMM, vb_sge(from, 1, length),
			   IB_SEND_SIGNALED, 77));
	TRY(received(run, pair.q[1], 1, IB_WC_RECV, length, IB_WC_WITH_IMM, 77));
	TRY(completed(run, pair.q[0], 2, IB_WC_SEND));
	vb_moved(to, 2, from, 1, length);
}

const struct vb_case vb_message_cases[] = {
	{ "message: SEND of lengths around whole packets", send_lengths },
	{ "message: WRITE and READ of lengths around whole packets", rdma_lengths },
	{ "message: SEND of no bytes", send_nothing },
	{ "message: SEND of two mebibytes", large_messages },
	{ "message: SEND from four pieces into four others", gather_scatter },
	{ "message: WRITE from and READ into three pieces", gather_rdma },
	{ "message: SEND of more than the receive holds", too_long,
	  "rxe: takes a receive that is too short for a malformed one" },
	{ "message: SEND with immediate data", immediate },
	{ "message: WRITE with immediate data uses a receive", write_immediate },
	{ "message: WRITE with immediate data waits for a receive", write_immediate_waits },
	{ "message: SEND that invalidates", send_invalidate },
	{ "message: SEND that invalidates, of no bytes", send_invalidate_nothing },
	{ "message: SEND that invalidates no region", send_invalidate_stranger,
	  "rxe: tells the sender of success, or invalidates what is not its own" },
	{ "message: SEND that invalidates by an old key", send_invalidate_old_key,
	  "rxe: tells the sender of success, or invalidates what is not its own" },
	{ "message: SEND that invalidates in another protection domain",
	  send_invalidate_other_pd,
	  "rxe: tells the sender of success, or invalidates what is not its own" },
	{ "message: READ that invalidates", read_invalidate,
	  "rxe: takes the request and has no such operation" },
	{ "message: READ that invalidates, and what it has invalidated is used",
	  read_invalidate_then_use,
	  "rxe: takes the request and has no such operation" },
	{ "message: SEND inline", send_inline },
	{ }
};
