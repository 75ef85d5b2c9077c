// SPDX-License-Identifier: GPL-2.0
/*
 * The TCP socket beside an SDP one: its creation, the forwarding of its events
 * to the waiters of the SDP socket, and of its results. sock/decision.rs
 * decides when it is used.
 *
 * The companion is made at most once and lives as long as the file, so that
 * no call needs a reference. The decision to use it is final.
 *
 * Locks: the wait queue of the companion is held around the owner's
 * while an event is passed on, and has a class of its own for that.
 */
#include <linux/net.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <net/sock.h>
#include <net/tcp.h>
#include <net/tcp_states.h>

#include "companion.h"
#include "helpers.h"

static struct lock_class_key companion_queue_key;

/*
 * Stands for no companion. In-kernel users that attach to a socket by its
 * protocol, which is TCP's here, check whether sk_user_data is free: it never
 * is.
 */
struct sdp_companion sdp_no_companion;

void sdp_companion_init(struct sock *sk)
{
	WRITE_ONCE(sk->sk_user_data, &sdp_no_companion);
}

/*
 * An error of the companion is copied to the owner's sk_err, where SO_ERROR
 * reads and clears it. Each error is reported once, by either half. Under the
 * lock of the companion's wait queue.
 */
static void show_error_locked(struct sdp_companion *c)
{
	struct sock *tcp = c->tcp->sk;
	int err;

	if (c->error_shown) {
		if (!READ_ONCE(c->owner->sk_err)) {
			xchg(&tcp->sk_err, 0);
			WRITE_ONCE(c->error_shown, false);
		} else if (!READ_ONCE(tcp->sk_err)) {
			xchg(&c->owner->sk_err, 0);
			WRITE_ONCE(c->error_shown, false);
		}
	}
	err = READ_ONCE(tcp->sk_err);
	if (err) {
		WRITE_ONCE(c->owner->sk_err, err);
		WRITE_ONCE(c->error_shown, true);
	}
}

static void show_error(struct sdp_companion *c)
{
	unsigned long flags;

	if (!READ_ONCE(c->error_shown) && !READ_ONCE(c->tcp->sk->sk_err))
		return;
	spin_lock_irqsave(&c->tcp->wq.wait.lock, flags);
	show_error_locked(c);
	spin_unlock_irqrestore(&c->tcp->wq.wait.lock, flags);
}

/* Each wake-up of the companion's waiters wakes the owner's. */
static int forward_event(wait_queue_entry_t *entry, unsigned int mode, int sync,
			 void *key)
{
	struct sdp_companion *c =
		container_of(entry, struct sdp_companion, forward);
	__poll_t events = key_to_poll(key);
	struct socket_wq *wq;

	if (READ_ONCE(c->idle))
		return 0;
	if (attempt_goes_on(c)) {
		/*
		 * Must not be reported yet. Pairs with
		 * sdp_companion_catch_up().
		 */
		smp_mb();
		if (!READ_ONCE(c->in_use))
			return 0;
	}
	/* SO_ERROR is read without a call to either half. */
	if (READ_ONCE(c->in_use))
		show_error_locked(c);
	rcu_read_lock();
	wq = rcu_dereference(c->owner->sk_wq);
	if (skwq_has_sleeper(wq)) {
		if (events)
			wake_up_interruptible_poll(&wq->wait, events);
		else
			wake_up_interruptible_all(&wq->wait);
	}
	if (!events && c->tcp->sk->sk_shutdown == SHUTDOWN_MASK)
		sk_wake_async_rcu(c->owner, SOCK_WAKE_WAITD, POLL_HUP);
	else if (events ? events & EPOLLIN :
			  c->tcp->sk->sk_shutdown & RCV_SHUTDOWN)
		sk_wake_async_rcu(c->owner, SOCK_WAKE_WAITD, POLL_IN);
	else if (events & EPOLLERR)
		sk_wake_async_rcu(c->owner, SOCK_WAKE_IO, POLL_ERR);
	else
		sk_wake_async_rcu(c->owner, SOCK_WAKE_IO, POLL_OUT);
	rcu_read_unlock();
	return 0;
}

/*
 * Settings that a BPF program of the cgroup has made when the companion was
 * created (as `ip vrf exec` does) apply to both halves, unless the program has
 * set something else.
 */
