// SPDX-License-Identifier: GPL-2.0
/*
 * The commands of a script: a word and arguments, separated by single spaces.
 * Numbers are decimal or 0x..., bytes are hexadecimal digits or "-" for none.
 *
 *   set NAME VALUE             a setting (setting.c), before it is used
 *   connect FROM TO PORT BYTES sends a REQ from the caller's network namespace
 *   sidr FROM TO PORT BYTES    sends a SIDR REQ
 *   listen ADDRESS PORT        waits for one REQ on the device that has the address
 *   reply BYTES                answers it by a REP
 *   reject REASON              answers REQ or REP by a REJ
 *   turn-away REASON           answers the REQ by a REJ, and waits for another one
 *   rtu, dreq, drep            send these
 *   post COUNT                 posts receive buffers
 *   send BYTES                 posts one SEND
 *   write RKEY ADDRESS BYTES   posts an RDMA Write
 *   read RKEY ADDRESS LENGTH   posts an RDMA Read
 *   memory BYTES               makes memory that the other side can read and write
 *   look ADDRESS LENGTH        shows its content
 *   vanish                     destroys the queue pair without a message
 *   kernel-socket FAMILY PROTOCOL   makes a stream socket for the kernel's own use, and closes it
 *   looks-like-tcp FD          succeeds where users in the kernel take the socket for one of
 *                              TCP, else EPROTOTYPE
 *
 * Receive buffers are posted by connect and reply (setting "posted") and by post, never by
 * themselves. So a peer has exactly as many as its script wants, whatever it announces.
 */
#include <linux/err.h>
#include <linux/hex.h>
#include <linux/inet.h>
#include <linux/kstrtox.h>
#include <linux/net.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <net/sock.h>

#include "peer.h"

struct command {
	const char *name;
	int (*run)(struct peer *peer, char **arguments);
};

static int next_number(char **arguments, u64 max, u64 *value)
{
	char *word = strsep(arguments, " ");
	int err;

	if (!word)
		return -EINVAL;
	err = kstrtou64(word, 0, value);
	if (err)
		return err;
	return *value > max ? -ERANGE : 0;
}

/* An IPv4 or IPv6 address, without a port. */
static int next_address(char **arguments, struct sockaddr_storage *address)
{
	char *word = strsep(arguments, " ");

	if (!word)
		return -EINVAL;
	return inet_pton_with_scope(current->nsproxy->net_ns, AF_UNSPEC, word, NULL, address);
}

/* The caller frees the bytes by kvfree(). */
static u8 *next_bytes(char **arguments, size_t *length)
{
	char *word = strsep(arguments, " ");
	u8 *bytes;

	*length = 0;
	if (!word)
		return ERR_PTR(-EINVAL);
	if (!strcmp(word, "-"))
		return NULL;
	*length = strlen(word) / 2;
	if (!*length || strlen(word) % 2)
		return ERR_PTR(-EINVAL);
	if (*length > PEER_MESSAGE_MAX)
		return ERR_PTR(-EMSGSIZE);
	bytes = kvmalloc(*length, GFP_KERNEL);
	if (!bytes)
		return ERR_PTR(-ENOMEM);
	if (hex2bin(bytes, word, *length)) {
		kvfree(bytes);
		return ERR_PTR(-EINVAL);
	}
	return bytes;
}

/* set NAME VALUE */
static int run_set(struct peer *peer, char **arguments)
{
	char *name = strsep(arguments, " ");
	u64 value;
	int err;

	if (!name)
		return -EINVAL;
	err = next_number(arguments, U32_MAX, &value);
	/* Buffers that are posted have the size that was set before. */
	if (!err && peer->qp)
		err = -EISCONN;
	return err ?: peer_setting_set(&peer->settings, name, value);
}

typedef int (*request)(struct peer *peer, struct sockaddr_storage *from,
		       struct sockaddr_storage *to, u16 port, const u8 *data, size_t length);

static int run_request(struct peer *peer, char **arguments, request request)
{
	struct sockaddr_storage from, to;
	size_t length;
	u64 port;
	u8 *data;
	int err;

	err = next_address(arguments, &from) ?: next_address(arguments, &to) ?:
	      next_number(arguments, U16_MAX, &port);
	if (err)
		return err;
	data = next_bytes(arguments, &length);
	if (IS_ERR(data))
		return PTR_ERR(data);
	err = request(peer, &from, &to, port, data, length);
	kvfree(data);
	return err;
}

/* connect FROM TO PORT PRIVATE-DATA */
static int run_connect(struct peer *peer, char **arguments)
{
	return run_request(peer, arguments, peer_connect);
}

/* sidr FROM TO PORT PRIVATE-DATA */
static int run_sidr(struct peer *peer, char **arguments)
{
	return run_request(peer, arguments, peer_sidr);
}

/* listen ADDRESS PORT */
static int run_listen(struct peer *peer, char **arguments)
{
	struct sockaddr_storage address;
	u64 port;
	int err;

	err = next_address(arguments, &address) ?: next_number(arguments, U16_MAX, &port);
	return err ?: peer_listen(peer, &address, port);
}

/* reply PRIVATE-DATA */
static int run_reply(struct peer *peer, char **arguments)
{
	size_t length;
	u8 *data = next_bytes(arguments, &length);
	int err;

	if (IS_ERR(data))
		return PTR_ERR(data);
	err = peer_reply(peer, data, length);
	kvfree(data);
	return err;
}

