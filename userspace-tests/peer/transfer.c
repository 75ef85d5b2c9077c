// SPDX-License-Identifier: GPL-2.0
/*
 * The queue pair of a peer, and its requests.
 *
 * Every request has its own memory, which its completion frees or turns into
 * an event. Events contain the number of the request, counted from 1 in the
 * order of posting:
 *
 *	sent NUMBER STATUS		a SEND or an RDMA operation is complete
 *	message HEX			a message has arrived
 *	receive-failed STATUS		a posted buffer came back without a message
 *	queue-pair NUMBER TEXT		an event of the queue pair
 *
 * STATUS is enum ib_wc_status.
 */
#include <linux/err.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "peer.h"

struct request {
	struct ib_cqe cqe;
	struct peer *peer;
	enum dma_data_direction direction;
	u64 dma;
	u64 number;
	size_t length;
	u8 *data;
};

static struct request *request_alloc(struct peer *peer, const u8 *data, size_t length,
				     enum dma_data_direction direction,
				     void (*done)(struct ib_cq *cq, struct ib_wc *wc))
{
	struct request *request = kzalloc(sizeof(*request), GFP_KERNEL);

	if (!request)
		return NULL;
	request->cqe.done = done;
	request->peer = peer;
	request->direction = direction;
	request->length = length;
	if (!length)
		return request;
	request->data = data ? kmemdup(data, length, GFP_KERNEL) : kzalloc(length, GFP_KERNEL);
	if (!request->data)
		goto free;
	request->dma = ib_dma_map_single(peer->device, request->data, length, direction);
	if (ib_dma_mapping_error(peer->device, request->dma))
		goto free;
	return request;

free:
	kfree(request->data);
	kfree(request);
	return NULL;
}

/* Ends the device's access; the data stays. */
static void request_unmap(struct request *request)
{
	if (request->length)
		ib_dma_unmap_single(request->peer->device, request->dma, request->length,
				    request->direction);
}

static void request_free(struct request *request)
{
	request_unmap(request);
	kfree(request->data);
	kfree(request);
}

/* Memory of the script that the other side can reach by the protection domain's key. */
struct memory {
	struct list_head link;
	u64 dma;
	size_t length;
	u8 *data;
};

int peer_memory_add(struct peer *peer, const u8 *data, size_t length)
{
	struct memory *memory;

	if (!peer->qp)
		return -ENOTCONN;
	memory = kzalloc(sizeof(*memory), GFP_KERNEL);
	if (!memory)
		return -ENOMEM;
	memory->length = length;
	memory->data = kmemdup(data, length, GFP_KERNEL);
	if (!memory->data)
		goto free;
	memory->dma = ib_dma_map_single(peer->device, memory->data, length, DMA_BIDIRECTIONAL);
	if (ib_dma_mapping_error(peer->device, memory->dma))
		goto free;
	list_add(&memory->link, &peer->memories);
	peer_report(peer, "memory %u %llu", peer->pd->unsafe_global_rkey, memory->dma);
	return 0;

free:
	kfree(memory->data);
	kfree(memory);
	return -ENOMEM;
}

int peer_memory_look(struct peer *peer, u64 address, size_t length)
{
	struct memory *memory;

	list_for_each_entry(memory, &peer->memories, link) {
		if (address != memory->dma || length > memory->length)
			continue;
		ib_dma_sync_single_for_cpu(peer->device, address, length, DMA_BIDIRECTIONAL);
		peer_report_copy(peer, "bytes", memory->data, length);
		return 0;
	}
	return -ENOENT;
}

static void free_memories(struct peer *peer)
{
	struct memory *memory, *next;

	list_for_each_entry_safe(memory, next, &peer->memories, link) {
		list_del(&memory->link);
		ib_dma_unmap_single(peer->device, memory->dma, memory->length, DMA_BIDIRECTIONAL);
		kfree(memory->data);
		kfree(memory);
	}
}

