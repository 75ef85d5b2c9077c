// SPDX-License-Identifier: GPL-2.0
/*
 * Work requests and their completions.
 */
#include <linux/delay.h>

#include "verbs.h"

struct ib_sge vb_sge(struct vb_mem *mem, u32 offset, u32 length)
{
	return (struct ib_sge){
		.addr = vb_dma(mem, offset),
		.length = length,
		.lkey = mem->pd->local_dma_lkey,
	};
}

/* The address of an offset in a region; it may be outside. */
u64 vb_mr_address(const struct vb_mr *mr, s64 offset)
{
	return mr->mr->iova + offset;
}

struct ib_sge vb_mr_sge(struct vb_mr *mr, s32 offset, u32 length)
{
	return (struct ib_sge){
		.addr = vb_mr_address(mr, offset),
		.length = length,
		.lkey = mr->mr->lkey,
	};
}

int vb_post(struct vb_qp *q, struct ib_send_wr *wr)
{
	return ib_post_send(q->qp, wr, NULL);
}

/* @extra is immediate data, or the key to invalidate. */
int vb_send(struct vb_qp *q, u64 id, enum ib_wr_opcode opcode, struct ib_sge sge, int flags,
	    u32 extra)
{
	struct ib_send_wr wr = {
		.wr_id = id,
		.sg_list = &sge,
		.num_sge = sge.addr ? 1 : 0,
		.opcode = opcode,
		.send_flags = flags,
	};

	if (opcode == IB_WR_SEND_WITH_IMM)
		wr.ex.imm_data = cpu_to_be32(extra);
	else if (opcode == IB_WR_SEND_WITH_INV)
		wr.ex.invalidate_rkey = extra;
	return vb_post(q, &wr);
}

/* Immediate data, if any, is the number of the request. */
int vb_rdma(struct vb_qp *q, u64 id, enum ib_wr_opcode opcode, struct ib_sge sge, u64 address,
	    u32 rkey, int flags)
{
	struct ib_rdma_wr wr = {
		.wr = {
			.wr_id = id,
			.sg_list = &sge,
			.num_sge = sge.addr ? 1 : 0,
			.opcode = opcode,
			.send_flags = flags,
		},
		.remote_addr = address,
		.rkey = rkey,
	};

	if (opcode == IB_WR_RDMA_WRITE_WITH_IMM)
		wr.wr.ex.imm_data = cpu_to_be32(id);
	else if (opcode == IB_WR_RDMA_READ_WITH_INV)
		wr.wr.ex.invalidate_rkey = sge.lkey;
	return vb_post(q, &wr.wr);
}

int vb_recv(struct vb_qp *q, u64 id, struct ib_sge sge)
{
	struct ib_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = sge.addr ? 1 : 0 };

	return ib_post_recv(q->qp, &wr, NULL);
}

int vb_srq_recv(struct vb_srq *srq, u64 id, struct ib_sge sge)
{
	struct ib_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = sge.addr ? 1 : 0 };

	return ib_post_srq_recv(srq->srq, &wr, NULL);
}

int vb_reg(struct vb_qp *q, u64 id, struct vb_mr *mr, int access, int flags)
{
	struct ib_reg_wr wr = {
		.wr = { .wr_id = id, .opcode = IB_WR_REG_MR, .send_flags = flags },
		.mr = mr->mr,
		.key = mr->mr->rkey,
		.access = access,
	};

	return vb_post(q, &wr.wr);
}

int vb_inv(struct vb_qp *q, u64 id, u32 rkey, int flags)
{
	struct ib_send_wr wr = {
		.wr_id = id,
		.opcode = IB_WR_LOCAL_INV,
		.send_flags = flags,
		.ex.invalidate_rkey = rkey,
	};

	return vb_post(q, &wr);
}

void vb_step_key(struct vb_mr *mr)
{
	ib_update_fast_reg_key(mr->mr, ib_inc_rkey(mr->mr->rkey));
}

/* The next completion, if one comes in time. */
bool vb_poll(struct vb_cq *cq, struct ib_wc *wc, u32 ms)
{
	unsigned long end = jiffies + msecs_to_jiffies(ms) + 1;

	for (;;) {
		int found = ib_poll_cq(cq->cq, 1, wc);

		if (found)
			return found > 0;
		if (time_after(jiffies, end))
			return false;
		usleep_range(100, 300);
	}
}

/* The next completion must be this one. */
bool vb_wait(struct vb_run *run, struct vb_cq *cq, u64 id, enum ib_wc_status status,
	     struct ib_wc *wc)
{
	struct ib_wc own;

