// SPDX-License-Identifier: GPL-2.0
/*
 * Completions: whether they are allowed now, and their effect on the model.
 */
#include "fuzz.h"

static void wrong(struct fz_world *w, struct fz_op *op, const char *what, int status)
{
	fz_note(w, "wrong", op->end, op, status);
	w->culprit = op->end->pair;
	vb_fail(w->run, "pair %u, side %u, %s %u of %u bytes, made to be %d: %s (%s)",
		op->end->pair->number, op->end->side,
		op->is_recv ? "receive" : vb_opcode_name(op->opcode), (u32)(op - w->ops),
		op->length, op->aim, what, ib_wc_status_msg(status));
}

static struct fz_range *target(struct fz_op *op)
{
	return op->local.write ? &op->local : op->remote.write ? &op->remote : NULL;
}

/* The state of the region that it registers or invalidates is unknown. */
void fz_spoil(struct fz_op *op)
{
	if (!op->target)
		return;
	op->target->state = FZ_FREE;
	op->target->spoilt = true;
	op->target = NULL;
}

/* It has ended without an effect, or with an unknown one. */
static void end_in_vain(struct fz_world *w, struct fz_op *op)
{
	struct fz_range *range = target(op);

	if (op->unknown && range) {
		list_move_tail(&op->entry, &op->end->pair->group->wrecks);
		return;
	}
	if (range)
		fz_same(w, range, op->length, op);
	fz_op_free(w, op);
}

/* Applies a successful request to the model. */
static void apply(struct fz_world *w, struct fz_op *op)
{
	if (op->applied)
		return;
	op->applied = true;
	switch (op->opcode) {
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
		fz_copy(w, &op->remote, &op->local, op->length);
		fz_same(w, &op->remote, op->length, op);
		break;
	case IB_WR_RDMA_READ:
		fz_copy(w, &op->local, &op->remote, op->length);
		fz_same(w, &op->local, op->length, op);
		break;
	case IB_WR_REG_MR:
		op->target->state = FZ_VALID;
		op->target = NULL;
		break;
	case IB_WR_LOCAL_INV:
		op->target->state = FZ_FREE;
		op->target = NULL;
		break;
	default:
		break;
	}
	w->bytes += op->length;
}

static void unlist_send(struct fz_op *op)
{
	list_del_init(&op->entry);
	op->posted = false;
	op->end->send_count--;
}

static void send_done(struct fz_world *w, struct fz_op *op)
{
	unlist_send(op);
	if (op->aim != FZ_FINE)
		wrong(w, op, "success of what was to fail", IB_WC_SUCCESS);
	else if (op->end->failed)
		wrong(w, op, "success behind a failure", IB_WC_SUCCESS);
	apply(w, op);
	if (!op->awaited)
		fz_op_free(w, op);
}

static bool send_error_allowed(struct fz_world *w, struct fz_op *op, enum ib_wc_status status)
{
	struct fz_end *end = op->end;

	if (!end->pair->doomed)
		return false;
	if (status == IB_WC_WR_FLUSH_ERR)
		/* Its own error must be reported, unless an earlier error flushed it. */
		return op->aim == FZ_FINE || w->rxe || end->failed || end->pair->killed ||
		       end->peer->bad;
	if (op->aim == FZ_REMOTE_ACCESS && status == IB_WC_REM_ACCESS_ERR)
		return true;
	if (op->aim == FZ_LOCAL_KEY && status == IB_WC_LOC_PROT_ERR)
		return true;
	if (op->aim == FZ_TOO_LONG && (status == IB_WC_REM_INV_REQ_ERR ||
				       (w->rxe && status == IB_WC_REM_OP_ERR)))
		return true;
	if (op->aim == FZ_OPERATION)
		return status != IB_WC_RETRY_EXC_ERR;
	/* The other side no longer answers. */
	return status == IB_WC_RETRY_EXC_ERR && (end->pair->killed || end->peer->bad);
}

