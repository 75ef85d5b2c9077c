// SPDX-License-Identifier: GPL-2.0
/*
 * Datagrams, as used by the connection manager.
 */
#include <linux/delay.h>
#include <linux/slab.h>

#include "verbs.h"

#define QKEY	0x11111111
/* The bytes before the payload of every datagram. */
#define GRH	40

struct datagrams {
	struct vb_qp q[2];
	/* The queue of [1]'s receives, if it is a shared one. */
	struct vb_srq *srq;
	struct vb_mem *mem[2];
	struct ib_ah *ah;
};

static void datagrams_end(struct datagrams *d)
{
	int i;

	if (!IS_ERR_OR_NULL(d->ah))
		rdma_destroy_ah(d->ah, 0);
	for (i = 0; i < 2; i++)
		if (!IS_ERR_OR_NULL(d->q[i].qp))
			ib_destroy_qp(d->q[i].qp);
}

/* Two UD queue pairs in RTS; the caller ends them. */
static bool datagrams(struct vb_run *run, struct datagrams *d)
{
	struct rdma_ah_attr ah;
	int i, err = 0;

	for (i = 0; i < 2; i++) {
		struct ib_qp_init_attr init = {
			.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2,
				 .max_recv_sge = 2 },
			.sq_sig_type = IB_SIGNAL_REQ_WR,
			.qp_type = IB_QPT_UD,
		};
		struct ib_qp_attr attr = {
			.qp_state = IB_QPS_INIT, .qkey = QKEY, .port_num = run->host[i].port,
		};
		struct vb_qp *q = &d->q[i];

		q->host = &run->host[i];
		q->scq = vb_cq(run, q->host, 16);
		q->rcq = vb_cq(run, q->host, 16);
		d->mem[i] = vb_mem(run, q->host, SZ_16K);
		if (!q->scq || !q->rcq || !d->mem[i])
			return false;
		init.send_cq = q->scq->cq;
		init.recv_cq = q->rcq->cq;
		if (i && d->srq) {
			init.srq = d->srq->srq;
			init.cap.max_recv_wr = 0;
			init.cap.max_recv_sge = 0;
		}
		q->qp = ib_create_qp(q->host->pd, &init);
		if (IS_ERR(q->qp)) {
			vb_absent(run, "no queue pairs for datagrams");
			return false;
		}
		err = ib_modify_qp(q->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
				   IB_QP_QKEY);
		attr.qp_state = IB_QPS_RTR;
		err = err ?: ib_modify_qp(q->qp, &attr, IB_QP_STATE);
		attr.qp_state = IB_QPS_RTS;
		err = err ?: ib_modify_qp(q->qp, &attr, IB_QP_STATE | IB_QP_SQ_PSN);
		if (err) {
			vb_fail(run, "a queue pair cannot be made ready: %d", err);
			return false;
		}
	}
	vb_route(&run->host[0], &run->host[1], &ah);
	rdma_ah_set_grh(&ah, &run->host[1].gid, 0, run->host[0].gid_index, 64, 0x20);
	d->ah = rdma_create_ah(run->host[0].pd, &ah, RDMA_CREATE_AH_SLEEPABLE);
	if (IS_ERR(d->ah)) {
		vb_fail(run, "no address handle: %ld", PTR_ERR(d->ah));
		return false;
	}
	return true;
}

static int send_datagram(struct datagrams *d, u64 id, u32 length, u32 qkey, u32 imm)
{
	struct ib_sge sge = vb_sge(d->mem[0], 0, length);
	struct ib_ud_wr wr = {
		.wr = {
			.wr_id = id, .sg_list = &sge, .num_sge = 1,
			.opcode = imm ? IB_WR_SEND_WITH_IMM : IB_WR_SEND,
			.send_flags = IB_SEND_SIGNALED, .ex.imm_data = cpu_to_be32(imm),
		},
		.ah = d->ah, .remote_qpn = d->q[1].qp->qp_num, .remote_qkey = qkey,
	};

	return ib_post_send(d->q[0].qp, &wr.wr, NULL);
}

