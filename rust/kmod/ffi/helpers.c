// SPDX-License-Identifier: GPL-2.0
/*
 * See helpers.h: wrappers of macros and inline functions, and code that is only
 * sensible in C: walks over C structures, wake-ups under C locks.
 */
#include <linux/bpf.h>
#include <linux/cgroup.h>
#include <linux/errno.h>
#include <linux/if_arp.h>
#include <linux/gfp.h>
#include <linux/inetdevice.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/net.h>
#include <linux/pipe_fs_i.h>
#include <linux/poll.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/security.h>
#include <linux/seq_file_net.h>
#include <linux/sock_diag.h>
#include <linux/splice.h>
#include <linux/tcp.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <net/addrconf.h>
#include <net/inet_common.h>
#include <net/ip.h>
#include <net/ip_fib.h>
#include <net/ip6_route.h>
#include <net/ipv6.h>
#include <net/l3mdev.h>
#include <net/netns/generic.h>
#include <net/route.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>

#include "helpers.h"

/* linux/mm.h, linux/gfp.h */

/*
 * Buffers of the stream. A cgroup without free memory slows its streams down;
 * the OOM killer is not invoked for bytes that a peer has sent or will wait
 * for.
 */
#define SDP_GFP_PAYLOAD	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

struct page *sdp_alloc_pages(struct sock *sk, unsigned int order)
{
	/* Receive buffers are refilled by workers: charge the socket's cgroup. */
	struct mem_cgroup *old = set_active_memcg(mem_cgroup_from_sk(sk));
	struct page *page = alloc_pages(SDP_GFP_PAYLOAD | __GFP_COMP, order);

	set_active_memcg(old);
	return page;
}

/*
 * The pages that growth leaves to the programs of a cgroup: a processor's
 * stock.
 */
#define SDP_ROOM_PAGES	64

bool sdp_leaves_room(struct sock *sk)
{
#ifdef CONFIG_MEMCG
	struct mem_cgroup *memcg = mem_cgroup_from_sk(sk), *old;
	struct page *pages[SDP_ROOM_PAGES];
	struct page_counter *counter;
	long left = LONG_MAX;
	int had = 0;
	bool room;

	if (!memcg)
		return true;
	for (counter = &memcg->memory; counter; counter = counter->parent)
		left = min(left, (long)READ_ONCE(counter->max) -
				 (long)page_counter_read(counter));
	if (left >= SDP_ROOM_PAGES)
		return true;
	/*
	 * A reclaim may make room, because much of a full cgroup is often
	 * cache. Page by page, because the question is the cgroup's quota and
	 * not whether the host has that much memory in one piece.
	 */
	old = set_active_memcg(memcg);
	while (had < SDP_ROOM_PAGES) {
		pages[had] = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_NORETRY |
					__GFP_NOWARN);
		if (!pages[had])
			break;
		had++;
	}
	set_active_memcg(old);
	room = had == SDP_ROOM_PAGES;
	while (had)
		__free_page(pages[--had]);
	return room;
#else
	return true;
#endif
}

unsigned int sdp_noio_begin(void)
{
	return memalloc_noio_save();
}

void sdp_noio_end(unsigned int before)
{
	memalloc_noio_restore(before);
}

void sdp_get_page(struct page *page)
{
	get_page(page);
}

void sdp_put_page(struct page *page)
{
	put_page(page);
}

void *sdp_page_address(struct page *page)
{
	return page_address(page);
}

/* Of all pages that it is the head of. */
size_t sdp_page_size(struct page *page)
{
	return page_size(page);
}

/*
 * The next bytes of a message whose pages may be taken (MSG_SPLICE_PAGES), up
 * to @max of them in one page: the head of its folio, and the offset in that.
 * Returns their number, or 0 if they must be copied. No reference is taken.
 */
size_t sdp_splice_bytes(struct msghdr *msg, size_t max, struct page **page,
			size_t *offset)
{
	struct page *found, **pages = &found;
	struct page *head;
	ssize_t n;

	n = iov_iter_extract_pages(&msg->msg_iter, &pages, max, 1, 0, offset);
	if (n <= 0)
		return 0;
	if (!sendpage_ok(found)) {
		iov_iter_revert(&msg->msg_iter, n);
		return 0;
	}
	head = compound_head(found);
	*offset += (page_to_pfn(found) - page_to_pfn(head)) << PAGE_SHIFT;
	*page = head;
	return n;
}

/* linux/pipe_fs_i.h, linux/splice.h: a pipe that is locked */

bool sdp_pipe_has_room(const struct pipe_inode_info *pipe)
{
	return !pipe_is_full(pipe);
}

