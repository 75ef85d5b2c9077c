// SPDX-License-Identifier: GPL-2.0
/*
 * Pages: buffers of the stream, and the pages of a message.
 * helpers.h has the declarations.
 */
#include <linux/errno.h>
#include <linux/gfp.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/net.h>
#include <linux/sched/mm.h>
#include <linux/uio.h>

#include "helpers.h"
#include "page.h"

struct page *sdp_alloc_pages(struct sock *sk, unsigned int order)
{
	/* Receive buffers are refilled by workers: charge the socket's cgroup. */
	struct mem_cgroup *old = set_active_memcg(mem_cgroup_from_sk(sk));
	struct page *page = alloc_pages(SDP_GFP_PAYLOAD | __GFP_COMP, order);

	set_active_memcg(old);
	return page;
}

/*
 * The pages that growth leaves to the programs of a cgroup: a processor's
 * stock.
 */
#define SDP_ROOM_PAGES	64

bool sdp_leaves_room(struct sock *sk)
{
#ifdef CONFIG_MEMCG
	struct mem_cgroup *memcg = mem_cgroup_from_sk(sk), *old;
	struct page *pages[SDP_ROOM_PAGES];
	struct page_counter *counter;
	long left = LONG_MAX;
	int had = 0;
	bool room;

	if (!memcg)
		return true;
	for (counter = &memcg->memory; counter; counter = counter->parent)
		left = min(left, (long)READ_ONCE(counter->max) -
				 (long)page_counter_read(counter));
	if (left >= SDP_ROOM_PAGES)
		return true;
	/*
	 * A reclaim may make room, because much of a full cgroup is often
	 * cache. Page by page, because the question is the cgroup's quota and
	 * not whether the host has that much memory in one piece.
	 */
	old = set_active_memcg(memcg);
	while (had < SDP_ROOM_PAGES) {
		pages[had] = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_NORETRY |
					__GFP_NOWARN);
		if (!pages[had])
			break;
		had++;
	}
	set_active_memcg(old);
	room = had == SDP_ROOM_PAGES;
	while (had)
		__free_page(pages[--had]);
	return room;
#else
	return true;
#endif
}

unsigned int sdp_noio_begin(void)
{
	return memalloc_noio_save();
}

void sdp_noio_end(unsigned int before)
{
	memalloc_noio_restore(before);
}

void *sdp_page_address(struct page *page)
{
	return page_address(page);
}

/*
 * The next bytes of a message whose pages may be taken (MSG_SPLICE_PAGES), up
 * to @max of them in one page: the head of its folio, and the offset in that.
 * Returns their number, or 0 if they must be copied. No reference is taken.
 */
size_t sdp_splice_bytes(struct msghdr *msg, size_t max, struct page **page,
			size_t *offset)
{
	struct page *found, **pages = &found;
	struct page *head;
	ssize_t n;

	n = iov_iter_extract_pages(&msg->msg_iter, &pages, max, 1, 0, offset);
	if (n <= 0)
		return 0;
	if (!sendpage_ok(found)) {
		iov_iter_revert(&msg->msg_iter, n);
		return 0;
	}
	head = compound_head(found);
	*offset += (page_to_pfn(found) - page_to_pfn(head)) << PAGE_SHIFT;
	*page = head;
	return n;
}

/*
 * As sk_page_frag_refill(), which makes the send buffer smaller if there is no
 * memory; only TCP makes it larger again. The socket keeps its fragment: one
 * that has written @small, and has no other bytes in flight, keeps a page of
 * it.
 */
bool sdp_page_frag_refill(struct sock *sk, struct page_frag *frag, bool small)
{
	if (frag->page && page_ref_count(frag->page) == 1) {
		if (small || frag->size > PAGE_SIZE) {
			frag->offset = 0;
			return true;
		}
		put_page(frag->page);
		frag->page = NULL;
	}
	if (frag->page && frag->offset + 32 > frag->size) {
		put_page(frag->page);
		frag->page = NULL;
	}
	if (!frag->page && small) {
		frag->page = alloc_page(sk->sk_allocation);
		frag->size = PAGE_SIZE;
		frag->offset = 0;
		return frag->page;
	}
	return skb_page_frag_refill(32, frag, sk->sk_allocation);
}

/*
 * Frees the socket's reference to its fragment, which bytes in flight may still
 * use. Returns false if a system call owns the socket, and with it the fragment.
 */
bool sdp_drop_fragment(struct sock *sk)
{
	struct page *page = NULL;
	bool owned;

	spin_lock_bh(&sk->sk_lock.slock);
	owned = sock_owned_by_user(sk);
	if (!owned) {
		page = sk->sk_frag.page;
		sk->sk_frag.page = NULL;
	}
	spin_unlock_bh(&sk->sk_lock.slock);
	if (page)
		put_page(page);
	return !owned;
}
