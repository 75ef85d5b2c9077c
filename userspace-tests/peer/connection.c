// SPDX-License-Identifier: GPL-2.0
/*
 * Connection management of a peer. Its events:
 *
 *	reads BEGUN ANSWERED	the other side's limits for RDMA Reads, before req or rep
 *	req HEX			the private data of a REQ to our port
 *	rep HEX			the private data of the REP; the queue pair is ready
 *	established		RTU has arrived
 *	rej REASON		enum ib_cm_rej_reason
 *	sidr STATUS		enum ib_cm_sidr_status, the answer to our sidr
 *	unanswered WHAT		no answer to our req, rep, dreq or sidr
 *	dreq, drep, timewait-exit
 *	fault WHAT ERRNO	the peer itself has failed
 *	removed			the device was removed, and with it the connection
 *
 * Handlers run in the workqueue of ib_cm, for unanswered messages in the one
 * of ib_mad, and take qp_lock only. A CM id is destroyed with the command lock
 * held and without qp_lock. Its context is the number of the peer, because a
 * handler may be late (see struct peer).
 */
#include <linux/atomic.h>
#include <linux/err.h>
#include <linux/random.h>
#include <linux/string.h>

#include "peer.h"

#define PSN_MASK	0xffffff

static int attach(struct peer *peer, struct ib_device *device)
{
	if (!peer_device_usable(device))
		return -ENODEV;
	peer->device = device;
	return 0;
}

static void report_event(struct peer *peer, struct ib_cm_id *id, const struct ib_cm_event *event)
{
	int err;

	switch (event->event) {
	case IB_CM_REP_RECEIVED:
		err = peer_qp_ready(peer, id, NULL);
		peer_report(peer, "reads %u %u", event->param.rep_rcvd.responder_resources,
			    event->param.rep_rcvd.initiator_depth);
		if (err)
			peer_report(peer, "fault rep %d", err);
		else
			peer_report_copy(peer, "rep", event->private_data,
					 IB_CM_REP_PRIVATE_DATA_SIZE);
		break;
	case IB_CM_RTU_RECEIVED:
	case IB_CM_USER_ESTABLISHED:
		peer_report(peer, "established");
		break;
	case IB_CM_REJ_RECEIVED:
		peer_report(peer, "rej %d", event->param.rej_rcvd.reason);
		break;
	case IB_CM_REQ_ERROR:
		peer_report(peer, "unanswered req");
		break;
	case IB_CM_REP_ERROR:
		peer_report(peer, "unanswered rep");
		break;
	case IB_CM_DREQ_ERROR:
		peer_report(peer, "unanswered dreq");
		break;
	case IB_CM_DREQ_RECEIVED:
		peer_report(peer, "dreq");
		break;
	case IB_CM_DREP_RECEIVED:
		peer_report(peer, "drep");
		break;
	case IB_CM_TIMEWAIT_EXIT:
		peer_report(peer, "timewait-exit");
		break;
	case IB_CM_SIDR_REQ_ERROR:
		peer_report(peer, "unanswered sidr");
		break;
	case IB_CM_SIDR_REP_RECEIVED:
		peer_report(peer, "sidr %d", event->param.sidr_rep_rcvd.status);
		break;
	default:
		break;
	}
}

static int connection_event(struct ib_cm_id *id, const struct ib_cm_event *event)
{
	struct peer *peer = peer_get(id->context);

	if (peer) {
		report_event(peer, id, event);
		peer_put(peer);
	}
	return 0;
}

/* A REQ; if this returns 0, @id is a new one that we own. */
static int listener_event(struct ib_cm_id *id, const struct ib_cm_event *event)
{
	struct peer *peer;
	int err = 0;

	/* Any other request would need an answer and would have to be destroyed. */
	if (event->event != IB_CM_REQ_RECEIVED)
		return -EINVAL;
	peer = peer_get(id->context);
	if (!peer)
		return -ECONNREFUSED;
	id->cm_handler = connection_event;
	/* One connection each: a second REQ is rejected. */
	if (cmpxchg(&peer->cm, NULL, id)) {
		err = -EBUSY;
	} else {
		peer_report(peer, "reads %u %u", event->param.req_rcvd.responder_resources,
			    event->param.req_rcvd.initiator_depth);
		peer_report(peer, "from %u", event->param.req_rcvd.remote_qpn);
		peer_report_copy(peer, "req", event->private_data, IB_CM_REQ_PRIVATE_DATA_SIZE);
	}
	peer_put(peer);
	return err;
}

