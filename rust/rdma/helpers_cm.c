// SPDX-License-Identifier: GPL-2.0
/*
 * Connection management: namespaces and interfaces of requests and of devices.
 * helpers.h has the declarations.
 */
#include <linux/errno.h>
#include <linux/if_arp.h>
#include <linux/inetdevice.h>
#include <net/addrconf.h>
#include <net/ipv6.h>
#include <net/l3mdev.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>

#include "helpers.h"

struct rdma_cm_id *rust_rdma_create_id(struct net *net,
				       rdma_cm_event_handler handler, void *context)
{
	return rdma_create_id(net, handler, context, RDMA_PS_TCP, IB_QPT_RC);
}

static bool gid_attr_in_net(const struct ib_gid_attr *attr, struct net *net,
			    int device)
{
	struct net_device *ndev;
	bool in;

	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(attr);
	in = !IS_ERR(ndev) && net_eq(dev_net(ndev), net) &&
	     (!device || ndev->ifindex == device ||
	      l3mdev_master_ifindex_rcu(ndev) == device);
	rcu_read_unlock();
	return in;
}

/* A port for identifiers that find none of their own; any one from 1024 on. */
#define SHARED_PORT	65535

/*
 * rdma_bind_addr() without a port. rdma_cm takes one of the namespace's local ports for
 * that, never the same one twice in a row, and finds none in a small range, or while
 * there are many identifiers. The port has no meaning here, so they share one then.
 */
int rust_route_bind(struct rdma_cm_id *id, struct sockaddr_storage *address)
{
	struct sockaddr_storage again = *address;
	/* Also for those that find the shared port as one of their own. */
	int err = rdma_set_reuseaddr(id, 1);

	if (err)
		return err;
	err = rdma_bind_addr(id, (struct sockaddr *)address);
	if (err != -EADDRNOTAVAIL)
		return err;
	if (again.ss_family == AF_INET)
		((struct sockaddr_in *)&again)->sin_port = htons(SHARED_PORT);
	else
		((struct sockaddr_in6 *)&again)->sin6_port = htons(SHARED_PORT);
	return rdma_bind_addr(id, (struct sockaddr *)&again);
}

/* Sets the interface by which @id reaches its peer, before it has a source. */
void rust_route_set_device(struct rdma_cm_id *id, int device)
{
	id->route.addr.dev_addr.bound_dev_if = device;
}

/*
 * The hardware address that @id has found belongs to the next hop to @peer, as
 * on a route with a gateway.
 */
void rust_route_set_peer(struct rdma_cm_id *id, const struct sockaddr_storage *peer)
{
	struct rdma_addr *addr = &id->route.addr;

	addr->dst_addr = *peer;
	addr->dev_addr.network = peer->ss_family == AF_INET ?
				 RDMA_NETWORK_IPV4 : RDMA_NETWORK_IPV6;
}

/*
 * Whether the route that @id has found leaves @net by the interface @device or
 * one of the VRF @device, if not 0. On RoCE the GID says so. On InfiniBand GIDs
 * have no interface; there rdma_cm has looked in the namespace of @id, and the
 * interface is the one with the hardware address that it took.
 */
bool rust_route_is_in_net(const struct rdma_cm_id *id, struct net *net, int device)
{
	const struct rdma_dev_addr *addr = &id->route.addr.dev_addr;

	if (rdma_protocol_ib(id->device, id->port_num))
		return net_eq(addr->net, net) && addr->bound_dev_if &&
		       (!device || addr->bound_dev_if == device ||
			l3mdev_master_ifindex_by_index(net, addr->bound_dev_if) == device);
	return addr->sgid_attr && gid_attr_in_net(addr->sgid_attr, net, device);
}

bool rust_cm_req_is_roce(struct ib_cm_id *id, const struct ib_cm_event *event)
{
	return rdma_protocol_roce(id->device, event->param.req_rcvd.port);
}

static struct net *cm_req_net(struct ib_cm_id *id,
			      const struct ib_cm_event *event,
			      const struct sockaddr *daddr, int *device)
{
	const struct ib_cm_req_event_param *req = &event->param.req_rcvd;
	struct net_device *ndev;
	struct net *net = NULL;

	if (rust_cm_req_is_roce(id, event)) {
		if (!req->ppath_sgid_attr)
			return NULL;
		rcu_read_lock();
		ndev = rdma_read_gid_attr_ndev_rcu(req->ppath_sgid_attr);
		if (!IS_ERR(ndev)) {
			net = maybe_get_net(dev_net(ndev));
			*device = ndev->ifindex;
		}
		rcu_read_unlock();
		return net;
	}
	/* It looks IPv6 addresses up in tables that are missing if IPv6 is off. */
	if (daddr->sa_family == AF_INET6 && !ipv6_mod_enabled())
		return NULL;
	ndev = ib_get_net_dev_by_params(id->device, req->port, req->bth_pkey,
					&req->primary_path->sgid, daddr);
	if (ndev) {
		net = maybe_get_net(dev_net(ndev));
		*device = ndev->ifindex;
		dev_put(ndev);
	}
	return net;
}

