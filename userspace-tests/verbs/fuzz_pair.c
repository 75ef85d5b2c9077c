// SPDX-License-Identifier: GPL-2.0
/*
 * Creation and end of queue pairs, and the pauses in which every byte of the
 * arenas is compared.
 */
#include <linux/delay.h>

#include "fuzz.h"

static bool end_make(struct fz_world *w, struct fz_end *end, struct vb_qp *q)
{
	u32 i = fz_random(w, FZ_CQS), j = fz_chance(w, 2) ? i : fz_random(w, FZ_CQS);
	struct ib_qp_init_attr attr = {
		.send_cq = w->cq[end->side][i],
		.recv_cq = w->cq[end->side][j],
		.srq = end->srq,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};

	end->send_cap = 6 + fz_random(w, 26);
	end->recv_cap = end->srq ? 0 : 1 + fz_random(w, 8);
	end->sges = 1 + fz_random(w, FZ_SGES);
	attr.cap = (struct ib_qp_cap){
		.max_send_wr = end->send_cap, .max_recv_wr = end->recv_cap,
		.max_send_sge = end->sges, .max_recv_sge = end->srq ? 0 : end->sges,
	};
	if (end->srq)
		end->sges = min(end->sges, 4u);
	INIT_LIST_HEAD(&end->sends);
	INIT_LIST_HEAD(&end->receives);
	INIT_LIST_HEAD(&end->messages);
	end->qp = ib_create_qp(w->pd[end->side][end->pd], &attr);
	if (IS_ERR(end->qp)) {
		vb_fail(w->run, "ib_create_qp: %ld", PTR_ERR(end->qp));
		end->qp = NULL;
		return false;
	}
	fz_note(w, "made", end, NULL, end->send_cap);
	*q = (struct vb_qp){ .host = &w->run->host[end->side], .qp = end->qp,
			     .psn = fz_chance(w, 3) ? 0xffffff - fz_random(w, 300) :
				    fz_random(w, 1 << 24) };
	return true;
}

static bool pair_make(struct fz_world *w, struct fz_pair *pair)
{
	struct fz_group *group = pair->group;
	struct vb_options options = {
		.rd_atomic_plus_1 = 2 + fz_random(w, 8),
		.timeout_plus_1 = 18 + 1,
		.rnr_timer = 1 + fz_random(w, IB_RNR_TIMER_001_28),
		.mtu = IB_MTU_256 + fz_random(w, min(w->run->host[0].mtu, w->run->host[1].mtu)),
	};
	struct vb_qp q[2];
	u32 side;
	int err;

	pair->doomed = false;
	pair->killed = false;
	pair->grace = 1 + fz_random(w, 40);
	for (side = 0; side < 2; side++) {
		struct fz_end *end = &pair->end[side];

		memset(end, 0, sizeof(*end));
		end->pair = pair;
		end->peer = &pair->end[!side];
		end->side = side;
		end->srq = group->srq[side];
		end->pd = end->srq ? 0 : fz_random(w, FZ_PDS);
	}
	for (side = 0; side < 2; side++)
		if (!end_make(w, &pair->end[side], &q[side]))
			return false;
	for (side = 0; side < 2; side++) {
		err = vb_modify_init(&q[side], &options) ?:
		      vb_modify_rtr(&q[side], &q[!side], &options);
		if (err)
			goto fail;
	}
	err = vb_modify_rts(&q[0], &options) ?: vb_modify_rts(&q[1], &options);
	if (!err)
		return true;
fail:
	vb_fail(w->run, "ib_modify_qp: %d", err);
	return false;
}

