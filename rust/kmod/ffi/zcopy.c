// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of programs: the position of a message's iterator, and notices about
 * lent memory. Wrappers as in helpers.h.
 */
#include <linux/errqueue.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/skbuff.h>
#include <linux/uio.h>
#include <net/sock.h>

#include "helpers.h"
#include "zcopy.h"

/* linux/skbuff.h: notifications of MSG_ZEROCOPY and io_uring */

/*
 * The notification of a call with MSG_ZEROCOPY, with a reference of ours; NULL
 * if there is none: the flag alone means nothing, as in TCP. With lock_sock.
 */
struct ubuf_info *sdp_notice_begin(struct sock *sk, struct msghdr *msg,
				   size_t len)
{
	struct ubuf_info *uarg;

	if (msg->msg_ubuf) {
		net_zcopy_get(msg->msg_ubuf);
		return msg->msg_ubuf;
	}
	if (!sock_flag(sk, SOCK_ZEROCOPY))
		return NULL;
	uarg = msg_zerocopy_realloc(sk, len, NULL, false);
	return uarg ?: ERR_PTR(-ENOBUFS);
}

void sdp_notice_get(struct ubuf_info *uarg)
{
	net_zcopy_get(uarg);
}

/*
 * io_uring takes bytes for copied if no buffer was sent for them. This stands
 * for the buffers that TCP has; no code reads it.
 */
static struct sk_buff lent_memory;

void sdp_notice_put(struct ubuf_info *uarg, bool lent, bool copied)
{
	uarg->ops->complete(lent ? &lent_memory : NULL, uarg, !copied);
}

void sdp_notice_abort(struct ubuf_info *uarg)
{
	if (uarg->ops == &msg_zerocopy_ubuf_ops)
		msg_zerocopy_put_abort(uarg, true);
	else
		net_zcopy_put(uarg);
}

bool sdp_has_notices(const struct sock *sk)
{
	return !skb_queue_empty_lockless(&sk->sk_error_queue);
}

/* As ip_recv_error() and ipv6_recv_error(), which look into a struct inet_sock. */
int sdp_recv_notice(struct sock *sk, struct msghdr *msg, bool v6)
{
	struct {
		struct sock_extended_err ee;
		union {
			struct sockaddr_in v4;
			struct sockaddr_in6 v6;
		} offender;
	} told = {};
	struct sk_buff *skb = sock_dequeue_err_skb(sk);

	if (!skb)
		return -EAGAIN;
	told.ee = SKB_EXT_ERR(skb)->ee;
	if (v6)
		put_cmsg(msg, SOL_IPV6, IPV6_RECVERR,
			 offsetofend(typeof(told), offender.v6), &told);
	else
		put_cmsg(msg, SOL_IP, IP_RECVERR,
			 offsetofend(typeof(told), offender.v4), &told);
	msg->msg_flags |= MSG_ERRQUEUE;
	consume_skb(skb);
	return 0;
}

/* SO_ZEROCOPY, which the core reserves to other families. */
int sdp_set_zerocopy(struct sock *sk, sockptr_t value, unsigned int len)
{
	int on, err;

	err = sdp_sockopt_int(value, len, &on);
	if (err)
		return err;
	if (on < 0 || on > 1)
		return -EINVAL;
	lock_sock(sk);
	sock_valbool_flag(sk, SOCK_ZEROCOPY, on);
	release_sock(sk);
	return 0;
}
