// SPDX-License-Identifier: GPL-2.0
/*
 * Whether the policies of IPsec let a connection be plain.
 *
 * A device transforms nothing, so SDP serves no connection for which a policy
 * demands a transformation of TCP, in either direction. TCP is asked for here as
 * its packets would be: the peer's first one, and one of ours.
 * helpers.h has the declarations.
 */
#include <linux/inetdevice.h>
#include <linux/ipv6.h>
#include <linux/netdevice.h>
#include <linux/security.h>
#include <linux/skbuff.h>
#include <linux/tcp.h>
#include <net/ip.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/l3mdev.h>
#include <net/route.h>
#include <net/xfrm.h>

#include "helpers.h"

/*
 * The answer of a policy about packets with the route @dst: 0, EPERM if it prohibits
 * them, ENETUNREACH if it has them transformed.
 */
int sdp_ask_ipsec_out(struct net *net, struct dst_entry *dst, struct flowi *fl)
{
	struct dst_entry *found;
	int err = 0;

	dst_hold(dst);
	found = xfrm_lookup(net, dst, fl, NULL, 0);
	if (!IS_ERR(found)) {
		if (found != dst)
			err = -ENETUNREACH;
		dst_release(found);
		return err;
	}
	/* Others than these two: a transformation that cannot be made now. */
	err = PTR_ERR(found);
	return err == -EPERM || err == -ENOMEM ? err : -ENETUNREACH;
}

#ifdef CONFIG_XFRM
static void put_head4(struct sk_buff *skb, const struct sockaddr_in *from,
		      const struct sockaddr_in *to)
{
	const struct in_device *in_dev;
	struct iphdr *head = skb_put_zero(skb, sizeof(*head));

	head->version = 4;
	head->ihl = sizeof(*head) / 4;
	head->ttl = 64;
	head->protocol = IPPROTO_TCP;
	head->tot_len = htons(sizeof(*head) + sizeof(struct tcphdr));
	head->saddr = from->sin_addr.s_addr;
	head->daddr = to->sin_addr.s_addr;
	skb->protocol = htons(ETH_P_IP);
	rcu_read_lock();
	in_dev = __in_dev_get_rcu(skb->dev);
	if (in_dev && IN_DEV_ORCONF(in_dev, NOPOLICY))
		IPCB(skb)->flags |= IPSKB_NOPOLICY;
	rcu_read_unlock();
}

static void put_head6(struct sk_buff *skb, const struct sockaddr_in6 *from,
		      const struct sockaddr_in6 *to)
{
	struct ipv6hdr *head = skb_put_zero(skb, sizeof(*head));

	head->version = 6;
	head->hop_limit = 64;
	head->nexthdr = IPPROTO_TCP;
	head->payload_len = htons(sizeof(struct tcphdr));
	head->saddr = from->sin6_addr;
	head->daddr = to->sin6_addr;
	skb->protocol = htons(ETH_P_IPV6);
}

/* The ports have the same place in both kinds of names. */
static void put_tcp(struct sk_buff *skb, const struct sockaddr_in *from,
		    const struct sockaddr_in *to)
{
	struct tcphdr *head;

	skb_set_transport_header(skb, skb->len);
	head = skb_put_zero(skb, sizeof(*head));
	head->source = from->sin_port;
	head->dest = to->sin_port;
	head->doff = sizeof(*head) / 4;
	head->syn = 1;
}

/*
 * The route by which the packet would come in. For IPv6, disable_policy of the
 * interface which has the address counts, and the route to the address knows it.
 */
static void put_route6(struct sk_buff *skb)
{
#if IS_ENABLED(CONFIG_IPV6)
	struct flowi6 fl6 = {
		.daddr = ipv6_hdr(skb)->daddr,
		.saddr = ipv6_hdr(skb)->saddr,
		.flowi6_iif = skb->dev->ifindex,
		.flowi6_proto = IPPROTO_TCP,
	};

	if (ipv6_mod_enabled())
		skb_dst_set(skb, ip6_route_input_lookup(dev_net(skb->dev), skb->dev, &fl6,
							skb, RT6_LOOKUP_F_HAS_SADDR));
#endif
}

/* Whether TCP would take a plain packet that came in by @dev. */
static int ask_about_packet(struct net_device *dev,
			    const struct sockaddr_storage *from,
			    const struct sockaddr_storage *to)
{
	int family = from->ss_family, err = 0;
	struct sk_buff *skb;

	skb = alloc_skb(sizeof(struct ipv6hdr) + sizeof(struct tcphdr), GFP_KERNEL);
	if (!skb)
		return -ENOMEM;
	skb->dev = dev;
	skb->skb_iif = dev->ifindex;
	skb_reset_network_header(skb);
	if (family == AF_INET)
		put_head4(skb, (const struct sockaddr_in *)from,
			  (const struct sockaddr_in *)to);
	else
		put_head6(skb, (const struct sockaddr_in6 *)from,
			  (const struct sockaddr_in6 *)to);
	put_tcp(skb, (const struct sockaddr_in *)from,
		(const struct sockaddr_in *)to);
	if (family == AF_INET6)
		put_route6(skb);
	if (!xfrm_policy_check(NULL, XFRM_POLICY_IN, skb, family))
		err = -ENETUNREACH;
	consume_skb(skb);
	return err;
}
#endif