/*
 * Adds a range of a page, and takes over the caller's reference. A reader of
 * the pipe must not take the page for its own and write to it, so the
 * operations are those of TCP's pages.
 */
void sdp_pipe_give(struct pipe_inode_info *pipe, struct page *page,
		   unsigned int offset, unsigned int len)
{
	*pipe_head_buf(pipe) = (struct pipe_buffer) {
		.ops	= &nosteal_pipe_buf_ops,
		.page	= page,
		.offset	= offset,
		.len	= len,
	};
	pipe->head++;
}

/*
 * Adds a copy of up to @n bytes, in the page of the previous copy if there is
 * one (@behind) with room. Returns their number, 0 if the pipe is full.
 */
ssize_t sdp_pipe_copy(struct pipe_inode_info *pipe, const void *from, size_t n,
		      bool behind)
{
	struct pipe_buffer *buf = pipe_buf(pipe, pipe->head - 1);

	if (!behind || buf->len == PAGE_SIZE) {
		struct page *page;

		if (pipe_is_full(pipe))
			return 0;
		page = alloc_page(GFP_USER);
		if (!page)
			return -ENOMEM;
		buf = pipe_head_buf(pipe);
		sdp_pipe_give(pipe, page, 0, 0);
	}
	n = min_t(size_t, n, PAGE_SIZE - buf->len);
	memcpy(page_address(buf->page) + buf->len, from, n);
	buf->len += n;
	return n;
}

bool sdp_is_nonblocking(const struct socket *sock)
{
	return sock->file->f_flags & O_NONBLOCK;
}

/* As the core does for sockets that cannot splice: by recvmsg(2). */
ssize_t sdp_splice_copies(struct socket *sock, loff_t *position,
			  struct pipe_inode_info *pipe, size_t n,
			  unsigned int flags)
{
	return copy_splice_read(sock->file, position, pipe, n, flags);
}

/* linux/poll.h, net/sock.h: waiting */

void sdp_sock_poll_wait(struct file *file, struct socket *sock,
			struct poll_table_struct *wait)
{
	sock_poll_wait(file, sock, wait);
}

void sdp_wait_begin(struct sock *sk, struct wait_queue_entry *wait,
		    bool exclusive)
{
	init_waitqueue_func_entry(wait, woken_wake_function);
	wait->private = current;
	INIT_LIST_HEAD(&wait->entry);
	wait->flags = 0;
	if (exclusive)
		add_wait_queue_exclusive(sk_sleep(sk), wait);
	else
		add_wait_queue(sk_sleep(sk), wait);
}

long sdp_wait_woken(struct wait_queue_entry *wait, long timeo)
{
	return wait_woken(wait, TASK_INTERRUPTIBLE, timeo);
}

void sdp_wait_end(struct sock *sk, struct wait_queue_entry *wait)
{
	remove_wait_queue(sk_sleep(sk), wait);
}

int sdp_sock_intr_errno(long timeo)
{
	return sock_intr_errno(timeo);
}

bool sdp_signal_pending(void)
{
	return signal_pending(current);
}

/* linux/sockptr.h, linux/uaccess.h */

int sdp_copy_from_sockptr(void *dst, sockptr_t src, size_t size)
{
	return copy_from_sockptr(dst, src, size) ? -EFAULT : 0;
}

/* An option's value, as setsockopt(2) of SOL_SOCKET takes it. */
int sdp_sockopt_int(sockptr_t value, unsigned int len, int *number)
{
	if (len < sizeof(*number))
		return -EINVAL;
	return sdp_copy_from_sockptr(number, value, sizeof(*number));
}

/*
 * The name of a congestion control, as a program gives it to TCP_CONGESTION.
 * Only TCP knows whether it is valid, so a TCP socket is made for that question
 * alone. `name` has SDP_CONGESTION_LEN zeros. The socket is the caller's alone:
 * its lock is not held.
 */
int sdp_congestion_name(struct net *net, sockptr_t value, unsigned int len,
			char *name)
{
	struct socket *tcp;
	long n;
	int err;

	if (len < 1)
		return -EINVAL;
	n = strncpy_from_sockptr(name, value,
				 min_t(long, SDP_CONGESTION_LEN - 1, len));
	if (n < 0)
		return -EFAULT;
	name[n] = 0;
	if (!strcmp(name, "rdma"))
		/* The initial value, so that a program can restore it. */
		return 0;
	err = sock_create_kern(net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &tcp);
	if (err)
		return err;
	err = do_sock_setsockopt(tcp, false, SOL_TCP, TCP_CONGESTION,
				 KERNEL_SOCKPTR(name), SDP_CONGESTION_LEN);
	sock_release(tcp);
	return err;
}

unsigned long sdp_copy_to_user(void __user *to, const void *from, size_t n)
{
	return copy_to_user(to, from, n);
}