static void carried(struct vb_run *run, struct datagrams *d)
{
	u32 lengths[] = { 1, 256, 0 };
	struct ib_wc wc;
	int i;

	lengths[2] = ib_mtu_enum_to_int(min(run->host[0].mtu, run->host[1].mtu));
	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		u32 length = lengths[i];

		RETURNS(0, vb_recv(&d->q[1], i, vb_sge(d->mem[1], 0, length + GRH)));
		RETURNS(0, send_datagram(d, i, length, QKEY, i));
		TRY(vb_ok(run, d->q[0].scq, i));
		TRY(vb_wait(run, d->q[1].rcq, i, IB_WC_SUCCESS, &wc));
		CHECK(wc.byte_len == length + GRH, "%u bytes, not %u", wc.byte_len, length + GRH);
		CHECK(wc.src_qp == d->q[0].qp->qp_num, "from %#x", wc.src_qp);
		CHECK(wc.wc_flags & IB_WC_GRH, "no header before the bytes");
		CHECK(!!(wc.wc_flags & IB_WC_WITH_IMM) == !!i, "flags %#x", wc.wc_flags);
		CHECK(!i || be32_to_cpu(wc.ex.imm_data) == i, "immediate data");
		vb_forget(d->mem[1], 0, GRH);
		vb_moved(d->mem[1], GRH, d->mem[0], 0, length);
		TRY(vb_memories_right(run));
	}
}

/* No error is reported, neither to the sender nor to a receiver. */
static void lost(struct vb_run *run, struct datagrams *d)
{
	/* The wrong key. */
	RETURNS(0, vb_recv(&d->q[1], 1, vb_sge(d->mem[1], 0, 256 + GRH)));
	RETURNS(0, send_datagram(d, 1, 256, QKEY + 1, 0));
	TRY(vb_ok(run, d->q[0].scq, 1));
	TRY(vb_silent(run, d->q[1].rcq, VB_SILENCE_MS));
	/* The next datagram uses that receive. */
	RETURNS(0, send_datagram(d, 2, 100, QKEY, 0));
	TRY(vb_ok(run, d->q[0].scq, 2));
	TRY(vb_ok(run, d->q[1].rcq, 1));
	vb_forget(d->mem[1], 0, GRH);
	vb_moved(d->mem[1], GRH, d->mem[0], 0, 100);
	/* No receive. */
	RETURNS(0, send_datagram(d, 3, 100, QKEY, 0));
	TRY(vb_ok(run, d->q[0].scq, 3));
	/* Nothing tells when it is lost. Its completion may come before it arrives. */
	msleep(500);
	RETURNS(0, vb_recv(&d->q[1], 4, vb_sge(d->mem[1], 0, 256 + GRH)));
	TRY(vb_silent(run, d->q[1].rcq, VB_SILENCE_MS));
}

/* The key of one piece is invalid: no part of the datagram is sent. */
static void refused(struct vb_run *run, struct datagrams *d)
{
	struct ib_sge sge[2] = { vb_sge(d->mem[0], 0, 100), vb_sge(d->mem[0], 200, 100) };
	struct ib_ud_wr wr = {
		.wr = {
			.wr_id = 1, .sg_list = sge, .num_sge = 2, .opcode = IB_WR_SEND,
			.send_flags = IB_SEND_SIGNALED,
		},
		.ah = d->ah, .remote_qpn = d->q[1].qp->qp_num, .remote_qkey = QKEY,
	};

	sge[1].lkey ^= 0x00f00000;
	RETURNS(0, vb_recv(&d->q[1], 1, vb_sge(d->mem[1], 0, 200 + GRH)));
	RETURNS(0, ib_post_send(d->q[0].qp, &wr.wr, NULL));
	TRY(vb_wait(run, d->q[0].scq, 1, IB_WC_LOC_PROT_ERR, NULL));
	TRY(vb_silent(run, d->q[1].rcq, VB_SILENCE_MS));
	TRY(vb_memories_right(run));
}

static int receive_datagram(struct datagrams *d, u64 id, u32 offset, u32 length)
{
	struct ib_sge sge = vb_sge(d->mem[1], offset, length + GRH);

	return d->srq ? vb_srq_recv(d->srq, id, sge) : vb_recv(&d->q[1], id, sge);
}

/* Datagrams without room, more than there are receives, leave these for the next ones. */
static void too_long(struct vb_run *run, struct datagrams *d)
{
	struct ib_wc wc;
	int i;

	for (i = 0; i < 4; i++)
		RETURNS(0, receive_datagram(d, i, 1024 * i, 100));
	for (i = 0; i < 10; i++) {
		RETURNS(0, send_datagram(d, 100 + i, 101 + i, QKEY, 0));
		TRY(vb_ok(run, d->q[0].scq, 100 + i));
	}
	TRY(vb_silent(run, d->q[1].rcq, VB_SILENCE_MS));
	TRY(vb_memories_right(run));
	for (i = 0; i < 4; i++) {
		RETURNS(0, send_datagram(d, i, 100, QKEY, 0));
		TRY(vb_ok(run, d->q[0].scq, i));
		TRY(vb_wait(run, d->q[1].rcq, i, IB_WC_SUCCESS, &wc));
		CHECK(wc.byte_len == 100 + GRH, "%u bytes", wc.byte_len);
		vb_forget(d->mem[1], 1024 * i, GRH);
		vb_moved(d->mem[1], 1024 * i + GRH, d->mem[0], 0, 100);
	}
}