static void send_failed(struct fz_world *w, struct fz_op *op, enum ib_wc_status status)
{
	struct fz_end *end = op->end;

	unlist_send(op);
	w->failures++;
	if (!send_error_allowed(w, op, status))
		wrong(w, op, "it was not to end so", status);
	if (op->opcode == IB_WR_REG_MR || op->opcode == IB_WR_LOCAL_INV)
		fz_spoil(op);
	op->unknown = !end->failed &&
		      !(op->aim == FZ_REMOTE_ACCESS && status == IB_WC_REM_ACCESS_ERR);
	if (status != IB_WC_WR_FLUSH_ERR && status != IB_WC_RETRY_EXC_ERR)
		end->failed = true;
	if (!op->awaited)
		end_in_vain(w, op);
}

static const enum ib_wc_opcode opcodes[] = {
	[IB_WR_RDMA_WRITE] = IB_WC_RDMA_WRITE,
	[IB_WR_RDMA_WRITE_WITH_IMM] = IB_WC_RDMA_WRITE,
	[IB_WR_SEND] = IB_WC_SEND,
	[IB_WR_SEND_WITH_IMM] = IB_WC_SEND,
	[IB_WR_SEND_WITH_INV] = IB_WC_SEND,
	[IB_WR_RDMA_READ] = IB_WC_RDMA_READ,
	[IB_WR_LOCAL_INV] = IB_WC_LOCAL_INV,
	[IB_WR_REG_MR] = IB_WC_REG_MR,
};

static void handle_send(struct fz_world *w, struct fz_op *op, struct ib_wc *wc)
{
	struct fz_end *end = op->end;
	struct fz_op *before, *next;

	/* Earlier unsignaled ones have succeeded, because failed ones complete. */
	list_for_each_entry_safe(before, next, &end->sends, entry) {
		if (before == op)
			break;
		if (before->signaled) {
			wrong(w, op, "it came before one that was posted earlier", wc->status);
			return;
		}
		send_done(w, before);
	}
	if (wc->status != IB_WC_SUCCESS) {
		send_failed(w, op, wc->status);
		return;
	}
	if (!op->signaled)
		wrong(w, op, "success of what is not signaled", wc->status);
	else if (wc->opcode != opcodes[op->opcode] || wc->qp != end->qp)
		wrong(w, op, "another opcode or queue pair", wc->status);
	send_done(w, op);
}

/* The end to which a receive belongs; for a shared queue, the one that got the message. */
static struct fz_end *receiver(struct fz_world *w, struct fz_op *op, struct ib_wc *wc)
{
	struct fz_group *group = op->end->pair->group;
	u32 i;

	for (i = 0; i < group->count; i++) {
		struct fz_end *end = &w->pair[group->first + i].end[op->end->side];

		if (end->qp == wc->qp && end->srq == op->end->srq)
			return end;
	}
	return NULL;
}

static bool message_right(struct fz_world *w, struct fz_op *recv, struct fz_op *message,
			  struct ib_wc *wc)
{
	bool write = message->opcode == IB_WR_RDMA_WRITE_WITH_IMM;
	int flags = message->opcode == IB_WR_SEND_WITH_INV ? IB_WC_WITH_INVALIDATE :
		    message->opcode == IB_WR_SEND ? 0 : IB_WC_WITH_IMM;

	if (wc->byte_len != message->length ||
	    wc->opcode != (write ? IB_WC_RECV_RDMA_WITH_IMM : IB_WC_RECV) ||
	    (wc->wc_flags & (IB_WC_WITH_IMM | IB_WC_WITH_INVALIDATE)) != flags)
		return false;
	if (flags == IB_WC_WITH_IMM && be32_to_cpu(wc->ex.imm_data) != message->extra)
		return false;
	return flags != IB_WC_WITH_INVALIDATE || wc->ex.invalidate_rkey == message->extra;
}

static void message_done(struct fz_world *w, struct fz_op *message)
{
	message->awaited = false;
	list_del_init(&message->message);
	message->end->message_count--;
	if (message->target) {
		message->target->state = FZ_FREE;
		message->target = NULL;
	}
	if (!message->posted)
		fz_op_free(w, message);
}

