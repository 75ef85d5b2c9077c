// SPDX-License-Identifier: GPL-2.0
/*
 * A pipe that is locked: see splice(2).
 * helpers.h has the declarations.
 */
#include <linux/errno.h>
#include <linux/mm.h>
#include <linux/net.h>
#include <linux/pipe_fs_i.h>
#include <linux/splice.h>

#include "helpers.h"

bool rust_net_pipe_has_room(const struct pipe_inode_info *pipe)
{
	return !pipe_is_full(pipe);
}

/*
 * Adds a range of a page, and takes over the caller's reference. A reader of
 * the pipe must not take the page for its own and write to it, so the
 * operations are the same as for TCP's pages.
 */
void rust_net_pipe_give(struct pipe_inode_info *pipe, struct page *page,
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
ssize_t rust_net_pipe_copy(struct pipe_inode_info *pipe, const void *from,
			   size_t n, bool behind)
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
		rust_net_pipe_give(pipe, page, 0, 0);
	}
	n = min_t(size_t, n, PAGE_SIZE - buf->len);
	memcpy(page_address(buf->page) + buf->len, from, n);
	buf->len += n;
	return n;
}

bool rust_net_is_nonblocking(const struct socket *sock)
{
	return sock->file->f_flags & O_NONBLOCK;
}

/* As the core does for sockets that cannot splice: by recvmsg(2). */
ssize_t rust_net_splice_copies(struct socket *sock, loff_t *position,
			       struct pipe_inode_info *pipe, size_t n,
			       unsigned int flags)
{
	return copy_splice_read(sock->file, position, pipe, n, flags);
}
