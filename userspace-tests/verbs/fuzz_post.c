// SPDX-License-Identifier: GPL-2.0
/*
 * Random requests: most of them valid, some with one fault.
 */
#include "fuzz.h"

static u32 random_length(struct fz_world *w, u32 most)
{
	static const u32 kinds[] = { 1, 65, 65, 300, 5000, 5000, SZ_32K, FZ_LONGEST + 1 };

	return fz_random(w, min(most + 1, kinds[fz_random(w, ARRAY_SIZE(kinds))]));
}

/*
 * NULL if there is none. @needed ones may use the reserve, which suffices for a
 * request at each end that shows that all before it have ended, and a receive
 * for a message.
 */
struct fz_op *fz_op_new(struct fz_world *w, struct fz_end *end, bool needed)
{
	struct fz_op *op = list_first_entry_or_null(&w->free_ops, struct fz_op, entry);
	u32 generation;

	if (!op || (!needed && w->free_count <= 2 * w->pair_count + 1))
		return NULL;
	list_del(&op->entry);
	w->free_count--;
	generation = op->generation + 1;
	/* Pieces beyond the count are undefined. */
	memset(op, 0, offsetof(struct fz_op, local));
	op->local.count = 0;
	op->local.length = 0;
	op->local.locked = false;
	op->local.side = end->side;
	op->local.write = false;
	op->remote.count = 0;
	op->remote.length = 0;
	op->remote.locked = false;
	op->remote.side = !end->side;
	op->remote.write = false;
	op->user_count = 0;
	op->target = NULL;
	op->generation = generation;
	op->end = end;
	op->used = true;
	INIT_LIST_HEAD(&op->entry);
	INIT_LIST_HEAD(&op->message);
	return op;
}

/* It no longer uses any region. */
static void drop_users(struct fz_world *w, struct fz_op *op)
{
	while (op->user_count) {
		struct fz_mr *mr = op->user_of[--op->user_count];

		mr->users--;
		if (!mr->users && mr->spoilt)
			fz_mr_renew(w, mr);
	}
}

void fz_op_free(struct fz_world *w, struct fz_op *op)
{
	fz_unlock(w, &op->local);
	fz_unlock(w, &op->remote);
	drop_users(w, op);
	op->used = false;
	op->posted = false;
	list_del(&op->entry);
	/* At the end of the list, so that a number is not reused soon. */
	list_add_tail(&op->entry, &w->free_ops);
	w->free_count++;
}

bool fz_op_lock(struct fz_world *w, struct fz_op *op)
{
	return fz_lock(w, &op->local) && fz_lock(w, &op->remote);
}

void fz_use(struct fz_op *op, struct fz_mr *mr)
{
	mr->users++;
	op->user_of[op->user_count++] = mr;
}

u64 fz_id(struct fz_world *w, struct fz_op *op)
{
	return (u64)op->generation << 32 | (op - w->ops);
}

/* With the key of all memory; @length bytes that are mapped contiguously. */
static struct ib_sge arena_sge(struct fz_world *w, struct fz_end *end, u32 at, u32 length)
{
	return (struct ib_sge){
		vb_dma(w->mem[end->side], at), length,
		w->pd[end->side][end->pd]->local_dma_lkey,
	};
}

/* A place for @length contiguously mapped bytes, at most the longest message. */
static u32 arena_place(struct fz_world *w, u32 length)
{
	u32 at = fz_random(w, w->arena - length + 1), end = at % w->longest + length;

	return end > w->longest ? at - (end - w->longest) : at;
}

/*
 * Local memory of @length bytes: pieces of the arena with the key of all
 * memory, and of regions. Returns their number, or -1 if they do not fit.
 */
