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

void *sdp_page_address(struct page *page)
{
	return page_address(page);
}

/*
 * The next bytes of a message with pages that may be taken (MSG_SPLICE_PAGES), up
 * to @max of them in up to @count pages: for each the head of its folio, and
 * the offset in that. Returns the number of pages, or 0 if the next bytes must
 * be copied. No reference is taken.
 */
unsigned int sdp_splice_pages(struct msghdr *msg, size_t max,
			      struct sdp_spliced *to, unsigned int count)
{
	struct page *found[SDP_SPLICE_PAGES], **pages = found;
	unsigned int n = 0;
	ssize_t left;
	size_t offset;

	count = min(count, SDP_SPLICE_PAGES);
	left = iov_iter_extract_pages(&msg->msg_iter, &pages, max, count, 0,
				      &offset);
	while (left > 0) {
		struct page *head = compound_head(found[n]);
		size_t before = (page_to_pfn(found[n]) - page_to_pfn(head))
				<< PAGE_SHIFT;
		size_t len = min_t(size_t, left, PAGE_SIZE - offset);

		if (!sendpage_ok(found[n])) {
			iov_iter_revert(&msg->msg_iter, left);
			break;
		}
		to[n++] = (struct sdp_spliced){
			.page = head,
			.offset = before + offset,
			.len = len,
		};
		left -= len;
		offset = 0;
	}
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