unsigned long sdp_copy_from_user(void *to, const void __user *from, size_t n)
{
	return copy_from_user(to, from, n);
}

/* linux/workqueue.h */

struct workqueue_struct *sdp_alloc_workqueue(const char *name)
{
	return alloc_workqueue("%s", WQ_UNBOUND, 0, name);
}

void sdp_init_delayed_work(struct delayed_work *work, work_func_t func)
{
	INIT_DELAYED_WORK(work, func);
}

bool sdp_mod_delayed_work(struct workqueue_struct *wq,
			  struct delayed_work *work, unsigned long msecs)
{
	return mod_delayed_work(wq, work, msecs_to_jiffies(msecs));
}

bool sdp_cancel_delayed_work(struct delayed_work *work)
{
	return cancel_delayed_work(work);
}

/* net/sock.h */

void sdp_prot_inuse_add(struct sock *sk, int val)
{
	sock_prot_inuse_add(sock_net(sk), sk->sk_prot, val);
}

bool sdp_sock_reuse(const struct sock *sk)
{
	return sk->sk_reuse != SK_NO_REUSE;
}

bool sdp_sock_reuseport(const struct sock *sk)
{
	return sk->sk_reuseport;
}

/* SO_BINDTODEVICE, or 0. */
int sdp_sock_device(const struct sock *sk)
{
	return READ_ONCE(sk->sk_bound_dev_if);
}

/* SO_REUSEPORT, which the core reserves to other families. */
int sdp_set_reuseport(struct sock *sk, sockptr_t value, unsigned int len)
{
	int on, err;

	err = sdp_sockopt_int(value, len, &on);
	if (err)
		return err;
	lock_sock(sk);
	sk->sk_reuseport = !!on;
	release_sock(sk);
	return 0;
}

int sdp_set_peek_off(struct sock *sk, int value)
{
	return sk_set_peek_off(sk, value);
}

/* At most TCP's limit. */
void sdp_set_rcvlowat(struct sock *sk, int value)
{
	int most = sk->sk_userlocks & SOCK_RCVBUF_LOCK ?
			   sk->sk_rcvbuf :
			   READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_rmem[2]);

	WRITE_ONCE(sk->sk_rcvlowat, min(value, most >> 1) ?: 1);
}

/* SO_PEEK_OFF, or -1. */
int sdp_peek_offset(const struct sock *sk)
{
	return READ_ONCE(sk->sk_peek_off);
}

/* Moves the peek offset @by bytes: a peek moves it forward, a read back. */
void sdp_peek_moved(struct sock *sk, bool peeked, int by)
{
	if (peeked)
		sk_peek_offset_fwd(sk, by);
	else
		sk_peek_offset_bwd(sk, by);
}

/* The number of unread bytes, for io_uring and as a control message. */
void sdp_tell_inq(struct msghdr *msg, int left, bool as_message)
{
	msg->msg_inq = left;
	if (as_message)
		put_cmsg(msg, SOL_TCP, TCP_CM_INQ, sizeof(left), &left);
}

bool sdp_wants_inq(const struct msghdr *msg)
{
	return msg->msg_get_inq;
}

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

