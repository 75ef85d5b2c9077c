// SPDX-License-Identifier: GPL-2.0
/*
 * The devices of the machine: by LID, by interface, and by the token of their
 * answers.
 *
 * Every frame of the EtherType asks for a device, and any tenant can send such
 * frames. So the cost of a lookup depends neither on the number of devices nor
 * on the interfaces of others.
 */
#include <linux/etherdevice.h>
#include <linux/hashtable.h>
#include <linux/if_vlan.h>
#include <linux/xarray.h>

#include "helpers.h"

/* Interfaces below the one that got a frame, at most so many, are looked at. */
#define MOST_LOWER 32

static DEFINE_XARRAY_ALLOC1(lids);
static u32 next_lid = 1;

static int lid_take(struct rlo_device_object *object)
{
	u32 lid;
	int ret = xa_alloc_cyclic(&lids, &lid, object, XA_LIMIT(1, RLO_LID_SM - 1), &next_lid,
				  GFP_KERNEL);

	if (ret < 0)
		return ret;
	object->lid = lid;
	return 0;
}

/* The holder may be read until the end of an RCU grace period. */
static void lid_give(struct rlo_device_object *object)
{
	if (object->lid)
		xa_erase(&lids, object->lid);
}

bool rlo_lid_address(u16 lid, u8 address[ETH_ALEN])
{
	struct rlo_device_object *object = xa_load(&lids, lid);

	if (!object)
		return false;
	ether_addr_copy(address, object->ndev->dev_addr);
	return true;
}

/* Devices that receive frames. Read under RCU. */
static DEFINE_HASHTABLE(by_interface, 10);
static DEFINE_HASHTABLE(by_token, 10);
static DEFINE_SPINLOCK(devices_lock);

struct rlo_device_object *rlo_device_alloc(struct net_device *ndev, bool infiniband)
{
	struct rlo_device_object *object;
	struct net *net;

	/* The kernel moves only registered devices out of a namespace that ends. */
	rcu_read_lock();
	net = maybe_get_net(dev_net_rcu(ndev));
	rcu_read_unlock();
	if (!net)
		return NULL;
	/* The namespace matters in the exclusive mode of namespaces alone. */
	object = ib_alloc_device_with_net(rlo_device_object, ib, net);
	if (!object) {
		put_net(net);
		return NULL;
	}
	object->net = net;
	dev_hold(ndev);
	object->ndev = ndev;
	if (infiniband && lid_take(object) < 0) {
		rlo_device_free(object);
		return NULL;
	}
	return object;
}

void rlo_device_free(struct rlo_device_object *object)
{
	if (object->net)
		put_net(object->net);
	if (object->ndev) {
		lid_give(object);
		synchronize_net();
		dev_put(object->ndev);
	}
	ib_dealloc_device(&object->ib);
}

void rlo_device_list(struct rlo_device_object *object, u64 token)
{
	object->token = token;
	spin_lock(&devices_lock);
	hash_add_rcu(by_interface, &object->by_interface, (uintptr_t)object->ndev);
	hash_add_rcu(by_token, &object->by_token, token);
	spin_unlock(&devices_lock);
}

void rlo_device_unlist(struct rlo_device_object *object)
{
	spin_lock(&devices_lock);
	hash_del_rcu(&object->by_interface);
	hash_del_rcu(&object->by_token);
	spin_unlock(&devices_lock);
	lid_give(object);
	synchronize_net();
	dev_put(object->ndev);
	object->ndev = NULL;
}

static const void *on(const struct net_device *dev)
{
	struct rlo_device_object *object;

	hash_for_each_possible_rcu(by_interface, object, by_interface, (uintptr_t)dev) {
		if (object->ndev == dev)
			return object->own;
	}
	return NULL;
}

struct search {
	bool (*is_it)(const struct net_device *dev);
	struct net_device *found;
	unsigned int left;
};

static int look(struct net_device *lower, struct netdev_nested_priv *priv)
{
	struct search *search = priv->data;

	if (search->is_it(lower))
		search->found = lower;
	return search->found || !--search->left;
}

/* The first of @dev and the interfaces below it that @is_it, or NULL. Under RCU. */
static struct net_device *find_down(struct net_device *dev,
				    bool (*is_it)(const struct net_device *dev))
{
	struct search search = { .is_it = is_it, .left = MOST_LOWER };
	struct netdev_nested_priv priv = { .data = &search };

	if (is_it(dev))
		return dev;
	netdev_walk_all_lower_dev_rcu(dev, look, &priv);
	return search.found;
}

static bool has_device(const struct net_device *dev)
{
	return on(dev);
}

const void *rlo_device_on(struct net_device *dev)
{
	struct net_device *found = find_down(dev, has_device);

	return found ? on(found) : NULL;
}

/* As rdma_read_gid_l2_fields(), with which ib_core compares it. */
u16 rlo_vlan_of(struct net_device *dev)
{
	struct net_device *found = find_down(dev, is_vlan_dev);

	return found ? vlan_dev_vlan_id(found) : RLO_NO_VLAN;
}

const void *rlo_device_with_token(u64 token)
{
	struct rlo_device_object *object;

	hash_for_each_possible_rcu(by_token, object, by_token, token) {
		if (object->token == token)
			return object->own;
	}
	return NULL;
}
