// SPDX-License-Identifier: GPL-2.0
/*
 * struct sock: its words, its beginning and its end.
 * helpers.h has the declarations.
 */
#include <linux/bpf.h>
#include <linux/cgroup.h>
#include <linux/errno.h>
#include <linux/memcontrol.h>
#include <linux/net.h>
#include <linux/security.h>
#include <linux/sock_diag.h>
#include <net/inet_common.h>
#include <net/ip.h>
#include <net/ipv6.h>

#include "helpers.h"
#include "page.h"

void sdp_lock_sock(struct sock *sk)
{
	lock_sock(sk);
}

void sdp_sock_hold(struct sock *sk)
{
	sock_hold(sk);
}

bool sdp_sock_hold_unless_zero(struct sock *sk)
{
	return refcount_inc_not_zero(&sk->sk_refcnt);
}

void sdp_sock_put(struct sock *sk)
{
	sock_put(sk);
}

struct net *sdp_sock_net(const struct sock *sk)
{
	return sock_net(sk);
}

bool sdp_sock_flag(const struct sock *sk, unsigned int flag)
{
	return sock_flag(sk, flag);
}

struct page_frag *sdp_sk_frag(struct sock *sk)
{
	return &sk->sk_frag;
}

/* The callback of a new socket, which wakes tasks and no code of the kernel. */
static void (*data_ready)(struct sock *sk);

/*
 * Whether anybody is told of news without being in a call: a task in poll(), an
 * epoll instance, the owner of SIGIO, or code of the kernel with a callback.
 */
bool sdp_is_watched(struct sock *sk)
{
	struct socket_wq *wq;
	bool watched;

	rcu_read_lock();
	wq = rcu_dereference(sk->sk_wq);
	watched = wq && (waitqueue_active(&wq->wait) || wq->fasync_list);
	rcu_read_unlock();
	return watched || READ_ONCE(sk->sk_data_ready) !=
			  READ_ONCE(data_ready);
}

void sdp_sock_init(struct socket *sock, struct sock *sk,
		   void (*destruct)(struct sock *sk))
{
	struct sdp_inet *start = container_of(sk, struct sdp_inet, inet.sk);

	sock_init_data(sock, sk);
	WRITE_ONCE(data_ready, sk->sk_data_ready);
#if IS_ENABLED(CONFIG_IPV6)
	start->inet.pinet6 = &start->inet6;
#endif
	sk->sk_destruct = destruct;
	sk->sk_type = SOCK_STREAM;
	sk->sk_protocol = IPPROTO_TCP;
	sdp_companion_init(sk);
	/* Data pages are charged to the cgroup of the sender and stay with
	 * this socket, so the per-task fragment must not be used.
	 */
	sk->sk_allocation = SDP_GFP_PAYLOAD;
	sk->sk_use_task_frag = false;
	/*
	 * Options of SOL_SOCKET come here, because the core reserves some to
	 * other families.
	 */
	if (sock) {
		set_bit(SOCK_CUSTOM_SOCKOPT, &sock->flags);
		set_bit(SOCK_SUPPORT_ZC, &sock->flags);
	}
}

/*
 * Frees options that other code has stored in the fields of Internet sockets.
 */
void sdp_sock_forget_options(struct sock *sk)
{
	struct sdp_inet *start = container_of(sk, struct sdp_inet, inet.sk);
#if IS_ENABLED(CONFIG_IPV6)
	struct ipv6_txoptions *options;

	options = unrcu_pointer(xchg(&start->inet6.opt, NULL));
	if (options) {
		atomic_sub(options->tot_len, &sk->sk_omem_alloc);
		txopt_put(options);
	}
#endif
	kfree_rcu(rcu_dereference_protected(start->inet.inet_opt, 1), rcu);
}

void sdp_sock_graft(struct sock *sk, struct socket *parent)
{
	sock_graft(sk, parent);
	set_bit(SOCK_CUSTOM_SOCKOPT, &parent->flags);
	set_bit(SOCK_SUPPORT_ZC, &parent->flags);
}

void sdp_sock_orphan(struct sock *sk)
{
	sock_orphan(sk);
}

