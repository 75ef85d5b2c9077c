// SPDX-License-Identifier: GPL-2.0
/*
 * Waiting, wake-ups under C locks, and delayed work.
 * helpers.h has the declarations.
 */
#include <linux/net.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/sched/stat.h>

#include "helpers.h"

void rust_net_sock_poll_wait(struct file *file, struct socket *sock,
			     struct poll_table_struct *wait)
{
	sock_poll_wait(file, sock, wait);
}

/* Where the calls on a socket that has a file wait. */
struct wait_queue_head *rust_net_sk_sleep(struct sock *sk)
{
	return sk_sleep(sk);
}

void rust_net_waitqueue_init(struct wait_queue_head *queue)
{
	init_waitqueue_head(queue);
}

void rust_net_waitqueue_wake(struct wait_queue_head *queue)
{
	if (wq_has_sleeper(queue))
		wake_up_all(queue);
}

void rust_net_waitqueue_begin(struct wait_queue_head *queue,
			      struct wait_queue_entry *wait, bool exclusive)
{
	init_waitqueue_func_entry(wait, woken_wake_function);
	wait->private = current;
	INIT_LIST_HEAD(&wait->entry);
	wait->flags = 0;
	if (exclusive)
		add_wait_queue_exclusive(queue, wait);
	else
		add_wait_queue(queue, wait);
}

long rust_net_waitqueue_sleep(struct wait_queue_entry *wait, bool interruptible,
			      long timeo)
{
	return wait_woken(wait, interruptible ? TASK_INTERRUPTIBLE :
			  TASK_UNINTERRUPTIBLE, timeo);
}

long rust_net_waitqueue_sleep_killable(struct wait_queue_entry *wait)
{
	return wait_woken(wait, TASK_KILLABLE, MAX_SCHEDULE_TIMEOUT);
}

void rust_net_waitqueue_end(struct wait_queue_head *queue,
			    struct wait_queue_entry *wait)
{
	remove_wait_queue(queue, wait);
}

/* SO_BUSY_POLL */
unsigned int rust_net_busy_poll_us(const struct sock *sk)
{
#ifdef CONFIG_NET_RX_BUSY_POLL
	return READ_ONCE(sk->sk_ll_usec);
#else
	return 0;
#endif
}

/* Whether a task that polls should stop: others wait for the processor. */
bool rust_net_must_yield(void)
{
	return need_resched() || !single_task_running() ||
	       signal_pending(current);
}

int rust_net_sock_intr_errno(long timeo)
{
	return sock_intr_errno(timeo);
}

bool rust_net_exiting(void)
{
	return current->flags & PF_EXITING;
}

bool rust_net_killed(void)
{
	return fatal_signal_pending(current);
}

void rust_net_wake_readable(struct sock *sk)
{
	sk->sk_data_ready(sk);
}

void rust_net_wake_writable(struct sock *sk)
{
	struct socket_wq *wq;

	/* The lock keeps sk_socket while close() would orphan it. */
	read_lock_bh(&sk->sk_callback_lock);
	if (sk->sk_socket &&
	    test_and_clear_bit(SOCK_NOSPACE, &sk->sk_socket->flags)) {
		rcu_read_lock();
		wq = rcu_dereference(sk->sk_wq);
		if (skwq_has_sleeper(wq))
			wake_up_interruptible_poll(&wq->wait, EPOLLOUT |
						   EPOLLWRNORM | EPOLLWRBAND);
		if (wq && wq->fasync_list &&
		    !(READ_ONCE(sk->sk_shutdown) & SEND_SHUTDOWN))
			sock_wake_async(wq, SOCK_WAKE_SPACE, POLL_OUT);
		rcu_read_unlock();
	}
	read_unlock_bh(&sk->sk_callback_lock);
}

void rust_net_wake_state(struct sock *sk)
{
	sk->sk_state_change(sk);
}

/*
 * Wakes tasks that sleep in a call, and no pollers: io_uring repeats a
 * connect() whenever it is woken, and takes EALREADY for its result. No poller
 * waits for this event.
 */
void rust_net_wake_sleepers(struct sock *sk)
{
	struct socket_wq *wq;

	rcu_read_lock();
	wq = rcu_dereference(sk->sk_wq);
	if (skwq_has_sleeper(wq))
		__wake_up_sync_key(&wq->wait, TASK_INTERRUPTIBLE,
				   poll_to_key(EPOLLMSG));
	rcu_read_unlock();
}

void rust_net_wake_connected(struct sock *sk)
{
	sk->sk_state_change(sk);
	sk_wake_async(sk, SOCK_WAKE_IO, POLL_OUT);
}

void rust_net_wake_hangup(struct sock *sk)
{
	sk->sk_state_change(sk);
	if (READ_ONCE(sk->sk_shutdown) == SHUTDOWN_MASK ||
	    READ_ONCE(sk->sk_state) == TCP_CLOSE)
		sk_wake_async(sk, SOCK_WAKE_WAITD, POLL_HUP);
	else
		sk_wake_async(sk, SOCK_WAKE_WAITD, POLL_IN);
}

void rust_net_wake_error(struct sock *sk)
{
	sk_error_report(sk);
}

void rust_net_wake_urgent(struct sock *sk)
{
	/* The lock keeps the file; its owner gets SIGURG. */
	read_lock_bh(&sk->sk_callback_lock);
	if (sk->sk_socket && sk->sk_socket->file)
		sk_send_sigurg(sk);
	read_unlock_bh(&sk->sk_callback_lock);
}
