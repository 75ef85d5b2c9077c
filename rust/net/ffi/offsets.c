// SPDX-License-Identifier: GPL-2.0
/*
 * The structs of kernel::bindings that the library uses: see offsets.h.
 */
#include <linux/net.h>
#include <linux/socket.h>
#include <linux/sockptr.h>
#include <linux/wait.h>

#include "../../linux/offsets.h"

void offsets(void)
{
	SIZE(msghdr, struct msghdr);
	AT(msghdr, msg_name);
	AT(msghdr, msg_namelen);
	AT(msghdr, msg_flags);
	AT(msghdr, msg_iter);
	SIZE(net_proto_family, struct net_proto_family);
	AT(net_proto_family, family);
	AT(net_proto_family, create);
	AT(net_proto_family, owner);
	SIZE(proto_ops, struct proto_ops);
	AT(proto_ops, family);
	AT(proto_ops, owner);
	AT(proto_ops, release);
	AT(proto_ops, bind);
	AT(proto_ops, connect);
	AT(proto_ops, socketpair);
	AT(proto_ops, accept);
	AT(proto_ops, getname);
	AT(proto_ops, poll);
	AT(proto_ops, ioctl);
	AT(proto_ops, gettstamp);
	AT(proto_ops, listen);
	AT(proto_ops, shutdown);
	AT(proto_ops, setsockopt);
	AT(proto_ops, getsockopt);
	AT(proto_ops, sendmsg);
	AT(proto_ops, recvmsg);
	AT(proto_ops, mmap);
	AT(proto_ops, splice_read);
	AT(proto_ops, splice_eof);
	AT(proto_ops, set_peek_off);
	AT(proto_ops, set_rcvlowat);
	SIZE(sockptr_t, sockptr_t);
	SIZE(socket, struct socket);
	AT(socket, state);
	AT(socket, type);
	AT(socket, sk);
	AT(socket, ops);
	SIZE(wait_queue_entry, struct wait_queue_entry);
	SIZE(wait_queue_head, struct wait_queue_head);
}