/* SO_INCOMING_CPU: the processor that handled the last message. */
void sdp_note_processor(struct sock *sk)
{
	sk_incoming_cpu_update(sk);
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

/* Number of disconnects while a task may have waited for the peer. */
int sdp_disconnects(const struct sock *sk)
{
	return READ_ONCE(sk->sk_disconnects);
}

void sdp_note_disconnect(struct sock *sk)
{
	WRITE_ONCE(sk->sk_disconnects, sk->sk_disconnects + 1);
}

int sdp_inet_ioctl(struct socket *sock, unsigned int command, unsigned long arg)
{
	return inet_ioctl(sock, command, arg);
}

int sdp_sock_error(struct sock *sk)
{
	return sock_error(sk);
}

int sdp_sock_cmsg_check(struct sock *sk, struct msghdr *msg)
{
	struct sockcm_cookie cookie;

	if (!msg->msg_controllen)
		return 0;
	sockcm_init(&cookie, sk);
	return sock_cmsg_send(sk, msg, &cookie);
}

void sdp_set_err(struct sock *sk, int err)
{
	WRITE_ONCE(sk->sk_err, err);
}

int sdp_get_err(const struct sock *sk)
{
	return READ_ONCE(sk->sk_err);
}

int sdp_get_shutdown(const struct sock *sk)
{
	return READ_ONCE(sk->sk_shutdown);
}

void sdp_set_shutdown(struct sock *sk, int how)
{
	WRITE_ONCE(sk->sk_shutdown, READ_ONCE(sk->sk_shutdown) | how);
}

void sdp_clear_shutdown(struct sock *sk)
{
	WRITE_ONCE(sk->sk_shutdown, 0);
}

int sdp_get_state(const struct sock *sk)
{
	return READ_ONCE(sk->sk_state);
}

void sdp_set_state(struct sock *sk, int state)
{
	WRITE_ONCE(sk->sk_state, state);
}

int sdp_get_sndbuf(const struct sock *sk)
{
	return READ_ONCE(sk->sk_sndbuf);
}

/*
 * As tcp_sndbuf_expand(): a size that the program has set stays. Without the
 * socket lock, which setsockopt() has, hence the comparison.
 */
void sdp_grow_sndbuf(struct sock *sk, int bytes)
{
	int before = READ_ONCE(sk->sk_sndbuf);

	/* setsockopt() sets the flag before the size. */
	smp_rmb();
	if (bytes > before && !(sk->sk_userlocks & SOCK_SNDBUF_LOCK))
		cmpxchg(&sk->sk_sndbuf, before, bytes);
}

int sdp_get_rcvbuf(const struct sock *sk)
{
	return READ_ONCE(sk->sk_rcvbuf);
}

bool sdp_has_own_rcvbuf(const struct sock *sk)
{
	return READ_ONCE(sk->sk_userlocks) & SOCK_RCVBUF_LOCK;
}

void sdp_set_wmem_queued(struct sock *sk, int bytes)
{
	WRITE_ONCE(sk->sk_wmem_queued, bytes);
}

long sdp_sock_sndtimeo(const struct sock *sk, bool nonblock)
{
	return sock_sndtimeo(sk, nonblock);
}

long sdp_sock_rcvtimeo(const struct sock *sk, bool nonblock)
{
	return sock_rcvtimeo(sk, nonblock);
}

int sdp_sock_rcvlowat(const struct sock *sk, bool waitall, int len)
{
	return sock_rcvlowat(sk, waitall, len);
}

bool sdp_sock_linger(const struct sock *sk, unsigned long *jiffies)
{
	*jiffies = READ_ONCE(sk->sk_lingertime);
	return sock_flag(sk, SOCK_LINGER);
}

bool sdp_is_bpf(void)
{
	return has_current_bpf_ctx();
}

void sdp_note_no_space(struct sock *sk)
{
	sk_set_bit(SOCKWQ_ASYNC_NOSPACE, sk);
	set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	/* Pairs with the test in sdp_wake_writable(). */
	smp_mb__after_atomic();
}

unsigned long sdp_sock_inode(struct sock *sk)
{
	return sock_i_ino(sk);
}

unsigned int sdp_sock_uid(struct sock *sk)
{
	return from_kuid_munged(sock_net(sk)->user_ns, sk_uid(sk));
}

unsigned int sdp_sock_kuid(struct sock *sk)
{
	return __kuid_val(sk_uid(sk));
}

/* As SO_COOKIE shows it. */
u64 sdp_sock_cookie(struct sock *sk)
{
	u32 halves[2];

	sock_diag_save_cookie(sk, halves);
	return (u64)halves[1] << 32 | halves[0];
}