static void confine(struct sock *sk, const struct sock *tcp)
{
	if (!sk->sk_bound_dev_if)
		WRITE_ONCE(sk->sk_bound_dev_if, tcp->sk_bound_dev_if);
	if (!sk->sk_mark)
		WRITE_ONCE(sk->sk_mark, tcp->sk_mark);
	if (!sk->sk_priority)
		WRITE_ONCE(sk->sk_priority, tcp->sk_priority);
}

/* Called with lock_sock, before the socket is bound, connected or listening. */
int sdp_companion_make(struct sock *sk, int family)
{
	struct sdp_companion *c;
	int err;

	c = companion(sk);
	if (c)
		return c->tcp->sk->sk_family == family ? 0 : -EINVAL;
	c = kzalloc(sizeof(*c), GFP_KERNEL_ACCOUNT);
	if (!c)
		return -ENOMEM;
	err = __sock_create(sock_net(sk), family, SOCK_STREAM, IPPROTO_TCP,
			    &c->tcp, 0);
	if (err) {
		kfree(c);
		return err;
	}
	confine(sk, c->tcp->sk);
	c->owner = sk;
	lockdep_set_class(&c->tcp->wq.wait.lock, &companion_queue_key);
	init_waitqueue_func_entry(&c->forward, forward_event);
	add_wait_queue(&c->tcp->wq.wait, &c->forward);
	/* The companion is whole for those that find it there. */
	smp_store_release(&sk->sk_user_data, c);
	return 0;
}

/*
 * The owner has been released, and whoever calls this holds its struct sock:
 * forward_event() may look at it until the queue is left.
 */
void sdp_companion_free(struct sdp_companion *c)
{
	remove_wait_queue(&c->tcp->wq.wait, &c->forward);
	sock_release(c->tcp);
	kfree_rcu(c, rcu);
}

/* Takes the companion away from its owner, for sdp_companion_free(). */
struct sdp_companion *sdp_companion_detach(struct sock *sk)
{
	struct sdp_companion *c = companion(sk);

	if (!c)
		return NULL;
	/*
	 * Undoes sdp_companion_listen(): the owner does not listen. Readers of the
	 * state load it by inet_sk_state_load().
	 */
	if (c->in_use)
		smp_store_release(&sk->sk_state, TCP_CLOSE);
	WRITE_ONCE(c->idle, true);
	sdp_companion_init(sk);
	return c;
}

/*
 * After that, when TCP is in use: wakes waiters for events that came meanwhile.
 */
void sdp_companion_catch_up(struct sock *sk)
{
	struct sdp_companion *c = companion(sk);

	/* Pairs with forward_event(). */
	smp_mb();
	show_error(c);
	if (inet_sk_state_load(c->tcp->sk) == TCP_SYN_SENT)
		return;
	sk->sk_state_change(sk);
	sk_wake_async(sk, SOCK_WAKE_IO,
		      READ_ONCE(sk->sk_err) ? POLL_ERR : POLL_OUT);
}

/* Before a call that goes to the companion. */
struct socket *sdp_companion_enter(struct sock *sk)
{
	struct sdp_companion *c = companion(sk);

	/* Pairs with sdp_companion_use(). */
	if (!c || !smp_load_acquire(&c->in_use))
		return NULL;
	show_error(c);
	return c->tcp;
}

__poll_t sdp_companion_poll(struct sock *sk, struct file *file)
{
	struct sdp_companion *c = companion(sk);
	__poll_t mask = READ_ONCE(c->tcp->ops)->poll(file, c->tcp, NULL);

	if (!READ_ONCE(c->in_use))
		return mask;
	show_error(c);
	if (READ_ONCE(sk->sk_err))
		mask |= EPOLLERR;
	return mask;
}

/*
 * SO_PEEK_OFF and SO_INCOMING_CPU are read from the owner. Bytes that the
 * companion receives change them, and a disconnect resets the first.
 */
void sdp_companion_show_moved(struct sock *sk)
{
	const struct sock *tcp = companion(sk)->tcp->sk;

	if (READ_ONCE(sk->sk_peek_off) >= 0)
		WRITE_ONCE(sk->sk_peek_off, READ_ONCE(tcp->sk_peek_off));
	WRITE_ONCE(sk->sk_incoming_cpu, READ_ONCE(tcp->sk_incoming_cpu));
}
