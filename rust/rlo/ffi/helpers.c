// SPDX-License-Identifier: GPL-2.0
/*
 * Addresses, the device and its port, and events of ib_core, for Rust.
 */
#include <linux/dma-direct.h>
#include <linux/dma-mapping.h>
#include <linux/etherdevice.h>
#include <linux/kasan.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/platform_device.h>
#include <linux/uaccess.h>
#include <net/addrconf.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_verbs.h>

#include "helpers.h"

/*
 * Whether a range is in the direct map. Addresses come from consumers in the
 * kernel. Addresses of vmalloc() or of a program would be a mistake; all that are
 * mapped linearly are as good as each other. On x86, virt_addr_valid() takes 50
 * instructions for a page, and high_memory is right when memory was added; not
 * so on other architectures.
 */
static bool is_linear(const void *first, const void *last)
{
	if (IS_ENABLED(CONFIG_X86) && !IS_ENABLED(CONFIG_UML))
		return first >= (void *)PAGE_OFFSET && last < high_memory;
	return virt_addr_valid(first) && virt_addr_valid(last);
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
	/* Addresses may have tags of KASAN, which their use checks. */
	first = kasan_reset_tag((void *)(uintptr_t)address);
	last = first + len - 1;
	if (last < first || !is_linear(first, last))
		return NULL;
	return (void *)(uintptr_t)address;
}

/*
 * A page that is not online is a device's, or was removed. One that is online can
 * still lack a place in the direct map: a hole of the memory, or a page that a
 * program has hidden (memfd_secret). So a byte of each is read. Reserved pages are
 * fine: a consumer may have the peer read the page of zeroes.
 */
bool rlo_pages_exist(struct device *dev, u64 address, size_t len)
{
	phys_addr_t phys;
	u64 page;
	u8 byte;

	for (page = address & PAGE_MASK; page < address + len; page += PAGE_SIZE) {
		const void *at = kasan_reset_tag((void *)(uintptr_t)page);

		if (!dev && !virt_addr_valid(at))
			return false;
		phys = dev ? dma_to_phys(dev, page) : virt_to_phys((void *)at);
		if (!pfn_to_online_page(PHYS_PFN(phys)) ||
		    get_kernel_nofault(byte, (const u8 *)phys_to_virt(phys)))
			return false;
	}
	return true;
}

int rlo_device_register(struct rlo_device_object *object, const char *name,
			struct device *dma_device)
{
	int ret = ib_device_set_netdev(&object->ib, object->ndev, 1);
	struct net *net = object->net;

	if (ret)
		return ret;
	/* A device that is registered may be gone after the call. */
	object->net = NULL;
	ret = ib_register_device(&object->ib, name, dma_device);
	put_net(net);
	return ret;
}

void rlo_port_state(struct ib_device *ib, struct ib_port_attr *attr)
{
	const struct rlo_device_object *object = container_of(ib, struct rlo_device_object, ib);
	struct net_device *ndev = ib_device_get_netdev(ib, 1);

	attr->state = IB_PORT_DOWN;
	attr->phys_state = IB_PORT_PHYS_STATE_DISABLED;
	if (object->lid) {
		/* A speed of the standard; it does not limit the copies. */
		attr->active_speed = IB_SPEED_EDR;
		attr->active_width = IB_WIDTH_4X;
		attr->lid = object->lid;
		attr->sm_lid = RLO_LID_SM;
		attr->subnet_timeout = 18;
		attr->gid_tbl_len = 1;
		attr->active_mtu = IB_MTU_256;
	} else {
		attr->active_speed = IB_SPEED_SDR;
		attr->active_width = IB_WIDTH_1X;
	}
	/* The device is removed some time after its interface. */
	if (!ndev)
		return;
	/* Datagrams are frames, so the interface's MTU limits them. */
	if (object->lid)
		attr->active_mtu = ib_mtu_int_to_enum(READ_ONCE(ndev->mtu) -
						      sizeof(struct rlo_frame));
	else
		/* An interface that is being removed has no speed, and changes nothing. */
		ib_get_eth_speed(ib, 1, &attr->active_speed, &attr->active_width);
	attr->state = ib_get_curr_port_state(ndev);
	if (attr->state == IB_PORT_ACTIVE)
		attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	else if (netif_get_flags(ndev) & IFF_UP)
		attr->phys_state = IB_PORT_PHYS_STATE_POLLING;
	dev_put(ndev);
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
