// SPDX-License-Identifier: GPL-2.0
/*
 * struct sock: its words, its beginning and its end.
 * helpers.h has the declarations.
 */
#include <linux/bpf.h>
#include <linux/cgroup.h>
#include <linux/cred.h>
#include <linux/errno.h>
#include <linux/memcontrol.h>
#include <linux/net.h>
#include <linux/security.h>
#include <linux/skbuff.h>
#include <linux/sock_diag.h>
#include <linux/user_namespace.h>
#include <net/inet_common.h>
#include <net/ip.h>
#include <net/ipv6.h>

#include "helpers.h"
#include "page.h"

struct page_frag *sdp_sk_frag(struct sock *sk)
{
	return &sk->sk_frag;
}

/* For a new socket that no other code knows. */
void sdp_sock_prepare(struct sock *sk)
{
	sdp_companion_init(sk);
	/* Data pages are charged to the cgroup of the sender and stay with
	 * this socket, so the per-task fragment must not be used.
	 */
	sk->sk_allocation = SDP_GFP_PAYLOAD;
	sk->sk_use_task_frag = false;
}

/*
 * Frees notices, and options that other code has stored in the fields of Internet sockets.
 */
void sdp_sock_forget(struct sock *sk)
{
	struct rust_net_inet *start = container_of(sk, struct rust_net_inet, inet.sk);
	struct ip_options_rcu *v4;
#if IS_ENABLED(CONFIG_IPV6)
	struct ipv6_txoptions *options;

	options = unrcu_pointer(xchg(&start->inet6.opt, NULL));
	if (options) {
		atomic_sub(options->tot_len, &sk->sk_omem_alloc);
		txopt_put(options);
	}
#endif
	v4 = unrcu_pointer(xchg(&start->inet.inet_opt, NULL));
	if (v4)
		kfree_rcu(v4, rcu);
	skb_queue_purge(&sk->sk_error_queue);
}

/* As cgroup_sk_clone(), which is not for modules, for a child that has a cgroup already. */
static void inherit_cgroup(struct sock *child, struct sock *parent)
{
#ifdef CONFIG_SOCK_CGROUP_DATA
	struct cgroup *worker = sock_cgroup_ptr(&child->sk_cgrp_data);
	struct cgroup *listener = sock_cgroup_ptr(&parent->sk_cgrp_data);

	cgroup_get(listener);
	cgroup_bpf_get(listener);
	child->sk_cgrp_data = parent->sk_cgrp_data;
	cgroup_bpf_put(worker);
	cgroup_put(worker);
#endif
}

void sdp_sock_inherit(struct sock *child, struct sock *parent)
{
	static const enum sock_flags inherited[] = {
		SOCK_KEEPOPEN, SOCK_LINGER, SOCK_URGINLINE, SOCK_BROADCAST,
		SOCK_LOCALROUTE, SOCK_ZEROCOPY, SOCK_RCVTSTAMP,
		SOCK_RCVTSTAMPNS, SOCK_TSTAMP_NEW, SOCK_RXQ_OVFL,
		SOCK_SELECT_ERR_QUEUE, SOCK_RCVMARK, SOCK_RCVPRIORITY,
		SOCK_WIFI_STATUS, SOCK_NOFCS, SOCK_DBG, SOCK_TXTIME,
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(inherited); i++)
		sock_valbool_flag(child, inherited[i],
				  sock_flag(parent, inherited[i]));
	child->sk_sndbuf = READ_ONCE(parent->sk_sndbuf);
	child->sk_rcvbuf = READ_ONCE(parent->sk_rcvbuf);
	child->sk_rcvlowat = READ_ONCE(parent->sk_rcvlowat);
	child->sk_rcvtimeo = READ_ONCE(parent->sk_rcvtimeo);
	child->sk_sndtimeo = READ_ONCE(parent->sk_sndtimeo);
	child->sk_lingertime = READ_ONCE(parent->sk_lingertime);
	/* SO_PRIORITY starts at 0, as with TCP. */
	child->sk_mark = READ_ONCE(parent->sk_mark);
	WRITE_ONCE(child->sk_uid, sk_uid(parent));
	child->sk_max_pacing_rate = READ_ONCE(parent->sk_max_pacing_rate);
	child->sk_clockid = parent->sk_clockid;
	child->sk_txtime_deadline_mode = parent->sk_txtime_deadline_mode;
	child->sk_txtime_report_errors = parent->sk_txtime_report_errors;
	child->sk_tsflags = READ_ONCE(parent->sk_tsflags);
	child->sk_no_check_tx = parent->sk_no_check_tx;
#ifdef CONFIG_NET_RX_BUSY_POLL
	child->sk_ll_usec = READ_ONCE(parent->sk_ll_usec);
	child->sk_prefer_busy_poll = READ_ONCE(parent->sk_prefer_busy_poll);
	child->sk_busy_poll_budget = READ_ONCE(parent->sk_busy_poll_budget);
#endif
	child->sk_reuse = parent->sk_reuse;
	child->sk_reuseport = parent->sk_reuseport;
	child->sk_peek_off = READ_ONCE(parent->sk_peek_off);
	child->sk_userlocks = parent->sk_userlocks &
			      (SOCK_SNDBUF_LOCK | SOCK_RCVBUF_LOCK);
	child->sk_bound_dev_if = READ_ONCE(parent->sk_bound_dev_if);
	security_sk_clone(parent, child);
	/* A worker made the child: it belongs to the cgroup of its listener. */
	inherit_cgroup(child, parent);
#ifdef CONFIG_MEMCG
	if (parent->sk_memcg && !child->sk_memcg &&
	    css_tryget(&parent->sk_memcg->css))
		child->sk_memcg = parent->sk_memcg;
#endif
}

/*
 * The user to whom the socket that the task makes counts. A user who makes a
 * user namespace may be many users inside of it (/etc/subuid), and one outside.
 * Namespaces that root has made, as for containers, do not change who it is.
 */
unsigned int sdp_responsible_user(void)
{
	const struct user_namespace *ns = current_user_ns();
	kuid_t user = current_fsuid();

	for (; ns != &init_user_ns; ns = ns->parent)
		if (!uid_eq(ns->owner, GLOBAL_ROOT_UID))
			user = ns->owner;
	return __kuid_val(user);
}

bool sdp_is_bpf(void)
{
	return has_current_bpf_ctx();
}

/* As SO_COOKIE shows it. */
u64 sdp_sock_cookie(struct sock *sk)
{
	u32 halves[2];

	sock_diag_save_cookie(sk, halves);
	return (u64)halves[1] << 32 | halves[0];
}
