// SPDX-License-Identifier: GPL-2.0
/*
 * Resolves addresses to a device and a path, by rdma_cm, in the caller's
 * network namespace.
 */
#include <linux/err.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>

#include "peer.h"

/*
 * The first packet to an unknown neighbour may take the whole time of a try,
 * so there are many short tries.
 */
#define TRY_MS		200
#define TRIES		25
#define ROUTE_MS	2000

static int route_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct peer_route *route = id->context;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		route->status = 0;
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		route->status = event->status ?: -EHOSTUNREACH;
		break;
	default:
		route->status = -ENODEV;
		break;
	}
	complete(&route->done);
	return 0;
}

static int route_begin(struct peer_route *route)
{
	init_completion(&route->done);
	route->id = rdma_create_id(current->nsproxy->net_ns, route_event, route, RDMA_PS_TCP,
				   IB_QPT_RC);
	return PTR_ERR_OR_ZERO(route->id);
}

void peer_route_end(struct peer_route *route)
{
	rdma_destroy_id(route->id);
}

/* rdma_cm ends every wait itself, by the given timeouts. */
static int resolve(struct peer_route *route, struct sockaddr_storage *from,
		   struct sockaddr_storage *to)
{
	int err;

	err = rdma_resolve_addr(route->id, (struct sockaddr *)from, (struct sockaddr *)to, TRY_MS);
	if (err)
		return err;
	wait_for_completion(&route->done);
	if (route->status)
		return route->status;
	err = rdma_resolve_route(route->id, ROUTE_MS);
	if (err)
		return err;
	wait_for_completion(&route->done);
	return route->status;
}

/* On success the caller ends the route, which holds the device until then. */
int peer_route_to(struct peer_route *route, struct sockaddr_storage *from,
		  struct sockaddr_storage *to)
{
	int err = -ETIMEDOUT;
	int i;

	for (i = 0; i < TRIES && (err == -ETIMEDOUT || err == -ENODATA); i++) {
		err = route_begin(route);
		if (err)
			return err;
		err = resolve(route, from, to);
		if (!err)
			return 0;
		peer_route_end(route);
	}
	return err;
}

/* The device that has an address; the caller ends the route. */
int peer_route_at(struct peer_route *route, struct sockaddr_storage *address)
{
	int err;

	err = route_begin(route);
	if (err)
		return err;
	err = rdma_bind_addr(route->id, (struct sockaddr *)address);
	if (!err && !route->id->device)
		err = -ENODEV;
	if (err)
		peer_route_end(route);
	return err;
}
