// SPDX-License-Identifier: GPL-2.0
/*
 * The TCP socket beside an SDP one: its creation, the forwarding of its events
 * to the waiters of the SDP socket, and of its results. sock/companion.rs
 * decides when it is used.
 *
 * The companion is made at most once and lives as long as the file, so that
 * no call needs a reference. The decision to use it is final.
 *
 * Locks: the wait queue of the companion is held around that of the owner
 * while an event is passed on, and has a class of its own for that.
 */
#include <linux/filter.h>
#include <linux/net.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <net/sock.h>
#include <net/tcp.h>
#include <net/tcp_states.h>

#include "helpers.h"
#include "zcopy.h"

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

static struct lock_class_key companion_queue_key;

/*
 * Stands for no companion. In-kernel users that attach to a socket by its
 * protocol, which is TCP's here, check whether sk_user_data is free: it never
 * is.
 */
static struct sdp_companion none;

void sdp_companion_init(struct sock *sk)
{
	sk->sk_user_data = &none;
}

static struct sdp_companion *companion(const struct sock *sk)
{
	/* Pairs with the release in sdp_companion_make(). */
	struct sdp_companion *c = smp_load_acquire(&sk->sk_user_data);

	return c == &none ? NULL : c;
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
	if (READ_ONCE(c->attempt)) {
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
	smp_store_release(&sk->sk_user_data, c);
	return 0;
}

/* The owner has been released; its struct sock may be gone. */
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
	/* Undoes sdp_companion_listen(): the owner does not listen. */
	if (c->in_use)
		smp_store_release(&sk->sk_state, TCP_CLOSE);
	WRITE_ONCE(c->idle, true);
	sdp_companion_init(sk);
	return c;
}

struct socket *sdp_companion_in_use(struct sock *sk)
{
	struct sdp_companion *c = companion(sk);

	return c && smp_load_acquire(&c->in_use) ? c->tcp : NULL;
}

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

	c->reason = reason;
	WRITE_ONCE(c->idle, false);
	smp_store_release(&c->in_use, true);
	WRITE_ONCE(c->attempt, false);
}

int sdp_companion_reason(struct sock *sk)
{
	struct sdp_companion *c = companion(sk);

	return c ? c->reason : 0;
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

	return c && READ_ONCE(c->attempt);
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

/* The result of sdp_companion_retry(), if nobody has seen it yet. */
int sdp_companion_retry_error(struct sock *sk)
{
	struct sdp_companion *c = companion(sk);

	if (!READ_ONCE(c->retry_failed))
		return 0;
	WRITE_ONCE(c->retry_failed, false);
	return sock_error(sk);
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

/* SO_ACCEPTCONN reads the owner. */
static void show_state(struct sdp_companion *c)
{
	int state = inet_sk_state_load(c->tcp->sk);

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

	return c->turn = !c->turn;
}

/*
 * The answer to a program that wants to choose how connections are spread over
 * listeners: SDP cannot. The core would make a group here that nobody frees.
 */
static int refuse_spreading(struct sock *sk, int option, sockptr_t value,
			    unsigned int len)
{
	struct sock_fprog fprog;
	int number, err;

	err = sdp_sockopt_int(value, len, &number);
	if (err)
		return err;
	switch (option) {
	case SO_DETACH_REUSEPORT_BPF:
		return sk->sk_reuseport ? -ENOENT : -EINVAL;
	case SO_ATTACH_REUSEPORT_CBPF:
		err = copy_bpf_fprog_from_user(&fprog, value, len);
		return err ?: -EOPNOTSUPP;
	default:
		return len == sizeof(u32) ? -EOPNOTSUPP : -EINVAL;
	}
}

/*
 * SOL_SOCKET of the owner: as the core, except options that it reserves to
 * others.
 */
static int set_general(struct sock *sk, int option, sockptr_t value,
		       unsigned int len)
{
	int err;

	switch (option) {
	case SO_REUSEPORT:
		return sdp_set_reuseport(sk, value, len);
	case SO_ZEROCOPY:
		return sdp_set_zerocopy(sk, value, len);
	case SO_ATTACH_REUSEPORT_CBPF:
	case SO_ATTACH_REUSEPORT_EBPF:
	case SO_DETACH_REUSEPORT_BPF:
		return refuse_spreading(sk, option, value, len);
	case SO_ATTACH_FILTER:
	case SO_ATTACH_BPF:
		/* Received bytes are no packet that a filter could look at. */
		err = sock_setsockopt(sk->sk_socket, SOL_SOCKET, option, value,
				      len);
		if (err)
			return err;
		lock_sock(sk);
		sk_detach_filter(sk);
		release_sock(sk);
		return -EOPNOTSUPP;
	default:
		return sock_setsockopt(sk->sk_socket, SOL_SOCKET, option, value,
				       len);
	}
}

/*
 * Sets an option on both halves, if there are both. The result is that of the
 * one in use, and of the owner while that is undecided.
 */
int sdp_companion_setsockopt(struct sock *sk, int level, int option,
			     sockptr_t value, unsigned int len, int own)
{
	struct sdp_companion *c = companion(sk);
	int tcp;

	if (level == SOL_SOCKET)
		own = set_general(sk, option, value, len);
	/* An option that is refused must not be set on the other half. */
	if (!c || (own && !c->in_use))
		return own;
	tcp = do_sock_setsockopt(c->tcp, false, level, option, value, len);
	if (c->in_use)
		return tcp;
	return own;
}

/* Sets an option on the companion alone. */
int sdp_companion_set_tcp(struct sock *sk, int level, int option,
			  sockptr_t value, unsigned int len)
{
	return do_sock_setsockopt(companion(sk)->tcp, false, level, option,
				  value, len);
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

int sdp_companion_getsockopt(struct socket *tcp, int level, int option,
			     char __user *value, int __user *len)
{
	return do_sock_getsockopt(tcp, false, level, option,
				  USER_SOCKPTR(value), USER_SOCKPTR(len));
}

int sdp_companion_ioctl(struct sock *sk, int command, int *result)
{
	struct socket *tcp = sdp_companion_enter(sk);

	return READ_ONCE(tcp->sk->sk_prot)->ioctl(tcp->sk, command, result);
}

/*
 * The companion's struct sock with a reference, or NULL where its socket is being
 * released. With rcu_read_lock(), under which the memory stays that of a TCP socket,
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
}

/*
 * What of a socket somebody is shown who has not got its file: which transport it
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
	if (c && smp_load_acquire(&c->in_use)) {
		view->transport = SDP_TRANSPORT_TCP;
		view->reason = c->reason;
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
