// SPDX-License-Identifier: GPL-2.0
/*
 * The route from an address to another, as TCP would find it.
 * helpers.h has the declarations.
 */
#include <linux/inetdevice.h>
#include <linux/security.h>
#include <net/addrconf.h>
#include <net/ip.h>
#include <net/ip_fib.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/l3mdev.h>
#include <net/route.h>

#include "helpers.h"

static bool has_address4(const struct net_device *dev, __be32 addr)
{
	struct in_device *in_dev = __in_dev_get_rcu(dev);
	const struct in_ifaddr *ifa;

	if (in_dev)
		in_dev_for_each_ifa_rcu(ifa, in_dev)
			if (ifa->ifa_local == addr)
				return true;
	return false;
}

/*
 * Whether policies let plain packets of TCP go to @peer by this route, and come
 * from there. SDP cannot transform them, so it is unreachable then.
 */
static int ask_policies(struct net *net, struct dst_entry *dst, struct flowi *fl,
			const void *peer, const void *local, struct sdp_way *way)
{
	int err = sdp_ask_ipsec_out(net, dst, fl);

	if (!err)
		err = sdp_ask_ipsec_in(net, dst->dev->ifindex, peer, local);
	way->is_for_ipsec = err && err != -ENOMEM;
	return err;
}

/*
 * The route that TCP would use, by all fields that rules may use: mark, user,
 * ports, class of service. rdma_cm looks it up once more, by addresses and
 * interface alone, so it is told the interface, and the next hop if it would
 * choose another one.
 */
static int find_way4(const struct sock *sk, u8 class,
		     const struct sockaddr_in *dst, struct sockaddr_in *src,
		     struct sdp_way *way)
{
	struct sockaddr_in *next = (struct sockaddr_in *)&way->next;
	struct net *net = sock_net(sk);
	struct flowi4 fl4 = {
		.daddr = dst->sin_addr.s_addr,
		.saddr = src->sin_addr.s_addr,
		.flowi4_oif = READ_ONCE(sk->sk_bound_dev_if),
		.flowi4_mark = READ_ONCE(sk->sk_mark),
		.flowi4_uid = sk_uid(sk),
		.flowi4_dscp = inet_dsfield_to_dscp(class),
		.flowi4_scope = sock_flag(sk, SOCK_LOCALROUTE) ?
				RT_SCOPE_LINK : RT_SCOPE_UNIVERSE,
		.flowi4_proto = IPPROTO_TCP,
		.fl4_dport = dst->sin_port,
		.fl4_sport = src->sin_port,
	};
	struct rtable *rt, *other;
	__be32 gateway = 0;
	int err = 0;

	security_sk_classify_flow(sk, flowi4_to_flowi_common(&fl4));
	rt = __ip_route_output_key(net, &fl4);
	if (IS_ERR(rt))
		return PTR_ERR(rt);
	if (rt->rt_flags & (RTCF_MULTICAST | RTCF_BROADCAST)) {
		err = -ENETUNREACH;
		goto put;
	}
	src->sin_addr.s_addr = fl4.saddr;
	fl4.flowi4_oif = rt->dst.dev->ifindex;
	err = ask_policies(net, &rt->dst, flowi4_to_flowi(&fl4), dst, src, way);
	if (err || rt->rt_type == RTN_LOCAL)
		goto put;
	rcu_read_lock();
	if (has_address4(rt->dst.dev, fl4.saddr))
		way->device = rt->dst.dev->ifindex;
	rcu_read_unlock();
	if (rt->rt_uses_gateway && rt->rt_gw_family == AF_INET &&
	    rt->dst.dev->type != ARPHRD_INFINIBAND)
		gateway = rt->rt_gw4;
	if (!way->device || !gateway)
		goto put;
	fl4 = (struct flowi4){
		.daddr = dst->sin_addr.s_addr,
		.saddr = fl4.saddr,
		.flowi4_oif = way->device,
	};
	other = ip_route_output_key(net, &fl4);
	if (IS_ERR(other) || !other->rt_uses_gateway ||
	    other->rt_gw_family != AF_INET || other->rt_gw4 != gateway) {
		way->through = true;
		next->sin_family = AF_INET;
		next->sin_addr.s_addr = gateway;
	}
	if (!IS_ERR(other))
		ip_rt_put(other);
put:
	ip_rt_put(rt);
	return err;
}

#if IS_ENABLED(CONFIG_IPV6)
static int find_way6(const struct sock *sk, u8 class,
		     const struct sockaddr_in6 *dst, struct sockaddr_in6 *src,
		     struct sdp_way *way)
{
	struct sockaddr_in6 *next = (struct sockaddr_in6 *)&way->next;
	struct net *net = sock_net(sk);
	struct flowi6 fl6 = {
		.daddr = dst->sin6_addr,
		.saddr = src->sin6_addr,
		.flowi6_oif = dst->sin6_scope_id ?:
			      READ_ONCE(sk->sk_bound_dev_if),
		.flowi6_mark = READ_ONCE(sk->sk_mark),
		.flowi6_uid = sk_uid(sk),
		.flowlabel = ip6_make_flowinfo(class, 0),
		.flowi6_proto = IPPROTO_TCP,
		.fl6_dport = dst->sin6_port,
		.fl6_sport = src->sin6_port,
	};
	struct dst_entry *entry, *other;
	const struct rt6_info *rt;
	bool has_gateway = false;
	int err;