static void send_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct request *request = container_of(wc->wr_cqe, struct request, cqe);

	peer_report(request->peer, "sent %llu %d", request->number, wc->status);
	request_free(request);
}

static void receive_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct request *request = container_of(wc->wr_cqe, struct request, cqe);
	struct peer *peer = request->peer;

	if (wc->status != IB_WC_SUCCESS) {
		peer_report(peer, "receive-failed %d", wc->status);
		request_free(request);
		return;
	}
	request_unmap(request);
	peer_report_bytes(peer, "message", request->data, wc->byte_len);
	kfree(request);
}

static void queue_pair_event(struct ib_event *event, void *context)
{
	peer_report(context, "queue-pair %d %s", event->event, ib_event_msg(event->event));
}

int peer_qp_create(struct peer *peer)
{
	struct peer_settings *settings = &peer->settings;
	struct ib_qp_init_attr attr = {
		.event_handler = queue_pair_event,
		.qp_context = peer,
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.qp_type = IB_QPT_RC,
		.cap = {
			/* One more of each, because draining posts a marker. */
			.max_send_wr = settings->sends + 1,
			.max_recv_wr = settings->receives + 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	struct ib_qp *qp;

	peer->pd = ib_alloc_pd(peer->device, IB_PD_UNSAFE_GLOBAL_RKEY);
	if (IS_ERR(peer->pd)) {
		int err = PTR_ERR(peer->pd);

		peer->pd = NULL;
		return err;
	}
	peer->cq = ib_alloc_cq(peer->device, peer, settings->sends + settings->receives + 2, 0,
			       IB_POLL_WORKQUEUE);
	if (IS_ERR(peer->cq)) {
		int err = PTR_ERR(peer->cq);

		peer->cq = NULL;
		return err;
	}
	attr.send_cq = peer->cq;
	attr.recv_cq = peer->cq;
	qp = ib_create_qp(peer->pd, &attr);
	if (IS_ERR(qp))
		return PTR_ERR(qp);
	mutex_lock(&peer->qp_lock);
	peer->qp = qp;
	mutex_unlock(&peer->qp_lock);
	return 0;
}

/* With qp_lock held. */
static int qp_modify(struct peer *peer, struct ib_cm_id *cm, enum ib_qp_state state,
		     const u32 *receive_psn)
{
	struct ib_qp_attr attr = { .qp_state = state };
	int mask, err;

	if (!peer->qp)
		return -ENOTCONN;
	err = ib_cm_init_qp_attr(cm, &attr, &mask);
	if (err)
		return err;
	if (state == IB_QPS_RTR) {
		attr.min_rnr_timer = peer->settings.rnr_timer;
		if (receive_psn)
			attr.rq_psn = *receive_psn;
	}
	if (state == IB_QPS_RTS) {
		attr.retry_cnt = peer->settings.retry;
		attr.rnr_retry = peer->settings.rnr_retry;
	}
	return ib_modify_qp(peer->qp, &attr, mask);
}

int peer_qp_init(struct peer *peer, struct ib_cm_id *cm)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |
				   IB_ACCESS_REMOTE_READ,
	};
	int err;

	mutex_lock(&peer->qp_lock);
	/* The connection manager has no attributes before the REQ is sent. */
	if (cm)
		err = qp_modify(peer, cm, IB_QPS_INIT, NULL);
	else
		err = ib_modify_qp(peer->qp, &attr,
				   IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
				   IB_QP_ACCESS_FLAGS);
	mutex_unlock(&peer->qp_lock);
	return err;
}

/*
 * From INIT to RTS. The passive side passes the packet number of its REP,
 * because the connection manager does not know it yet.
 */
int peer_qp_ready(struct peer *peer, struct ib_cm_id *cm, const u32 *receive_psn)
{
	int err;

	mutex_lock(&peer->qp_lock);
	err = qp_modify(peer, cm, IB_QPS_RTR, receive_psn);
	if (!err)
		err = qp_modify(peer, cm, IB_QPS_RTS, NULL);
	mutex_unlock(&peer->qp_lock);
	return err;
}

