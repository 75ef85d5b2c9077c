// SPDX-License-Identifier: GPL-2.0
/*
 * Sockets, made and accepted as for programs.
 *
 * sdp makes no sockets for the kernel's own use, because such users take every stream for a TCP
 * socket. So no kind is made in that way (sock_create_kern()), and all have the same
 * accounting. Messages are in the kernel's memory: SDP's zero copy, which is of the pages of programs,
 * does not happen.
 */
#include <linux/in.h>
#include <linux/module.h>
#include <linux/tcp.h>
#include <linux/un.h>
#include <net/sock.h>

#include "../../include/uapi/linux/sdp.h"
#include "sockets.h"

#define BACKLOG	128

static const int families[] = {
	[KS_TCP] = AF_INET, [KS_SDP] = AF_INET_SDP, [KS_SMC] = AF_SMC, [KS_UNIX] = AF_UNIX,
};

/* Without this, the kinds differ in when a part of a message waits for an acknowledgement. */
static int no_delay(struct ks_run *run, struct socket *sock)
{
	int one = 1;

	if (run->kind == KS_UNIX)
		return 0;
	return READ_ONCE(sock->ops)->setsockopt(sock, SOL_TCP, TCP_NODELAY, KERNEL_SOCKPTR(&one),
						sizeof(one));
}

static struct socket *make(struct ks_run *run, int side)
{
	struct socket *sock;
	int err;

	/* Names of Unix sockets belong to one namespace. */
	if (run->kind == KS_UNIX)
		side = 0;
	err = __sock_create(run->net[side], families[run->kind], SOCK_STREAM, 0, &sock, 0);
	if (err)
		return ERR_PTR(err);
	err = no_delay(run, sock);
	if (err) {
		sock_release(sock);
		return ERR_PTR(err);
	}
	return sock;
}

int ks_listen(struct ks_run *run)
{
	struct sockaddr_in *inet = (struct sockaddr_in *)&run->name;
	struct socket *sock = make(run, 1);
	int err;

	if (IS_ERR(sock))
		return PTR_ERR(sock);
	run->listener = sock;
	if (run->kind == KS_UNIX) {
		/* This length asks for a name. */
		run->name.ss_family = AF_UNIX;
		run->name_length = offsetof(struct sockaddr_un, sun_path);
	} else {
		inet->sin_family = AF_INET;
		inet->sin_addr.s_addr = run->address;
		run->name_length = sizeof(*inet);
	}
	err = kernel_bind(sock, (struct sockaddr_unsized *)&run->name, run->name_length) ?:
	      kernel_listen(sock, BACKLOG);
	if (err)
		return err;
	err = kernel_getsockname(sock, (struct sockaddr *)&run->name);
	if (err < 0)
		return err;
	run->name_length = err;
	return 0;
}

struct socket *ks_connect(struct ks_run *run)
{
	struct socket *sock = make(run, 0);
	int err;

	if (IS_ERR(sock))
		return sock;
	err = kernel_connect(sock, (struct sockaddr_unsized *)&run->name, run->name_length, 0);
	if (err) {
		sock_release(sock);
		return ERR_PTR(err);
	}
	return sock;
}

/* As kernel_accept(), for a program. */
struct socket *ks_accept(struct ks_run *run)
{
	const struct proto_ops *ops = READ_ONCE(run->listener->ops);
	struct proto_accept_arg arg = {};
	struct sock *sk = run->listener->sk;
	struct socket *sock;
	int err;

	err = sock_create_lite(sk->sk_family, sk->sk_type, sk->sk_protocol, &sock);
	if (err)
		return ERR_PTR(err);
	err = ops->accept(run->listener, sock, &arg);
	if (!err) {
		sock->ops = ops;
		__module_get(ops->owner);
		err = no_delay(run, sock);
	}
	if (err) {
		sock_release(sock);
		return ERR_PTR(err);
	}
	return sock;
}

int ks_send(struct socket *sock, const void *from, size_t size)
{
	size_t done = 0;

	while (done < size) {
		struct kvec vec = { .iov_base = (void *)from + done, .iov_len = size - done };
		struct msghdr msg = { .msg_flags = MSG_NOSIGNAL };
		int sent = kernel_sendmsg(sock, &msg, &vec, 1, vec.iov_len);

		if (sent <= 0)
			return sent ?: -EIO;
		done += sent;
	}
	return 0;
}

/* 0 for the whole message, 1 for the end of the stream before its first byte. */
int ks_receive(struct socket *sock, void *to, size_t size)
{
	size_t done = 0;

	while (done < size) {
		struct kvec vec = { .iov_base = to + done, .iov_len = size - done };
		struct msghdr msg = {};
		int got = kernel_recvmsg(sock, &msg, &vec, 1, vec.iov_len, MSG_WAITALL);

		if (got < 0)
			return got;
		if (!got)
			return done ? -EPIPE : 1;
		if (got > size - done)
			return -EOVERFLOW;
		done += got;
	}
	return 0;
}
