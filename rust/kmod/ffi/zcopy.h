/* SPDX-License-Identifier: GPL-2.0 */
/*
 * C calls for memory of programs that a device reads and writes: see zcopy.c.
 */
#ifndef SDP_FFI_ZCOPY_H
#define SDP_FFI_ZCOPY_H

#include <linux/sockptr.h>
#include <linux/types.h>

struct eventfd_ctx;
struct mm_struct;
struct msghdr;
struct sdp_borrow_range;
struct ubuf_info;
struct wait_queue_entry;
struct wait_queue_head;

/* linux/sched/mm.h: the address space of a program, to be looked at */
struct mm_struct *sdp_mm_grab(void);
void sdp_mm_drop(struct mm_struct *mm);
bool sdp_mm_is_current(const struct mm_struct *mm);
/* Whether a task may still run in it. */
bool sdp_mm_is_used(const struct mm_struct *mm);

/* linux/eventfd.h */
struct eventfd_ctx *sdp_eventfd_get(int fd);
void sdp_eventfd_signal(struct eventfd_ctx *event);
void sdp_eventfd_put(struct eventfd_ctx *event);

/* linux/socket.h: 1 with the control message, 0 without, or an errno */
int sdp_borrow_asked(struct msghdr *msg, u64 *where);

/* linux/socket.h: whether there is room for the report; the report */
bool sdp_ahead_has_room(const struct msghdr *msg);
int sdp_ahead_report(struct msghdr *msg, const struct sdp_borrow_range *range);

/* linux/skbuff.h: notifications of MSG_ZEROCOPY and io_uring */
struct ubuf_info *sdp_notice_begin(struct sock *sk, struct msghdr *msg,
				   size_t len);
void sdp_notice_get(struct ubuf_info *uarg);
void sdp_notice_put(struct ubuf_info *uarg, bool lent, bool copied);
void sdp_notice_abort(struct ubuf_info *uarg);
bool sdp_has_notices(const struct sock *sk);
int sdp_recv_notice(struct sock *sk, struct msghdr *msg, bool v6);
int sdp_set_zerocopy(struct sock *sk, sockptr_t value, unsigned int len);

#endif /* SDP_FFI_ZCOPY_H */
