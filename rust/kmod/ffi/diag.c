// SPDX-License-Identifier: GPL-2.0
/*
 * The sockets of a namespace by NETLINK_SOCK_DIAG: requests, attributes, and where a dump
 * goes on. Rust (diag.rs) gathers the attributes of a socket, this file a TCP half's.
 *
 * A dump holds no lock between two sockets, and none of the table while it looks at one.
 * It goes by the order of the table, in which a socket keeps its place: each that is there
 * from the beginning to the end is shown once.
 */
#include <linux/module.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/sdp_diag.h>
#include <linux/sock_diag.h>
#include <net/netlink.h>
#include <net/sock.h>
#include <net/tcp.h>
#include <net/tcp_states.h>

#include "companion.h"
#include "helpers.h"

/* In the callback of a dump. */
struct dump {
	/* The last socket that was shown, or passed over. */
	unsigned long after;
	u32 states;
	u32 show;
};

static unsigned long (*socket_after)(struct net *net, unsigned long socket);
static struct sock *(*look_at)(struct net *net, unsigned long socket,
			       struct sdp_view *view);

static const struct nla_policy request_policy[SDP_DIAG_SHOW + 1] = {
	[SDP_DIAG_STATES] = { .type = NLA_U32 },
	[SDP_DIAG_SHOW] = NLA_POLICY_MASK(NLA_U32, SDP_DIAG_SHOW_FLOW |
						       SDP_DIAG_SHOW_TRAFFIC),
};

static bool put_address(struct sk_buff *skb, int addr, const u8 *bytes, u8 len,
			u16 port, u32 scope)
{
	/* Port and scope are the attributes behind the address. */
	return nla_put(skb, addr, len, bytes) ||
	       nla_put_be16(skb, addr + 1, htons(port)) ||
	       (scope && nla_put_u32(skb, addr + 2, scope));
}

static bool put_connection(struct sk_buff *skb, const struct sdp_view *view)
{
	return (view->device[0] &&
		nla_put_string(skb, SDP_DIAG_DEVICE, view->device)) ||
	       (view->has_modes &&
		(nla_put_u8(skb, SDP_DIAG_MODE_SEND, view->mode_send) ||
		 nla_put_u8(skb, SDP_DIAG_MODE_RECEIVE, view->mode_receive))) ||
	       (view->offered &&
		nla_put_u64_64bit(skb, SDP_DIAG_OFFERED, view->offered,
				  SDP_DIAG_PAD)) ||
	       (view->end && nla_put_u8(skb, SDP_DIAG_END, view->end)) ||
	       (view->rule[0] && nla_put_string(skb, SDP_DIAG_RULE, view->rule));
}

static bool put_flow(struct sk_buff *skb, const struct sdp_view *view)
{
	return nla_put_u32(skb, SDP_DIAG_CREDITS, view->credits) ||
	       nla_put_u32(skb, SDP_DIAG_POSTED, view->posted) ||
	       nla_put_u32(skb, SDP_DIAG_RCV_SIZE, view->rcv_size) ||
	       nla_put_u32(skb, SDP_DIAG_MAX_PAYLOAD, view->max_payload) ||
	       nla_put_u32(skb, SDP_DIAG_CREDIT_STALLS, view->credit_stalls) ||
	       nla_put_u32(skb, SDP_DIAG_SLOT_STALLS, view->slot_stalls) ||
	       nla_put_u32(skb, SDP_DIAG_ROUND_TRIP_US, view->round_trip_us);
}

static bool put_traffic(struct sk_buff *skb, const struct sdp_view *view)
{
	if (nla_put_64bit(skb, SDP_DIAG_TRAFFIC, sizeof(view->traffic),
			  &view->traffic, SDP_DIAG_PAD) ||
	    (view->cause && nla_put_u8(skb, SDP_DIAG_CAUSE, view->cause)))
		return true;
	if (view->transport == SDP_TRANSPORT_TCP)
		return nla_put_u64_64bit(skb, SDP_DIAG_TCP_SENT, view->tcp_sent,
					 SDP_DIAG_PAD) ||
		       nla_put_u64_64bit(skb, SDP_DIAG_TCP_RECEIVED,
					 view->tcp_received, SDP_DIAG_PAD);
	return nla_put_u32(skb, SDP_DIAG_THRESHOLD, view->threshold) ||
	       nla_put_u8(skb, SDP_DIAG_OWN_THRESHOLD, view->own_threshold);
}

