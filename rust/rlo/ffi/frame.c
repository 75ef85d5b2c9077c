// SPDX-License-Identifier: GPL-2.0
/*
 * Frames between interfaces: probes that show whether one interface can be
 * reached from another, and datagrams. They are ordinary Ethernet frames, so
 * bridges, VLANs and filters of the network treat them like all others.
 */
#include <linux/etherdevice.h>
#include <linux/if_arp.h>
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

	/* The address of a sender that lies would multiply the answer. */
	if (sizeof(*head) > READ_ONCE(ndev->mtu) ||
	    is_multicast_ether_addr(eth_hdr(to)->h_source))
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

/*
 * Reads the header of a frame that may be for a device. Any tenant can send
 * frames of the EtherType, and others may have the frame as well: it is not
 * changed here, and what costs more comes later.
 */
static bool read_head(const struct sk_buff *skb, const struct net_device *dev,
		      struct rlo_frame *head)
{
	if (dev->type != ARPHRD_ETHER && dev->type != ARPHRD_LOOPBACK)
		return false;
	if (skb->pkt_type != PACKET_HOST && skb->pkt_type != PACKET_LOOPBACK &&
	    skb->pkt_type != PACKET_BROADCAST)
		return false;
	if (skb_copy_bits(skb, 0, head, sizeof(*head)))
		return false;
	if (head->magic != RLO_FRAME_MAGIC || head->len > RLO_FRAME_PAYLOAD ||
	    head->len > skb->len - sizeof(*head))
		return false;
	/* RoCE has no use for broadcasts. */
	return skb->pkt_type != PACKET_BROADCAST || head->slid;
}

const void *rlo_frame_payload(struct sk_buff *skb, const struct rlo_frame *head)
{
	if (!pskb_may_pull(skb, sizeof(*head) + head->len))
		return NULL;
	return skb->data + sizeof(*head);
}

/* The completion of a datagram tells its VLAN; the frame itself does not. */
static void set_vlan(struct rlo_frame *head, struct net_device *dev)
{
	head->flags &= ~RLO_FRAME_VLAN;
	if (head->kind != RLO_FRAME_DATAGRAM || head->slid)
		return;
	head->vlan = rlo_vlan_of(dev);
	if (head->vlan != RLO_NO_VLAN)
		head->flags |= RLO_FRAME_VLAN;
}

/* Under RCU. */
static int frame_receive(struct sk_buff *skb, struct net_device *dev, struct packet_type *type,
			 struct net_device *orig_dev)
{
	struct rlo_frame head;
	const void *own;
	bool holds;

	own = read_head(skb, dev, &head) ? rlo_device_on(dev) : NULL;
	if (!own) {
		kfree_skb(skb);
		return NET_RX_DROP;
	}
	/* A packet socket may have the frame as well. */
	skb = skb_share_check(skb, GFP_ATOMIC);
	if (!skb)
		return NET_RX_DROP;
	set_vlan(&head, dev);
	holds = rlo_bells_hold_in_softirq();
	rlo_frame_received(own, skb, &head);
	if (holds)
		rlo_bells_release();
	consume_skb(skb);
	return NET_RX_SUCCESS;
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