static int local_pieces(struct fz_world *w, struct fz_op *op, u32 length, struct ib_sge *list)
{
	struct fz_end *end = op->end;
	u32 count = length ? 1 + fz_random(w, min(end->sges, (u32)FZ_SGES)) : fz_random(w, 2);
	u32 left = length, i;

	for (i = 0; i < count; i++) {
		u32 part = i == count - 1 ? left : fz_random(w, left + 1);
		struct fz_mr *mr = NULL;
		u32 at;

		if (fz_chance(w, 2))
			mr = fz_mr_pick(w, end->side, end->pd, FZ_VALID,
					op->local.write ? IB_ACCESS_LOCAL_WRITE : 0);
		if (mr && mr->length >= part) {
			at = fz_random(w, mr->length - part + 1);
			if (!fz_add_mr(&op->local, mr, at, part))
				return -1;
			fz_use(op, mr);
			list[i] = (struct ib_sge){ mr->mr->iova + at, part, mr->mr->lkey };
		} else {
			if (part > w->longest)
				return -1;
			at = arena_place(w, part);
			if (!fz_add(&op->local, at, part))
				return -1;
			list[i] = arena_sge(w, end, at, part);
		}
		left -= part;
	}
	op->pieces = count;
	return count;
}

/*
 * The same for a receive, which locks them at once. If a message waits for it
 * at rest and the arena is full, the reserve is available as soon as its
 * current receive has ended.
 */
static int receive_pieces(struct fz_world *w, struct fz_op *op, struct ib_sge *list)
{
	int count = local_pieces(w, op, op->length, list);

	if (count >= 0 && fz_lock(w, &op->local))
		return count;
	if (!w->calm)
		return -1;
	drop_users(w, op);
	op->local.count = 0;
	op->local.length = 0;
	op->pieces = 1;
	if (!fz_add(&op->local, w->arena, op->length) || !fz_lock(w, &op->local))
		return -1;
	list[0] = arena_sge(w, op->end, w->arena, op->length);
	return 1;
}

/* One of the pieces gets an invalid key. */
static void spoil_key(struct fz_world *w, struct fz_op *op, struct ib_sge *list, int count)
{
	int i = fz_random(w, count);

	if (!list[i].length)
		return;
	list[i].lkey ^= fz_chance(w, 2) ? 0x00f00000 : 0x5a;
	op->aim = FZ_LOCAL_KEY;
	op->end->bad = true;
}

static bool signal_it(struct fz_world *w, struct fz_end *end)
{
	return fz_chance(w, 2) || end->unsignaled + 2 >= end->send_cap / 2;
}

static int flags(struct fz_world *w, struct fz_op *op)
{
	op->signaled = signal_it(w, op->end);
	op->flags = (op->signaled ? IB_SEND_SIGNALED : 0) |
	       (fz_chance(w, 8) ? IB_SEND_FENCE : 0) |
	       (op->awaited && fz_chance(w, 4) ? IB_SEND_SOLICITED : 0);
	return op->flags;
}

/* The post was accepted: from now on it must complete. */
static void posted(struct fz_world *w, struct fz_op *op, u32 kind)
{
	struct fz_end *end = op->end;

	op->posted = true;
	list_add_tail(&op->entry, &end->sends);
	end->send_count++;
	end->unsignaled = op->signaled ? 0 : end->unsignaled + 1;
	if (op->awaited) {
		list_add_tail(&op->message, &end->messages);
		end->message_count++;
	}
	if (op->aim != FZ_FINE)
		end->pair->doomed = true;
	w->posted[kind]++;
	fz_note(w, "post", end, op, 0);
}

static void refused(struct fz_world *w, struct fz_op *op, int err)
{
	vb_fail(w->run, "pair %u, side %u: %s was not taken: %d", op->end->pair->number,
		op->end->side, op->is_recv ? "a receive" : vb_opcode_name(op->opcode), err);
}

/* The maximum length of a message: that of the receive that it will use. */
static u32 message_room(struct fz_world *w, struct fz_end *end)
{
	struct fz_end *peer = end->peer;
	struct fz_op *recv;
	u32 skip = end->message_count;

	if (peer->srq)
		return FZ_SRQ_LENGTH;
	list_for_each_entry(recv, &peer->receives, entry) {
		if (!skip--)
			return recv->length;
	}
	return w->longest;
}

/* The receive that a message will use, if there is one. */
static struct fz_op *meets(struct fz_end *end)
{
	u32 skip = end->message_count;
	struct fz_op *recv;

	if (end->peer->srq)
		return NULL;
	list_for_each_entry(recv, &end->peer->receives, entry)
		if (!skip--)
			return recv;
	return NULL;
}