	wc = wc ?: &own;
	if (!vb_poll(cq, wc, VB_PATIENCE_MS)) {
		vb_fail(run, "no completion of %llu (%s was to come)", id, ib_wc_status_msg(status));
		return false;
	}
	if (wc->wr_id == id && wc->status == status)
		return true;
	vb_fail(run, "completion of %llu: %s; not of %llu: %s", wc->wr_id,
		ib_wc_status_msg(wc->status), id, ib_wc_status_msg(status));
	return false;
}

bool vb_ok(struct vb_run *run, struct vb_cq *cq, u64 id)
{
	return vb_wait(run, cq, id, IB_WC_SUCCESS, NULL);
}

bool vb_silent(struct vb_run *run, struct vb_cq *cq, u32 ms)
{
	struct ib_wc wc;

	if (!vb_poll(cq, &wc, ms))
		return true;
	vb_fail(run, "completion of %llu: %s; none was to come", wc.wr_id,
		ib_wc_status_msg(wc.status));
	return false;
}

/* Any error of its own; a flush because of another request does not count. */
bool vb_error(struct vb_run *run, struct vb_cq *cq, u64 id)
{
	struct ib_wc wc;

	if (!vb_poll(cq, &wc, VB_PATIENCE_MS)) {
		vb_fail(run, "no completion of %llu", id);
		return false;
	}
	if (wc.wr_id == id && wc.status != IB_WC_SUCCESS && wc.status != IB_WC_WR_FLUSH_ERR)
		return true;
	vb_fail(run, "completion of %llu: %s, not an error of %llu", wc.wr_id,
		ib_wc_status_msg(wc.status), id);
	return false;
}

/* These were flushed in this order, and nothing after them. */
bool vb_flushed(struct vb_run *run, struct vb_cq *cq, u64 first, u64 count)
{
	u64 i;

	for (i = 0; i < count; i++)
		if (!vb_wait(run, cq, first + i, IB_WC_WR_FLUSH_ERR, NULL))
			return false;
	return vb_silent(run, cq, 20);
}

/* A number that no case uses. */
#define REGISTER_ID	0x7ee1
#define INVALIDATE_ID	0x7ee2

bool vb_register(struct vb_run *run, struct vb_qp *q, struct vb_mr *mr, int access)
{
	int err = vb_reg(q, REGISTER_ID, mr, access, IB_SEND_SIGNALED);

	if (err) {
		vb_fail(run, "REG_MR cannot be posted: %d", err);
		return false;
	}
	return vb_ok(run, q->scq, REGISTER_ID);
}

bool vb_invalidate(struct vb_run *run, struct vb_qp *q, u32 rkey)
{
	int err = vb_inv(q, INVALIDATE_ID, rkey, IB_SEND_SIGNALED);

	if (err) {
		vb_fail(run, "LOCAL_INV cannot be posted: %d", err);
		return false;
	}
	return vb_ok(run, q->scq, INVALIDATE_ID);
}

/* A message arrives in each direction. */
bool vb_alive(struct vb_run *run, struct vb_pair *pair)
{
	int i;

	for (i = 0; i < 2; i++) {
		struct vb_qp *from = pair->q[i], *to = pair->q[!i];
		int err;

		err = vb_recv(to, 0xa11ce, vb_sge(to->mem, 60000, 512)) ?:
		      vb_send(from, 0xb0b, IB_WR_SEND, vb_sge(from->mem, 61000, 512),
			      IB_SEND_SIGNALED, 0);
		if (err) {
			vb_fail(run, "a message cannot be posted: %d", err);
			return false;
		}
		if (!vb_ok(run, to->rcq, 0xa11ce) || !vb_ok(run, from->scq, 0xb0b))
			return false;
		vb_moved(to->mem, 60000, from->mem, 61000, 512);
	}
	return true;
}

/* Whether a handler has counted so many in time: it is called a moment after the completion can be polled. */
bool vb_counts(const atomic_t *what, int least)
{
	unsigned long end = jiffies + msecs_to_jiffies(VB_PATIENCE_MS);

	while (atomic_read(what) < least) {
		if (time_after(jiffies, end))
			return false;
		usleep_range(200, 500);
	}
	return true;
}

const char *vb_opcode_name(enum ib_wr_opcode opcode)
{
	switch (opcode) {
	case IB_WR_SEND: return "SEND";
	case IB_WR_SEND_WITH_IMM: return "SEND_IMM";
	case IB_WR_SEND_WITH_INV: return "SEND_INV";
	case IB_WR_RDMA_WRITE: return "WRITE";
	case IB_WR_RDMA_WRITE_WITH_IMM: return "WRITE_IMM";
	case IB_WR_RDMA_READ: return "READ";
	case IB_WR_RDMA_READ_WITH_INV: return "READ_INV";
	case IB_WR_LOCAL_INV: return "LOCAL_INV";
	case IB_WR_REG_MR: return "REG_MR";
	default: return "?";
	}
}
