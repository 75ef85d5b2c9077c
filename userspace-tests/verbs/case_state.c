// SPDX-License-Identifier: GPL-2.0
/*
 * States and attributes: transitions, ranges of attributes, and the device's
 * reported properties.
 */
#include <linux/netdevice.h>
#include <rdma/ib_cache.h>

#include "verbs.h"

static struct vb_options none;

static bool fresh(struct vb_run *run, struct vb_pair *pair)
{
	int i;

	for (i = 0; i < 2; i++) {
		pair->q[i] = vb_qp(run, &run->host[i], &none);
		if (!pair->q[i])
			return false;
	}
	return true;
}

/* Invalid transitions: each is refused, and the state stays. */
static void transitions(struct vb_run *run)
{
	struct vb_pair pair;
	struct vb_qp *q;

	TRY(fresh(run, &pair));
	q = pair.q[0];
	RETURNS(-EINVAL, vb_modify_rtr(q, pair.q[1], &none));
	RETURNS(-EINVAL, vb_modify_rts(q, &none));
	RETURNS(0, vb_modify_init(q, &none));
	RETURNS(-EINVAL, vb_modify_rts(q, &none));
	/* INIT to INIT is valid. */
	RETURNS(0, vb_modify_init(q, &none));
	RETURNS(0, vb_modify_rtr(q, pair.q[1], &none));
	RETURNS(-EINVAL, vb_modify_init(q, &none));
	RETURNS(-EINVAL, vb_modify_rtr(q, pair.q[1], &none));
	RETURNS(0, vb_modify_rts(q, &none));
	RETURNS(-EINVAL, vb_modify_init(q, &none));
	RETURNS(-EINVAL, vb_modify_rtr(q, pair.q[1], &none));
	RETURNS(0, vb_modify_to(q, IB_QPS_ERR));
	RETURNS(-EINVAL, vb_modify_rts(q, &none));
	RETURNS(-EINVAL, vb_modify_init(q, &none));
	RETURNS(0, vb_modify_to(q, IB_QPS_ERR));
	RETURNS(0, vb_modify_to(q, IB_QPS_RESET));
	RETURNS(0, vb_modify_to(pair.q[1], IB_QPS_RESET));
	TRY(vb_connect(run, &pair, &none));
}

static void missing_attributes(struct vb_run *run)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT, .port_num = 1 };
	struct vb_pair pair;

	TRY(fresh(run, &pair));
	RETURNS(-EINVAL, ib_modify_qp(pair.q[0]->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
				      IB_QP_PORT));
	RETURNS(-EINVAL, vb_modify_to(pair.q[0], IB_QPS_INIT));
	RETURNS(0, vb_modify_init(pair.q[0], &none));
	RETURNS(-EINVAL, vb_modify_to(pair.q[0], IB_QPS_RTR));
	RETURNS(0, vb_modify_rtr(pair.q[0], pair.q[1], &none));
	RETURNS(-EINVAL, vb_modify_to(pair.q[0], IB_QPS_RTS));
	RETURNS(0, vb_modify_rts(pair.q[0], &none));
}

/* The caller's current state differs from the real one. */
static void current_state(struct vb_run *run)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_RTS, .cur_qp_state = IB_QPS_SQD };
	struct vb_pair pair;

	TRY(vb_pair(run, &pair, NULL));
	attr.cur_qp_state = IB_QPS_RTR;
	CHECK(ib_modify_qp(pair.q[0]->qp, &attr, IB_QP_STATE | IB_QP_CUR_STATE), "it was taken");
	attr.cur_qp_state = IB_QPS_RTS;
	RETURNS(0, ib_modify_qp(pair.q[0]->qp, &attr, IB_QP_STATE | IB_QP_CUR_STATE));
}

static void bad_mtu(struct vb_run *run)
{
	struct vb_options options = { .mtu = run->host[0].mtu + 1 };
	struct vb_pair pair;

	TRY(fresh(run, &pair));
	if (run->host[0].mtu == IB_MTU_4096)
		return vb_absent(run, "there is no longer packet than the port's");
	RETURNS(0, vb_modify_init(pair.q[0], &none));
	RETURNS(-EINVAL, vb_modify_rtr(pair.q[0], pair.q[1], &options));
}