void fz_post_send(struct fz_world *w, struct fz_end *end)
{
	struct ib_sge list[FZ_SGES];
	struct ib_send_wr wr = { .sg_list = list };
	u32 room = message_room(w, end), length = random_length(w, room);
	struct fz_op *recv = meets(end);
	struct fz_op *op;
	int err;

	if (end->message_count >= (end->peer->srq ? 6 : end->peer->recv_count + 2) ||
	    end->send_count >= end->send_cap)
		return;
	op = fz_op_new(w, end, false);
	if (!op)
		return;
	op->awaited = true;
	op->opcode = IB_WR_SEND + (fz_chance(w, 3) ? 1 : 0);
	if (!w->calm && recv && recv->aim == FZ_FINE && room < w->longest && fz_chance(w, 100)) {
		length = room + 1 + fz_random(w, min(w->longest - room, 9000u));
		op->aim = FZ_TOO_LONG;
	}
	op->length = length;
	err = local_pieces(w, op, length, list);
	if (err < 0 || !fz_op_lock(w, op))
		goto drop;
	wr.num_sge = err;
	if (op->opcode == IB_WR_SEND_WITH_IMM) {
		op->extra = prandom_u32_state(&w->random);
		wr.ex.imm_data = cpu_to_be32(op->extra);
	} else if (fz_chance(w, 6)) {
		struct fz_mr *mr = fz_mr_pick(w, !end->side, end->peer->pd, FZ_VALID, 0);

		/* No other request may use the region that it invalidates. */
		if (mr && !mr->users && mr->access & (IB_ACCESS_REMOTE_READ |
						      IB_ACCESS_REMOTE_WRITE)) {
			op->opcode = IB_WR_SEND_WITH_INV;
			op->extra = mr->mr->rkey;
			wr.ex.invalidate_rkey = op->extra;
			op->target = mr;
			fz_use(op, mr);
			mr->state = FZ_BUSY;
		}
	}
	if (!w->calm && op->aim == FZ_FINE && wr.num_sge && fz_chance(w, 300))
		spoil_key(w, op, list, wr.num_sge);
	wr.opcode = op->opcode;
	wr.send_flags = flags(w, op);
	wr.wr_id = fz_id(w, op);
	err = ib_post_send(end->qp, &wr, NULL);
	if (err) {
		refused(w, op, err);
		goto drop;
	}
	if (op->aim == FZ_TOO_LONG) {
		recv->aim = FZ_TOO_SHORT;
		end->bad = true;
		end->peer->bad = true;
	}
	posted(w, op, 0);
	return;
drop:
	if (op->target)
		op->target->state = FZ_VALID;
	fz_op_free(w, op);
}

/* The minimum length of a receive: that of the message that already waits for it. */
static u32 awaited_length(struct fz_end *end)
{
	u32 skip = end->recv_count;
	struct fz_op *message;

	list_for_each_entry(message, &end->peer->messages, message)
		if (!skip--)
			return message->opcode == IB_WR_RDMA_WRITE_WITH_IMM ? 0 : message->length;
	return 0;
}

static void post_srq_recv(struct fz_world *w, struct fz_end *end)
{
	struct fz_group *group = end->pair->group;
	struct ib_sge list[FZ_SGES];
	struct ib_recv_wr wr = { .sg_list = list };
	struct fz_op *op;
	int err;

	if (group->recv_count[end->side] >= 24)
		return;
	op = fz_op_new(w, end, w->calm);
	if (!op)
		return;
	op->is_recv = true;
	op->local.write = true;
	op->length = FZ_SRQ_LENGTH;
	/* The queue belongs to the first protection domain. */
	err = receive_pieces(w, op, list);
	if (err < 0)
		goto drop;
	wr.num_sge = err;
	wr.wr_id = fz_id(w, op);
	err = ib_post_srq_recv(end->srq, &wr, NULL);
	if (err) {
		refused(w, op, err);
		goto drop;
	}
	op->posted = true;
	list_add_tail(&op->entry, &group->receives[end->side]);
	group->recv_count[end->side]++;
	fz_note(w, "post to the shared queue", end, op, 0);
	return;
drop:
	fz_op_free(w, op);
}

