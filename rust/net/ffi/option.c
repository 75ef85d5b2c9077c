// SPDX-License-Identifier: GPL-2.0
/*
 * Options: their values, and those that the core keeps.
 * helpers.h has the declarations.
 */
#include <linux/errno.h>
#include <linux/net.h>
#include <linux/tcp.h>
#include <linux/uio.h>
#include <net/sock.h>

#include "helpers.h"

int rust_net_copy_from_sockptr(void *dst, sockptr_t src, size_t size)
{
	return copy_from_sockptr(dst, src, size) ? -EFAULT : 0;
}

void rust_net_prot_inuse_add(struct sock *sk, int val)
{
	sock_prot_inuse_add(sock_net(sk), sk->sk_prot, val);
}

bool rust_net_sock_reuse(const struct sock *sk)
{
	return sk->sk_reuse != SK_NO_REUSE;
}

bool rust_net_sock_reuseport(const struct sock *sk)
{
	return sk->sk_reuseport;
}

/* SO_BINDTODEVICE, or 0. */
int rust_net_sock_device(const struct sock *sk)
{
	return READ_ONCE(sk->sk_bound_dev_if);
}

int rust_net_set_peek_off(struct sock *sk, int value)
{
	return sk_set_peek_off(sk, value);
}

/* At most TCP's limit. */
void rust_net_set_rcvlowat(struct sock *sk, int value)
{
	int most = READ_ONCE(sk->sk_userlocks) & SOCK_RCVBUF_LOCK ?
			   READ_ONCE(sk->sk_rcvbuf) :
			   READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_rmem[2]);

	WRITE_ONCE(sk->sk_rcvlowat, min(value, most >> 1) ?: 1);
}

/* SO_PEEK_OFF, or -1. */
int rust_net_peek_offset(const struct sock *sk)
{
	return READ_ONCE(sk->sk_peek_off);
}

/* Moves the peek offset @by bytes: a peek moves it forward, a read back. */
void rust_net_peek_moved(struct sock *sk, bool peeked, int by)
{
	if (peeked)
		sk_peek_offset_fwd(sk, by);
	else
		sk_peek_offset_bwd(sk, by);
}

/* The number of unread bytes, for io_uring and as a control message. */
void rust_net_tell_inq(struct msghdr *msg, int left, bool as_message)
{
	msg->msg_inq = left;
	if (as_message)
		put_cmsg(msg, SOL_TCP, TCP_CM_INQ, sizeof(left), &left);
}

bool rust_net_wants_inq(const struct msghdr *msg)
{
	return msg->msg_get_inq;
}

/* The address of the next bytes of a message in a program's memory, and their number. */
size_t rust_net_user_segment(const struct msghdr *msg, unsigned long *addr)
{
	const struct iov_iter *iter = &msg->msg_iter;

	if (iter_is_ubuf(iter)) {
		*addr = (unsigned long)iter->ubuf + iter->iov_offset;
		return iov_iter_count(iter);
	}
	/* At its end the iterator is behind the last of its vectors. */
	if (!iter_is_iovec(iter) || !iov_iter_count(iter))
		return 0;
	*addr = (unsigned long)iter_iov_addr(iter);
	return iov_iter_single_seg_count(iter);
}