static void bad_read_depth(struct vb_run *run)
{
	struct vb_options options = { };
	struct vb_pair pair;

	if (run->host[0].device->attrs.max_qp_rd_atom > 250 ||
	    run->host[0].device->attrs.max_qp_init_rd_atom > 250)
		return vb_absent(run, "as many as fit into a byte");
	TRY(fresh(run, &pair));
	RETURNS(0, vb_modify_init(pair.q[0], &none));
	options.rd_atomic_plus_1 = run->host[0].device->attrs.max_qp_rd_atom + 2;
	RETURNS(-EINVAL, vb_modify_rtr(pair.q[0], pair.q[1], &options));
	RETURNS(0, vb_modify_rtr(pair.q[0], pair.q[1], &none));
	options.rd_atomic_plus_1 = run->host[0].device->attrs.max_qp_init_rd_atom + 2;
	RETURNS(-EINVAL, vb_modify_rts(pair.q[0], &options));
	RETURNS(0, vb_modify_rts(pair.q[0], &none));
}

/* Timeouts have five bits, tries three. */
static void bad_timeout(struct vb_run *run)
{
	struct vb_options options = { .timeout_plus_1 = 32 + 1 };
	struct vb_pair pair;

	TRY(fresh(run, &pair));
	RETURNS(0, vb_modify_init(pair.q[0], &none));
	RETURNS(0, vb_modify_rtr(pair.q[0], pair.q[1], &none));
	RETURNS(-EINVAL, vb_modify_rts(pair.q[0], &options));
}

static void bad_tries(struct vb_run *run)
{
	struct vb_options options = { .retry_plus_1 = 8 + 1 };
	struct vb_pair pair;

	TRY(fresh(run, &pair));
	RETURNS(0, vb_modify_init(pair.q[0], &none));
	RETURNS(0, vb_modify_rtr(pair.q[0], pair.q[1], &none));
	RETURNS(-EINVAL, vb_modify_rts(pair.q[0], &options));
	options.retry_plus_1 = 0;
	options.rnr_retry_plus_1 = 8 + 1;
	RETURNS(-EINVAL, vb_modify_rts(pair.q[0], &options));
}

