// SPDX-License-Identifier: GPL-2.0
/*
 * struct sock: its words, its beginning and its references.
 * helpers.h has the declarations.
 */
#include <linux/errno.h>
#include <linux/net.h>
#include <net/inet_common.h>
#include <net/ip.h>
#include <net/sock.h>

#include "helpers.h"

/* The callback of a new socket, which wakes tasks and no code of the kernel. */
static void (*data_ready)(struct sock *sk);

/* As above, for tasks that wait for room. */
static void (*write_space)(struct sock *sk);

void rust_net_lock_sock(struct sock *sk)
{
	lock_sock(sk);
}

/* As lock_sock(), but returns false if another task has it, and does not sleep. */
bool rust_net_try_lock_sock(struct sock *sk)
{
	bool taken;

	spin_lock_bh(&sk->sk_lock.slock);
	taken = !sock_owned_by_user_nocheck(sk);
	if (taken) {
		mutex_acquire(&sk->sk_lock.dep_map, 0, 1, _RET_IP_);
		sk->sk_lock.owned = 1;
	}
	spin_unlock_bh(&sk->sk_lock.slock);
	return taken;
}

/* A new socket of the stream kind, with the memory of an Internet socket. */
void rust_net_sock_init(struct socket *sock, struct sock *sk,
			void (*destruct)(struct sock *sk),
			void (*room_set)(struct sock *sk))
{
	struct rust_net_inet *start __maybe_unused =
		container_of(sk, struct rust_net_inet, inet.sk);

	sock_init_data(sock, sk);
	WRITE_ONCE(data_ready, sk->sk_data_ready);
	WRITE_ONCE(write_space, sk->sk_write_space);
	sk->sk_write_space = room_set;
#if IS_ENABLED(CONFIG_IPV6)
	start->inet.pinet6 = &start->inet6;
#endif
	sk->sk_destruct = destruct;
	sk->sk_type = SOCK_STREAM;
	sk->sk_protocol = IPPROTO_TCP;
	/*
	 * Options of SOL_SOCKET come to the family, because the core reserves some
	 * to others.
	 */
	if (sock) {
		set_bit(SOCK_CUSTOM_SOCKOPT, &sock->flags);
		set_bit(SOCK_SUPPORT_ZC, &sock->flags);
	}
}

/* The core's own callback. From any context. */
void rust_net_write_space(struct sock *sk)
{
	READ_ONCE(write_space)(sk);
}

void rust_net_sock_hold(struct sock *sk)
{
	sock_hold(sk);
}

bool rust_net_sock_hold_unless_zero(struct sock *sk)
{
	return refcount_inc_not_zero(&sk->sk_refcnt);
}

void rust_net_sock_put(struct sock *sk)
{
	sock_put(sk);
}

bool rust_net_sock_flag(const struct sock *sk, unsigned int flag)
{
	return sock_flag(sk, flag);
}

/*
 * Whether news reaches a waiter that is in no call: a task in poll(), an
 * epoll instance, the owner of SIGIO or SIGURG, or code of the kernel with a
 * callback. From any context: what it looks at is freed by RCU.
 */
bool rust_net_is_watched(struct sock *sk)
{
	struct socket *socket;
	struct socket_wq *wq;
	struct file *file;
	bool watched;

	rcu_read_lock();
	wq = rcu_dereference(sk->sk_wq);
	/* A hint: a waiter that comes now looks itself. */
	watched = wq && (waitqueue_active(&wq->wait) || wq->fasync_list);
	socket = READ_ONCE(sk->sk_socket);
	file = socket ? READ_ONCE(socket->file) : NULL;
	if (file && file_f_owner(file))
		watched = true;
	rcu_read_unlock();
	return watched || READ_ONCE(sk->sk_data_ready) !=
			  READ_ONCE(data_ready);
}

/*
 * Whether rust_net_wake_pollers() would reach every waiter that has to know that
 * there may be news. Without `readers` there is only room, for writers that wait
 * for it. False if there are no pollers, or if another waiter has to be told as
 * well. From any context.
 */
bool rust_net_are_pollers_enough(struct sock *sk, bool readers)
{
	struct socket *socket;
	struct socket_wq *wq;
	bool enough = false;

	rcu_read_lock();
	wq = rcu_dereference(sk->sk_wq);
	/* Like the wait queue, which it contains, it is freed by RCU. */
	socket = READ_ONCE(sk->sk_socket);
	if (socket && skwq_has_sleeper(wq) && !wq->fasync_list &&
	    READ_ONCE(sk->sk_data_ready) == READ_ONCE(data_ready))
		/* Those that find no room set it again. */
		enough = test_and_clear_bit(SOCK_NOSPACE, &socket->flags) ||
			 readers;
	rcu_read_unlock();
	return enough;
}

/* Exclusive waiters are behind all others. */
static bool has_exclusive(const struct wait_queue_head *queue)
{
	return !list_empty(&queue->head) &&
	       list_last_entry(&queue->head, struct wait_queue_entry, entry)->flags &
	       WQ_FLAG_EXCLUSIVE;
}

/*
 * Has pollers look, by their poll(), whether there are news. From any context.
 *
 * The wake-up has no key, because io_uring would take it for the result. Without
 * a key a poller with EPOLLEXCLUSIVE counts as woken whatever it waits for, and
 * the wake-up would end there. So all of them are woken.
 */
void rust_net_wake_pollers(struct sock *sk)
{
	struct socket_wq *wq;
	unsigned long flags;

	rcu_read_lock();
	wq = rcu_dereference(sk->sk_wq);
	if (wq) {
		spin_lock_irqsave(&wq->wait.lock, flags);
		if (has_exclusive(&wq->wait))
			__wake_up_locked(&wq->wait, TASK_INTERRUPTIBLE, 0);
		else
			__wake_up_locked_sync_key(&wq->wait, TASK_INTERRUPTIBLE, NULL);
		spin_unlock_irqrestore(&wq->wait.lock, flags);
	}
	rcu_read_unlock();
}

