// SPDX-License-Identifier: GPL-2.0
/*
 * `rdma link add NAME type rlo netdev DEV`, and the removal of interfaces.
 */
#include <linux/if_vlan.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_netlink.h>

#include "helpers.h"

/* The kernel has no number for rlo. It is only compared, and never shown to programs. */
#define DRIVER_ID ((enum rdma_driver_id)0x726c6f)

/*
 * An interface that was removed or moved meanwhile has told no device: this one was not there yet.
 */
static int check_interface(struct net_device *ndev)
{
	struct ib_device *ib = ib_device_get_by_netdev(ndev, DRIVER_ID);
	bool is_there;

	if (!ib)
		return -ENODEV;
	rtnl_lock();
	is_there = ndev->reg_state == NETREG_REGISTERED && rdma_dev_access_netns(ib, dev_net(ndev));
	rtnl_unlock();
	if (is_there) {
		ib_device_put(ib);
		return 0;
	}
	ib_unregister_device_and_put(ib);
	return -ENODEV;
}

static int new_port(const char *name, struct net_device *ndev, bool infiniband)
{
	struct ib_device *ib;
	int ret;

	if (ndev->type != ARPHRD_ETHER && ndev->type != ARPHRD_LOOPBACK)
		return -EOPNOTSUPP;
	/* ib_core gives such a port no GID: a VLAN is reached through the port below it. */
	if (is_vlan_dev(ndev) && !infiniband)
		return -EOPNOTSUPP;
	ib = ib_device_get_by_netdev(ndev, DRIVER_ID);
	if (ib) {
		ib_device_put(ib);
		return -EEXIST;
	}
	ret = rlo_link_add(name, ndev, infiniband);
	return ret ? ret : check_interface(ndev);
}

static int new_link(const char *name, struct net_device *ndev)
{
	return new_port(name, ndev, false);
}

static int new_infiniband_link(const char *name, struct net_device *ndev)
{
	return new_port(name, ndev, true);
}

static struct rdma_link_ops link_ops = {
	.type = "rlo",
	.newlink = new_link,
};

static struct rdma_link_ops infiniband_link_ops = {
	.type = "rlo_ib",
	.newlink = new_infiniband_link,
};

static int netdev_event(struct notifier_block *block, unsigned long event, void *arg)
{
	struct net_device *ndev = netdev_notifier_info_to_dev(arg);
	struct ib_device *ib;

	switch (event) {
	case NETDEV_UNREGISTER:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
	case NETDEV_CHANGEADDR:
		break;
	default:
		return NOTIFY_DONE;
	}
	ib = ib_device_get_by_netdev(ndev, DRIVER_ID);
	if (!ib)
		return NOTIFY_DONE;
	if (event == NETDEV_UNREGISTER)
		/* Asynchronous: users of the device may need the lock that is held here. */
		ib_unregister_device_queued(ib);
	else
		rlo_link_changed(container_of(ib, struct rlo_device_object, ib)->own);
	ib_device_put(ib);
	return NOTIFY_OK;
}

static struct notifier_block netdev_block = {
	.notifier_call = netdev_event,
};

int rlo_link_register(void)
{
	int ret = register_netdevice_notifier(&netdev_block);

	if (ret)
		return ret;
	rdma_link_register(&link_ops);
	rdma_link_register(&infiniband_link_ops);
	return 0;
}

void rlo_link_unregister(void)
{
	rdma_link_unregister(&infiniband_link_ops);
	rdma_link_unregister(&link_ops);
	ib_unregister_driver(DRIVER_ID);
	unregister_netdevice_notifier(&netdev_block);
}

MODULE_ALIAS_RDMA_LINK("rlo");
MODULE_ALIAS_RDMA_LINK("rlo_ib");
