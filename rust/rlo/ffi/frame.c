// SPDX-License-Identifier: GPL-2.0
/*
 * Frames between interfaces: probes that show whether one interface can be
 * reached from another, and datagrams. They are ordinary Ethernet frames, so
 * bridges, VLANs and filters of the network treat them like all others.
 */
#include <linux/etherdevice.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <net/ip.h>
#include <rdma/ib_cache.h>

#include "helpers.h"

/* The first EtherType of IEEE 802 for local experiments. */
#define FRAME_TYPE 0x88b5

/* The outgoing interface and the destination's hardware address. Under RCU. */
static struct net_device *way_of(const struct rlo_av *av, u8 dmac[ETH_ALEN])
{
	if (!av->slid) {
		ether_addr_copy(dmac, av->dmac);
		return rdma_read_gid_attr_ndev_rcu(av->sgid_attr);
	}
	if (!av->dlid || (av->dlid >= RLO_LID_MULTICAST && av->dlid != RLO_LID_PERMISSIVE))
		eth_broadcast_addr(dmac);
	else if (!rlo_lid_address(av->dlid, dmac))
		return ERR_PTR(-ENETUNREACH);
	return av->object->ndev;
}

struct sk_buff *rlo_frame_new(const struct rlo_av *av, const struct rlo_frame *head,
			      void **payload)
{
	struct net_device *ndev;
	struct sk_buff *skb = NULL;
	unsigned int len = sizeof(*head) + head->len;
	u8 dmac[ETH_ALEN];

	rcu_read_lock();
	ndev = way_of(av, dmac);
	if (IS_ERR(ndev) || !netif_running(ndev) || len > READ_ONCE(ndev->mtu))
		goto out;
	skb = alloc_skb(LL_RESERVED_SPACE(ndev) + len + ndev->needed_tailroom, GFP_ATOMIC);
	if (!skb)
		goto out;
	skb_reserve(skb, LL_RESERVED_SPACE(ndev));
	skb_reset_network_header(skb);
	skb->protocol = htons(FRAME_TYPE);
	skb->dev = ndev;
	skb_put_data(skb, head, sizeof(*head));
	if (payload)
		*payload = skb_put_zero(skb, head->len);
	if (dev_hard_header(skb, ndev, FRAME_TYPE, dmac, ndev->dev_addr, skb->len) < 0) {
		kfree_skb(skb);
		skb = NULL;
		goto out;
	}
	dev_hold(ndev);
out:
	rcu_read_unlock();
	return skb;
}

void rlo_frame_send(struct sk_buff *skb)
{
	struct net_device *ndev = skb->dev;

	dev_queue_xmit(skb);
	dev_put(ndev);
}

void rlo_frame_drop(struct sk_buff *skb)
{
	struct net_device *ndev = skb->dev;

	kfree_skb(skb);
	dev_put(ndev);
}

void rlo_frame_answer(struct sk_buff *to, const struct rlo_frame *head)
{
	struct net_device *ndev = to->dev;
	struct sk_buff *skb;

	if (sizeof(*head) > READ_ONCE(ndev->mtu))
		return;
	skb = alloc_skb(LL_RESERVED_SPACE(ndev) + sizeof(*head) + ndev->needed_tailroom,
			GFP_ATOMIC);
	if (!skb)
		return;
	skb_reserve(skb, LL_RESERVED_SPACE(ndev));
	skb_reset_network_header(skb);
	skb->protocol = htons(FRAME_TYPE);
	skb->dev = ndev;
	skb_put_data(skb, head, sizeof(*head));
	if (dev_hard_header(skb, ndev, FRAME_TYPE, eth_hdr(to)->h_source, ndev->dev_addr,
			    skb->len) < 0) {
		kfree_skb(skb);
		return;
	}
	dev_queue_xmit(skb);
}

static int frame_receive(struct sk_buff *skb, struct net_device *dev, struct packet_type *type,
			 struct net_device *orig_dev)
{
	struct rlo_frame head;
	bool holds;

	if (skb->pkt_type != PACKET_HOST && skb->pkt_type != PACKET_LOOPBACK &&
	    skb->pkt_type != PACKET_BROADCAST)
		goto drop;
	if (skb_linearize(skb) || skb->len < sizeof(head))
		goto drop;
	memcpy(&head, skb->data, sizeof(head));
	if (head.magic != RLO_FRAME_MAGIC || head.len > skb->len - sizeof(head))
		goto drop;
	/* RoCE has no use for broadcasts. */
	if (skb->pkt_type == PACKET_BROADCAST && !head.slid)
		goto drop;
	holds = rlo_bells_hold_in_softirq();
	rlo_frame_received(dev, skb, &head, skb->data + sizeof(head));
	if (holds)
		rlo_bells_release();
	consume_skb(skb);
	return NET_RX_SUCCESS;
drop:
	kfree_skb(skb);
	return NET_RX_DROP;
}

static struct packet_type frames = {
	.type = cpu_to_be16(FRAME_TYPE),
	.func = frame_receive,
};

int rlo_frames_init(void)
{
	dev_add_pack(&frames);
	return 0;
}

void rlo_frames_exit(void)
{
	dev_remove_pack(&frames);
}

u8 rlo_network_type(const struct rlo_frame *head)
{
	return ipv6_addr_v4mapped((struct in6_addr *)&head->sgid) ? RDMA_NETWORK_IPV4 :
								   RDMA_NETWORK_IPV6;
}

static void infiniband_grh_fill(struct ib_grh *grh, const struct rlo_frame *head)
{
	grh->version_tclass_flow = cpu_to_be32(6 << 28 | head->traffic_class << 20);
	grh->paylen = cpu_to_be16(head->len);
	grh->next_hdr = 0x1b;
	grh->hop_limit = head->hop_limit;
	grh->sgid = head->sgid;
	grh->dgid = head->dgid;
}

void rlo_grh_fill(u8 grh[40], const struct rlo_frame *head)
{
	u16 len = head->len;

	memset(grh, 0, 40);
	if (head->slid) {
		if (head->flags & RLO_FRAME_GRH)
			infiniband_grh_fill((struct ib_grh *)grh, head);
	} else if (rlo_network_type(head) == RDMA_NETWORK_IPV4) {
		struct iphdr *ip = (struct iphdr *)(grh + 20);

		ip->version = 4;
		ip->ihl = 5;
		ip->tos = head->traffic_class;
		ip->tot_len = htons(sizeof(*ip) + len);
		ip->ttl = head->hop_limit;
		ip->protocol = IPPROTO_UDP;
		memcpy(&ip->saddr, head->sgid.raw + 12, 4);
		memcpy(&ip->daddr, head->dgid.raw + 12, 4);
		ip_send_check(ip);
	} else {
		struct ipv6hdr *ip = (struct ipv6hdr *)grh;

		ip->version = 6;
		ip->priority = head->traffic_class >> 4;
		ip->payload_len = htons(len);
		ip->nexthdr = IPPROTO_UDP;
		ip->hop_limit = head->hop_limit;
		memcpy(&ip->saddr, head->sgid.raw, 16);
		memcpy(&ip->daddr, head->dgid.raw, 16);
	}
}
