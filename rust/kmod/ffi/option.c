// SPDX-License-Identifier: GPL-2.0
/*
 * Options: their values, as programs give them, the core's options, and the options
 * of a TCP half.
 * helpers.h has the declarations.
 */
#include <linux/errno.h>
#include <linux/filter.h>
#include <linux/net.h>
#include <linux/tcp.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "companion.h"
#include "helpers.h"
#include "zcopy.h"

/* An option's value, as setsockopt(2) of SOL_SOCKET takes it. */
int sdp_sockopt_int(sockptr_t value, unsigned int len, int *number)
{
	if (len < sizeof(*number))
		return -EINVAL;
	return rust_net_copy_from_sockptr(number, value, sizeof(*number));
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

/*
 * The answer to a program that wants to choose how connections are spread over
 * listeners: SDP cannot. The core would make a group here that no code frees.
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
 * SO_RESERVE_MEM. The core keeps pages of the account for the socket, which its
 * end does not give back. Linux 7.2 would do so for each protocol with an account.
 */
static int refuse_reserve(sockptr_t value, unsigned int len)
{
	int bytes;

	if (len < sizeof(bytes))
		return -EINVAL;
	if (copy_from_sockptr(&bytes, value, sizeof(bytes)))
		return -EFAULT;
	return bytes < 0 ? -EINVAL : -EOPNOTSUPP;
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
	case SO_RESERVE_MEM:
		return refuse_reserve(value, len);
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
 * Sets an option on both halves, if there are both. The result is from the
 * half in use, and from the owner while that is undecided.
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

int sdp_companion_getsockopt(struct socket *tcp, int level, int option,
			     char __user *value, int __user *len)
{
	return do_sock_getsockopt(tcp, false, level, option,
				  USER_SOCKPTR(value), USER_SOCKPTR(len));
}