static bool put_socket(struct sk_buff *skb, struct sock *sk,
		       const struct sdp_view *view, struct user_namespace *user)
{
	int device = READ_ONCE(sk->sk_bound_dev_if);

	return nla_put_u8(skb, SDP_DIAG_STATE, view->state) ||
	       nla_put_u8(skb, SDP_DIAG_TRANSPORT, view->transport) ||
	       (view->reason && nla_put_u32(skb, SDP_DIAG_REASON, view->reason)) ||
	       put_address(skb, SDP_DIAG_LOCAL_ADDR, view->local, view->local_len,
			   view->local_port, view->local_scope) ||
	       put_address(skb, SDP_DIAG_PEER_ADDR, view->peer, view->peer_len,
			   view->peer_port, view->peer_scope) ||
	       nla_put_u32(skb, SDP_DIAG_RX_QUEUE, view->rx_queue) ||
	       nla_put_u32(skb, SDP_DIAG_TX_QUEUE, view->tx_queue) ||
	       nla_put_u64_64bit(skb, SDP_DIAG_INODE, sock_i_ino(sk),
				 SDP_DIAG_PAD) ||
	       nla_put_u32(skb, SDP_DIAG_UID, from_kuid_munged(user, sk_uid(sk))) ||
	       nla_put_u64_64bit(skb, SDP_DIAG_COOKIE, sdp_sock_cookie(sk),
				 SDP_DIAG_PAD) ||
	       (device && nla_put_u32(skb, SDP_DIAG_IFINDEX, device));
}

/* An answer as a whole, or nothing of it. */
static int put_answer(struct sk_buff *skb, struct netlink_callback *cb,
		      struct sock *sk, const struct sdp_view *view, u32 show)
{
	struct user_namespace *user = sk_user_ns(NETLINK_CB(cb->skb).sk);
	struct nlmsghdr *answer;
	struct sdp_diag *head;

	answer = nlmsg_put(skb, NETLINK_CB(cb->skb).portid, cb->nlh->nlmsg_seq,
			   SOCK_DIAG_BY_FAMILY, sizeof(*head), NLM_F_MULTI);
	if (!answer)
		return -EMSGSIZE;
	head = nlmsg_data(answer);
	memset(head, 0, sizeof(*head));
	head->family = AF_INET_SDP;
	if (put_socket(skb, sk, view, user) || put_connection(skb, view) ||
	    ((show & SDP_DIAG_SHOW_FLOW) && view->has_flow &&
	     put_flow(skb, view)) ||
	    ((show & SDP_DIAG_SHOW_TRAFFIC) && put_traffic(skb, view))) {
		nlmsg_cancel(skb, answer);
		return -EMSGSIZE;
	}
	nlmsg_end(skb, answer);
	return 0;
}

/*
 * The companion's struct sock with a reference, or NULL where its socket is being
 * released. With rcu_read_lock(), under which the memory stays a TCP socket's,
 * though it may become another one.
 */
static struct sock *hold_tcp(const struct sdp_companion *c)
{
	struct sock *tcp = READ_ONCE(c->tcp->sk);

	if (!tcp || !refcount_inc_not_zero(&tcp->sk_refcnt))
		return NULL;
	if (READ_ONCE(c->tcp->sk) == tcp)
		return tcp;
	sock_put(tcp);
	return NULL;
}

static void view_tcp(const struct sock *tcp, struct sdp_view *view)
{
	const struct inet_sock *inet = inet_sk(tcp);
	const struct tcp_sock *tp = tcp_sk(tcp);
	u64 sent, again;

	view->state = inet_sk_state_load(tcp);
	view->local_port = ntohs(READ_ONCE(inet->inet_sport));
	view->peer_port = ntohs(READ_ONCE(inet->inet_dport));
#if IS_ENABLED(CONFIG_IPV6)
	if (tcp->sk_family == AF_INET6) {
		view->local_len = sizeof(struct in6_addr);
		view->peer_len = sizeof(struct in6_addr);
		memcpy(view->local, &tcp->sk_v6_rcv_saddr, view->local_len);
		memcpy(view->peer, &tcp->sk_v6_daddr, view->peer_len);
	} else
#endif
	{
		view->local_len = sizeof(__be32);
		view->peer_len = sizeof(__be32);
		memcpy(view->local, &inet->inet_rcv_saddr, view->local_len);
		memcpy(view->peer, &inet->inet_daddr, view->peer_len);
	}
	if (view->state == TCP_LISTEN) {
		view->rx_queue = READ_ONCE(tcp->sk_ack_backlog);
		view->tx_queue = READ_ONCE(tcp->sk_max_ack_backlog);
	} else {
		view->rx_queue = max_t(int, READ_ONCE(tp->rcv_nxt) -
					    READ_ONCE(tp->copied_seq), 0);
		view->tx_queue = READ_ONCE(tp->write_seq) - READ_ONCE(tp->snd_una);
	}
	/* As in TCP_INFO, without the socket's lock: a busy owner may hold that. */
	sent = READ_ONCE(tp->bytes_sent);
	/* A packet for which there was no memory counts here alone. */
	again = READ_ONCE(tp->bytes_retrans);
	view->tcp_sent = sent > again ? sent - again : 0;
	view->tcp_received = READ_ONCE(tp->bytes_received);
}