bool fz_group_make(struct fz_world *w, struct fz_group *group)
{
	u32 side, i;

	INIT_LIST_HEAD(&group->wrecks);
	for (side = 0; side < 2; side++) {
		struct ib_srq_init_attr attr = {
			.attr = { .max_wr = 32, .max_sge = 4 }, .srq_type = IB_SRQT_BASIC,
		};

		INIT_LIST_HEAD(&group->receives[side]);
		group->recv_count[side] = 0;
		group->srq[side] = NULL;
		if (!group->shares || (!side && fz_chance(w, 2)))
			continue;
		group->srq[side] = ib_create_srq(w->pd[side][0], &attr);
		if (IS_ERR(group->srq[side])) {
			vb_fail(w->run, "ib_create_srq: %ld", PTR_ERR(group->srq[side]));
			group->srq[side] = NULL;
			return false;
		}
	}
	for (i = 0; i < group->count; i++) {
		struct fz_pair *pair = &w->pair[group->first + i];

		pair->group = group;
		pair->number = group->first + i;
		if (!pair_make(w, pair))
			return false;
	}
	return true;
}

/* Destroys queue pairs and receive queues; requests in flight are left as they are. */
void fz_group_end(struct fz_world *w, struct fz_group *group)
{
	u32 side, i;

	for (i = 0; i < group->count; i++) {
		for (side = 0; side < 2; side++) {
			struct fz_end *end = &w->pair[group->first + i].end[side];

			if (end->qp)
				ib_destroy_qp(end->qp);
		}
	}
	/* Earlier completions may be there, and count. */
	while (!w->run->failed && fz_poll(w))
		;
	for (i = 0; i < group->count; i++)
		for (side = 0; side < 2; side++)
			w->pair[group->first + i].end[side].qp = NULL;
	for (side = 0; side < 2; side++) {
		if (group->srq[side])
			ib_destroy_srq(group->srq[side]);
		group->srq[side] = NULL;
	}
}

/* No device writes to it any more; the model takes over the contents of its targets. */
static void bury(struct fz_world *w, struct fz_op *op)
{
	if (!op->applied && op->local.write)
		fz_resync(w, &op->local);
	if (!op->applied && op->remote.write)
		fz_resync(w, &op->remote);
	fz_spoil(op);
	fz_op_free(w, op);
}

static void bury_list(struct fz_world *w, struct list_head *list)
{
	while (!list_empty(list))
		bury(w, list_first_entry(list, struct fz_op, entry));
}

static void bury_end(struct fz_world *w, struct fz_end *end)
{
	while (!list_empty(&end->messages)) {
		struct fz_op *op = list_first_entry(&end->messages, struct fz_op, message);

		list_del_init(&op->message);
		op->awaited = false;
		if (!op->posted)
			bury(w, op);
	}
	bury_list(w, &end->sends);
	bury_list(w, &end->receives);
}

/* Only a later completion shows that unsignaled requests have succeeded. */
static void post_marks(struct fz_world *w, struct fz_end *end)
{
	if (!list_empty(&end->sends) &&
	    !list_last_entry(&end->sends, struct fz_op, entry)->signaled)
		fz_post_last(w, end);
}

static bool all_back(struct fz_world *w, struct fz_group *group)
{
	bool all = true;
	u32 side, i;

	for (i = 0; i < group->count; i++) {
		for (side = 0; side < 2; side++) {
			struct fz_end *end = &w->pair[group->first + i].end[side];

			post_marks(w, end);
			all &= list_empty(&end->sends) && list_empty(&end->receives);
		}
	}
	return all;
}