	if (!ipv6_mod_enabled())
		return -EAFNOSUPPORT;
	security_sk_classify_flow(sk, flowi6_to_flowi_common(&fl6));
	err = ip6_dst_lookup(net, NULL, &entry, &fl6);
	if (err)
		return err;
	src->sin6_addr = fl6.saddr;
	rt = dst_rt6_info(entry);
	err = ask_policies(net, entry, flowi6_to_flowi(&fl6), dst, src, way);
	if (err)
		goto put;
	if (!(rt->rt6i_flags & RTF_LOCAL)) {
		if (ipv6_chk_addr(net, &fl6.saddr, entry->dev, 1))
			way->device = entry->dev->ifindex;
		has_gateway = rt->rt6i_flags & RTF_GATEWAY &&
			      entry->dev->type != ARPHRD_INFINIBAND;
	}
	if (way->device && has_gateway) {
		fl6 = (struct flowi6){
			.daddr = dst->sin6_addr,
			.saddr = fl6.saddr,
			.flowi6_oif = way->device,
		};
		other = NULL;
		if (ip6_dst_lookup(net, NULL, &other, &fl6) ||
		    !ipv6_addr_equal(&dst_rt6_info(other)->rt6i_gateway,
				     &rt->rt6i_gateway)) {
			way->through = true;
			next->sin6_family = AF_INET6;
			next->sin6_addr = rt->rt6i_gateway;
			next->sin6_scope_id = way->device;
		}
		dst_release(other);
	}
put:
	dst_release(entry);
	return err;
}
#endif

/*
 * The route from @src to @dst. Unknown parts of @src are zeros; its address is
 * filled in.
 */
int sdp_find_way(const struct sock *sk, u8 class,
		 const struct sockaddr_storage *dst,
		 struct sockaddr_storage *src, struct sdp_way *way)
{
	memset(way, 0, sizeof(*way));
	if (dst->ss_family == AF_INET)
		return find_way4(sk, class, (const struct sockaddr_in *)dst,
				 (struct sockaddr_in *)src, way);
#if IS_ENABLED(CONFIG_IPV6)
	return find_way6(sk, class, (const struct sockaddr_in6 *)dst,
			 (struct sockaddr_in6 *)src, way);
#else
	return -ENETUNREACH;
#endif
}

/*
 * The class of service with which rdma_cm asks the administrator of a subnet
 * for a path between IPv6 addresses, because it ignores rdma_set_service_type()
 * there.
 */
void sdp_addr_set_class(struct sockaddr_in6 *addr, u8 class)
{
	addr->sin6_flowinfo = cpu_to_be32(class << 20);
}

/*
 * Whether packets to @peer from @local would leave by the interface: as rdma_cm
 * checks it if the GID says nothing about the address.
 */
bool sdp_route_is_by(struct net *net, int device, const struct sockaddr *local,
		     const struct sockaddr *peer)
{
	if (local->sa_family != peer->sa_family)
		return false;
	if (local->sa_family == AF_INET) {
		struct flowi4 fl4 = {
			.flowi4_oif = device,
			.daddr = ((struct sockaddr_in *)peer)->sin_addr.s_addr,
			.saddr = ((struct sockaddr_in *)local)->sin_addr.s_addr,
		};
		struct fib_result res;
		bool is;

		if (ipv4_is_multicast(fl4.daddr) || ipv4_is_lbcast(fl4.daddr) ||
		    ipv4_is_zeronet(fl4.daddr))
			return false;
		rcu_read_lock();
		is = !fib_lookup(net, &fl4, &res, 0) &&
		     FIB_RES_DEV(res)->ifindex == device;
		rcu_read_unlock();
		return is;
	}
#if IS_ENABLED(CONFIG_IPV6)
	if (local->sa_family == AF_INET6 && ipv6_mod_enabled()) {
		const struct in6_addr *to =
			&((struct sockaddr_in6 *)peer)->sin6_addr;
		const struct in6_addr *from =
			&((struct sockaddr_in6 *)local)->sin6_addr;
		int strict = ipv6_addr_type(to) & IPV6_ADDR_LINKLOCAL;
		struct rt6_info *rt = rt6_lookup(net, to, from, device, NULL,
						 strict);
		bool is = rt && rt->rt6i_idev->dev->ifindex == device;

		ip6_rt_put(rt);
		return is;
	}
#endif
	return false;
}
