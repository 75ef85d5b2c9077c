// SPDX-License-Identifier: GPL-2.0
/*
 * IPPROTO_SDP under AF_INET and AF_INET6.
 *
 * inet_create() makes a struct sock with the layout of its families, and calls
 * ->init of the protocol. A socket of this module has another layout and another
 * family, so that no code takes it for TCP's. ->init makes one of those and puts
 * it in the place of the first. The first one stays behind it as its shell until
 * the end: inet_create() still reads it, and so does a BPF program of the cgroup,
 * which may yet refuse the socket.
 */
#include <linux/net.h>
#include <linux/in.h>
#include <linux/sdp.h>
#include <net/inet_common.h>
#include <net/ipv6.h>
#include <net/protocol.h>
#include <net/sock.h>
#include <net/transp_v6.h>

#include "helpers.h"

struct shell4 {
	struct inet_sock inet;
};

struct shell6 {
	struct inet_sock inet;
	struct ipv6_pinfo inet6;
};

/*
 * Callback into the module: makes a socket for @socket, which has the shell @shell.
 */
static int (*make)(struct socket *socket, struct sock *shell, int family);
/* Callback that undoes it if inet_create() fails afterwards. */
static void (*unmake)(struct sock *sk);

static int shell_init(struct sock *shell)
{
	struct socket *socket = shell->sk_socket;
	int err;

	/* In-kernel users take every stream socket of these families for TCP's. */
	if (shell->sk_kern_sock || !socket)
		return -EPROTONOSUPPORT;
	err = make(socket, shell, shell->sk_family);
	if (err) {
		/* Restored, so that inet_create() releases the shell. */
		socket->sk = shell;
		return err;
	}
	/* The shell has lost its socket; sk_common_release() may orphan it. */
	shell->sk_user_data = socket->sk;
	sk_set_socket(shell, NULL);
	RCU_INIT_POINTER(shell->sk_wq, NULL);
	return 0;
}

/* From sk_common_release(): the socket was refused after all. */
static void shell_destroy(struct sock *shell)
{
	struct sock *sk = shell->sk_user_data;

	shell->sk_user_data = NULL;
	if (sk)
		unmake(sk);
}

static void shell_unhash(struct sock *shell)
{
}

static void shell_close(struct sock *shell, long timeout)
{
	sk_common_release(shell);
}

static struct proto shell4_prot = {
	.name		= "INET_SDP",
	.owner		= THIS_MODULE,
	.init		= shell_init,
	.destroy	= shell_destroy,
	.unhash		= shell_unhash,
	.close		= shell_close,
	.obj_size	= sizeof(struct shell4),
};

static struct proto shell6_prot = {
	.name		= "INET6_SDP",
	.owner		= THIS_MODULE,
	.init		= shell_init,
	.destroy	= shell_destroy,
	.unhash		= shell_unhash,
	.close		= shell_close,
	.obj_size	= sizeof(struct shell6),
	.ipv6_pinfo_offset = offsetof(struct shell6, inet6),
};

static struct inet_protosw protosw4 = {
	.type		= SOCK_STREAM,
	.protocol	= IPPROTO_SDP,
	.prot		= &shell4_prot,
};

static struct inet_protosw protosw6 = {
	.type		= SOCK_STREAM,
	.protocol	= IPPROTO_SDP,
	.prot		= &shell6_prot,
};

/* Frees the shell at the end of its socket. */
void sdp_shell_free(struct sock *shell)
{
	shell->sk_user_data = NULL;
	sk_common_release(shell);
}

/*
 * Registers the protocol of shells. It is apart, because this needs memory, and steps that
 * can fail have to come before the first door is open.
 */
int sdp_shells_register(void)
{
	int err = proto_register(&shell4_prot, 1);

	if (err)
		return err;
	err = proto_register(&shell6_prot, 1);
	if (err)
		proto_unregister(&shell4_prot);
	return err;
}

void sdp_shells_unregister(void)
{
	proto_unregister(&shell6_prot);
	proto_unregister(&shell4_prot);
}

/* Fails where the kernel has the number for a protocol that cannot be replaced: it has not. */
int sdp_protocol_register(const struct proto_ops *ops,
			  int (*make_fn)(struct socket *, struct sock *, int),
			  void (*unmake_fn)(struct sock *))
{
	int __maybe_unused err;

	make = make_fn;
	unmake = unmake_fn;
	protosw4.ops = ops;
	protosw6.ops = ops;
#if IS_ENABLED(CONFIG_IPV6)
	err = inet6_register_protosw(&protosw6);
	if (err)
		return err;
#endif
	inet_register_protosw(&protosw4);
	return 0;
}

void sdp_protocol_unregister(void)
{
	inet_unregister_protosw(&protosw4);
#if IS_ENABLED(CONFIG_IPV6)
	inet6_unregister_protosw(&protosw6);
#endif
}
