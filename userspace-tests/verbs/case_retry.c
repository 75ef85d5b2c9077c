// SPDX-License-Identifier: GPL-2.0
/*
 * A receiver without receives, and an absent peer.
 */
#include <linux/ktime.h>

#include "verbs.h"

/* More than a machine of which others take the processors for a while adds to a wait. */
#define LATE_MS		10000

/* The receiver's delay before the next try, and the number of tries. */
static void not_ready(struct vb_run *run)
{
	int tries;

	for (tries = 0; tries < 7; tries++) {
		struct vb_options options = {
			.rnr_retry_plus_1 = tries + 1, .rnr_timer = IB_RNR_TIMER_010_24,
		};
		struct vb_pair pair;
		ktime_t begin;
		s64 ms;

		TRY(vb_pair(run, &pair, &options));
		begin = ktime_get();
		RETURNS(0, vb_send(pair.q[0], 1, IB_WR_SEND, vb_sge(pair.q[0]->mem, 0, 64), 0, 0));
		RETURNS(0, vb_send(pair.q[0], 2, IB_WR_SEND, vb_sge(pair.q[0]->mem, 0, 64), 0, 0));
		TRY(vb_wait(run, pair.q[0]->scq, 1, IB_WC_RNR_RETRY_EXC_ERR, NULL));
		ms = ktime_ms_delta(ktime_get(), begin);
		TRY(vb_flushed(run, pair.q[0]->scq, 2, 1));
		CHECK(ms >= tries * 10 - 4, "%d tries took %lld ms", tries, ms);
		CHECK(ms < tries * 10 + LATE_MS, "%d tries took %lld ms", tries, ms);
	}
}

/* Only the sender fails: the other side still waits. */
static void not_ready_other_side(struct vb_run *run)
{
	struct vb_options options = { .rnr_retry_plus_1 = 1 };
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	struct vb_pair pair;

	TRY(vb_pair(run, &pair, &options));
	RETURNS(0, vb_send(pair.q[0], 1, IB_WR_SEND, VB_NOTHING, 0, 0));
	TRY(vb_wait(run, pair.q[0]->scq, 1, IB_WC_RNR_RETRY_EXC_ERR, NULL));
	RETURNS(0, ib_query_qp(pair.q[1]->qp, &attr, IB_QP_STATE, &init));
	CHECK(attr.qp_state == IB_QPS_RTS, "state %d", attr.qp_state);
	RETURNS(0, vb_recv(pair.q[1], 1, VB_NOTHING));
	TRY(vb_silent(run, pair.q[1]->rcq, 50));
}

static void ready_late(struct vb_run *run)
{
	struct vb_options options = { .rnr_timer = IB_RNR_TIMER_001_28 };
	struct vb_pair pair;
	int i;

	TRY(vb_pair(run, &pair, &options));
	for (i = 0; i < 3; i++) {
		RETURNS(0, vb_send(pair.q[0], i, IB_WR_SEND, vb_sge(pair.q[0]->mem, 9 * i, 9000),
				   IB_SEND_SIGNALED, 0));
		/* Much longer than seven tries take. */
		TRY(vb_silent(run, pair.q[0]->scq, 100));
	}
	for (i = 0; i < 3; i++) {
		RETURNS(0, vb_recv(pair.q[1], i, vb_sge(pair.q[1]->mem, 10000 * i, 9000)));
		TRY(vb_ok(run, pair.q[1]->rcq, i));
		TRY(vb_ok(run, pair.q[0]->scq, i));
		vb_moved(pair.q[1]->mem, 10000 * i, pair.q[0]->mem, 9 * i, 9000);
	}
	TRY(vb_alive(run, &pair));
}