static int send_req(struct peer *peer, struct rdma_cm_id *route, u16 port, const u8 *data,
		    size_t length)
{
	struct peer_settings *settings = &peer->settings;
	struct sa_path_rec path = *route->route.path_rec;
	struct ib_cm_req_param param = {
		.primary_path = &path,
		.ppath_sgid_attr = route->route.addr.dev_addr.sgid_attr,
		.service_id = PEER_SERVICE_ID(port),
		.qp_num = peer->qp->qp_num,
		.qp_type = settings->remote_qp_type,
		.starting_psn = get_random_u32() & PSN_MASK,
		.private_data = data,
		.private_data_len = length,
		.responder_resources = settings->responder_resources,
		.initiator_depth = settings->initiator_depth,
		.remote_cm_response_timeout = settings->cm_timeout,
		/* The time limit of the other side for our answer. */
		.local_cm_response_timeout = settings->remote_cm_timeout,
		.retry_count = settings->remote_retry,
		.rnr_retry_count = settings->remote_rnr_retry,
		.max_cm_retries = settings->cm_retries,
	};

	/* The REQ has one more than the lifetime of a packet. */
	if (settings->remote_ack_timeout)
		path.packet_life_time = settings->remote_ack_timeout - 1;
	if (settings->remote_mtu)
		path.mtu = settings->remote_mtu;
	return ib_send_cm_req(peer->cm, &param);
}

static int create_cm(struct peer *peer)
{
	struct ib_cm_id *cm = ib_create_cm_id(peer->device, connection_event, peer_context(peer));

	if (IS_ERR(cm))
		return PTR_ERR(cm);
	peer->cm = cm;
	return 0;
}

static int connect_by(struct peer *peer, struct rdma_cm_id *route, u16 port, const u8 *data,
		      size_t length)
{
	int err;

	err = attach(peer, route->device);
	if (!err)
		err = peer_qp_create(peer);
	if (!err)
		err = peer_qp_init(peer, NULL);
	if (!err)
		err = peer_post_receives(peer, peer->settings.posted);
	if (!err)
		err = create_cm(peer);
	return err ?: send_req(peer, route, port, data, length);
}

/* A request for a datagram service, which SDP does not have. */
static int sidr_by(struct peer *peer, struct rdma_cm_id *route, u16 port, const u8 *data,
		   size_t length)
{
	struct ib_cm_sidr_req_param param = {
		.path = route->route.path_rec,
		.sgid_attr = route->route.addr.dev_addr.sgid_attr,
		.service_id = PEER_SERVICE_ID(port),
		.timeout_ms = 1UL << max_t(int, peer->settings.cm_timeout - 8, 0),
		.private_data = data,
		.private_data_len = length,
		.max_cm_retries = peer->settings.cm_retries,
	};
	int err;

	err = attach(peer, route->device);
	if (!err)
		err = create_cm(peer);
	return err ?: ib_send_cm_sidr_req(peer->cm, &param);
}

typedef int (*request_by)(struct peer *peer, struct rdma_cm_id *route, u16 port, const u8 *data,
			  size_t length);

static int request(struct peer *peer, struct sockaddr_storage *from, struct sockaddr_storage *to,
		   u16 port, const u8 *data, size_t length, request_by by)
{
	struct peer_route route;
	int err;

	if (peer->device)
		return -EISCONN;
	err = peer_route_to(&route, from, to);
	if (err)
		return err;
	err = by(peer, route.id, port, data, length);
	if (err)
		peer_take_down(peer);
	peer_route_end(&route);
	return err;
}

int peer_connect(struct peer *peer, struct sockaddr_storage *from, struct sockaddr_storage *to,
		 u16 port, const u8 *data, size_t length)
{
	if (length > IB_CM_REQ_PRIVATE_DATA_SIZE)
		return -EMSGSIZE;
	return request(peer, from, to, port, data, length, connect_by);
}

