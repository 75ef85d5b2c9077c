// SPDX-License-Identifier: GPL-2.0
/*
 * Completion queues, shared receive queues and queue pairs.
 */
#include <linux/delay.h>
#include <linux/etherdevice.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "verbs.h"

static void cq_notice(struct ib_cq *ib, void *context)
{
	struct vb_cq *cq = context;

	atomic_inc(&cq->notices);
}

static void cq_event(struct ib_event *event, void *context)
{
	struct vb_cq *cq = context;

	if (event->event == IB_EVENT_CQ_ERR)
		atomic_inc(&cq->errors);
}

static void cq_end(struct vb_thing *thing)
{
	struct vb_cq *cq = container_of(thing, struct vb_cq, thing);

	ib_destroy_cq(cq->cq);
	kfree(cq);
}

struct vb_cq *vb_cq(struct vb_run *run, struct vb_host *host, u32 cqe)
{
	struct ib_cq_init_attr attr = { .cqe = cqe };
	struct vb_cq *cq = kzalloc(sizeof(*cq), GFP_KERNEL);

	if (cq)
		cq->cq = ib_create_cq(host->device, cq_notice, cq_event, cq, &attr);
	if (!cq || IS_ERR(cq->cq)) {
		kfree(cq);
		vb_fail(run, "no completion queue of %u", cqe);
		return NULL;
	}
	vb_keep(run, &cq->thing, cq_end);
	return cq;
}

static void srq_event(struct ib_event *event, void *context)
{
	struct vb_srq *srq = context;

	if (event->event == IB_EVENT_SRQ_LIMIT_REACHED)
		atomic_inc(&srq->limits);
}

static void srq_end(struct vb_thing *thing)
{
	struct vb_srq *srq = container_of(thing, struct vb_srq, thing);

	ib_destroy_srq(srq->srq);
	kfree(srq);
}

struct vb_srq *vb_srq(struct vb_run *run, struct vb_host *host, u32 wr)
{
	struct vb_srq *srq = kzalloc(sizeof(*srq), GFP_KERNEL);
	struct ib_srq_init_attr attr = {
		.event_handler = srq_event,
		.srq_context = srq,
		.attr = { .max_wr = wr, .max_sge = 4 },
		.srq_type = IB_SRQT_BASIC,
	};

	if (srq)
		srq->srq = ib_create_srq(host->pd, &attr);
	if (!srq || IS_ERR(srq->srq)) {
		kfree(srq);
		vb_fail(run, "no shared receive queue of %u", wr);
		return NULL;
	}
	srq->max_wr = attr.attr.max_wr;
	vb_keep(run, &srq->thing, srq_end);
	return srq;
}

static void qp_event(struct ib_event *event, void *context)
{
	struct vb_qp *q = context;

	if (event->event < VB_EVENTS)
		atomic_inc(&q->events[event->event]);
}

static void qp_end(struct vb_thing *thing)
{
	struct vb_qp *q = container_of(thing, struct vb_qp, thing);

	ib_destroy_qp(q->qp);
	kfree(q);
}

/* With its own completion queues, in RESET. */
struct vb_qp *vb_qp(struct vb_run *run, struct vb_host *host, const struct vb_options *options)
{
	u32 send_wr = options->send_wr ?: 16, recv_wr = options->recv_wr ?: 16;
	struct vb_qp *q = kzalloc(sizeof(*q), GFP_KERNEL);
	struct ib_qp_init_attr attr = {
		.event_handler = qp_event,
		.qp_context = q,
		.cap = {
			.max_send_wr = send_wr,
			.max_recv_wr = options->srq ? 0 : recv_wr,
			.max_send_sge = options->sge ?: 4,
			.max_recv_sge = options->srq ? 0 : options->sge ?: 4,
			.max_inline_data = options->inline_data,
		},
		.sq_sig_type = options->all_signaled ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};

	if (!q)
		goto fail;
	q->host = host;
	q->pd = options->pd ?: host->pd;
	q->psn = get_random_u32() & 0xffffff;
	q->scq = vb_cq(run, host, options->send_cqe ?: 2 * send_wr + 16);
	q->rcq = options->one_cq ? q->scq : vb_cq(run, host, options->recv_cqe ?: 2 * recv_wr + 16);
	if (!q->scq || !q->rcq)
		goto fail;
	attr.send_cq = q->scq->cq;
	attr.recv_cq = q->rcq->cq;
	if (options->srq)
		attr.srq = options->srq->srq;
	q->qp = ib_create_qp(q->pd, &attr);
	if (IS_ERR(q->qp))
		goto fail;
	q->cap = attr.cap;
	vb_keep(run, &q->thing, qp_end);
	list_move(&q->thing.entry, &run->queue_pairs);
	return q;
fail:
	kfree(q);
	vb_fail(run, "no queue pair");
	return NULL;
}

