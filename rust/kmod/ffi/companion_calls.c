// SPDX-License-Identifier: GPL-2.0
/*
 * The calls that Rust makes on the TCP socket beside an SDP one, and the state of the
 * decision between the two. helpers.h has the declarations.
 */
#include <linux/module.h>
#include <linux/net.h>
#include <linux/poll.h>
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

/* Repeats the attempt over TCP, without waiting. poll() reports the result. */
void sdp_companion_retry(struct sock *sk)
{
	struct sdp_companion *c = companion(sk);
	int err;

	err = READ_ONCE(c->tcp->ops)->connect(c->tcp,
					      (struct sockaddr_unsized *)&c->peer,
					      c->peer_len, O_NONBLOCK);
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
	struct sdp_companion *c = companion(sk);
	int err;

	err = READ_ONCE(c->tcp->ops)->connect(c->tcp,
					      (struct sockaddr_unsized *)&c->peer,
					      c->peer_len, O_NONBLOCK);
	return !err || err == -EINPROGRESS;
}

/* The state of the companion, as TCP_*. */
int sdp_companion_state(struct sock *sk)
{
	return inet_sk_state_load(companion(sk)->tcp->sk);
}

/* Gives up what sdp_companion_race() began. */
void sdp_companion_leave_race(struct sock *sk)
{
	struct sdp_companion *c = companion(sk);
	struct sockaddr nowhere = { .sa_family = AF_UNSPEC };

	READ_ONCE(c->tcp->ops)->connect(c->tcp,
					(struct sockaddr_unsized *)&nowhere,
					sizeof(nowhere), O_NONBLOCK);
	/* No program asked for this attempt. */
	xchg(&c->tcp->sk->sk_err, 0);
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