/* The other side gets no message: packets to the queue pair are dropped. */
void peer_qp_destroy(struct peer *peer)
{
	struct ib_qp *qp;

	mutex_lock(&peer->qp_lock);
	qp = peer->qp;
	peer->qp = NULL;
	mutex_unlock(&peer->qp_lock);
	if (qp) {
		struct ib_qp_attr reset = { .qp_state = IB_QPS_RESET };

		ib_drain_qp(qp);
		/*
		 * The other side may still send. rxe uses a queue pair after it
		 * has given a packet's reference to it away, so none may arrive
		 * while it is destroyed: in RESET it drops them.
		 */
		WARN_ON(ib_modify_qp(qp, &reset, IB_QP_STATE));
		synchronize_net();
		ib_destroy_qp(qp);
	}
	if (peer->cq)
		ib_free_cq(peer->cq);
	peer->cq = NULL;
	free_memories(peer);
	if (peer->pd)
		ib_dealloc_pd(peer->pd);
	peer->pd = NULL;
}

int peer_post_receives(struct peer *peer, u32 count)
{
	size_t size = peer->settings.receive_size;

	if (!peer->qp)
		return -ENOTCONN;
	while (count--) {
		struct request *request = request_alloc(peer, NULL, size, DMA_FROM_DEVICE,
							receive_done);
		struct ib_sge sge = { .length = size, .lkey = peer->pd->local_dma_lkey };
		struct ib_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
		int err;

		if (!request)
			return -ENOMEM;
		sge.addr = request->dma;
		wr.wr_cqe = &request->cqe;
		err = ib_post_recv(peer->qp, &wr, NULL);
		if (err) {
			request_free(request);
			return err;
		}
	}
	return 0;
}

/* With the command lock held, which protects the numbers. */
static int post(struct peer *peer, struct ib_rdma_wr *wr, const u8 *data, size_t length,
		enum dma_data_direction direction)
{
	struct request *request;
	struct ib_sge sge;
	int err;

	if (!peer->qp)
		return -ENOTCONN;
	if (peer_events_full(peer))
		return -ENOBUFS;
	request = request_alloc(peer, data, length, direction, send_done);
	if (!request)
		return -ENOMEM;
	request->number = peer->sent + 1;
	sge.addr = request->dma;
	sge.length = length;
	sge.lkey = peer->pd->local_dma_lkey;
	wr->wr.wr_cqe = &request->cqe;
	wr->wr.sg_list = &sge;
	wr->wr.num_sge = length ? 1 : 0;
	wr->wr.send_flags = IB_SEND_SIGNALED;
	err = ib_post_send(peer->qp, &wr->wr, NULL);
	if (err) {
		request_free(request);
		return err;
	}
	peer->sent++;
	return 0;
}

int peer_send(struct peer *peer, const u8 *data, size_t length)
{
	struct ib_rdma_wr wr = { .wr.opcode = IB_WR_SEND };

	return post(peer, &wr, data, length, DMA_TO_DEVICE);
}

int peer_rdma_write(struct peer *peer, u32 rkey, u64 address, const u8 *data, size_t length)
{
	struct ib_rdma_wr wr = {
		.wr.opcode = IB_WR_RDMA_WRITE,
		.rkey = rkey,
		.remote_addr = address,
	};

	return post(peer, &wr, data, length, DMA_TO_DEVICE);
}

int peer_rdma_read(struct peer *peer, u32 rkey, u64 address, size_t length)
{
	struct ib_rdma_wr wr = {
		.wr.opcode = IB_WR_RDMA_READ,
		.rkey = rkey,
		.remote_addr = address,
	};

	return post(peer, &wr, NULL, length, DMA_FROM_DEVICE);
}
