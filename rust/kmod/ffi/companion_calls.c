// SPDX-License-Identifier: GPL-2.0
/*
 * The calls that Rust makes on the TCP socket beside an SDP one, and the state of the
 * decision between the two. helpers.h has the declarations.
 */
#include <linux/module.h>
#include <linux/net.h>
#include <linux/poll.h>
#include <net/inet_common.h>
#include <net/sock.h>
#include <net/tcp_states.h>

#include "companion.h"
#include "helpers.h"

struct socket *sdp_companion_ready(struct sock *sk)
{
	struct sdp_companion *c = companion(sk);

	return c && !READ_ONCE(c->idle) ? c->tcp : NULL;
}

void sdp_companion_set_idle(struct sock *sk, bool idle)
{
	struct sdp_companion *c = companion(sk);

	if (c)
		WRITE_ONCE(c->idle, idle);
}

void sdp_companion_use(struct sock *sk, int reason)
{
	struct sdp_companion *c = companion(sk);

	WRITE_ONCE(c->reason, reason);
	WRITE_ONCE(c->idle, false);
	/* The reason is set before. Pairs with sdp_companion_enter(). */
	smp_store_release(&c->in_use, true);
	/*
	 * A reader of the end of the attempt, or of the end of the owner's own half in
	 * its state, shutdown and error, sees the decision as well. Pairs with
	 * attempt_goes_on() and poll_halves().
	 */
	smp_wmb();
	WRITE_ONCE(c->attempt, false);
}

int sdp_companion_reason(struct sock *sk)
{
	struct sdp_companion *c = companion(sk);

	return c ? READ_ONCE(c->reason) : 0;
}

/* The result of connect() is not known yet. With lock_sock. */
void sdp_companion_begin(struct sock *sk, const void *addr, int len)
{
	struct sdp_companion *c = companion(sk);

	c->peer_len = min_t(int, len, sizeof(c->peer));
	memcpy(&c->peer, addr, c->peer_len);
	WRITE_ONCE(c->attempt, true);
}

bool sdp_companion_attempt(struct sock *sk)
{
	struct sdp_companion *c = companion(sk);

	return c && attempt_goes_on(c);
}

void sdp_companion_end(struct sock *sk)
{
	struct sdp_companion *c = companion(sk);

	if (c)
		WRITE_ONCE(c->attempt, false);
}

/* Connects to the peer of the attempt, without waiting. */
static int connect_peer(struct sdp_companion *c)
{
	/* A BPF program of the cgroup may write another address there. */
	struct sockaddr_storage peer = c->peer;

	return READ_ONCE(c->tcp->ops)->connect(c->tcp,
					       (struct sockaddr_unsized *)&peer,
					       c->peer_len, O_NONBLOCK);
}

/* Repeats the attempt over TCP, without waiting. poll() reports the result. */
void sdp_companion_retry(struct sock *sk)
{
	struct sdp_companion *c = companion(sk);
	int err = connect_peer(c);

	if (err && err != -EINPROGRESS) {
		WRITE_ONCE(sk->sk_err, -err);
		WRITE_ONCE(c->retry_failed, true);
	}
}

/*
 * Begins TCP's attempt while SDP's goes on. Returns whether it is under way; otherwise the
 * companion is as before. No event of it is reported before sdp_companion_use().
 */
bool sdp_companion_race(struct sock *sk)
{
	int err = connect_peer(companion(sk));

	return !err || err == -EINPROGRESS;
}

/* The state of the companion, as TCP_*. */
int sdp_companion_state(struct sock *sk)
{
	return inet_sk_state_load(companion(sk)->tcp->sk);
}

/*
 * Whether the companion has had a connection, which its peer has reset. An attempt that is
 * refused has another error: see tcp_reset().
 */
bool sdp_companion_is_reset(struct sock *sk)
{
	int err = READ_ONCE(companion(sk)->tcp->sk->sk_err);

	return err == ECONNRESET || err == EPIPE;
}

/*
 * Gives up what sdp_companion_race() began. A connection that is established is ended only if
 * @made says so. Returns whether the attempt has ended.
 */
bool sdp_companion_leave_race(struct sock *sk, bool made)
{
	struct socket *tcp = companion(sk)->tcp;
	struct sockaddr_storage nowhere = { .ss_family = AF_UNSPEC };
	const int asking = TCPF_CLOSE | TCPF_SYN_SENT | TCPF_SYN_RECV;
	bool over;

	/* No answer comes between the look and the end. */
	lock_sock(tcp->sk);
	over = made || (1 << tcp->sk->sk_state & asking);
	if (over) {
		__inet_stream_connect(tcp, (struct sockaddr_unsized *)&nowhere,
				      sizeof(nowhere), O_NONBLOCK, 0);
		/* No program asked for this attempt. */
		xchg(&tcp->sk->sk_err, 0);
	}
	release_sock(tcp->sk);
	return over;
}

/*
 * The result of sdp_companion_retry(), if no caller has seen it yet. The caller has seen that
 * the companion is in use, which sdp_companion_use() has released behind both words.
 */
int sdp_companion_retry_error(struct sock *sk)
{
	struct sdp_companion *c = companion(sk);

	if (!READ_ONCE(c->retry_failed))
		return 0;
	WRITE_ONCE(c->retry_failed, false);
	return sock_error(sk);
}

/* SO_ACCEPTCONN reads the owner. */
static void show_state(struct sdp_companion *c)
{
	int state = inet_sk_state_load(c->tcp->sk);

	/* Pairs with inet_sk_state_load(). */
	if (c->in_use)
		smp_store_release(&c->owner->sk_state,
				  state == TCP_LISTEN ? TCP_LISTEN : TCP_CLOSE);
}

int sdp_companion_listen(struct sock *sk, int backlog)
{
	struct sdp_companion *c = companion(sk);
	int err = READ_ONCE(c->tcp->ops)->listen(c->tcp, backlog);

	show_state(c);
	return err;
}

int sdp_companion_shutdown(struct sock *sk, int how)
{
	struct sdp_companion *c = companion(sk);
	int err = READ_ONCE(c->tcp->ops)->shutdown(c->tcp, how);

	show_state(c);
	return err;
}

void sdp_companion_show_state(struct sock *sk)
{
	show_state(companion(sk));
}

/*
 * Accepts from the companion: @new becomes a TCP socket like any other, with
 * nothing of ours in it.
 */
int sdp_companion_accept(struct sock *sk, struct socket *new,
			 struct proto_accept_arg *arg)
{
	struct sdp_companion *c = companion(sk);
	const struct proto_ops *own = new->ops;
	const struct proto_ops *ops = READ_ONCE(c->tcp->ops);
	int err;

	err = ops->accept(c->tcp, new, arg);
	if (err)
		return err;
	__module_get(ops->owner);
	WRITE_ONCE(new->ops, ops);
	module_put(own->owner);
	return 0;
}

bool sdp_companion_turn(struct sock *sk)
{
	struct sdp_companion *c = companion(sk);
	/* A hint: threads that take turns at the same time may take the same one. */
	bool turn = !READ_ONCE(c->turn);

	WRITE_ONCE(c->turn, turn);
	return turn;
}

int sdp_companion_ioctl(struct sock *sk, int command, int *result)
{
	struct socket *tcp = sdp_companion_enter(sk);

	return READ_ONCE(tcp->sk->sk_prot)->ioctl(tcp->sk, command, result);
}