void fz_post_recv(struct fz_world *w, struct fz_end *end)
{
	struct ib_sge list[FZ_SGES];
	struct ib_recv_wr wr = { .sg_list = list };
	struct fz_op *op;
	u32 least;
	int err;

	if (end->srq) {
		post_srq_recv(w, end);
		return;
	}
	if (end->recv_count >= end->recv_cap)
		return;
	op = fz_op_new(w, end, w->calm);
	if (!op)
		return;
	op->is_recv = true;
	op->local.write = true;
	least = awaited_length(end);
	op->length = max(least, random_length(w, w->calm ? 64 : SZ_64K));
	err = receive_pieces(w, op, list);
	if (err < 0)
		goto drop;
	wr.num_sge = err;
	wr.wr_id = fz_id(w, op);
	err = ib_post_recv(end->qp, &wr, NULL);
	if (err) {
		refused(w, op, err);
		goto drop;
	}
	op->posted = true;
	list_add_tail(&op->entry, &end->receives);
	end->recv_count++;
	w->posted[1]++;
	fz_note(w, "post a receive", end, op, 0);
	return;
drop:
	fz_op_free(w, op);
}

/* With one fault, for which the other side refuses it; no place is locked for it then. */
static bool spoil_target(struct fz_world *w, struct fz_op *op, struct ib_rdma_wr *wr,
			 struct fz_mr *mr, int access)
{
	struct fz_end *peer = op->end->peer;
	struct fz_mr *other;

	switch (fz_random(w, 6)) {
	case 0:
		wr->rkey ^= 1 + fz_random(w, 255);
		break;
	case 1:
		wr->rkey ^= 0x00f00000;
		break;
	case 2:
		wr->remote_addr = mr->mr->iova - 1;
		break;
	case 3:
		wr->remote_addr = mr->mr->iova + mr->length - op->length + 1;
		break;
	case 4:
		other = fz_mr_pick(w, peer->side, !peer->pd, FZ_VALID, access);
		if (!other || other->length < op->length)
			return false;
		fz_use(op, other);
		wr->rkey = other->mr->rkey;
		wr->remote_addr = other->mr->iova;
		break;
	default:
		other = fz_mr_pick(w, peer->side, peer->pd, FZ_FREE, 0);
		if (!other)
			return false;
		fz_use(op, other);
		wr->rkey = other->mr->rkey;
		wr->remote_addr = other->mr->iova;
	}
	op->aim = FZ_REMOTE_ACCESS;
	op->end->bad = true;
	op->end->peer->bad = true;
	return true;
}

void fz_post_rdma(struct fz_world *w, struct fz_end *end)
{
	struct ib_sge list[FZ_SGES];
	struct ib_rdma_wr wr = { .wr.sg_list = list };
	bool read = fz_chance(w, 2), imm = !read && fz_chance(w, 4);
	int access = read ? IB_ACCESS_REMOTE_READ : IB_ACCESS_REMOTE_WRITE;
	struct fz_mr *mr = fz_mr_pick(w, !end->side, end->peer->pd, FZ_VALID, access);
	u32 at;
	struct fz_op *op;
	int err;

	if (!mr || end->send_count >= end->send_cap)
		return;
	if (imm && end->message_count >= (end->peer->srq ? 6 : end->peer->recv_count + 2))
		return;
	/* It must not use a receive that is too short on purpose. */
	if (imm && meets(end) && meets(end)->aim != FZ_FINE)
		return;
	op = fz_op_new(w, end, false);
	if (!op)
		return;
	op->opcode = read ? IB_WR_RDMA_READ : imm ? IB_WR_RDMA_WRITE_WITH_IMM : IB_WR_RDMA_WRITE;
	op->awaited = imm;
	op->length = random_length(w, mr->length);
	op->local.write = read;
	op->remote.write = !read;
	fz_use(op, mr);
	at = fz_random(w, mr->length - op->length + 1);
	if (!fz_add_mr(&op->remote, mr, at, op->length))
		goto drop;
	/* Cases test a target that both sides share. */
	err = local_pieces(w, op, op->length, list);
	if (err < 0 || op->user_count > FZ_USED || !fz_op_lock(w, op))
		goto drop;
	wr.wr.num_sge = err;
	wr.rkey = mr->mr->rkey;
	wr.remote_addr = mr->mr->iova + at;
	if (!w->calm && op->length && !imm && op->user_count < FZ_USED && fz_chance(w, 80)) {
		if (!spoil_target(w, op, &wr, mr, access))
			goto drop;
	} else if (!w->calm && wr.wr.num_sge && fz_chance(w, 300)) {
		spoil_key(w, op, list, wr.wr.num_sge);
	}
	if (imm) {
		op->extra = prandom_u32_state(&w->random);
		wr.wr.ex.imm_data = cpu_to_be32(op->extra);
	}
	wr.wr.opcode = op->opcode;
	wr.wr.send_flags = flags(w, op);
	wr.wr.wr_id = fz_id(w, op);
	err = ib_post_send(end->qp, &wr.wr, NULL);
	if (err) {
		refused(w, op, err);
		goto drop;
	}
	posted(w, op, read ? 2 : imm ? 4 : 3);
	return;
drop:
	fz_op_free(w, op);
}