/* Replaces a group: by ERR, where all requests must complete, or at once. */
bool fz_group_break(struct fz_world *w, struct fz_group *group, bool abrupt)
{
	unsigned long since = jiffies;
	u64 completed = w->completed;
	u32 side, i;

	for (i = 0; i < group->count; i++) {
		struct fz_pair *pair = &w->pair[group->first + i];

		pair->doomed = true;
		pair->killed = true;
		fz_note(w, abrupt ? "destroy" : "error", &pair->end[0], NULL, 0);
		for (side = 0; side < 2 && !abrupt; side++) {
			struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
			int err = ib_modify_qp(pair->end[side].qp, &attr, IB_QP_STATE);

			if (err)
				vb_fail(w->run, "to ERR: %d", err);
		}
	}
	while (!abrupt && !w->run->failed && !all_back(w, group))
		if (!fz_poll(w) &&
		    !fz_progress(w, "not all of what was posted comes back from ERR", &completed,
				 &since))
			return false;
	if (w->run->failed)
		return false;
	fz_group_end(w, group);
	if (w->run->failed)
		return false;
	for (i = 0; i < group->count; i++)
		for (side = 0; side < 2; side++)
			bury_end(w, &w->pair[group->first + i].end[side]);
	for (side = 0; side < 2; side++)
		bury_list(w, &group->receives[side]);
	bury_list(w, &group->wrecks);
	w->rebuilt += group->count;
	return fz_group_make(w, group);
}

/* Kills one end, both, or the pair with all its requests in flight. */
void fz_kill(struct fz_world *w, struct fz_pair *pair)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	u32 how = fz_random(w, 4);
	int err = 0;

	pair->doomed = true;
	pair->killed = true;
	fz_note(w, "kill", &pair->end[how & 1], NULL, 0);
	if (how == 3) {
		fz_group_break(w, pair->group, true);
		return;
	}
	if (how != 0)
		err = ib_modify_qp(pair->end[1].qp, &attr, IB_QP_STATE);
	if (how != 1)
		err = err ?: ib_modify_qp(pair->end[0].qp, &attr, IB_QP_STATE);
	if (err)
		vb_fail(w->run, "to ERR: %d", err);
}

/* Posts the requests that an end needs to come to rest; true if it is at rest. */
static bool rest(struct fz_world *w, struct fz_end *end)
{
	struct fz_group *group = end->pair->group;
	u32 side = end->side;

	if (end->srq) {
		u32 i, awaited = 0;

		for (i = 0; i < group->count; i++)
			awaited += w->pair[group->first + i].end[!side].message_count;
		if (group->recv_count[side] < awaited)
			fz_post_recv(w, end);
	} else if (end->recv_count < end->peer->message_count) {
		fz_post_recv(w, end);
	}
	post_marks(w, end);
	return list_empty(&end->sends) && list_empty(&end->messages);
}

/* Prints which requests are outstanding. */
static void tell_unfinished(struct fz_world *w)
{
	u32 i;

	for (i = 0; i < 2 * w->pair_count; i++) {
		struct fz_end *end = &w->pair[i / 2].end[i % 2];
		u32 receives = end->srq ? end->pair->group->recv_count[end->side] : end->recv_count;

		if (receives || end->send_count || end->message_count)
			vb_say(w->run, "pair %u side %u: %u sends are not complete, %u messages not received; %u receives wait\n",
			       i / 2, i % 2, end->send_count, end->message_count, receives);
	}
}

/* Waits until nothing is in flight; then every byte must be right. */
bool fz_calm_down(struct fz_world *w)
{
	unsigned long since = jiffies;
	u64 completed = w->completed;
	bool resting = false;
	u32 i;

	w->calm = true;
	while (!resting && !w->run->failed) {
		for (i = 0; i < w->group_count; i++) {
			struct fz_group *group = &w->group[i];
			bool doomed = false;
			u32 j;

			for (j = 0; j < group->count; j++)
				doomed |= w->pair[group->first + j].doomed;
			if (doomed && !fz_group_break(w, group, false))
				return false;
		}
		resting = true;
		for (i = 0; i < w->pair_count; i++) {
			resting &= rest(w, &w->pair[i].end[0]);
			resting &= rest(w, &w->pair[i].end[1]);
		}
		if (!fz_poll(w) && !resting &&
		    !fz_progress(w, "nothing moves any more", &completed, &since)) {
			tell_unfinished(w);
			return false;
		}
	}
	w->calm = false;
	if (w->run->failed)
		return false;
	w->checks++;
	return vb_memories_right(w->run);
}