/*
 * The namespace where a request came in, with a reference, and the interface.
 */
struct net *rust_cm_req_net(struct ib_cm_id *id, const struct ib_cm_event *event,
			    const struct sockaddr *daddr, int *device)
{
	struct net *net = cm_req_net(id, event, daddr, device);

	/* rdma_cm checks this on the active side. */
	if (net && !rdma_dev_access_netns(id->device, net)) {
		put_net(net);
		return NULL;
	}
	return net;
}

/* rdma_cm takes a loopback address for "any device of any namespace". */
static bool is_routable(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		return !ipv4_is_loopback(((struct sockaddr_in *)addr)->sin_addr.s_addr);
	return !(ipv6_addr_type(&((struct sockaddr_in6 *)addr)->sin6_addr) &
		 (IPV6_ADDR_LOOPBACK | IPV6_ADDR_LINKLOCAL));
}

static bool interface_address(struct net_device *ndev, int family,
			      struct sockaddr_storage *out)
{
	bool found = false;

	memset(out, 0, sizeof(*out));
	out->ss_family = family;
	if (family == AF_INET) {
		struct sockaddr_in *sin = (struct sockaddr_in *)out;
		struct in_device *in_dev = __in_dev_get_rcu(ndev);
		const struct in_ifaddr *ifa;

		if (!in_dev)
			return false;
		in_dev_for_each_ifa_rcu(ifa, in_dev) {
			sin->sin_addr.s_addr = ifa->ifa_local;
			if (is_routable(out))
				return true;
		}
		return false;
	}
#if IS_ENABLED(CONFIG_IPV6)
	if (family == AF_INET6) {
		struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)out;
		struct inet6_dev *idev = __in6_dev_get(ndev);
		const struct inet6_ifaddr *ifp;

		if (!idev)
			return false;
		read_lock_bh(&idev->lock);
		list_for_each_entry(ifp, &idev->addr_list, if_list) {
			if (ifp->flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED))
				continue;
			sin6->sin6_addr = ifp->addr;
			found = is_routable(out);
			if (found)
				break;
		}
		read_unlock_bh(&idev->lock);
	}
#endif
	return found;
}

/*
 * An address of an IPoIB interface of that port: its hardware address, as
 * rdma_cm reads it, has a GID of the port.
 */
static bool ipoib_address(struct ib_device *device, u32 port, struct net *net,
			  int family, struct sockaddr_storage *out)
{
	const struct ib_gid_attr *attr;
	struct net_device *ndev;
	bool found = false;
	union ib_gid gid;

	rcu_read_lock();
	for_each_netdev_rcu(net, ndev) {
		if (ndev->type != ARPHRD_INFINIBAND || !(ndev->flags & IFF_UP))
			continue;
		memcpy(&gid, ndev->dev_addr + 4, sizeof(gid));
		attr = rdma_find_gid_by_port(device, &gid, IB_GID_TYPE_IB, port,
					     NULL);
		if (IS_ERR(attr))
			continue;
		rdma_put_gid_attr(attr);
		found = interface_address(ndev, family, out);
		if (found)
			break;
	}
	rcu_read_unlock();
	return found;
}

int rust_device_local_address(struct ib_device *device, struct net *net,
			      int family, struct sockaddr_storage *out)
{
	const struct ib_gid_attr *attr;
	u32 port;
	int i;

	rdma_for_each_port(device, port) {
		struct ib_port_attr pa;

		if (ib_query_port(device, port, &pa) ||
		    pa.state != IB_PORT_ACTIVE)
			continue;
		if (rdma_protocol_ib(device, port) &&
		    ipoib_address(device, port, net, family, out))
			return 0;
		if (!rdma_protocol_roce(device, port))
			continue;
		for (i = 0; i < pa.gid_tbl_len; i++) {
			bool found;

			attr = rdma_get_gid_attr(device, port, i);
			if (IS_ERR(attr))
				continue;
			memset(out, 0, sizeof(*out));
			rdma_gid2ip((struct sockaddr *)out, &attr->gid);
			found = out->ss_family == family &&
				gid_attr_in_net(attr, net, 0) &&
				is_routable(out);
			rdma_put_gid_attr(attr);
			if (found)
				return 0;
		}
	}
	return -ENODEV;
}