/* Each message has all its tries; they are not counted together. */
static void tries_anew(struct vb_run *run)
{
	struct vb_options options = {
		/* Two seconds in all, in which the receive has to come. */
		.rnr_retry_plus_1 = 6 + 1, .rnr_timer = IB_RNR_TIMER_327_68,
	};
	struct vb_pair pair;
	int i;

	TRY(vb_pair(run, &pair, &options));
	for (i = 0; i < 10; i++) {
		RETURNS(0, vb_send(pair.q[0], i, IB_WR_SEND, vb_sge(pair.q[0]->mem, 0, 64),
				   IB_SEND_SIGNALED, 0));
		TRY(vb_silent(run, pair.q[0]->scq, 30));
		RETURNS(0, vb_recv(pair.q[1], i, vb_sge(pair.q[1]->mem, 0, 64)));
		TRY(vb_ok(run, pair.q[0]->scq, i));
		TRY(vb_ok(run, pair.q[1]->rcq, i));
	}
	vb_moved(pair.q[1]->mem, 0, pair.q[0]->mem, 0, 64);
}

/* 4.096 us * 2^@timeout for each of 1 + retries, and up to four times that. */
static void gone(struct vb_run *run, void (*leave)(struct vb_run *run, struct vb_pair *pair))
{
	struct vb_options options = { .timeout_plus_1 = 13 + 1, .retry_plus_1 = 2 + 1 };
	struct vb_pair pair;
	ktime_t begin;
	s64 ms;

	TRY(vb_pair(run, &pair, &options));
	TRY(vb_alive(run, &pair));
	leave(run, &pair);
	if (run->failed)
		return;
	begin = ktime_get();
	RETURNS(0, vb_send(pair.q[0], 1, IB_WR_SEND, vb_sge(pair.q[0]->mem, 0, 64), 0, 0));
	RETURNS(0, vb_send(pair.q[0], 2, IB_WR_SEND, vb_sge(pair.q[0]->mem, 0, 64), 0, 0));
	TRY(vb_wait(run, pair.q[0]->scq, 1, IB_WC_RETRY_EXC_ERR, NULL));
	ms = ktime_ms_delta(ktime_get(), begin);
	TRY(vb_flushed(run, pair.q[0]->scq, 2, 1));
	/* A clock tick less, for devices that count in ticks. */
	CHECK(ms >= 3 * 33 - 12, "given up after %lld ms", ms);
	CHECK(ms < 3 * 33 * 4 + LATE_MS, "given up after %lld ms", ms);
}

static void leave_destroyed(struct vb_run *run, struct vb_pair *pair)
{
	vb_end(&pair->q[1]->thing);
}

static void leave_reset(struct vb_run *run, struct vb_pair *pair)
{
	RETURNS(0, vb_modify_to(pair->q[1], IB_QPS_RESET));
}

static void leave_error(struct vb_run *run, struct vb_pair *pair)
{
	RETURNS(0, vb_modify_to(pair->q[1], IB_QPS_ERR));
}

static void peer_destroyed(struct vb_run *run)
{
	gone(run, leave_destroyed);
}

static void peer_reset(struct vb_run *run)
{
	gone(run, leave_reset);
}

static void peer_error(struct vb_run *run)
{
	gone(run, leave_error);
}

/* No retries, for a READ and a WRITE. */
static void gone_at_once(struct vb_run *run)
{
	struct vb_options options = { .timeout_plus_1 = 12 + 1, .retry_plus_1 = 1 };
	int i;

	for (i = 0; i < 2; i++) {
		struct vb_pair pair;

		TRY(vb_pair(run, &pair, &options));
		RETURNS(0, vb_modify_to(pair.q[1], IB_QPS_RESET));
		RETURNS(0, vb_rdma(pair.q[0], 1, i ? IB_WR_RDMA_READ : IB_WR_RDMA_WRITE,
				   VB_NOTHING, 0, 0, 0));
		TRY(vb_wait(run, pair.q[0]->scq, 1, IB_WC_RETRY_EXC_ERR, NULL));
	}
}

