// SPDX-License-Identifier: GPL-2.0
/*
 * Borrowed memory and memory that is received ahead: for which program it is, and how
 * that is told.
 * Wrappers as in helpers.h.
 */
#include <linux/eventfd.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sdp.h>
#include <linux/socket.h>
#include <linux/string.h>
#include <net/sock.h>

#include "helpers.h"
#include "zcopy.h"

/* linux/sched/mm.h */

struct mm_struct *sdp_mm_grab(void)
{
	if (current->mm)
		mmgrab(current->mm);
	return current->mm;
}

void sdp_mm_drop(struct mm_struct *mm)
{
	mmdrop(mm);
}

bool sdp_mm_is_current(const struct mm_struct *mm)
{
	return current->mm == mm;
}

bool sdp_mm_is_used(const struct mm_struct *mm)
{
	return atomic_read(&mm->mm_users) > 0;
}

/* linux/eventfd.h */

struct eventfd_ctx *sdp_eventfd_get(int fd)
{
	return eventfd_ctx_fdget(fd);
}

void sdp_eventfd_signal(struct eventfd_ctx *event)
{
	eventfd_signal(event);
}

void sdp_eventfd_put(struct eventfd_ctx *event)
{
	eventfd_ctx_put(event);
}

/* linux/socket.h */

int sdp_borrow_asked(struct msghdr *msg, u64 *where)
{
	struct cmsghdr *cmsg;

	if (!msg->msg_controllen)
		return 0;
	for_each_cmsghdr(cmsg, msg) {
		if (!CMSG_OK(msg, cmsg))
			return -EINVAL;
		if (cmsg->cmsg_level != SOL_TCP ||
		    cmsg->cmsg_type != SDP_BORROW)
			continue;
		if (cmsg->cmsg_len != CMSG_LEN(sizeof(*where)))
			return -EINVAL;
		memcpy(where, CMSG_DATA(cmsg), sizeof(*where));
		return 1;
	}
	return 0;
}

bool sdp_ahead_has_room(const struct msghdr *msg)
{
	const size_t len = sizeof(struct sdp_borrow_range);

	/* Programs of 32 bits need no more. */
	return msg->msg_control_is_user && msg->msg_control_user &&
	       msg->msg_controllen >= CMSG_SPACE(len);
}

int sdp_ahead_report(struct msghdr *msg, const struct sdp_borrow_range *range)
{
	return put_cmsg(msg, SOL_TCP, SDP_AHEAD, sizeof(*range), (void *)range);
}