void sdp_sock_init(struct socket *sock, struct sock *sk,
		   void (*destruct)(struct sock *sk))
{
	struct sdp_inet *start = container_of(sk, struct sdp_inet, inet.sk);

	sock_init_data(sock, sk);
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

bool sdp_exiting(void)
{
	return current->flags & PF_EXITING;
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

void sdp_wake_readable(struct sock *sk)
{
	sk->sk_data_ready(sk);
}

void sdp_wake_writable(struct sock *sk)
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

void sdp_wake_state(struct sock *sk)
{
	sk->sk_state_change(sk);
}

/*
 * Wakes tasks that sleep in a call, and no pollers: io_uring repeats a
 * connect() whenever it is woken, and takes EALREADY for its result. No poller
 * waits for this event.
 */
void sdp_wake_sleepers(struct sock *sk)
{
	struct socket_wq *wq;

	rcu_read_lock();
	wq = rcu_dereference(sk->sk_wq);
	if (skwq_has_sleeper(wq))
		__wake_up(&wq->wait, TASK_INTERRUPTIBLE, 0,
			  poll_to_key(EPOLLMSG));
	rcu_read_unlock();
}

void sdp_wake_connected(struct sock *sk)
{
	sk->sk_state_change(sk);
	sk_wake_async(sk, SOCK_WAKE_IO, POLL_OUT);
}

void sdp_wake_hangup(struct sock *sk)
{
	sk->sk_state_change(sk);
	if (READ_ONCE(sk->sk_shutdown) == SHUTDOWN_MASK ||
	    READ_ONCE(sk->sk_state) == TCP_CLOSE)
		sk_wake_async(sk, SOCK_WAKE_WAITD, POLL_HUP);
	else
		sk_wake_async(sk, SOCK_WAKE_WAITD, POLL_IN);
}

void sdp_wake_error(struct sock *sk)
{
	sk_error_report(sk);
}

void sdp_wake_urgent(struct sock *sk)
{
	/* The lock keeps the file whose owner gets SIGURG. */
	read_lock_bh(&sk->sk_callback_lock);
	if (sk->sk_socket && sk->sk_socket->file)
		sk_send_sigurg(sk);
	read_unlock_bh(&sk->sk_callback_lock);
}

bool sdp_is_bpf(void)
{
	return has_current_bpf_ctx();
}

/*
 * As sk_page_frag_refill(), which makes the send buffer smaller if there is no
 * memory; only TCP makes it larger again. The socket keeps its fragment: one
 * that has written @small, and has no other bytes in flight, keeps a page of
 * it.
 */
bool sdp_page_frag_refill(struct sock *sk, struct page_frag *frag, bool small)
{
	if (frag->page && page_ref_count(frag->page) == 1) {
		if (small || frag->size > PAGE_SIZE) {
			frag->offset = 0;
			return true;
		}
		put_page(frag->page);
		frag->page = NULL;
	}
	if (frag->page && frag->offset + 32 > frag->size) {
		put_page(frag->page);
		frag->page = NULL;
	}
	if (!frag->page && small) {
		frag->page = alloc_page(sk->sk_allocation);
		frag->size = PAGE_SIZE;
		frag->offset = 0;
		return frag->page;
	}
	return skb_page_frag_refill(32, frag, sk->sk_allocation);
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

/* net/net_namespace.h, net/ip.h, net/ipv6.h: names and ports */

void *sdp_net_generic(struct net *net, unsigned int id)
{
	return net_generic(net, id);
}

void sdp_local_port_range(struct net *net, int *low, int *high)
{
	inet_get_local_port_range(net, low, high);
}

bool sdp_port_is_reserved(struct net *net, unsigned short port)
{
	return inet_is_local_reserved_port(net, port);
}

bool sdp_may_bind_low_port(struct net *net, unsigned short port)
{
	return !inet_port_requires_bind_service(net, port) ||
	       ns_capable(net->user_ns, CAP_NET_BIND_SERVICE);
}

/* In the VRF of an interface, or outside of all. */
bool sdp_addr_is_local4(struct net *net, __be32 addr, int device)
{
	u32 table = device ? l3mdev_fib_table_by_index(net, device) : 0;

	return inet_addr_type_table(net, addr, table ?: RT_TABLE_LOCAL) ==
	       RTN_LOCAL;
}

bool sdp_addr_is_local6(struct net *net, const struct in6_addr *addr,
			int ifindex)
{
	struct net_device *dev = NULL;
	bool local;

	rcu_read_lock();
	if (ifindex)
		dev = dev_get_by_index_rcu(net, ifindex);
	local = ipv6_chk_addr(net, addr, dev, 0);
	rcu_read_unlock();
	return local;
}

/* The VRF of an interface, which may be the interface itself; 0 for none. */
int sdp_vrf_of(struct net *net, int device)
{
	return l3mdev_master_ifindex_by_index(net, device);
}

/*
 * Whether sockets outside of all VRFs serve all of them:
 * net.ipv4.tcp_l3mdev_accept.
 */
bool sdp_vrfs_are_open(struct net *net)
{
#ifdef CONFIG_NET_L3_MASTER_DEV
	return READ_ONCE(net->ipv4.sysctl_tcp_l3mdev_accept);
#else
	return true;
#endif
}

/* The VRF whose ports the socket uses; 0 for the common ports. */
int sdp_sock_vrf(const struct sock *sk)
{
	return inet_sk_bound_l3mdev(sk);
}

/* As inet_request_bound_dev_if(): an accepted socket keeps its interface. */
void sdp_sock_enter_vrf(struct sock *sk, int vrf)
{
	if (!sk->sk_bound_dev_if)
		sk->sk_bound_dev_if = vrf;
}

static bool has_address4(const struct net_device *dev, __be32 addr)
{
	struct in_device *in_dev = __in_dev_get_rcu(dev);
	const struct in_ifaddr *ifa;

	if (in_dev)
		in_dev_for_each_ifa_rcu(ifa, in_dev)
			if (ifa->ifa_local == addr)
				return true;
	return false;
}

/*
 * The route that TCP would use, by all fields that rules may use: mark, user,
 * ports, class of service. rdma_cm looks it up once more, by addresses and
 * interface alone, so it is told the interface, and the next hop if it would
 * choose another one.
 */
static int find_way4(const struct sock *sk, u8 class,
		     const struct sockaddr_in *dst, struct sockaddr_in *src,
		     struct sdp_way *way)
{
	struct sockaddr_in *next = (struct sockaddr_in *)&way->next;
	struct net *net = sock_net(sk);
	struct flowi4 fl4 = {
		.daddr = dst->sin_addr.s_addr,
		.saddr = src->sin_addr.s_addr,
		.flowi4_oif = READ_ONCE(sk->sk_bound_dev_if),
		.flowi4_mark = READ_ONCE(sk->sk_mark),
		.flowi4_uid = sk_uid(sk),
		.flowi4_dscp = inet_dsfield_to_dscp(class),
		.flowi4_scope = sock_flag(sk, SOCK_LOCALROUTE) ?
				RT_SCOPE_LINK : RT_SCOPE_UNIVERSE,
		.flowi4_proto = IPPROTO_TCP,
		.fl4_dport = dst->sin_port,
		.fl4_sport = src->sin_port,
	};
	struct rtable *rt = ip_route_output_key(net, &fl4), *other;
	__be32 gateway = 0;
	int err = 0;

	if (IS_ERR(rt))
		return PTR_ERR(rt);
	if (rt->rt_flags & (RTCF_MULTICAST | RTCF_BROADCAST)) {
		err = -ENETUNREACH;
		goto put;
	}
	src->sin_addr.s_addr = fl4.saddr;
	if (rt->rt_type == RTN_LOCAL)
		goto put;
	rcu_read_lock();
	if (has_address4(rt->dst.dev, fl4.saddr))
		way->device = rt->dst.dev->ifindex;
	rcu_read_unlock();
	if (rt->rt_uses_gateway && rt->rt_gw_family == AF_INET &&
	    rt->dst.dev->type != ARPHRD_INFINIBAND)
		gateway = rt->rt_gw4;
	if (!way->device || !gateway)
		goto put;
	fl4 = (struct flowi4){
		.daddr = dst->sin_addr.s_addr,
		.saddr = fl4.saddr,
		.flowi4_oif = way->device,
	};
	other = ip_route_output_key(net, &fl4);
	if (IS_ERR(other) || !other->rt_uses_gateway ||
	    other->rt_gw_family != AF_INET || other->rt_gw4 != gateway) {
		way->through = true;
		next->sin_family = AF_INET;
		next->sin_addr.s_addr = gateway;
	}
	if (!IS_ERR(other))
		ip_rt_put(other);
put:
	ip_rt_put(rt);
	return err;
}

#if IS_ENABLED(CONFIG_IPV6)
static int find_way6(const struct sock *sk, const struct sockaddr_in6 *dst,
		     struct sockaddr_in6 *src, struct sdp_way *way)
{
	struct sockaddr_in6 *next = (struct sockaddr_in6 *)&way->next;
	struct net *net = sock_net(sk);
	struct flowi6 fl6 = {
		.daddr = dst->sin6_addr,
		.saddr = src->sin6_addr,
		.flowi6_oif = dst->sin6_scope_id ?:
			      READ_ONCE(sk->sk_bound_dev_if),
		.flowi6_mark = READ_ONCE(sk->sk_mark),
		.flowi6_uid = sk_uid(sk),
		.flowi6_proto = IPPROTO_TCP,
		.fl6_dport = dst->sin6_port,
		.fl6_sport = src->sin6_port,
	};
	struct dst_entry *entry = ip6_dst_lookup_flow(net, NULL, &fl6, NULL);
	struct dst_entry *other;
	const struct rt6_info *rt;
	bool has_gateway = false;

	if (IS_ERR(entry))
		return PTR_ERR(entry);
	src->sin6_addr = fl6.saddr;
	rt = dst_rt6_info(entry);
	if (!(rt->rt6i_flags & RTF_LOCAL)) {
		if (ipv6_chk_addr(net, &fl6.saddr, entry->dev, 1))
			way->device = entry->dev->ifindex;
		has_gateway = rt->rt6i_flags & RTF_GATEWAY &&
			      entry->dev->type != ARPHRD_INFINIBAND;
	}
	if (way->device && has_gateway) {
		fl6 = (struct flowi6){
			.daddr = dst->sin6_addr,
			.saddr = fl6.saddr,
			.flowi6_oif = way->device,
		};
		other = ip6_dst_lookup_flow(net, NULL, &fl6, NULL);
		if (IS_ERR(other) ||
		    !ipv6_addr_equal(&dst_rt6_info(other)->rt6i_gateway,
				     &rt->rt6i_gateway)) {
			way->through = true;
			next->sin6_family = AF_INET6;
			next->sin6_addr = rt->rt6i_gateway;
			next->sin6_scope_id = way->device;
		}
		if (!IS_ERR(other))
			dst_release(other);
	}
	dst_release(entry);
	return 0;
}
#endif

/*
 * The route from @src to @dst. Unknown parts of @src are zeros; its address is
 * filled in.
 */
int sdp_find_way(const struct sock *sk, u8 class,
		 const struct sockaddr_storage *dst,
		 struct sockaddr_storage *src, struct sdp_way *way)
{
	memset(way, 0, sizeof(*way));
	if (dst->ss_family == AF_INET)
		return find_way4(sk, class, (const struct sockaddr_in *)dst,
				 (struct sockaddr_in *)src, way);
#if IS_ENABLED(CONFIG_IPV6)
	return find_way6(sk, (const struct sockaddr_in6 *)dst,
			 (struct sockaddr_in6 *)src, way);
#else
	return -ENETUNREACH;
#endif
}

bool sdp_v6only_by_default(struct net *net)
{
#if IS_ENABLED(CONFIG_IPV6)
	return READ_ONCE(net->ipv6.sysctl.bindv6only);
#else
	return false;
#endif
}

/*
 * The class of service with which rdma_cm asks the administrator of a subnet
 * for a path between IPv6 addresses, because it ignores rdma_set_service_type()
 * there.
 */
void sdp_addr_set_class(struct sockaddr_in6 *addr, u8 class)
{
	addr->sin6_flowinfo = cpu_to_be32(class << 20);
}

u32 sdp_random_u32(void)
{
	return get_random_u32();
}

struct net *sdp_seq_net(struct seq_file *m)
{
	return seq_file_single_net(m);
}

void sdp_put_net(struct net *net)
{
	put_net(net);
}

/* rdma/ib_cm.h, rdma/ib_verbs.h */

bool sdp_ib_is_rxe(const struct ib_device *device)
{
	return device->ops.driver_id == RDMA_DRIVER_RXE;
}

struct ib_pd *sdp_ib_alloc_pd(struct ib_device *device)
{
	return ib_alloc_pd(device, 0);
}

void sdp_ib_dealloc_pd(struct ib_pd *pd)
{
	ib_dealloc_pd(pd);
}

struct ib_cq *sdp_ib_alloc_cq(struct ib_device *device, void *private,
			      int entries, int comp_vector)
{
	return ib_alloc_cq(device, private, entries, comp_vector,
			   IB_POLL_WORKQUEUE);
}

struct ib_qp *sdp_ib_create_qp(struct ib_pd *pd, struct ib_qp_init_attr *attr)
{
	return ib_create_qp(pd, attr);
}

void sdp_ib_destroy_qp(struct ib_qp *qp)
{
	ib_destroy_qp(qp);
}

int sdp_ib_post_send(struct ib_qp *qp, const struct ib_send_wr *wr)
{
	return ib_post_send(qp, wr, NULL);
}

int sdp_ib_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr)
{
	return ib_post_recv(qp, wr, NULL);
}

u64 sdp_ib_dma_map_page(struct ib_device *device, struct page *page,
			unsigned long offset, size_t size, int direction)
{
	return ib_dma_map_page(device, page, offset, size, direction);
}

u64 sdp_ib_dma_map_single(struct ib_device *device, void *memory, size_t size,
			  int direction)
{
	return ib_dma_map_single(device, memory, size, direction);
}

int sdp_ib_dma_mapping_error(struct ib_device *device, u64 addr)
{
	return ib_dma_mapping_error(device, addr);
}

void sdp_ib_dma_unmap_page(struct ib_device *device, u64 addr, size_t size,
			   int direction)
{
	ib_dma_unmap_page(device, addr, size, direction);
}

void sdp_ib_dma_sync_for_cpu(struct ib_device *device, u64 addr, size_t size,
			     int direction)
{
	ib_dma_sync_single_for_cpu(device, addr, size, direction);
}

void sdp_ib_dma_sync_for_device(struct ib_device *device, u64 addr, size_t size,
				int direction)
{
	ib_dma_sync_single_for_device(device, addr, size, direction);
}

/* @name has room for IB_DEVICE_NAME_MAX. Of a device that is renamed now it may be both. */
void sdp_ib_device_name(const struct ib_device *device, char *name)
{
	strscpy(name, device->name, IB_DEVICE_NAME_MAX);
}

bool sdp_ib_device_speaks_ib_cm(struct ib_device *device)
{
	u32 port;

	rdma_for_each_port(device, port)
		if (rdma_cap_ib_cm(device, port))
			return true;
	return false;
}

struct rdma_cm_id *sdp_rdma_create_id(struct net *net,
				      rdma_cm_event_handler handler, void *context)
{
	return rdma_create_id(net, handler, context, RDMA_PS_TCP, IB_QPT_RC);
}

static bool gid_attr_in_net(const struct ib_gid_attr *attr, struct net *net,
			    int device)
{
	struct net_device *ndev;
	bool in;

	rcu_read_lock();
	ndev = rdma_read_gid_attr_ndev_rcu(attr);
	in = !IS_ERR(ndev) && net_eq(dev_net(ndev), net) &&
	     (!device || ndev->ifindex == device ||
	      l3mdev_master_ifindex_rcu(ndev) == device);
	rcu_read_unlock();
	return in;
}

/* Sets the interface by which @id reaches its peer, before it has a source. */
void sdp_way_set_device(struct rdma_cm_id *id, int device)
{
	id->route.addr.dev_addr.bound_dev_if = device;
}

/*
 * The hardware address that @id has found belongs to the next hop to @peer, as
 * on a route with a gateway.
 */
void sdp_way_set_peer(struct rdma_cm_id *id, const struct sockaddr_storage *peer)
{
	struct rdma_addr *addr = &id->route.addr;

	addr->dst_addr = *peer;
	addr->dev_addr.network = peer->ss_family == AF_INET ?
				 RDMA_NETWORK_IPV4 : RDMA_NETWORK_IPV6;
}

/*
 * Whether the route that @id has found leaves @net by the interface @device or
 * one of the VRF @device, if not 0. On RoCE the GID says so. On InfiniBand GIDs
 * have no interface; there rdma_cm has looked in the namespace of @id, and the
 * interface is the one whose hardware address it took.
 */
bool sdp_way_is_in_net(const struct rdma_cm_id *id, struct net *net, int device)
{
	const struct rdma_dev_addr *addr = &id->route.addr.dev_addr;

	if (rdma_protocol_ib(id->device, id->port_num))
		return net_eq(addr->net, net) && addr->bound_dev_if &&
		       (!device || addr->bound_dev_if == device ||
			sdp_vrf_of(net, addr->bound_dev_if) == device);
	return addr->sgid_attr && gid_attr_in_net(addr->sgid_attr, net, device);
}

bool sdp_cm_req_is_roce(struct ib_cm_id *id, const struct ib_cm_event *event)
{
	return rdma_protocol_roce(id->device, event->param.req_rcvd.port);
}

static struct net *cm_req_net(struct ib_cm_id *id,
			      const struct ib_cm_event *event,
			      const struct sockaddr *daddr, int *device)
{
	const struct ib_cm_req_event_param *req = &event->param.req_rcvd;
	struct net_device *ndev;
	struct net *net = NULL;

	if (sdp_cm_req_is_roce(id, event)) {
		if (!req->ppath_sgid_attr)
			return NULL;
		rcu_read_lock();
		ndev = rdma_read_gid_attr_ndev_rcu(req->ppath_sgid_attr);
		if (!IS_ERR(ndev)) {
			net = maybe_get_net(dev_net(ndev));
			*device = ndev->ifindex;
		}
		rcu_read_unlock();
		return net;
	}
	ndev = ib_get_net_dev_by_params(id->device, req->port, req->bth_pkey,
					&req->primary_path->sgid, daddr);
	if (ndev) {
		net = maybe_get_net(dev_net(ndev));
		*device = ndev->ifindex;
		dev_put(ndev);
	}
	return net;
}

/*
 * The namespace where a request came in, with a reference, and the interface.
 */
struct net *sdp_cm_req_net(struct ib_cm_id *id, const struct ib_cm_event *event,
			   const struct sockaddr *daddr, int *device)
{
	struct net *net = cm_req_net(id, event, daddr, device);

	/* rdma_cm checks this on the active side. */
	if (net && !rdma_dev_access_netns(id->device, net)) {
		put_net(net);
		return NULL;
	}
	return net;
}

/*
 * Whether packets to @peer from @local would leave by the interface: as rdma_cm
 * checks it if the GID says nothing about the address.
 */
bool sdp_route_is_by(struct net *net, int device, const struct sockaddr *local,
		     const struct sockaddr *peer)
{
	if (local->sa_family != peer->sa_family)
		return false;
	if (local->sa_family == AF_INET) {
		struct flowi4 fl4 = {
			.flowi4_oif = device,
			.daddr = ((struct sockaddr_in *)peer)->sin_addr.s_addr,
			.saddr = ((struct sockaddr_in *)local)->sin_addr.s_addr,
		};
		struct fib_result res;
		bool is;

		if (ipv4_is_multicast(fl4.daddr) || ipv4_is_lbcast(fl4.daddr) ||
		    ipv4_is_zeronet(fl4.daddr))
			return false;
		rcu_read_lock();
		is = !fib_lookup(net, &fl4, &res, 0) &&
		     FIB_RES_DEV(res)->ifindex == device;
		rcu_read_unlock();
		return is;
	}
#if IS_ENABLED(CONFIG_IPV6)
	if (local->sa_family == AF_INET6) {
		const struct in6_addr *to =
			&((struct sockaddr_in6 *)peer)->sin6_addr;
		const struct in6_addr *from =
			&((struct sockaddr_in6 *)local)->sin6_addr;
		int strict = ipv6_addr_type(to) & IPV6_ADDR_LINKLOCAL;
		struct rt6_info *rt = rt6_lookup(net, to, from, device, NULL,
						 strict);
		bool is = rt && rt->rt6i_idev->dev->ifindex == device;

		ip6_rt_put(rt);
		return is;
	}
#endif
	return false;
}

/* rdma_cm takes a loopback address for "any device of any namespace". */
static bool is_routable(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		return !ipv4_is_loopback(((struct sockaddr_in *)addr)->sin_addr.s_addr);
	return !(ipv6_addr_type(&((struct sockaddr_in6 *)addr)->sin6_addr) &
		 (IPV6_ADDR_LOOPBACK | IPV6_ADDR_LINKLOCAL));
}

static bool interface_address(struct net_device *ndev, int family,
			      struct sockaddr_storage *out)
{
	bool found = false;

	memset(out, 0, sizeof(*out));
	out->ss_family = family;
	if (family == AF_INET) {
		struct sockaddr_in *sin = (struct sockaddr_in *)out;
		struct in_device *in_dev = __in_dev_get_rcu(ndev);
		const struct in_ifaddr *ifa;

		if (!in_dev)
			return false;
		in_dev_for_each_ifa_rcu(ifa, in_dev) {
			sin->sin_addr.s_addr = ifa->ifa_local;
			if (is_routable(out))
				return true;
		}
		return false;
	}
#if IS_ENABLED(CONFIG_IPV6)
	if (family == AF_INET6) {
		struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)out;
		struct inet6_dev *idev = __in6_dev_get(ndev);
		const struct inet6_ifaddr *ifp;

		if (!idev)
			return false;
		read_lock_bh(&idev->lock);
		list_for_each_entry(ifp, &idev->addr_list, if_list) {
			if (ifp->flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED))
				continue;
			sin6->sin6_addr = ifp->addr;
			found = is_routable(out);
			if (found)
				break;
		}
		read_unlock_bh(&idev->lock);
	}
#endif
	return found;
}