#define SAME(field, value)						\
	CHECK(attr.field == (value), #field " %lld, not %lld", (s64)attr.field, (s64)(value))

/* A query returns the attributes that were set. */
static void query(struct vb_run *run)
{
	struct vb_options options = {
		.rd_atomic_plus_1 = 4 + 1, .retry_plus_1 = 5 + 1, .rnr_retry_plus_1 = 4 + 1,
		.timeout_plus_1 = 15 + 1, .rnr_timer = IB_RNR_TIMER_002_56, .mtu = IB_MTU_512,
	};
	struct ib_qp_init_attr init = { };
	struct ib_qp_attr attr = { };
	struct vb_pair pair;
	struct vb_qp *q;

	TRY(vb_pair(run, &pair, &options));
	q = pair.q[0];
	RETURNS(0, ib_query_qp(q->qp, &attr, IB_QP_STATE | IB_QP_AV | IB_QP_PATH_MTU |
			       IB_QP_TIMEOUT | IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_RQ_PSN |
			       IB_QP_SQ_PSN | IB_QP_MAX_QP_RD_ATOMIC | IB_QP_MAX_DEST_RD_ATOMIC |
			       IB_QP_MIN_RNR_TIMER | IB_QP_DEST_QPN | IB_QP_PORT |
			       IB_QP_ACCESS_FLAGS | IB_QP_CAP, &init));
	SAME(qp_state, IB_QPS_RTS);
	SAME(path_mtu, IB_MTU_512);
	SAME(dest_qp_num, pair.q[1]->qp->qp_num);
	SAME(port_num, q->host->port);
	SAME(timeout, 15);
	SAME(retry_cnt, 5);
	SAME(rnr_retry, 4);
	SAME(min_rnr_timer, IB_RNR_TIMER_002_56);
	SAME(max_rd_atomic, 4);
	SAME(max_dest_rd_atomic, 4);
	SAME(sq_psn, q->psn);
	SAME(rq_psn, pair.q[1]->psn);
	CHECK((attr.qp_access_flags & (IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)) ==
	      (IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE), "access %#x",
	      attr.qp_access_flags);
	CHECK(attr.cap.max_send_wr == q->cap.max_send_wr &&
	      attr.cap.max_recv_wr == q->cap.max_recv_wr &&
	      attr.cap.max_send_sge == q->cap.max_send_sge &&
	      attr.cap.max_recv_sge == q->cap.max_recv_sge,
	      "it holds %u, %u, %u, %u, and was said to hold %u, %u, %u, %u",
	      attr.cap.max_send_wr, attr.cap.max_recv_wr, attr.cap.max_send_sge,
	      attr.cap.max_recv_sge, q->cap.max_send_wr, q->cap.max_recv_wr,
	      q->cap.max_send_sge, q->cap.max_recv_sge);
	CHECK(!memcmp(rdma_ah_read_grh(&attr.ah_attr)->dgid.raw, run->host[1].gid.raw, 16),
	      "it is connected with %pI6", rdma_ah_read_grh(&attr.ah_attr)->dgid.raw);
}

/* A query returns the state, after every transition. */
static void query_state(struct vb_run *run)
{
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	struct vb_pair pair;
	int step;

	TRY(fresh(run, &pair));
	for (step = 0; step < 6; step++) {
		static const enum ib_qp_state states[] = {
			IB_QPS_RESET, IB_QPS_INIT, IB_QPS_RTR, IB_QPS_RTS, IB_QPS_ERR,
			IB_QPS_RESET,
		};
		struct vb_qp *q = pair.q[0];

		RETURNS(0, step == 0 ? 0 : step == 1 ? vb_modify_init(q, &none) :
			step == 2 ? vb_modify_rtr(q, pair.q[1], &none) :
			step == 3 ? vb_modify_rts(q, &none) : vb_modify_to(q, states[step]));
		RETURNS(0, ib_query_qp(q->qp, &attr, IB_QP_STATE, &init));
		CHECK(attr.qp_state == states[step], "state %d, not %d", attr.qp_state,
		      states[step]);
	}
}

/* At least the requested capacity, and at most the device's. */
static void capacity(struct vb_run *run)
{
	struct ib_device_attr *has = &run->host[0].device->attrs;
	struct vb_options options = { .send_wr = 33, .recv_wr = 77, .sge = 3 };
	struct ib_qp_init_attr init = {
		.sq_sig_type = IB_SIGNAL_REQ_WR, .qp_type = IB_QPT_RC,
	};
	struct vb_qp *q;
	int i;

	TRY(q = vb_qp(run, &run->host[0], &options));
	CHECK(q->cap.max_send_wr >= 33 && q->cap.max_recv_wr >= 77 && q->cap.max_send_sge >= 3 &&
	      q->cap.max_recv_sge >= 3, "%u requests of %u pieces, %u receives of %u",
	      q->cap.max_send_wr, q->cap.max_send_sge, q->cap.max_recv_wr, q->cap.max_recv_sge);
	init.send_cq = q->scq->cq;
	init.recv_cq = q->rcq->cq;
	for (i = 0; i < 4; i++) {
		struct ib_qp *qp;

		init.cap = (struct ib_qp_cap){
			.max_send_wr = i == 0 ? has->max_qp_wr + 1 : 4,
			.max_recv_wr = i == 1 ? has->max_qp_wr + 1 : 4,
			.max_send_sge = i == 2 ? has->max_send_sge + 1 : 1,
			.max_recv_sge = i == 3 ? has->max_recv_sge + 1 : 1,
		};
		qp = ib_create_qp(q->pd, &init);
		if (!IS_ERR(qp))
			ib_destroy_qp(qp);
		CHECK(IS_ERR(qp), "more than the device has was given (%d)", i);
	}
}

/* As many completions as requested, and not more than the device's limit. */
static void completion_queues(struct vb_run *run)
{
	struct ib_device *device = run->host[0].device;
	struct ib_cq_init_attr attr = { .cqe = device->attrs.max_cqe + 1 };
	struct vb_cq *one;
	struct ib_cq *cq;
	int vector;

	TRY(one = vb_cq(run, &run->host[0], 100));
	CHECK(one->cq->cqe >= 100, "%d completions", one->cq->cqe);
	cq = ib_create_cq(device, NULL, NULL, NULL, &attr);
	if (!IS_ERR(cq))
		ib_destroy_cq(cq);
	CHECK(IS_ERR(cq), "more completions than the device has");
	/* Every completion vector can be used. */
	attr.cqe = 16;
	for (vector = 0; vector < device->num_comp_vectors; vector++) {
		attr.comp_vector = vector;
		cq = ib_create_cq(device, NULL, NULL, NULL, &attr);
		CHECK(!IS_ERR(cq), "vector %d of %d: %ld", vector, device->num_comp_vectors,
		      PTR_ERR(cq));
		ib_destroy_cq(cq);
	}
}

static void device_attributes(struct vb_run *run)
{
	struct ib_device *device = run->host[0].device;
	struct ib_device_attr *has = &device->attrs;
	struct ib_port_attr port;
	struct net_device *netdev;
	union ib_gid gid;

	CHECK(has->max_qp >= 64 && has->max_cq >= 64 && has->max_pd >= 16 && has->max_mr >= 64,
	      "%d queue pairs, %d completion queues, %d protection domains, %d regions",
	      has->max_qp, has->max_cq, has->max_pd, has->max_mr);
	CHECK(has->max_qp_wr >= 64 && has->max_cqe >= 128, "%d requests, %d completions",
	      has->max_qp_wr, has->max_cqe);
	CHECK(has->max_send_sge >= 2 && has->max_recv_sge >= 2, "%d and %d pieces",
	      has->max_send_sge, has->max_recv_sge);
	CHECK(has->max_sge_rd >= 1, "%d pieces of a READ", has->max_sge_rd);
	CHECK(has->max_qp_rd_atom >= 1 && has->max_qp_init_rd_atom >= 1, "%d and %d READs",
	      has->max_qp_rd_atom, has->max_qp_init_rd_atom);
	CHECK(has->page_size_cap & PAGE_SIZE, "pages %#llx", has->page_size_cap);
	CHECK(has->device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS &&
	      has->max_fast_reg_page_list_len >= 16, "no regions, or of %u pages",
	      has->max_fast_reg_page_list_len);
	CHECK(run->host[0].pd->local_dma_lkey || has->kernel_cap_flags & IBK_LOCAL_DMA_LKEY,
	      "no key of all local memory");
	RETURNS(0, ib_query_port(device, 1, &port));
	CHECK(port.state == IB_PORT_ACTIVE, "port state %d", port.state);
	CHECK(port.active_mtu >= IB_MTU_256 && port.active_mtu <= port.max_mtu, "mtu %d of %d",
	      port.active_mtu, port.max_mtu);
	CHECK(port.gid_tbl_len > 0 && port.pkey_tbl_len > 0, "%d addresses, %d partitions",
	      port.gid_tbl_len, port.pkey_tbl_len);
	CHECK(port.max_msg_sz >= SZ_1M, "messages of %u bytes", port.max_msg_sz);
	RETURNS(0, rdma_query_gid(device, 1, run->host[0].gid_index, &gid));
	netdev = ib_device_get_netdev(device, 1);
	CHECK(netdev, "no network device");
	dev_put(netdev);
}

/* Numbers are unique, and not reused at once. */
static void numbers(struct vb_run *run)
{
	struct vb_qp *q[40];
	int i, j;

	for (i = 0; i < ARRAY_SIZE(q); i++) {
		TRY(q[i] = vb_qp(run, &run->host[0], &none));
		CHECK(q[i]->qp->qp_num > 1 && q[i]->qp->qp_num < 1 << 24, "number %#x",
		      q[i]->qp->qp_num);
		for (j = 0; j < i; j++)
			CHECK(q[i]->qp->qp_num != q[j]->qp->qp_num, "number %#x twice",
			      q[i]->qp->qp_num);
	}
}

static void number_again(struct vb_run *run)
{
	struct vb_qp *q;
	u32 number;

	TRY(q = vb_qp(run, &run->host[0], &none));
	number = q->qp->qp_num;
	vb_end(&q->thing);
	TRY(q = vb_qp(run, &run->host[0], &none));
	CHECK(q->qp->qp_num != number, "number %#x at once again", number);
}

const struct vb_case vb_state_cases[] = {
	{ "state: changes that there are and those there are not", transitions },
	{ "state: a change that lacks what it needs", missing_attributes },
	{ "state: a change from another state", current_state },
	{ "state: packets longer than the port's", bad_mtu },
	{ "state: more READs than the device has", bad_read_depth,
	  "rxe: does not look" },
	{ "state: a timeout that there is not", bad_timeout },
	{ "state: more tries than there are", bad_tries,
	  "rxe: does not look" },
	{ "state: a queue pair says what it was told", query },
	{ "state: a queue pair says in which state it is", query_state },
	{ "state: queue pairs hold what they were asked to", capacity },
	{ "state: completion queues and vectors", completion_queues },
	{ "state: what the device says of itself", device_attributes },
	{ "state: the numbers of queue pairs", numbers },
	{ "state: the number of who has just gone", number_again },
	{ }
};
