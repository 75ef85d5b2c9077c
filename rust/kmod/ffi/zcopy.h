/* SPDX-License-Identifier: GPL-2.0 */
/*
 * C calls for memory of programs that a device reads and writes: see zcopy.c.
 */
#ifndef SDP_FFI_ZCOPY_H
#define SDP_FFI_ZCOPY_H

#include <linux/sockptr.h>
#include <linux/types.h>
#include <rdma/ib_verbs.h>

struct iov_iter;
struct msghdr;
struct ubuf_info;
struct page;
struct scatterlist;
struct user_struct;
struct wait_queue_entry;
struct wait_queue_head;

/* linux/uio.h: 0 where the iterator is not over memory of a program */
size_t sdp_iter_user_segment(const struct iov_iter *iter, unsigned long *addr);

/* linux/string.h: between pages, of which a program may write to the one meanwhile */
void sdp_copy_bytes(void *to, const void *from, size_t n);

/* linux/mm.h */
int sdp_pin_user_pages(unsigned long addr, int count, bool write, bool lasting,
		       struct page **pages);

/* linux/skbuff.h */
int sdp_account_pinned(size_t len, struct user_struct **user,
		       unsigned int *pages);
void sdp_unaccount_pinned(struct user_struct *user, unsigned int pages);
const struct user_struct *sdp_current_user(void);

/* linux/skbuff.h: notifications of MSG_ZEROCOPY and io_uring */
struct ubuf_info *sdp_notice_begin(struct sock *sk, struct msghdr *msg,
				   size_t len);
void sdp_notice_get(struct ubuf_info *uarg);
void sdp_notice_put(struct ubuf_info *uarg, bool lent, bool copied);
void sdp_notice_abort(struct ubuf_info *uarg);
bool sdp_has_notices(const struct sock *sk);
int sdp_recv_notice(struct sock *sk, struct msghdr *msg, bool v6);
void sdp_purge_notices(struct sock *sk);
int sdp_set_zerocopy(struct sock *sk, sockptr_t value, unsigned int len);

/* linux/wait.h, linux/sched/signal.h */
bool sdp_fatal_signal_pending(void);

/* rdma/ib_verbs.h */
int sdp_ib_dma_map_pages(struct ib_device *device, struct scatterlist *sgl,
			 struct page **pages, unsigned int count,
			 unsigned int offset, size_t len, int direction);
void sdp_ib_dma_unmap_sg(struct ib_device *device, struct scatterlist *sgl,
			 unsigned int count, int direction);
void sdp_ib_dma_sync_sg(struct ib_device *device, struct scatterlist *sgl,
			unsigned int count, int direction, bool for_device);
bool sdp_ib_can_register(struct ib_device *device);
bool sdp_ib_repeats_registrations(struct ib_device *device);
void sdp_ib_next_key(struct ib_mr *mr);
void sdp_ib_dereg_mr(struct ib_mr *mr);

#endif /* SDP_FFI_ZCOPY_H */
