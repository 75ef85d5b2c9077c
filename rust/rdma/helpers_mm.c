// SPDX-License-Identifier: GPL-2.0
/*
 * Memory: pages, the pages of a program and their account.
 * helpers.h has the declarations.
 */
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/page-flags.h>
#include <linux/sched/mm.h>
#include <linux/skbuff.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "helpers.h"

/* Until the other one allocations of the task start no I/O. */
unsigned int rust_noio_begin(void)
{
	return memalloc_noio_save();
}

void rust_noio_end(unsigned int before)
{
	memalloc_noio_restore(before);
}

/* Until the other one allocations of the task may use the last memory. */
unsigned int rust_reserves_begin(void)
{
	return memalloc_noreclaim_save();
}

void rust_reserves_end(unsigned int before)
{
	memalloc_noreclaim_restore(before);
}

void rust_copy_bytes(void *to, const void *from, size_t n)
{
	memcpy(to, from, n);
}

/* For the long term. */
int rust_pin_user_pages(unsigned long addr, int count, bool write,
			struct page **pages)
{
	unsigned int flags = FOLL_LONGTERM | (write ? FOLL_WRITE : 0);

	return pin_user_pages_fast(addr, count, flags, pages);
}

/* The pages for writing, with references instead of pins: to be looked at. */
int rust_get_user_pages(unsigned long addr, int count, struct page **pages)
{
	return get_user_pages_fast(addr, count, FOLL_WRITE, pages);
}

void rust_put_user_pages(struct page **pages, unsigned int count)
{
	while (count--)
		put_page(pages[count]);
}

/*
 * Whether nothing except the pins of the caller, as many as `ours`, pins the
 * folio. A pin of others may be for writing, which no protection of the
 * program's mapping would notice.
 */
static bool pins_are_ours(struct folio *folio, unsigned int ours)
{
	if (folio_has_pincount(folio))
		return atomic_read(&folio->_pincount) <= ours;
	return (unsigned int)folio_ref_count(folio) <
	       (ours + 1) * GUP_PIN_COUNTING_BIAS;
}

/*
 * Whether the page, which is pinned, belongs to one program alone. Of a huge
 * page that one entry of the page tables maps, the first page has the mark of
 * all.
 */
static bool is_exclusive(struct folio *folio, struct page *page)
{
	if (PageAnonExclusive(page))
		return true;
	return folio_test_large(folio) && folio_entire_mapcount(folio) == 1 &&
	       folio_large_mapcount(folio) == 1 &&
	       PageAnonExclusive(&folio->page);
}

/*
 * How many of the pages, from the first one on, belong to one mapping of one
 * program alone. They are pinned, once each, in the order of their addresses.
 */
int rust_count_borrowable(struct page **pages, int count)
{
	int first = 0;

	while (first < count) {
		struct folio *folio = page_folio(pages[first]);
		int next = first;

		if (!folio_test_anon(folio) || folio_test_hugetlb(folio))
			break;
		while (next < count && page_folio(pages[next]) == folio)
			next++;
		if (!pins_are_ours(folio, next - first))
			break;
		for (; first < next; first++)
			if (!is_exclusive(folio, pages[first]))
				return first;
	}
	return first;
}

/* linux/skbuff.h: RLIMIT_MEMLOCK of the user, as MSG_ZEROCOPY charges it */

int rust_account_pinned(size_t len, struct user_struct **user,
			unsigned int *pages)
{
	struct mmpin pin = {};
	int err = mm_account_pinned_pages(&pin, len);

	*user = pin.user;
	*pages = pin.num_pg;
	return err;
}

void rust_unaccount_pinned(struct user_struct *user, unsigned int pages)
{
	struct mmpin pin = { .user = user, .num_pg = pages };

	mm_unaccount_pinned_pages(&pin);
}

/* The user that would be charged now; only to be compared. */
const struct user_struct *rust_current_user(void)
{
	return current_user();
}

void rust_get_page(struct page *page)
{
	get_page(page);
}

void rust_put_page(struct page *page)
{
	put_page(page);
}

/* Of all pages that it is the head of. */
size_t rust_page_size(struct page *page)
{
	return page_size(page);
}

void *rust_page_address(struct page *page)
{
	return page_address(page);
}

/*
 * Copies memory that is a device's as well. One that still writes there makes
 * the bytes other ones, and nothing worse.
 */
void rust_copy_shared(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}

unsigned long rust_copy_to_user(void __user *to, const void *from, size_t n)
{
	return copy_to_user(to, from, n);
}
