// SPDX-License-Identifier: GPL-2.0
/*
 * Tasks, bells, addresses and objects of ib_core, for Rust.
 */
#include <linux/dma-direct.h>
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/mm.h>
#include <linux/platform_device.h>
#include <linux/xarray.h>
#include <net/addrconf.h>
#include <net/arp.h>
#include <net/ndisc.h>
#include <net/neighbour.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_sa.h>
#include <rdma/ib_verbs.h>

#include "helpers.h"

/*
 * Unbound, so that copies run on an idle processor. A block device on top of
 * this one may write pages out, hence the rescuer.
 */
static struct workqueue_struct *queue;

int rlo_queue_create(void)
{
	queue = alloc_workqueue("rlo", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	return queue ? 0 : -ENOMEM;
}

void rlo_queue_destroy(void)
{
	destroy_workqueue(queue);
}

static void task_run(struct work_struct *work)
{
	struct rlo_task *task = container_of(work, struct rlo_task, work);

	task->run(task);
}

static enum hrtimer_restart task_timer(struct hrtimer *timer)
{
	struct rlo_task *task = container_of(timer, struct rlo_task, timer);

	queue_work(queue, &task->work);
	return HRTIMER_NORESTART;
}

void rlo_task_init(struct rlo_task *task, void (*run)(struct rlo_task *task), bool stops)
{
	/* Two lock classes, because one may wait for the other. */
	if (stops)
		INIT_WORK(&task->work, task_run);
	else
		INIT_WORK(&task->work, task_run);
	task->run = run;
	hrtimer_setup(&task->timer, task_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
}

void rlo_task_kick(struct rlo_task *task)
{
	queue_work(queue, &task->work);
}

void rlo_task_kick_after(struct rlo_task *task, u64 nanoseconds)
{
	hrtimer_start(&task->timer, ns_to_ktime(nanoseconds), HRTIMER_MODE_REL);
}

void rlo_task_stop(struct rlo_task *task)
{
	hrtimer_cancel(&task->timer);
	cancel_work_sync(&task->work);
	/* The last run may have started it again. */
	hrtimer_cancel(&task->timer);
	cancel_work_sync(&task->work);
}

static void soft_run(struct work_struct *work)
{
	struct rlo_soft *soft = container_of(work, struct rlo_soft, work);

	soft->run(soft);
}

static void soft_irq(struct irq_work *irq)
{
	queue_work(system_bh_wq, &container_of(irq, struct rlo_soft, irq)->work);
}

void rlo_soft_init(struct rlo_soft *soft, void (*run)(struct rlo_soft *soft))
{
	init_irq_work(&soft->irq, soft_irq);
	INIT_WORK(&soft->work, soft_run);
	soft->run = run;
}

/*
 * A softirq that is raised with interrupts disabled runs in a thread, unless an
 * interrupt raises it: then it runs at the end of that.
 */
void rlo_soft_kick(struct rlo_soft *soft)
{
	if (irqs_disabled() || in_hardirq()) {
		irq_work_queue(&soft->irq);
		return;
	}
	local_bh_disable();
	queue_work(system_bh_wq, &soft->work);
	local_bh_enable();
}

void rlo_soft_stop(struct rlo_soft *soft)
{
	irq_work_sync(&soft->irq);
	cancel_work_sync(&soft->work);
}

u64 rlo_now(void)
{
	return ktime_get_ns();
}

void *rlo_address(struct device *dev, u64 address, size_t len)
{
	void *first, *last;

	if (dev) {
		phys_addr_t phys = dma_to_phys(dev, address);

		if (!pfn_valid(PHYS_PFN(phys)) || !pfn_valid(PHYS_PFN(phys + len - 1)))
			return NULL;
		if (PageHighMem(pfn_to_page(PHYS_PFN(phys))))
			return NULL;
		return phys_to_virt(phys);
	}
	/*
	 * Addresses are those of consumers in the kernel. Those of vmalloc() or of
	 * a program would be a mistake; all that are mapped linearly are as good as
	 * each other, and virt_addr_valid() takes 50 instructions for a page.
	 */
	first = (void *)(uintptr_t)address;
	last = first + len - 1;
	if (first < (void *)PAGE_OFFSET || last < first || last >= high_memory)
		return NULL;
	return first;
}

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

int rlo_av_init(struct rlo_av *av, struct rlo_device_object *object,
		const struct rdma_ah_attr *attr)
{
	const struct ib_global_route *grh;
	struct net_device *ndev;
	int ret = 0;

	av->object = object;
	if (object->lid)
		return infiniband_av_init(av, object, attr);
	if (attr->type != RDMA_AH_ATTR_TYPE_ROCE || !(rdma_ah_get_ah_flags(attr) & IB_AH_GRH))
		return -EINVAL;
	grh = rdma_ah_read_grh(attr);
	if (!grh->sgid_attr)
		return -EINVAL;
	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(grh->sgid_attr);
	if (IS_ERR(ndev))
		ret = -ENODEV;
	else
		ether_addr_copy(av->smac, ndev->dev_addr);
	rcu_read_unlock();
	if (ret)
		return ret;
	rdma_hold_gid_attr(grh->sgid_attr);
	av->sgid_attr = grh->sgid_attr;
	av->sgid = grh->sgid_attr->gid;
	av->dgid = grh->dgid;
	ether_addr_copy(av->dmac, attr->roce.dmac);
	av->traffic_class = grh->traffic_class;
	av->hop_limit = grh->hop_limit;
	return 0;
}

void rlo_av_resolve(struct rlo_av *av)
{
	struct neigh_table *table = &arp_tbl;
	const u8 *address = av->dgid.raw + 12;
	struct net_device *ndev;
	struct neighbour *neighbour = NULL;

	if (!ipv6_addr_v4mapped((const struct in6_addr *)&av->dgid)) {
		if (!IS_ENABLED(CONFIG_IPV6))
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
static LIST_HEAD(devices);
static DEFINE_SPINLOCK(devices_lock);

struct rlo_device_object *rlo_device_alloc(struct net_device *ndev, bool infiniband)
{
	struct rlo_device_object *object = ib_alloc_device(rlo_device_object, ib);

	if (!object)
		return NULL;
	INIT_LIST_HEAD(&object->list);
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
	if (object->ndev) {
		lid_give(object);
		synchronize_net();
		dev_put(object->ndev);
	}
	ib_dealloc_device(&object->ib);
}

void rlo_device_list(struct rlo_device_object *object)
{
	spin_lock(&devices_lock);
	list_add_tail_rcu(&object->list, &devices);
	spin_unlock(&devices_lock);
}

void rlo_device_unlist(struct rlo_device_object *object)
{
	spin_lock(&devices_lock);
	list_del_rcu(&object->list);
	spin_unlock(&devices_lock);
	lid_give(object);
	synchronize_net();
	dev_put(object->ndev);
	object->ndev = NULL;
}

void rlo_device_each(bool (*visit)(const void *own, void *context), void *context,
		     struct net_device *dev)
{
	struct rlo_device_object *object;

	rcu_read_lock();
	list_for_each_entry_rcu(object, &devices, list) {
		if (dev && object->ndev != dev && !netdev_has_upper_dev_all_rcu(object->ndev, dev))
			continue;
		if (visit(object->own, context))
			break;
	}
	rcu_read_unlock();
}

int rlo_device_register(struct rlo_device_object *object, const char *name,
			struct device *dma_device)
{
	int ret = ib_device_set_netdev(&object->ib, object->ndev, 1);

	if (ret)
		return ret;
	return ib_register_device(&object->ib, name, dma_device);
}

int rlo_port_state(struct ib_device *ib, struct ib_port_attr *attr)
{
	const struct rlo_device_object *object = container_of(ib, struct rlo_device_object, ib);
	struct net_device *ndev = ib_device_get_netdev(ib, 1);
	int ret = 0;

	if (!ndev)
		return -ENODEV;
	if (object->lid) {
		/* A speed of the standard; it does not limit the copies. */
		attr->active_speed = IB_SPEED_EDR;
		attr->active_width = IB_WIDTH_4X;
		attr->lid = object->lid;
		attr->sm_lid = RLO_LID_SM;
		attr->subnet_timeout = 18;
		attr->gid_tbl_len = 1;
		/* Datagrams are frames, so the interface's MTU limits them. */
		attr->active_mtu = ib_mtu_int_to_enum(READ_ONCE(ndev->mtu) -
						      sizeof(struct rlo_frame));
	} else {
		ret = ib_get_eth_speed(ib, 1, &attr->active_speed, &attr->active_width);
	}
	attr->state = ib_get_curr_port_state(ndev);
	if (attr->state == IB_PORT_ACTIVE)
		attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	else if (netif_get_flags(ndev) & IFF_UP)
		attr->phys_state = IB_PORT_PHYS_STATE_POLLING;
	else
		attr->phys_state = IB_PORT_PHYS_STATE_DISABLED;
	dev_put(ndev);
	return ret;
}

int rlo_processors(void)
{
	return num_possible_cpus();
}

void rlo_set_ops(struct ib_device *ib, const struct ib_device_ops *ops)
{
	static const struct ib_device_ops owned = { .owner = THIS_MODULE };

	ib->node_type = RDMA_NODE_IB_CA;
	ib_set_device_ops(ib, &owned);
	ib_set_device_ops(ib, ops);
}

void rlo_immutable(struct ib_port_immutable *immutable, const struct ib_port_attr *attr)
{
	/* No queue pair 0: a subnet manager has nothing to configure. */
	immutable->core_cap_flags = attr->lid ? RDMA_CORE_PORT_IBA_IB & ~RDMA_CORE_CAP_IB_SMI :
						RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	immutable->pkey_tbl_len = attr->pkey_tbl_len;
	immutable->gid_tbl_len = attr->gid_tbl_len;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
}

void rlo_guid(struct net_device *ndev, __be64 *guid)
{
	u8 mac[ETH_ALEN];

	/* lo has no hardware address, but GUIDs must differ. */
	if (ndev->addr_len == ETH_ALEN && is_valid_ether_addr(ndev->dev_addr))
		ether_addr_copy(mac, ndev->dev_addr);
	else
		eth_random_addr(mac);
	addrconf_addr_eui48((u8 *)guid, mac);
}

/* A device without a bus, so that the DMA API checks addresses. */
struct device *rlo_bus_create(int id, unsigned int bits)
{
	struct platform_device *pdev = platform_device_register_simple("rlo", id, NULL, 0);
	int ret;

	if (IS_ERR(pdev))
		return ERR_CAST(pdev);
	ret = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(bits));
	if (ret) {
		platform_device_unregister(pdev);
		return ERR_PTR(ret);
	}
	dma_set_max_seg_size(&pdev->dev, UINT_MAX);
	/* Bounce buffers of the kernel must keep the offset within a page. */
	dma_set_min_align_mask(&pdev->dev, PAGE_SIZE - 1);
	return &pdev->dev;
}

void rlo_bus_destroy(struct device *dev)
{
	platform_device_unregister(to_platform_device(dev));
}

void rlo_event_qp(struct ib_qp *qp, enum ib_event_type type)
{
	struct ib_event event = { .device = qp->device, .element.qp = qp, .event = type };

	if (qp->event_handler)
		qp->event_handler(&event, qp->qp_context);
}

void rlo_event_cq(struct ib_cq *cq, enum ib_event_type type)
{
	struct ib_event event = { .device = cq->device, .element.cq = cq, .event = type };

	if (cq->event_handler)
		cq->event_handler(&event, cq->cq_context);
}

void rlo_event_srq(struct ib_srq *srq, enum ib_event_type type)
{
	struct ib_event event = { .device = srq->device, .element.srq = srq, .event = type };

	if (srq->event_handler)
		srq->event_handler(&event, srq->srq_context);
}

struct rdma_hw_stats *rlo_stats_alloc(const struct rdma_stat_desc *descs, int count)
{
	return rdma_alloc_hw_stats_struct(descs, count, RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

u64 rlo_random(void)
{
	return get_random_u64();
}

void rlo_cond_resched(void)
{
	cond_resched();
}

/*
 * memcpy() if possible, because it is faster: for aligned memory, memmove()
 * is a string instruction, which is slow on some processors.
 */
void rlo_copy_run(void *to, const void *from, size_t len)
{
	uintptr_t a = (uintptr_t)to, b = (uintptr_t)from;

	if ((a < b ? b - a : a - b) >= len)
		memcpy(to, from, len);
	else
		memmove(to, from, len);
}