int peer_sidr(struct peer *peer, struct sockaddr_storage *from, struct sockaddr_storage *to,
	      u16 port, const u8 *data, size_t length)
{
	if (length > IB_CM_SIDR_REQ_PRIVATE_DATA_SIZE)
		return -EMSGSIZE;
	return request(peer, from, to, port, data, length, sidr_by);
}

static int listen_on(struct peer *peer, struct ib_device *device, u16 port)
{
	struct ib_cm_id *listener;
	int err;

	err = attach(peer, device);
	if (err)
		return err;
	listener = ib_create_cm_id(device, listener_event, peer_context(peer));
	if (IS_ERR(listener))
		return PTR_ERR(listener);
	peer->listener = listener;
	return ib_cm_listen(listener, PEER_SERVICE_ID(port));
}

int peer_listen(struct peer *peer, struct sockaddr_storage *address, u16 port)
{
	struct peer_route route;
	int err;

	if (peer->device)
		return -EISCONN;
	err = peer_route_at(&route, address);
	if (err)
		return err;
	err = listen_on(peer, route.id->device, port);
	if (err)
		peer_take_down(peer);
	peer_route_end(&route);
	return err;
}

int peer_reply(struct peer *peer, const u8 *data, size_t length)
{
	struct ib_cm_id *cm = READ_ONCE(peer->cm);
	struct ib_cm_rep_param param = {
		.starting_psn = get_random_u32() & PSN_MASK,
		.private_data = data,
		.private_data_len = length,
		.responder_resources = peer->settings.responder_resources,
		.initiator_depth = peer->settings.initiator_depth,
		.rnr_retry_count = peer->settings.remote_rnr_retry,
	};
	int err;

	if (!cm || !peer->listener)
		return -ENOTCONN;
	if (peer->qp)
		return -EISCONN;
	if (length > IB_CM_REP_PRIVATE_DATA_SIZE)
		return -EMSGSIZE;
	err = peer_qp_create(peer);
	if (!err)
		err = peer_qp_init(peer, cm);
	if (!err)
		err = peer_post_receives(peer, peer->settings.posted);
	if (!err)
		err = peer_qp_ready(peer, cm, &param.starting_psn);
	if (!err) {
		param.qp_num = peer->qp->qp_num;
		err = ib_send_cm_rep(cm, &param);
	}
	if (err)
		peer_qp_destroy(peer);
	return err;
}

int peer_reject(struct peer *peer, u32 reason)
{
	struct ib_cm_id *cm = READ_ONCE(peer->cm);

	return cm ? ib_send_cm_rej(cm, reason, NULL, 0, NULL, 0) : -ENOTCONN;
}

/* The place is freed before the REJ is sent, because another REQ may follow it. */
int peer_turn_away(struct peer *peer, u32 reason)
{
	struct ib_cm_id *cm = xchg(&peer->cm, NULL);
	int err;

	if (!cm)
		return -ENOTCONN;
	err = ib_send_cm_rej(cm, reason, NULL, 0, NULL, 0);
	ib_destroy_cm_id(cm);
	return err;
}

int peer_rtu(struct peer *peer)
{
	struct ib_cm_id *cm = READ_ONCE(peer->cm);

	return cm ? ib_send_cm_rtu(cm, NULL, 0) : -ENOTCONN;
}

int peer_dreq(struct peer *peer)
{
	struct ib_cm_id *cm = READ_ONCE(peer->cm);

	return cm ? ib_send_cm_dreq(cm, NULL, 0) : -ENOTCONN;
}

int peer_drep(struct peer *peer)
{
	struct ib_cm_id *cm = READ_ONCE(peer->cm);

	return cm ? ib_send_cm_drep(cm, NULL, 0) : -ENOTCONN;
}

/* Removes the connection; with the command lock held. Sleeps until handlers are done. */
void peer_take_down(struct peer *peer)
{
	struct ib_cm_id *cm;

	/* The listener first, because its handler may add a connection. */
	if (peer->listener)
		ib_destroy_cm_id(peer->listener);
	peer->listener = NULL;
	cm = READ_ONCE(peer->cm);
	if (cm)
		ib_destroy_cm_id(cm);
	WRITE_ONCE(peer->cm, NULL);
	peer_qp_destroy(peer);
	peer->device = NULL;
}