/* Unless one of the two has another one. With lock_sock. */
bool rust_net_sock_graft(struct sock *sk, struct socket *parent)
{
	if (sk->sk_socket || parent->sk)
		return false;
	sock_graft(sk, parent);
	set_bit(SOCK_CUSTOM_SOCKOPT, &parent->flags);
	set_bit(SOCK_SUPPORT_ZC, &parent->flags);
	return true;
}

void rust_net_sock_orphan(struct sock *sk)
{
	sock_orphan(sk);
}

/* SO_INCOMING_CPU: the processor that handled the last message. */
void rust_net_note_processor(struct sock *sk)
{
	sk_incoming_cpu_update(sk);
}

/* Number of disconnects while a task may have waited for the peer. */
int rust_net_disconnects(const struct sock *sk)
{
	return READ_ONCE(sk->sk_disconnects);
}

void rust_net_note_disconnect(struct sock *sk)
{
	WRITE_ONCE(sk->sk_disconnects, sk->sk_disconnects + 1);
}

int rust_net_inet_ioctl(struct socket *sock, unsigned int command, unsigned long arg)
{
	return sock->sk ? inet_ioctl(sock, command, arg) : -EINVAL;
}

int rust_net_sock_error(struct sock *sk)
{
	return sock_error(sk);
}

int rust_net_sock_cmsg_check(struct sock *sk, struct msghdr *msg)
{
	struct sockcm_cookie cookie;

	if (!msg->msg_controllen)
		return 0;
	sockcm_init(&cookie, sk);
	return sock_cmsg_send(sk, msg, &cookie);
}

void rust_net_set_err(struct sock *sk, int err)
{
	WRITE_ONCE(sk->sk_err, err);
}

int rust_net_get_err(const struct sock *sk)
{
	return READ_ONCE(sk->sk_err);
}

int rust_net_get_shutdown(const struct sock *sk)
{
	return READ_ONCE(sk->sk_shutdown);
}

void rust_net_set_shutdown(struct sock *sk, int how)
{
	WRITE_ONCE(sk->sk_shutdown, READ_ONCE(sk->sk_shutdown) | how);
}

void rust_net_clear_shutdown(struct sock *sk)
{
	WRITE_ONCE(sk->sk_shutdown, 0);
}

int rust_net_get_state(const struct sock *sk)
{
	return READ_ONCE(sk->sk_state);
}

void rust_net_set_state(struct sock *sk, int state)
{
	WRITE_ONCE(sk->sk_state, state);
}

int rust_net_get_sndbuf(const struct sock *sk)
{
	return READ_ONCE(sk->sk_sndbuf);
}

/*
 * As tcp_sndbuf_expand(): a size that the program has set stays. Without the
 * socket lock, which setsockopt() has, hence the comparison.
 */
void rust_net_grow_sndbuf(struct sock *sk, int bytes)
{
	int before = READ_ONCE(sk->sk_sndbuf);

	/*
	 * setsockopt() sets the flag before the size, without a barrier: on a weakly
	 * ordered processor a size that was set at this moment may still grow.
	 */
	smp_rmb();
	if (bytes > before && !(READ_ONCE(sk->sk_userlocks) & SOCK_SNDBUF_LOCK))
		cmpxchg(&sk->sk_sndbuf, before, bytes);
}

int rust_net_get_rcvbuf(const struct sock *sk)
{
	return READ_ONCE(sk->sk_rcvbuf);
}

bool rust_net_has_own_rcvbuf(const struct sock *sk)
{
	return READ_ONCE(sk->sk_userlocks) & SOCK_RCVBUF_LOCK;
}

void rust_net_set_wmem_queued(struct sock *sk, int bytes)
{
	WRITE_ONCE(sk->sk_wmem_queued, bytes);
}

long rust_net_sock_sndtimeo(const struct sock *sk, bool nonblock)
{
	return sock_sndtimeo(sk, nonblock);
}

long rust_net_sock_rcvtimeo(const struct sock *sk, bool nonblock)
{
	return sock_rcvtimeo(sk, nonblock);
}

int rust_net_sock_rcvlowat(const struct sock *sk, bool waitall, int len)
{
	return sock_rcvlowat(sk, waitall, len);
}

bool rust_net_sock_linger(const struct sock *sk, unsigned long *jiffies)
{
	*jiffies = READ_ONCE(sk->sk_lingertime);
	return sock_flag(sk, SOCK_LINGER);
}

void rust_net_note_no_space(struct sock *sk)
{
	struct socket_wq *wq;
	struct socket *sock;

	/* A file that is being closed is freed after a grace period. */
	rcu_read_lock();
	wq = rcu_dereference(sk->sk_wq);
	if (wq && sock_flag(sk, SOCK_FASYNC))
		set_bit(SOCKWQ_ASYNC_NOSPACE, &wq->flags);
	sock = READ_ONCE(sk->sk_socket);
	if (sock)
		set_bit(SOCK_NOSPACE, &sock->flags);
	rcu_read_unlock();
	/* Pairs with the test in rust_net_wake_writable(). */
	smp_mb__after_atomic();
}

unsigned long rust_net_sock_inode(struct sock *sk)
{
	return sock_i_ino(sk);
}

unsigned int rust_net_sock_uid(struct sock *sk)
{
	return from_kuid_munged(sock_net(sk)->user_ns, sk_uid(sk));
}

unsigned int rust_net_sock_kuid(struct sock *sk)
{
	return __kuid_val(sk_uid(sk));
}
