// SPDX-License-Identifier: GPL-2.0
/*
 * The structs that Rust looks into, or makes, as kernel::bindings describes them. The
 * kernel's own run of bindgen leaves out the tests of their layout, so the C compiler
 * says here how large each of them is and where each field lies that Rust names;
 * rust/offsets.awk makes assertions for rustc of it. The module's own bindings are
 * checked by layout.c.
 *
 * A field that Rust begins to use is entered here.
 */
#include <linux/net.h>
#include <linux/page_frag_cache.h>
#include <linux/scatterlist.h>
#include <linux/socket.h>
#include <linux/sockptr.h>
#include <linux/stddef.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <net/net_namespace.h>

#define SIZE(name, type)						\
	asm volatile("\n.ascii \"->size " #name " %0\"" : : "i" (sizeof(type)))
#define AT(name, field)							\
	asm volatile("\n.ascii \"->offset " #name " " #field " %0\"" : :	\
		     "i" (offsetof(struct name, field)))

void sdp_offsets(void);

/* Compiled, and never called. */
void sdp_offsets(void)
{
	SIZE(delayed_work, struct delayed_work);
	AT(delayed_work, work);
	SIZE(msghdr, struct msghdr);
	AT(msghdr, msg_name);
	AT(msghdr, msg_namelen);
	AT(msghdr, msg_flags);
	AT(msghdr, msg_iter);
	SIZE(net_proto_family, struct net_proto_family);
	AT(net_proto_family, family);
	AT(net_proto_family, create);
	AT(net_proto_family, owner);
	SIZE(page_frag, struct page_frag);
	AT(page_frag, page);
	AT(page_frag, offset);
	AT(page_frag, size);
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
	SIZE(scatterlist, struct scatterlist);
	SIZE(sockptr_t, sockptr_t);
	SIZE(socket, struct socket);
	AT(socket, state);
	AT(socket, type);
	AT(socket, sk);
	AT(socket, ops);
	SIZE(wait_queue_entry, struct wait_queue_entry);
	SIZE(wait_queue_head, struct wait_queue_head);
}