static enum ib_qp_state state_of(struct vb_qp *q)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	return ib_query_qp(q->qp, &attr, IB_QP_STATE, &init) ? -1 : attr.qp_state;
}

/*
 * A datagram that fails stops the send queue. Its consumer sees that, as the
 * kernel's own do, and starts the queue again.
 */
static void stopped(struct vb_run *run, struct datagrams *d)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RTS, .cur_qp_state = IB_QPS_RTS };
	struct ib_sge sge = vb_sge(d->mem[0], 0, 100);
	struct ib_ud_wr behind = {
		.wr = {
			.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_SEND,
			.send_flags = IB_SEND_SIGNALED,
		},
		.ah = d->ah, .remote_qpn = d->q[1].qp->qp_num, .remote_qkey = QKEY,
	};
	struct ib_sge wrong = vb_sge(d->mem[0], 0, 100);
	struct ib_ud_wr bad = behind;
	int round;

	wrong.lkey ^= 0x00f00000;
	bad.wr.wr_id = 1;
	bad.wr.sg_list = &wrong;
	bad.wr.next = &behind.wr;
	for (round = 0; round < 3; round++) {
		RETURNS(0, receive_datagram(d, 3, 0, 100));
		RETURNS(0, ib_post_send(d->q[0].qp, &bad.wr, NULL));
		TRY(vb_wait(run, d->q[0].scq, 1, IB_WC_LOC_PROT_ERR, NULL));
		CHECK(state_of(&d->q[0]) == IB_QPS_SQE, "state %d", state_of(&d->q[0]));
		TRY(vb_flushed(run, d->q[0].scq, 2, 1));
		RETURNS(0, send_datagram(d, 4, 100, QKEY, 0));
		TRY(vb_flushed(run, d->q[0].scq, 4, 1));
		attr.cur_qp_state = IB_QPS_RTS;
		RETURNS(-EINVAL, ib_modify_qp(d->q[0].qp, &attr, IB_QP_STATE | IB_QP_CUR_STATE));
		attr.cur_qp_state = IB_QPS_SQE;
		RETURNS(0, ib_modify_qp(d->q[0].qp, &attr, IB_QP_STATE | IB_QP_CUR_STATE));
		CHECK(state_of(&d->q[0]) == IB_QPS_RTS, "state %d", state_of(&d->q[0]));
		TRY(vb_silent(run, d->q[1].rcq, VB_SILENCE_MS));
		RETURNS(0, send_datagram(d, 5, 100, QKEY, 0));
		TRY(vb_ok(run, d->q[0].scq, 5));
		TRY(vb_ok(run, d->q[1].rcq, 3));
		vb_forget(d->mem[1], 0, GRH);
		vb_moved(d->mem[1], GRH, d->mem[0], 0, 100);
	}
}

static void with(struct vb_run *run, void (*what)(struct vb_run *run, struct datagrams *d))
{
	struct datagrams *d = kzalloc(sizeof(*d), GFP_KERNEL);

	if (!d)
		return vb_fail(run, "no memory");
	if (datagrams(run, d))
		what(run, d);
	datagrams_end(d);
	kfree(d);
}

static void datagrams_too_long(struct vb_run *run)
{
	with(run, too_long);
}

static void datagrams_too_long_shared(struct vb_run *run)
{
	struct datagrams *d = kzalloc(sizeof(*d), GFP_KERNEL);

	if (!d)
		return vb_fail(run, "no memory");
	d->srq = vb_srq(run, &run->host[1], 8);
	if (d->srq && datagrams(run, d))
		too_long(run, d);
	datagrams_end(d);
	kfree(d);
}

static void datagrams_stopped(struct vb_run *run)
{
	with(run, stopped);
}

static void datagrams_carried(struct vb_run *run)
{
	with(run, carried);
}

static void datagrams_lost(struct vb_run *run)
{
	with(run, lost);
}

static void datagrams_refused(struct vb_run *run)
{
	with(run, refused);
}

const struct vb_case vb_datagram_cases[] = {
	{ "datagram: what comes, with the header of its way", datagrams_carried },
	{ "datagram: what does not come", datagrams_lost },
	{ "datagram: one with a piece that its key does not open does not come", datagrams_refused },
	{ "datagram: those that are too long take no receive", datagrams_too_long },
	{ "datagram: those that are too long take no shared receive", datagrams_too_long_shared,
	  "rxe: takes a shared receive" },
	{ "datagram: one that fails stops the send queue, until RTS", datagrams_stopped,
	  "rxe: fails as a whole" },
	{ }
};
