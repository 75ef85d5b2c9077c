// SPDX-License-Identifier: GPL-2.0
/*
 * Addresses, ports and users of a namespace, VRFs.
 * helpers.h has the declarations.
 */
#include <linux/inetdevice.h>
#include <linux/seq_file_net.h>
#include <net/addrconf.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/l3mdev.h>
#include <net/netns/generic.h>
#include <net/route.h>

#include "helpers.h"

/* The user of the first namespace with this number, as the owner of @net sees it. */
unsigned int rust_net_uid_of(struct net *net, unsigned int kuid)
{
	return from_kuid_munged(net->user_ns, KUIDT_INIT(kuid));
}

void *rust_net_net_generic(struct net *net, unsigned int id)
{
	return net_generic(net, id);
}

void rust_net_local_port_range(struct net *net, int *low, int *high)
{
	inet_get_local_port_range(net, low, high);
}

bool rust_net_port_is_reserved(struct net *net, unsigned short port)
{
	return inet_is_local_reserved_port(net, port);
}

bool rust_net_may_bind_low_port(struct net *net, unsigned short port)
{
	return !inet_port_requires_bind_service(net, port) ||
	       ns_capable(net->user_ns, CAP_NET_BIND_SERVICE);
}

/* In the VRF of an interface, or outside of all. */
bool rust_net_addr_is_local4(struct net *net, __be32 addr, int device)
{
	u32 table = device ? l3mdev_fib_table_by_index(net, device) : 0;

	return inet_addr_type_table(net, addr, table ?: RT_TABLE_LOCAL) ==
	       RTN_LOCAL;
}

/* False where IPv6 is off (ipv6.disable=1): a namespace has no table then. */
bool rust_net_addr_is_local6(struct net *net, const struct in6_addr *addr,
			     int ifindex)
{
	bool local = false;
#if IS_ENABLED(CONFIG_IPV6)
	struct net_device *dev = NULL;

	if (!ipv6_mod_enabled())
		return false;
	rcu_read_lock();
	if (ifindex)
		dev = dev_get_by_index_rcu(net, ifindex);
	local = ipv6_chk_addr(net, addr, dev, 0);
	rcu_read_unlock();
#endif
	return local;
}

/* The VRF of an interface, which may be the interface itself; 0 for none. */
int rust_net_vrf_of(struct net *net, int device)
{
	return l3mdev_master_ifindex_by_index(net, device);
}

/*
 * Whether sockets outside of all VRFs serve all of them:
 * net.ipv4.tcp_l3mdev_accept.
 */
bool rust_net_vrfs_are_open(struct net *net)
{
#ifdef CONFIG_NET_L3_MASTER_DEV
	return READ_ONCE(net->ipv4.sysctl_tcp_l3mdev_accept);
#else
	return true;
#endif
}

/* The VRF with the ports of the socket; 0 for the common ports. */
int rust_net_sock_vrf(const struct sock *sk)
{
	return inet_sk_bound_l3mdev(sk);
}

/* As inet_request_bound_dev_if(): an accepted socket keeps its interface. */
void rust_net_sock_enter_vrf(struct sock *sk, int vrf)
{
	if (!sk->sk_bound_dev_if)
		sk->sk_bound_dev_if = vrf;
}

bool rust_net_v6only_by_default(struct net *net)
{
#if IS_ENABLED(CONFIG_IPV6)
	return READ_ONCE(net->ipv6.sysctl.bindv6only);
#else
	return false;
#endif
}

struct net *rust_net_sock_net(const struct sock *sk)
{
	return sock_net(sk);
}

struct net *rust_net_seq_net(struct seq_file *m)
{
	return seq_file_single_net(m);
}

void rust_net_put_net(struct net *net)
{
	put_net(net);
}