int vb_modify_init(struct vb_qp *q, const struct vb_options *options)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = q->host->port,
		.qp_access_flags = options->no_remote_access ? IB_ACCESS_LOCAL_WRITE :
			IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE,
	};

	return ib_modify_qp(q->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
			    IB_QP_ACCESS_FLAGS);
}

/* A kernel user of RoCE sets the destination's hardware address itself. */
void vb_route(struct vb_host *from, struct vb_host *to, struct rdma_ah_attr *ah)
{
	memset(ah, 0, sizeof(*ah));
	ah->type = rdma_ah_find_type(from->device, from->port);
	rdma_ah_set_port_num(ah, from->port);
	rdma_ah_set_grh(ah, &to->gid, 0, from->gid_index, 64, 0);
	if (ah->type == RDMA_AH_ATTR_TYPE_ROCE)
		ether_addr_copy(ah->roce.dmac, to->mac);
}

static u8 chosen(u8 plus_1, u8 otherwise)
{
	return plus_1 ? plus_1 - 1 : otherwise;
}

int vb_modify_rtr(struct vb_qp *q, struct vb_qp *peer, const struct vb_options *options)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTR,
		.path_mtu = options->mtu ?: min(q->host->mtu, peer->host->mtu),
		.dest_qp_num = peer->qp->qp_num,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = chosen(options->rd_atomic_plus_1, 4),
		.min_rnr_timer = options->rnr_timer ?: IB_RNR_TIMER_001_28,
	};

	vb_route(q->host, peer->host, &attr.ah_attr);
	return ib_modify_qp(q->qp, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU |
			    IB_QP_DEST_QPN | IB_QP_RQ_PSN | IB_QP_MAX_DEST_RD_ATOMIC |
			    IB_QP_MIN_RNR_TIMER);
}

int vb_modify_rts(struct vb_qp *q, const struct vb_options *options)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTS,
		.sq_psn = q->psn,
		.max_rd_atomic = chosen(options->rd_atomic_plus_1, 4),
		.retry_cnt = chosen(options->retry_plus_1, 7),
		.rnr_retry = chosen(options->rnr_retry_plus_1, 7),
		/* Half a second, as in real users. */
		.timeout = chosen(options->timeout_plus_1, 17),
	};

	return ib_modify_qp(q->qp, &attr, IB_QP_STATE | IB_QP_TIMEOUT | IB_QP_RETRY_CNT |
			    IB_QP_RNR_RETRY | IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC);
}

int vb_modify_to(struct vb_qp *q, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state };

	return ib_modify_qp(q->qp, &attr, IB_QP_STATE);
}

/* Takes both from RESET to RTS. */
bool vb_connect(struct vb_run *run, struct vb_pair *pair, const struct vb_options *options)
{
	int err, i;

	for (i = 0; i < 2; i++) {
		err = vb_modify_init(pair->q[i], options) ?:
		      vb_modify_rtr(pair->q[i], pair->q[!i], options);
		if (err)
			goto fail;
	}
	for (i = 0; i < 2; i++) {
		err = vb_modify_rts(pair->q[i], options);
		if (err)
			goto fail;
	}
	return true;
fail:
	vb_fail(run, "queue pairs cannot be connected: %d", err);
	return false;
}

/*
 * A connection. Both ends share all options except the shared receive queue
 * and the protection domain, which are [1]'s.
 */
bool vb_pair(struct vb_run *run, struct vb_pair *pair, const struct vb_options *options)
{
	static const struct vb_options none;
	struct vb_options first = options ? *options : none;
	int i;

	first.srq = NULL;
	first.pd = NULL;
	for (i = 0; i < 2; i++) {
		pair->q[i] = vb_qp(run, &run->host[i], i && options ? options : &first);
		if (!pair->q[i])
			return false;
		pair->q[i]->mem = vb_mem(run, &run->host[i], SZ_64K);
		if (!pair->q[i]->mem)
			return false;
		pair->q[i]->mem->pd = pair->q[i]->pd;
	}
	return vb_connect(run, pair, options ?: &none);
}

/* Waits for an event of a queue pair. */
bool vb_event(struct vb_run *run, struct vb_qp *q, enum ib_event_type type)
{
	unsigned long end = jiffies + msecs_to_jiffies(VB_PATIENCE_MS);

	while (!atomic_read(&q->events[type])) {
		if (time_after(jiffies, end)) {
			vb_fail(run, "no event \"%s\"", ib_event_msg(type));
			return false;
		}
		usleep_range(200, 500);
	}
	return true;
}