/* A timeout of 0 means no timeout. */
static void no_timeout(struct vb_run *run)
{
	struct vb_options options = { .timeout_plus_1 = 1, .retry_plus_1 = 1 };
	struct vb_pair pair;

	TRY(vb_pair(run, &pair, &options));
	RETURNS(0, vb_modify_to(pair.q[1], IB_QPS_ERR));
	RETURNS(0, vb_send(pair.q[0], 1, IB_WR_SEND, VB_NOTHING, 0, 0));
	TRY(vb_silent(run, pair.q[0]->scq, 500));
	RETURNS(0, vb_modify_to(pair.q[0], IB_QPS_ERR));
	TRY(vb_flushed(run, pair.q[0]->scq, 1, 1));
}

/* A queue pair that is not connected with the sender must not accept its messages. */
static void not_the_peer(struct vb_run *run)
{
	struct vb_options options = { .timeout_plus_1 = 12 + 1, .retry_plus_1 = 1 + 1 };
	struct vb_pair pair, other;
	int i;

	TRY(vb_pair(run, &other, &options));
	for (i = 0; i < 2; i++) {
		TRY(pair.q[i] = vb_qp(run, &run->host[i], &options));
		TRY(pair.q[i]->mem = vb_mem(run, &run->host[i], SZ_64K));
		RETURNS(0, vb_modify_init(pair.q[i], &options));
	}
	/* [0] sends to an end of the other connection, which is not connected to [0]. */
	RETURNS(0, vb_recv(other.q[1], 1, vb_sge(other.q[1]->mem, 0, 64)));
	RETURNS(0, vb_modify_rtr(pair.q[0], other.q[1], &options));
	RETURNS(0, vb_modify_rts(pair.q[0], &options));
	RETURNS(0, vb_send(pair.q[0], 1, IB_WR_SEND, vb_sge(pair.q[0]->mem, 0, 64), 0, 0));
	TRY(vb_wait(run, pair.q[0]->scq, 1, IB_WC_RETRY_EXC_ERR, NULL));
	RETURNS(0, vb_send(other.q[0], 2, IB_WR_SEND, vb_sge(other.q[0]->mem, 0, 64),
			   IB_SEND_SIGNALED, 0));
	TRY(vb_ok(run, other.q[1]->rcq, 1));
	TRY(vb_ok(run, other.q[0]->scq, 2));
	vb_moved(other.q[1]->mem, 0, other.q[0]->mem, 0, 64);
}

/* A queue pair number that does not exist. */
static void nobody(struct vb_run *run)
{
	struct vb_options options = { .timeout_plus_1 = 12 + 1, .retry_plus_1 = 1 + 1 };
	struct vb_pair pair;
	int i;

	for (i = 0; i < 2; i++) {
		TRY(pair.q[i] = vb_qp(run, &run->host[i], &options));
		TRY(pair.q[i]->mem = vb_mem(run, &run->host[i], SZ_64K));
		RETURNS(0, vb_modify_init(pair.q[i], &options));
	}
	RETURNS(0, vb_modify_rtr(pair.q[0], pair.q[1], &options));
	vb_end(&pair.q[1]->thing);
	RETURNS(0, vb_modify_rts(pair.q[0], &options));
	RETURNS(0, vb_send(pair.q[0], 1, IB_WR_SEND, vb_sge(pair.q[0]->mem, 0, 64), 0, 0));
	TRY(vb_wait(run, pair.q[0]->scq, 1, IB_WC_RETRY_EXC_ERR, NULL));
}

const struct vb_case vb_retry_cases[] = {
	{ "retry: no receive, for as many tries as were set", not_ready },
	{ "retry: the side that had no receive goes on", not_ready_other_side },
	{ "retry: a receive that comes late, and seven is for ever", ready_late },
	{ "retry: each message has all its tries", tries_anew },
	{ "retry: the peer is gone", peer_destroyed },
	{ "retry: the peer is in RESET", peer_reset },
	{ "retry: the peer is in ERR", peer_error },
	{ "retry: no tries at all", gone_at_once },
	{ "retry: no timeout at all", no_timeout },
	{ "retry: an end of another connection", not_the_peer },
	{ "retry: a number that nobody has", nobody },
	{ }
};