/*
 * An address of an IPoIB interface of that port: one whose hardware address, as
 * rdma_cm reads it, has a GID of the port.
 */
static bool ipoib_address(struct ib_device *device, u32 port, struct net *net,
			  int family, struct sockaddr_storage *out)
{
	const struct ib_gid_attr *attr;
	struct net_device *ndev;
	bool found = false;
	union ib_gid gid;

	rcu_read_lock();
	for_each_netdev_rcu(net, ndev) {
		if (ndev->type != ARPHRD_INFINIBAND || !(ndev->flags & IFF_UP))
			continue;
		memcpy(&gid, ndev->dev_addr + 4, sizeof(gid));
		attr = rdma_find_gid_by_port(device, &gid, IB_GID_TYPE_IB, port,
					     NULL);
		if (IS_ERR(attr))
			continue;
		rdma_put_gid_attr(attr);
		found = interface_address(ndev, family, out);
		if (found)
			break;
	}
	rcu_read_unlock();
	return found;
}

int sdp_device_local_address(struct ib_device *device, struct net *net,
			     int family, struct sockaddr_storage *out)
{
	const struct ib_gid_attr *attr;
	u32 port;
	int i;

	rdma_for_each_port(device, port) {
		struct ib_port_attr pa;

		if (ib_query_port(device, port, &pa) ||
		    pa.state != IB_PORT_ACTIVE)
			continue;
		if (rdma_protocol_ib(device, port) &&
		    ipoib_address(device, port, net, family, out))
			return 0;
		if (!rdma_protocol_roce(device, port))
			continue;
		for (i = 0; i < pa.gid_tbl_len; i++) {
			bool found;

			attr = rdma_get_gid_attr(device, port, i);
			if (IS_ERR(attr))
				continue;
			memset(out, 0, sizeof(*out));
			rdma_gid2ip((struct sockaddr *)out, &attr->gid);
			found = out->ss_family == family &&
				gid_attr_in_net(attr, net, 0) &&
				is_routable(out);
			rdma_put_gid_attr(attr);
			if (found)
				return 0;
		}
	}
	return -ENODEV;
}