/*
 * The answer of policies about plain packets from @from to @to, which is this host, by
 * the interface @device: 0, ENETUNREACH or ENOMEM. Sleeps.
 */
int sdp_ask_ipsec_in(struct net *net, int device,
		     const struct sockaddr_storage *from,
		     const struct sockaddr_storage *to)
{
#ifdef CONFIG_XFRM
	struct net_device *dev;
	int err;

	if (!READ_ONCE(net->xfrm.policy_count[XFRM_POLICY_IN]) &&
	    READ_ONCE(net->xfrm.policy_default[XFRM_POLICY_IN]) ==
	    XFRM_USERPOLICY_ACCEPT)
		return 0;
	dev = dev_get_by_index(net, device);
	if (!dev)
		return 0;
	err = ask_about_packet(dev, from, to);
	dev_put(dev);
	return err;
#else
	return 0;
#endif
}

static int ask_answer4(struct net *net, const struct sock *sk, int oif,
		       const struct sockaddr_in *local,
		       const struct sockaddr_in *peer)
{
	struct flowi4 fl4 = {
		.daddr = peer->sin_addr.s_addr,
		.saddr = local->sin_addr.s_addr,
		.flowi4_oif = oif,
		.flowi4_mark = READ_ONCE(sk->sk_mark),
		.flowi4_uid = sk_uid(sk),
		.flowi4_proto = IPPROTO_TCP,
		.fl4_dport = peer->sin_port,
		.fl4_sport = local->sin_port,
	};
	struct rtable *rt;
	int err;

	security_sk_classify_flow(sk, flowi4_to_flowi_common(&fl4));
	rt = __ip_route_output_key(net, &fl4);
	if (IS_ERR(rt))
		return 0;
	fl4.flowi4_oif = rt->dst.dev->ifindex;
	err = sdp_ask_ipsec_out(net, &rt->dst, flowi4_to_flowi(&fl4));
	ip_rt_put(rt);
	return err;
}

#if IS_ENABLED(CONFIG_IPV6)
static int ask_answer6(struct net *net, const struct sock *sk, int oif,
		       const struct sockaddr_in6 *local,
		       const struct sockaddr_in6 *peer)
{
	struct flowi6 fl6 = {
		.daddr = peer->sin6_addr,
		.saddr = local->sin6_addr,
		.flowi6_oif = oif,
		.flowi6_mark = READ_ONCE(sk->sk_mark),
		.flowi6_uid = sk_uid(sk),
		.flowi6_proto = IPPROTO_TCP,
		.fl6_dport = peer->sin6_port,
		.fl6_sport = local->sin6_port,
	};
	struct dst_entry *dst;
	int err;

	if (!ipv6_mod_enabled())
		return 0;
	security_sk_classify_flow(sk, flowi6_to_flowi_common(&fl6));
	if (ip6_dst_lookup(net, NULL, &dst, &fl6))
		return 0;
	err = sdp_ask_ipsec_out(net, dst, flowi6_to_flowi(&fl6));
	dst_release(dst);
	return err;
}
#endif

/*
 * The answer of policies about a plain connection from @peer that came in by @device for
 * the listener @sk: 0, or an error. Without a route back there is no policy for
 * one. If the peer is this host, TCP's packets come by the loopback interface, or
 * the VRF's. Of IPv6, policies matter there as well. Sleeps.
 */
int sdp_ask_ipsec(const struct sock *sk, int device, bool within_host,
		  const struct sockaddr_storage *local,
		  const struct sockaddr_storage *peer)
{
	struct net *net = sock_net(sk);
	int vrf = l3mdev_master_ifindex_by_index(net, device);
	int oif = READ_ONCE(sk->sk_bound_dev_if) ?: vrf;
	int by = within_host ? vrf ?: LOOPBACK_IFINDEX : device;
	int err = sdp_ask_ipsec_in(net, by, peer, local);

	if (err)
		return err;
	if (local->ss_family == AF_INET)
		return ask_answer4(net, sk, oif, (const struct sockaddr_in *)local,
				   (const struct sockaddr_in *)peer);
#if IS_ENABLED(CONFIG_IPV6)
	if (!oif && ipv6_addr_type(&((struct sockaddr_in6 *)peer)->sin6_addr) &
		    IPV6_ADDR_LINKLOCAL)
		oif = device;
	return ask_answer6(net, sk, oif, (const struct sockaddr_in6 *)local,
			   (const struct sockaddr_in6 *)peer);
#else
	return 0;
#endif
}
