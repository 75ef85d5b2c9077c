// SPDX-License-Identifier: GPL-2.0
/*
 * Paths between interfaces, for path.rs.
 */
#include <linux/etherdevice.h>
#include <linux/ipv6.h>
#include <net/addrconf.h>
#include <net/arp.h>
#include <net/ndisc.h>
#include <net/neighbour.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_sa.h>
#include <rdma/ib_verbs.h>

#include "helpers.h"

void rlo_port_gid(const struct rlo_device_object *object, union ib_gid *gid)
{
	gid->global.subnet_prefix = cpu_to_be64(0xfe80ULL << 48);
	gid->global.interface_id = object->ib.node_guid;
}

/* On InfiniBand a path is a pair of LIDs; GIDs are optional. */
static int infiniband_av_init(struct rlo_av *av, struct rlo_device_object *object,
			      const struct rdma_ah_attr *attr)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(attr);

	if (attr->type != RDMA_AH_ATTR_TYPE_IB)
		return -EINVAL;
	av->slid = object->lid;
	av->dlid = rdma_ah_get_dlid(attr);
	if (!av->dlid)
		return -EINVAL;
	rlo_port_gid(object, &av->sgid);
	if (!(rdma_ah_get_ah_flags(attr) & IB_AH_GRH))
		return 0;
	if (grh->sgid_attr) {
		rdma_hold_gid_attr(grh->sgid_attr);
		av->sgid_attr = grh->sgid_attr;
	}
	av->dgid = grh->dgid;
	av->traffic_class = grh->traffic_class;
	av->hop_limit = grh->hop_limit;
	av->has_grh = 1;
	return 0;
}

void rlo_av_search(struct rlo_av *av, struct rlo_device_object *object,
		   const union ib_gid *dgid)
{
	av->object = object;
	av->slid = object->lid;
	rlo_port_gid(object, &av->sgid);
	av->dgid = *dgid;
	av->has_grh = 1;
}

/* The datagrams of a port to itself pass no interface, so nothing else tells their VLAN. */
static void own_vlan(struct rlo_av *av)
{
	const struct ib_gid_attr *attr;

	/* An interface and its VLANs may have the same GID; this is the one of the source. */
	if (!memcmp(&av->dgid, &av->sgid, sizeof(av->dgid)))
		return;
	attr = rdma_find_gid_by_port(&av->object->ib, &av->dgid, IB_GID_TYPE_ROCE_UDP_ENCAP, 1,
				     NULL);
	if (IS_ERR(attr))
		return;
	if (rdma_read_gid_l2_fields(attr, &av->vlan, NULL))
		av->vlan = RLO_NO_VLAN;
	rdma_put_gid_attr(attr);
}

int rlo_av_init(struct rlo_av *av, struct rlo_device_object *object,
		const struct rdma_ah_attr *attr)
{
	const struct ib_global_route *grh;
	int ret;

	av->object = object;
	if (object->lid)
		return infiniband_av_init(av, object, attr);
	if (attr->type != RDMA_AH_ATTR_TYPE_ROCE || !(rdma_ah_get_ah_flags(attr) & IB_AH_GRH))
		return -EINVAL;
	grh = rdma_ah_read_grh(attr);
	if (!grh->sgid_attr)
		return -EINVAL;
	ret = rdma_read_gid_l2_fields(grh->sgid_attr, &av->vlan, av->smac);
	if (ret)
		return ret;
	rdma_hold_gid_attr(grh->sgid_attr);
	av->sgid_attr = grh->sgid_attr;
	av->sgid = grh->sgid_attr->gid;
	av->dgid = grh->dgid;
	ether_addr_copy(av->dmac, attr->roce.dmac);
	av->traffic_class = grh->traffic_class;
	av->hop_limit = grh->hop_limit;
	if (ether_addr_equal(av->smac, av->dmac))
		own_vlan(av);
	return 0;
}

void rlo_av_resolve(struct rlo_av *av)
{
	struct neigh_table *table = &arp_tbl;
	const u8 *address = av->dgid.raw + 12;
	struct net_device *ndev;
	struct neighbour *neighbour = NULL;

	if (!ipv6_addr_v4mapped((const struct in6_addr *)&av->dgid)) {
		/* Its table does not exist with ipv6.disable=1. */
		if (!ipv6_mod_enabled())
			return;
		table = &nd_tbl;
		address = av->dgid.raw;
	}
	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(av->sgid_attr);
	if (!IS_ERR(ndev))
		neighbour = neigh_lookup(table, address, ndev);
	if (neighbour) {
		neigh_ha_snapshot(av->dmac, neighbour, ndev);
		neigh_release(neighbour);
	}
	rcu_read_unlock();
}

void rlo_av_put(struct rlo_av *av)
{
	if (av->sgid_attr)
		rdma_put_gid_attr(av->sgid_attr);
	av->sgid_attr = NULL;
}
