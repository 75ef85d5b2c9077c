// SPDX-License-Identifier: GPL-2.0
/*
 * Options: their values, as programs give them, and those that the core keeps.
 * helpers.h has the declarations.
 */
#include <linux/errno.h>
#include <linux/net.h>
#include <linux/tcp.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "helpers.h"

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