static void recv_done(struct fz_world *w, struct fz_op *op, struct fz_end *end, struct ib_wc *wc)
{
	struct fz_op *message = list_first_entry_or_null(&end->peer->messages, struct fz_op,
							 message);

	if (!message || message->aim == FZ_TOO_LONG || message->aim == FZ_LOCAL_KEY) {
		wrong(w, op, "nobody has sent this", wc->status);
		return;
	}
	if (!message_right(w, op, message, wc)) {
		wrong(w, message, "this is not what was sent", wc->status);
		return;
	}
	if (message->opcode == IB_WR_RDMA_WRITE_WITH_IMM) {
		apply(w, message);
	} else {
		fz_copy(w, &op->local, &message->local, message->length);
		fz_same(w, &op->local, message->length, op);
		w->bytes += message->length;
	}
	message_done(w, message);
	fz_op_free(w, op);
}

static void handle_recv(struct fz_world *w, struct fz_op *op, struct ib_wc *wc)
{
	struct fz_end *end = receiver(w, op, wc);

	if (!end) {
		wrong(w, op, "of a queue pair that there is not", wc->status);
		return;
	}
	if (end->srq) {
		end->pair->group->recv_count[end->side]--;
	} else {
		if (op != list_first_entry(&end->receives, struct fz_op, entry)) {
			wrong(w, op, "it came before one that was posted earlier", wc->status);
			return;
		}
		end->recv_count--;
	}
	list_del_init(&op->entry);
	op->posted = false;
	if (wc->status == IB_WC_SUCCESS) {
		if (end->flushing)
			wrong(w, op, "success behind a failure", wc->status);
		else if (op->aim != FZ_FINE)
			wrong(w, op, "success of what was to fail", wc->status);
		else
			recv_done(w, op, end, wc);
		return;
	}
	w->failures++;
	if (!end->pair->doomed ||
	    (wc->status != IB_WC_WR_FLUSH_ERR && !w->rxe &&
	     !(op->aim == FZ_TOO_SHORT && wc->status == IB_WC_LOC_LEN_ERR)))
		wrong(w, op, "it was not to end so", wc->status);
	/* A message may have arrived partially, in the first of them. */
	op->unknown = !end->flushing || end->srq;
	end->flushing = true;
	end_in_vain(w, op);
}

static void handle(struct fz_world *w, struct ib_wc *wc)
{
	u32 number = wc->wr_id;
	struct fz_op *op;

	w->completed++;
	if (number >= FZ_OPS || !w->ops[number].posted ||
	    w->ops[number].generation != wc->wr_id >> 32) {
		vb_fail(w->run, "a completion of what is not under way: %#llx (%s)", wc->wr_id,
			ib_wc_status_msg(wc->status));
		return;
	}
	op = &w->ops[number];
	fz_note(w, op->is_recv ? "received" : "completed", op->end, op, wc->status);
	if (op->is_recv)
		handle_recv(w, op, wc);
	else
		handle_send(w, op, wc);
}

/* After a fault: records further completions, for the history only. */
void fz_look_on(struct fz_world *w)
{
	unsigned long end = jiffies + HZ / 4;
	u32 side, i;

	while (time_before(jiffies, end)) {
		for (side = 0; side < 2; side++) {
			for (i = 0; i < FZ_CQS; i++) {
				struct ib_wc wc;

				if (ib_poll_cq(w->cq[side][i], 1, &wc) <= 0 ||
				    (u32)wc.wr_id >= FZ_OPS || !w->ops[(u32)wc.wr_id].end)
					continue;
				fz_note(w, "later", w->ops[(u32)wc.wr_id].end,
					&w->ops[(u32)wc.wr_id], wc.status);
			}
		}
		cond_resched();
	}
}

/* Handles all available completions; false if there are none. */
bool fz_poll(struct fz_world *w)
{
	bool any = false;
	u32 side, i;
	int j, found;

	for (side = 0; side < 2; side++) {
		for (i = 0; i < FZ_CQS; i++) {
			struct ib_wc wc[4];

			found = ib_poll_cq(w->cq[side][i], ARRAY_SIZE(wc), wc);
			if (found < 0)
				vb_fail(w->run, "ib_poll_cq: %d", found);
			for (j = 0; j < found && !w->run->failed; j++)
				handle(w, &wc[j]);
			any |= found > 0;
		}
	}
	return any && !w->run->failed;
}
