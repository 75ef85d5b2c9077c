// SPDX-License-Identifier: GPL-2.0
/*
 * The translation cache: notifiers of an address space, and what takes memory
 * back. helpers.h has the declarations.
 */
#include <linux/dma-mapping.h>
#include <linux/err.h>
#include <linux/hugetlb.h>
#include <linux/mm.h>
#include <linux/mmu_context.h>
#include <linux/mmu_notifier.h>
#include <linux/pkeys.h>
#include <linux/scatterlist.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#include "helpers.h"

/* Only to be compared. */
unsigned long rust_current_mm(void)
{
	return (unsigned long)current->mm;
}

/*
 * Whether the task may access memory without a protection key of its own. The
 * rule of the kernel, for a mapping that has none.
 */
bool rust_may_access(bool write)
{
	struct vm_area_struct vma = { .vm_mm = current->mm };

	return arch_vma_access_permitted(&vma, write, false, false);
}

/*
 * Whether all of a range is anonymous memory that each thread of the program
 * may access by the rights of its mappings alone.
 */
bool rust_is_cacheable(unsigned long start, unsigned long len)
{
	struct mm_struct *mm = current->mm;
	unsigned long at = start;
	struct vm_area_struct *vma;

	mmap_read_lock(mm);
	while (at - start < len) {
		vma = vma_lookup(mm, at);
		if (!vma || !vma_is_anonymous(vma) || is_vm_hugetlb_page(vma) ||
		    vma->vm_flags & VM_SPECIAL || vma_pkey(vma))
			break;
		at = vma->vm_end;
	}
	mmap_read_unlock(mm);
	return at - start >= len;
}

/* linux/mmu_notifier.h: a range of the calling program's address space */

#ifdef CONFIG_MMU_NOTIFIER

struct rust_interval {
	struct mmu_interval_notifier notifier;
	void (*changed)(void *owner, bool ended);
	void *owner;
};

static bool invalidate(struct mmu_interval_notifier *notifier,
		       const struct mmu_notifier_range *range,
		       unsigned long seq)
{
	struct rust_interval *interval =
		container_of(notifier, struct rust_interval, notifier);

	mmu_interval_set_seq(notifier, seq);
	interval->changed(interval->owner, range->event == MMU_NOTIFY_RELEASE);
	return true;
}

static const struct mmu_interval_notifier_ops interval_ops = {
	.invalidate = invalidate,
};

/*
 * When it returns, no change of the range is under way that @changed is not
 * told of: before it takes effect, in any context, without sleeping. @ended is
 * the end of the address space.
 */
struct rust_interval *rust_interval_new(unsigned long start, unsigned long len,
					void (*changed)(void *owner, bool ended), void *owner)
{
	struct rust_interval *interval;
	int err;

	interval = kzalloc(sizeof(*interval), GFP_KERNEL_ACCOUNT);
	if (!interval)
		return ERR_PTR(-ENOMEM);
	interval->changed = changed;
	interval->owner = owner;
	err = mmu_interval_notifier_insert(&interval->notifier, current->mm,
					   start, len, &interval_ops);
	if (err) {
		kfree(interval);
		return ERR_PTR(err);
	}
	mmu_interval_read_begin(&interval->notifier);
	return interval;
}

/* Waits for changes that are under way: no lock may be held. */
void rust_interval_free(struct rust_interval *interval)
{
	mmu_interval_notifier_remove(&interval->notifier);
	kfree(interval);
}

#else

struct rust_interval *rust_interval_new(unsigned long start, unsigned long len,
					void (*changed)(void *owner, bool ended), void *owner)
{
	return ERR_PTR(-EOPNOTSUPP);
}

void rust_interval_free(struct rust_interval *interval)
{
}

#endif

/* linux/shrinker.h, linux/workqueue.h: one cache for each module */

struct workqueue_struct *rust_cache_queue;
static struct delayed_work sweep_work;
static struct shrinker *shrinker;
static unsigned long (*count_pages)(void);
static unsigned long (*give_pages)(unsigned long pages);

static unsigned long count_objects(struct shrinker *shrinker,
				   struct shrink_control *sc)
{
	return count_pages();
}

static unsigned long scan_objects(struct shrinker *shrinker,
				  struct shrink_control *sc)
{
	unsigned long given = give_pages(sc->nr_to_scan);

	return given ? given : SHRINK_STOP;
}

/*
 * @sweep is called a while after rust_cache_sweep(), @count and @give when
 * memory is scarce, in the context of any allocation. Without notifiers there
 * is no cache.
 */
int rust_cache_begin(work_func_t sweep, unsigned long (*count)(void),
		     unsigned long (*give)(unsigned long pages))
{
	if (!IS_ENABLED(CONFIG_MMU_NOTIFIER))
		return -EOPNOTSUPP;
	count_pages = count;
	give_pages = give;
	INIT_DELAYED_WORK(&sweep_work, sweep);
	/* It frees memory. */
	rust_cache_queue = alloc_workqueue("rdma_translations",
					   WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!rust_cache_queue)
		return -ENOMEM;
	shrinker = shrinker_alloc(0, "rdma-translations");
	if (!shrinker) {
		destroy_workqueue(rust_cache_queue);
		return -ENOMEM;
	}
	shrinker->count_objects = count_objects;
	shrinker->scan_objects = scan_objects;
	shrinker_register(shrinker);
	return 0;
}

/* Unless it is to be called anyway. */
void rust_cache_sweep(unsigned int msecs)
{
	queue_delayed_work(rust_cache_queue, &sweep_work,
			   msecs_to_jiffies(msecs));
}

/* @count, @give and @sweep are called no more. Work that is queued is done at the end. */
void rust_cache_stop(void)
{
	shrinker_free(shrinker);
	cancel_delayed_work_sync(&sweep_work);
}

void rust_cache_end(void)
{
	/* Until then changes of address spaces start work, too. */
	flush_workqueue(rust_cache_queue);
	destroy_workqueue(rust_cache_queue);
}

/* rdma/ib_verbs.h: a list that stays mapped */

/*
 * Whether the mapping is more than an address: a bounce buffer, or memory that
 * the device does not share with the processor's caches.
 */
bool rust_ib_dma_needs_sync(struct ib_device *device, struct scatterlist *sgl,
			    unsigned int entries)
{
	struct scatterlist *sg;
	unsigned int i;

	if (ib_uses_virt_dma(device))
		return false;
	for_each_sg(sgl, sg, entries, i)
		if (dma_need_sync(device->dma_device, sg_dma_address(sg)))
			return true;
	return false;
}

/*
 * @to gets the addresses of @len bytes from byte @at on, in up to @entries
 * elements. Returns their number.
 */
unsigned int rust_ib_dma_part(struct scatterlist *sgl, unsigned int entries,
			      size_t at, size_t len, struct scatterlist *to)
{
	struct scatterlist *sg;
	unsigned int i, n = 0;

	sg_init_table(to, entries);
	for_each_sg(sgl, sg, entries, i) {
		size_t there = sg_dma_len(sg);
		size_t part;

		if (!len)
			break;
		if (at >= there) {
			at -= there;
			continue;
		}
		part = min(there - at, len);
		sg_dma_address(&to[n]) = sg_dma_address(sg) + at;
		sg_dma_len(&to[n]) = part;
		n++;
		len -= part;
		at = 0;
	}
	return len ? 0 : n;
}