static bool post_reg(struct fz_world *w, struct fz_end *end, struct fz_op *op, struct fz_mr *mr)
{
	static const int rights[] = {
		0, IB_ACCESS_LOCAL_WRITE, IB_ACCESS_REMOTE_READ,
		IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE,
		IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ,
		IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ,
	};
	struct ib_reg_wr wr = { .wr.opcode = IB_WR_REG_MR, .mr = mr->mr };
	int err;

	if (mr->state == FZ_FREE && !fz_mr_map(w, mr))
		return false;
	op->opcode = IB_WR_REG_MR;
	if (mr->state == FZ_FREE)
		mr->access = rights[fz_random(w, ARRAY_SIZE(rights))];
	wr.key = mr->mr->rkey;
	wr.access = mr->access;
	wr.wr.send_flags = flags(w, op);
	wr.wr.wr_id = fz_id(w, op);
	err = ib_post_send(end->qp, &wr.wr, NULL);
	if (err)
		refused(w, op, err);
	return !err;
}

static bool post_inv(struct fz_world *w, struct fz_end *end, struct fz_op *op, struct fz_mr *mr)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_LOCAL_INV, .ex.invalidate_rkey = mr->mr->rkey,
	};
	int err;

	op->opcode = IB_WR_LOCAL_INV;
	wr.send_flags = flags(w, op);
	wr.wr_id = fz_id(w, op);
	err = ib_post_send(end->qp, &wr, NULL);
	if (err)
		refused(w, op, err);
	return !err;
}

void fz_post_region(struct fz_world *w, struct fz_end *end)
{
	bool valid = fz_chance(w, 3), twice = valid && !w->calm && fz_chance(w, 40), taken;
	struct fz_mr *mr = fz_mr_pick(w, end->side, end->pd, valid ? FZ_VALID : FZ_FREE, 0);
	struct fz_op *op;

	if (!mr || mr->users || end->send_count >= end->send_cap)
		return;
	op = fz_op_new(w, end, false);
	if (!op)
		return;
	/* Registering a valid region again is an error, and leaves it unchanged. */
	if (valid && !twice)
		taken = post_inv(w, end, op, mr);
	else
		taken = post_reg(w, end, op, mr);
	if (!taken) {
		fz_op_free(w, op);
		return;
	}
	op->target = mr;
	fz_use(op, mr);
	mr->state = FZ_BUSY;
	if (twice) {
		op->aim = FZ_OPERATION;
		end->bad = true;
	}
	posted(w, op, 5);
}

/* A request whose completion only shows that all before it have ended. */
void fz_post_last(struct fz_world *w, struct fz_end *end)
{
	struct ib_rdma_wr wr = {
		.wr = { .opcode = IB_WR_RDMA_WRITE, .send_flags = IB_SEND_SIGNALED },
	};
	struct fz_op *op;
	int err;

	if (end->send_count >= end->send_cap)
		return;
	op = fz_op_new(w, end, true);
	if (!op)
		return;
	op->opcode = IB_WR_RDMA_WRITE;
	op->signaled = true;
	op->remote.write = true;
	wr.wr.wr_id = fz_id(w, op);
	err = ib_post_send(end->qp, &wr.wr, NULL);
	if (err) {
		refused(w, op, err);
		fz_op_free(w, op);
		return;
	}
	posted(w, op, 3);
}
