// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of programs: the position of a message's iterator, pages pinned and
 * mapped for a device, the account of pinned memory, and notices about lent
 * memory. Wrappers as in helpers.h.
 */
#include <linux/cred.h>
#include <linux/dma-mapping.h>
#include <linux/errqueue.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/sched/signal.h>
#include <linux/scatterlist.h>
#include <linux/skbuff.h>
#include <linux/string.h>
#include <linux/uio.h>
#include <linux/wait.h>
#include <net/sock.h>

#include "helpers.h"
#include "zcopy.h"

/* linux/uio.h */

size_t sdp_iter_user_segment(const struct iov_iter *iter, unsigned long *addr)
{
	if (iter_is_ubuf(iter)) {
		*addr = (unsigned long)iter->ubuf + iter->iov_offset;
		return iov_iter_count(iter);
	}
	/* At its end the iterator is behind the last of its vectors. */
	if (!iter_is_iovec(iter) || !iov_iter_count(iter))
		return 0;
	*addr = (unsigned long)iter_iov_addr(iter);
	return iov_iter_single_seg_count(iter);
}

/* linux/string.h */

void sdp_copy_bytes(void *to, const void *from, size_t n)
{
	memcpy(to, from, n);
}

/* linux/mm.h */

int sdp_pin_user_pages(unsigned long addr, int count, bool write, bool lasting,
		       struct page **pages)
{
	unsigned int flags = write ? FOLL_WRITE : 0;

	/* Without it the pin is short-term, as for direct I/O. */
	if (lasting)
		flags |= FOLL_LONGTERM;
	return pin_user_pages_fast(addr, count, flags, pages);
}

/* linux/skbuff.h: RLIMIT_MEMLOCK of the user, as MSG_ZEROCOPY charges it */

int sdp_account_pinned(size_t len, struct user_struct **user,
		       unsigned int *pages)
{
	struct mmpin pin = {};
	int err = mm_account_pinned_pages(&pin, len);

	*user = pin.user;
	*pages = pin.num_pg;
	return err;
}

void sdp_unaccount_pinned(struct user_struct *user, unsigned int pages)
{
	struct mmpin pin = { .user = user, .num_pg = pages };

	mm_unaccount_pinned_pages(&pin);
}

/* The user that would be charged now; only to be compared. */
const struct user_struct *sdp_current_user(void)
{
	return current_user();
}

/* linux/skbuff.h: notifications of MSG_ZEROCOPY and io_uring */

/*
 * The notification of a call with MSG_ZEROCOPY, with a reference of ours; NULL
 * if there is none: the flag alone means nothing, as in TCP. With lock_sock.
 */
struct ubuf_info *sdp_notice_begin(struct sock *sk, struct msghdr *msg,
				   size_t len)
{
	struct ubuf_info *uarg;

	if (msg->msg_ubuf) {
		net_zcopy_get(msg->msg_ubuf);
		return msg->msg_ubuf;
	}
	if (!sock_flag(sk, SOCK_ZEROCOPY))
		return NULL;
	uarg = msg_zerocopy_realloc(sk, len, NULL, false);
	return uarg ?: ERR_PTR(-ENOBUFS);
}

void sdp_notice_get(struct ubuf_info *uarg)
{
	net_zcopy_get(uarg);
}

/*
 * io_uring takes bytes for copied if no buffer was sent for them. This stands
 * for the buffers that TCP has; nobody looks into it.
 */
static struct sk_buff lent_memory;

void sdp_notice_put(struct ubuf_info *uarg, bool lent, bool copied)
{
	uarg->ops->complete(lent ? &lent_memory : NULL, uarg, !copied);
}

void sdp_notice_abort(struct ubuf_info *uarg)
{
	if (uarg->ops == &msg_zerocopy_ubuf_ops)
		msg_zerocopy_put_abort(uarg, true);
	else
		net_zcopy_put(uarg);
}

bool sdp_has_notices(const struct sock *sk)
{
	return !skb_queue_empty_lockless(&sk->sk_error_queue);
}

/* As ip_recv_error() and ipv6_recv_error(), which look into a struct inet_sock. */
int sdp_recv_notice(struct sock *sk, struct msghdr *msg, bool v6)
{
	struct {
		struct sock_extended_err ee;
		union {
			struct sockaddr_in v4;
			struct sockaddr_in6 v6;
		} offender;
	} told = {};
	struct sk_buff *skb = sock_dequeue_err_skb(sk);

	if (!skb)
		return -EAGAIN;
	told.ee = SKB_EXT_ERR(skb)->ee;
	if (v6)
		put_cmsg(msg, SOL_IPV6, IPV6_RECVERR,
			 offsetofend(typeof(told), offender.v6), &told);
	else
		put_cmsg(msg, SOL_IP, IP_RECVERR,
			 offsetofend(typeof(told), offender.v4), &told);
	msg->msg_flags |= MSG_ERRQUEUE;
	consume_skb(skb);
	return 0;
}

void sdp_purge_notices(struct sock *sk)
{
	skb_queue_purge(&sk->sk_error_queue);
}

/* SO_ZEROCOPY, which the core reserves to other families. */
int sdp_set_zerocopy(struct sock *sk, sockptr_t value, unsigned int len)
{
	int on, err;

	err = sdp_sockopt_int(value, len, &on);
	if (err)
		return err;
	if (on < 0 || on > 1)
		return -EINVAL;
	lock_sock(sk);
	sock_valbool_flag(sk, SOCK_ZEROCOPY, on);
	release_sock(sk);
	return 0;
}

/* linux/wait.h, linux/sched/signal.h */

bool sdp_fatal_signal_pending(void)
{
	return fatal_signal_pending(current);
}

/* rdma/ib_verbs.h */

int sdp_ib_dma_map_pages(struct ib_device *device, struct scatterlist *sgl,
			 struct page **pages, unsigned int count,
			 unsigned int offset, size_t len, int direction)
{
	unsigned int i;

	sg_init_table(sgl, count);
	for (i = 0; i < count; i++) {
		unsigned int part = min_t(size_t, len, PAGE_SIZE - offset);

		sg_set_page(&sgl[i], pages[i], part, offset);
		len -= part;
		offset = 0;
	}
	return ib_dma_map_sg(device, sgl, count, direction);
}

void sdp_ib_dma_unmap_sg(struct ib_device *device, struct scatterlist *sgl,
			 unsigned int count, int direction)
{
	ib_dma_unmap_sg(device, sgl, count, direction);
}

/* The counterpart of ib_dma_map_sg(), which ib_core lacks. */
void sdp_ib_dma_sync_sg(struct ib_device *device, struct scatterlist *sgl,
			unsigned int count, int direction, bool for_device)
{
	if (ib_uses_virt_dma(device))
		return;
	if (for_device)
		dma_sync_sg_for_device(device->dma_device, sgl, count,
				       direction);
	else
		dma_sync_sg_for_cpu(device->dma_device, sgl, count, direction);
}

bool sdp_ib_can_register(struct ib_device *device)
{
	return device->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS;
}

/* Whether the device may carry out a registration twice. */
bool sdp_ib_repeats_registrations(struct ib_device *device)
{
	return device->ops.driver_id == RDMA_DRIVER_RXE;
}

void sdp_ib_next_key(struct ib_mr *mr)
{
	/* Never 0, so that no key is used twice in a row. */
	ib_update_fast_reg_key(mr, mr->rkey + 1 + get_random_u32_below(U8_MAX));
}

void sdp_ib_dereg_mr(struct ib_mr *mr)
{
	ib_dereg_mr(mr);
}