/* reject REASON */
static int run_reject(struct peer *peer, char **arguments)
{
	u64 reason;
	int err = next_number(arguments, U16_MAX, &reason);

	return err ?: peer_reject(peer, reason);
}

/* turn-away REASON */
static int run_turn_away(struct peer *peer, char **arguments)
{
	u64 reason;
	int err = next_number(arguments, U16_MAX, &reason);

	return err ?: peer_turn_away(peer, reason);
}

/* rtu */
static int run_rtu(struct peer *peer, char **arguments)
{
	return peer_rtu(peer);
}

/* dreq */
static int run_dreq(struct peer *peer, char **arguments)
{
	return peer_dreq(peer);
}

/* drep */
static int run_drep(struct peer *peer, char **arguments)
{
	return peer_drep(peer);
}

/* post COUNT */
static int run_post(struct peer *peer, char **arguments)
{
	u64 count;
	int err = next_number(arguments, U16_MAX, &count);

	return err ?: peer_post_receives(peer, count);
}

/* send MESSAGE */
static int run_send(struct peer *peer, char **arguments)
{
	size_t length;
	u8 *data = next_bytes(arguments, &length);
	int err;

	if (IS_ERR(data))
		return PTR_ERR(data);
	err = peer_send(peer, data, length);
	kvfree(data);
	return err;
}

/* memory DATA */
static int run_memory(struct peer *peer, char **arguments)
{
	size_t length;
	u8 *data = next_bytes(arguments, &length);
	int err;

	if (IS_ERR_OR_NULL(data))
		return data ? PTR_ERR(data) : -EINVAL;
	err = peer_memory_add(peer, data, length);
	kvfree(data);
	return err;
}

/* look ADDRESS LENGTH */
static int run_look(struct peer *peer, char **arguments)
{
	u64 address, length;
	int err;

	err = next_number(arguments, U64_MAX, &address) ?:
	      next_number(arguments, PEER_MESSAGE_MAX, &length);
	return err ?: peer_memory_look(peer, address, length);
}

/* write RKEY ADDRESS DATA */
static int run_write(struct peer *peer, char **arguments)
{
	u64 rkey, address;
	size_t length;
	u8 *data;
	int err;

	err = next_number(arguments, U32_MAX, &rkey) ?: next_number(arguments, U64_MAX, &address);
	if (err)
		return err;
	data = next_bytes(arguments, &length);
	if (IS_ERR(data))
		return PTR_ERR(data);
	err = peer_rdma_write(peer, rkey, address, data, length);
	kvfree(data);
	return err;
}

/* read RKEY ADDRESS LENGTH */
static int run_read(struct peer *peer, char **arguments)
{
	u64 rkey, address, length;
	int err;

	err = next_number(arguments, U32_MAX, &rkey) ?:
	      next_number(arguments, U64_MAX, &address) ?:
	      next_number(arguments, PEER_MESSAGE_MAX, &length);
	return err ?: peer_rdma_read(peer, rkey, address, length);
}

/*
 * kernel-socket FAMILY PROTOCOL: makes a socket as kernel users of stream
 * sockets do
 */
static int run_kernel_socket(struct peer *peer, char **arguments)
{
	u64 family, protocol;
	struct socket *socket;
	int err;

	err = next_number(arguments, U16_MAX, &family) ?:
	      next_number(arguments, U16_MAX, &protocol);
	if (err)
		return err;
	err = sock_create_kern(current->nsproxy->net_ns, family, SOCK_STREAM, protocol, &socket);
	if (!err)
		sock_release(socket);
	return err;
}

/*
 * looks-like-tcp FD: makes the checks by which kernel code decides whether a
 * program's socket is a struct tcp_sock
 */
static int run_looks_like_tcp(struct peer *peer, char **arguments)
{
	struct socket *socket;
	u64 fd;
	int err = next_number(arguments, INT_MAX, &fd);

	if (err)
		return err;
	socket = sockfd_lookup(fd, &err);
	if (!socket)
		return err;
	/* The last check is ovpn's. */
	err = sk_is_inet(socket->sk) || sk_is_tcp(socket->sk) ||
	      (socket->sk->sk_protocol == IPPROTO_TCP &&
	       !socket->sk->sk_user_data) ? 0 : -EPROTOTYPE;
	sockfd_put(socket);
	return err;
}

/* vanish: destroys the queue pair without a message */
static int run_vanish(struct peer *peer, char **arguments)
{
	peer_qp_destroy(peer);
	return 0;
}

static const struct command commands[] = {
	{ "set", run_set },
	{ "connect", run_connect },
	{ "sidr", run_sidr },
	{ "listen", run_listen },
	{ "reply", run_reply },
	{ "reject", run_reject },
	{ "turn-away", run_turn_away },
	{ "rtu", run_rtu },
	{ "dreq", run_dreq },
	{ "drep", run_drep },
	{ "post", run_post },
	{ "send", run_send },
	{ "write", run_write },
	{ "read", run_read },
	{ "memory", run_memory },
	{ "look", run_look },
	{ "kernel-socket", run_kernel_socket },
	{ "looks-like-tcp", run_looks_like_tcp },
	{ "vanish", run_vanish },
};

/* With the command lock held; @line may be modified. */
int peer_command(struct peer *peer, char *line)
{
	char *word = strsep(&line, " ");
	size_t i;

	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(commands[i].name, word))
			return commands[i].run(peer, &line);
	return -EOPNOTSUPP;
}
