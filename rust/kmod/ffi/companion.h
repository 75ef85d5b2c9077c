/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The TCP socket beside an SDP one, for the C files that look into it. helpers.h has what
 * Rust calls.
 */
#ifndef SDP_FFI_COMPANION_H
#define SDP_FFI_COMPANION_H

#include <linux/net.h>
#include <linux/socket.h>
#include <linux/wait.h>
#include <net/sock.h>

struct sdp_companion {
	struct rcu_head rcu;
	struct socket *tcp;
	struct sock *owner;
	wait_queue_entry_t forward;
	/* The companion takes no part any more (or not yet). */
	bool idle;
	/* The owner's calls go to the companion. */
	bool in_use;
	/* A connect() of the owner to this address is in progress. */
	bool attempt;
	/* The owner shows TCP's error. Under the lock of TCP's wait queue. */
	bool error_shown;
	/* The owner shows the result of connect() in sdp_companion_retry(). */
	bool retry_failed;
	/* The half from which accept() takes the next connection. */
	bool turn;
	/* The reason of the fallback to TCP, a positive errno, or 0. */
	int reason;
	int peer_len;
	struct sockaddr_storage peer;
};

/* Stands for no companion: see companion.c */
extern struct sdp_companion sdp_no_companion;

static inline struct sdp_companion *companion(const struct sock *sk)
{
	/* Pairs with the release in sdp_companion_make(). */
	struct sdp_companion *c = smp_load_acquire(&sk->sk_user_data);

	return c == &sdp_no_companion ? NULL : c;
}

/*
 * A caller that sees the end of the attempt sees `in_use` afterwards, if the decision
 * for TCP has ended it.
 */
static inline bool attempt_goes_on(struct sdp_companion *c)
{
	/* Pairs with the barrier in sdp_companion_use(). */
	return smp_load_acquire(&c->attempt);
}

#endif /* SDP_FFI_COMPANION_H */
