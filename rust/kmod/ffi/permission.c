// SPDX-License-Identifier: GPL-2.0
/*
 * Whether a task may use the TCP half of a socket.
 *
 * The core asks the security modules about the SDP socket, but most of
 * them do not know its family. Only the core can call their hooks for connect() and bind()
 * of the TCP half. A kernel module can do this:
 *
 * - see whether the caller may be in a sandbox: no_new_privs is the condition
 *   under which Landlock and seccomp admit a task without rights over its
 *   namespace;
 * - have the hook of sendmsg() called, where MSG_FASTOPEN with an address is a
 *   connect() of TCP: Landlock checks the port, Smack the host;
 * - call the hook that SCTP has for its addresses, in which SELinux checks the
 *   socket that it is given, of whatever kind, as in connect() and bind().
 */
#include <linux/net.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/sctp.h>
#include <linux/security.h>
#include <linux/uio.h>
#include <net/sock.h>

#include "helpers.h"

/*
 * Whether the caller may be in a sandbox. A worker of io_uring may have started
 * before its process entered one, so for a worker every thread counts.
 */
bool sdp_is_confined(void)
{
	bool confined = task_no_new_privs(current);
	struct task_struct *thread;

	if (!(current->flags & PF_IO_WORKER))
		return confined;
	rcu_read_lock();
	for_each_thread(current, thread)
		confined |= task_no_new_privs(thread);
	rcu_read_unlock();
	return confined;
}

static int nothing_sent(struct socket *sock, struct msghdr *msg, size_t len)
{
	return 0;
}

static const struct proto_ops question_ops = {
	.owner		= THIS_MODULE,
	.sendmsg	= nothing_sent,
};

/* Calls the hook of sendmsg() with a message that is never sent. */
static int ask_as_fastopen(struct sock *tcp, struct sockaddr_storage *addr,
			   int len)
{
	struct msghdr msg = {
		.msg_name = addr,
		.msg_namelen = len,
		.msg_flags = MSG_FASTOPEN,
	};
	struct socket *question;
	int err;

	err = sock_create_lite(tcp->sk_family, SOCK_STREAM, IPPROTO_TCP,
			       &question);
	if (err)
		return err;
	iov_iter_kvec(&msg.msg_iter, ITER_SOURCE, NULL, 0, 0);
	question->ops = &question_ops;
	question->sk = tcp;
	err = sock_sendmsg(question, &msg);
	question->sk = NULL;
	question->ops = NULL;
	sock_release(question);
	return err;
}

static int ask_as_sctp(struct sock *tcp, int option,
		       struct sockaddr_storage *addr, int len)
{
	int err;

	lock_sock(tcp);
	err = security_sctp_bind_connect(tcp, option, (struct sockaddr *)addr,
					 len);
	release_sock(tcp);
	return err;
}

/*
 * A TCP address in full length, without bytes that programs put behind it; or
 * 0.
 */
static int whole(struct sockaddr_storage *to, const void *addr, int len)
{
	int size;

	memset(to, 0, sizeof(*to));
	if (len < (int)sizeof(to->ss_family))
		return 0;
	memcpy(to, addr, min_t(int, len, sizeof(*to)));
	switch (to->ss_family) {
	case AF_INET:
		size = sizeof(struct sockaddr_in);
		return len < size ? 0 : size;
	case AF_INET6:
		/* Its last word may be missing. */
		size = sizeof(struct sockaddr_in6);
		if (len < size)
			memset((char *)to + len, 0, size - len);
		return len < SIN6_LEN_RFC2133 ? 0 : size;
	default:
		return 0;
	}
}

/*
 * The verdict of the security modules about connect(); none for addresses that
 * TCP refuses.
 */
int sdp_ask_connect(struct socket *tcp, const void *addr, int len)
{
	struct sockaddr_storage name;
	int err;

	len = whole(&name, addr, len);
	if (!len)
		return 0;
	err = ask_as_fastopen(tcp->sk, &name, len);
	return err ?: ask_as_sctp(tcp->sk, SCTP_SOCKOPT_CONNECTX, &name, len);
}

int sdp_ask_bind(struct socket *tcp, const void *addr, int len)
{
	const struct sockaddr_in *ipv4 = addr;
	struct sockaddr_storage name;

	/* TCP takes the wildcard of no family for the one of IPv4. */
	if (tcp->sk->sk_family == AF_INET && len >= (int)sizeof(*ipv4) &&
	    ipv4->sin_family == AF_UNSPEC) {
		memset(&name, 0, sizeof(name));
		memcpy(&name, addr, sizeof(*ipv4));
		name.ss_family = AF_INET;
		len = sizeof(*ipv4);
	} else {
		len = whole(&name, addr, len);
	}
	if (!len)
		return 0;
	return ask_as_sctp(tcp->sk, SCTP_SOCKOPT_BINDX_ADD, &name, len);
}