/*
 * The view of a socket for a reader without its file: which transport it
 * uses, and of one that is TCP's what TCP's half says. Of a socket that is closed
 * meanwhile it may be what it was.
 */
void sdp_companion_view(struct sock *sk, struct sdp_view *view)
{
	struct sock *tcp = NULL;
	struct sdp_companion *c;

	view->transport = SDP_TRANSPORT_SDP;
	rcu_read_lock();
	c = companion(sk);
	/* Pairs with sdp_companion_use(). */
	if (c && smp_load_acquire(&c->in_use)) {
		view->transport = SDP_TRANSPORT_TCP;
		view->reason = READ_ONCE(c->reason);
		tcp = hold_tcp(c);
	} else if (c && !READ_ONCE(c->idle) &&
		   (view->open || READ_ONCE(c->attempt))) {
		view->transport = SDP_TRANSPORT_BOTH;
	}
	rcu_read_unlock();
	if (!tcp)
		return;
	view_tcp(tcp, view);
	sock_put(tcp);
}

static int dump_sockets(struct sk_buff *skb, struct netlink_callback *cb)
{
	struct dump *dump = (struct dump *)cb->ctx;
	struct net *net = sock_net(skb->sk);
	struct sdp_view view;
	unsigned long socket;
	struct sock *sk;
	int err = 0;

	while ((socket = socket_after(net, dump->after))) {
		memset(&view, 0, sizeof(view));
		sk = look_at(net, socket, &view);
		if (sk) {
			sdp_companion_view(sk, &view);
			if (dump->states & (1U << view.state))
				err = put_answer(skb, cb, sk, &view, dump->show);
			sock_put(sk);
		}
		if (err)
			break;
		dump->after = socket;
		cond_resched();
	}
	return err && !skb->len ? err : skb->len;
}

/* A request is read where it is taken in: what is wrong with it is its answer. */
static int start_dump(struct netlink_callback *cb)
{
	struct dump *dump = (struct dump *)cb->ctx;
	struct nlattr *attrs[SDP_DIAG_SHOW + 1];
	const struct sdp_diag *head = nlmsg_data(cb->nlh);
	int err;

	NL_ASSERT_CTX_FITS(struct dump);
	err = nlmsg_parse(cb->nlh, sizeof(*head), attrs, SDP_DIAG_SHOW,
			  request_policy, NULL);
	if (err)
		return err;
	if (head->protocol || head->reserved)
		return -EINVAL;
	dump->after = 0;
	dump->states = nla_get_u32_default(attrs[SDP_DIAG_STATES], U32_MAX);
	dump->show = nla_get_u32_default(attrs[SDP_DIAG_SHOW], 0);
	return 0;
}

static int handle_request(struct sk_buff *skb, struct nlmsghdr *request)
{
	struct netlink_dump_control control = {
		.start = start_dump,
		.dump = dump_sockets,
	};

	if (nlmsg_len(request) < (int)sizeof(struct sdp_diag))
		return -EINVAL;
	if (!(request->nlmsg_flags & NLM_F_DUMP))
		return -EOPNOTSUPP;
	return netlink_dump_start(sock_net(skb->sk)->diag_nlsk, skb, request,
				  &control);
}

/*
 * There is no alias net-pf-16-proto-4-type-27: the core asks for it only while the
 * family is registered, and then this is.
 */
static const struct sock_diag_handler handler = {
	.owner = THIS_MODULE,
	.family = AF_INET_SDP,
	.dump = handle_request,
};

int sdp_diag_register(unsigned long (*after)(struct net *, unsigned long),
		      struct sock *(*look)(struct net *, unsigned long,
					   struct sdp_view *))
{
	socket_after = after;
	look_at = look;
	return sock_diag_register(&handler);
}

void sdp_diag_unregister(void)
{
	sock_diag_unregister(&handler);
}
