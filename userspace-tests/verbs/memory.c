// SPDX-License-Identifier: GPL-2.0
/*
 * Memory with a model of it, protection domains and memory regions.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "verbs.h"

/* The contents of memory: places near each other differ. */
u8 vb_pattern(u32 seed, size_t at)
{
	u32 x = (u32)at * 2654435761u + seed * 40503u;

	return (x >> 24) ^ (x >> 13);
}

static void mem_end(struct vb_thing *thing)
{
	struct vb_mem *mem = container_of(thing, struct vb_mem, thing);

	list_del(&mem->entry);
	while (mem->mapped--)
		ib_dma_unmap_single(mem->host->device, mem->dma[mem->mapped], mem->part,
				    DMA_BIDIRECTIONAL);
	if (mem->bytes)
		free_pages_exact(mem->bytes, mem->length);
	vfree(mem->model);
	kfree(mem);
}

/* The maximum size of one mapping, because bounce buffers are limited. */
size_t vb_mappable(struct vb_host *host)
{
	if (ib_uses_virt_dma(host->device))
		return SIZE_MAX;
	return dma_max_mapping_size(host->device->dma_device) & PAGE_MASK;
}

/* One piece of @length bytes, a multiple of the page size. */
struct vb_mem *vb_mem(struct vb_run *run, struct vb_host *host, size_t length)
{
	return vb_mem_parts(run, host, length, 1);
}

/*
 * Pieces of @part bytes, a multiple of the page size, each mapped separately;
 * at most VB_PARTS of them. If there is no memory, it fails the run and
 * returns NULL.
 */
struct vb_mem *vb_mem_parts(struct vb_run *run, struct vb_host *host, size_t part, u32 parts)
{
	struct vb_mem *mem = kzalloc(sizeof(*mem), GFP_KERNEL);
	size_t length = part * parts;
	static atomic_t seeds;
	u32 seed;
	size_t i;

	if (!mem)
		goto fail;
	if (part > vb_mappable(host)) {
		kfree(mem);
		vb_absent(run, "no more than %zu bytes are mapped in one piece", vb_mappable(host));
		return NULL;
	}
	mem->host = host;
	mem->pd = host->pd;
	mem->length = length;
	mem->part = part;
	list_add(&mem->entry, &run->memories);
	vb_keep(run, &mem->thing, mem_end);
	mem->bytes = alloc_pages_exact(length, GFP_KERNEL | __GFP_NOWARN | __GFP_RETRY_MAYFAIL);
	mem->model = vmalloc(length);
	if (!mem->bytes || !mem->model)
		goto fail;
	seed = atomic_inc_return(&seeds);
	for (i = 0; i < length; i++)
		mem->model[i] = vb_pattern(seed, i);
	memcpy(mem->bytes, mem->model, length);
	for (; mem->mapped < parts; mem->mapped++) {
		u64 dma = ib_dma_map_single(host->device, mem->bytes + mem->mapped * part, part,
					    DMA_BIDIRECTIONAL);

		if (ib_dma_mapping_error(host->device, dma))
			goto fail;
		mem->dma[mem->mapped] = dma;
	}
	return mem;
fail:
	vb_fail(run, "no memory");
	return NULL;
}

/* The device address of that place; beyond the end of @mem, the continuation. */
u64 vb_dma(const struct vb_mem *mem, size_t at)
{
	size_t i = min_t(size_t, at / mem->part, mem->mapped - 1);

	return mem->dma[i] + (at - i * mem->part);
}

/* Makes the device's copy in the model. */
void vb_moved(struct vb_mem *to, size_t at, const struct vb_mem *from, size_t from_at,
	      size_t length)
{
	memmove(to->model + at, from->model + from_at, length);
}

/* Makes bytes written by the device visible to the processor. */
void vb_look(struct vb_mem *mem, size_t at, size_t length)
{
	while (length) {
		size_t part = min(length, mem->part - at % mem->part);

		ib_dma_sync_single_for_cpu(mem->host->device, vb_dma(mem, at), part,
					   DMA_BIDIRECTIONAL);
		at += part;
		length -= part;
	}
}

/* The contents are undefined, as after a failed receive. */
void vb_forget(struct vb_mem *mem, size_t at, size_t length)
{
	vb_look(mem, at, length);
	memcpy(mem->model + at, mem->bytes + at, length);
}

static bool memory_right(struct vb_run *run, struct vb_mem *mem)
{
	size_t first, last;

	vb_look(mem, 0, mem->length);
	if (!memcmp(mem->bytes, mem->model, mem->length))
		return true;
	for (first = 0; mem->bytes[first] == mem->model[first];)
		first++;
	for (last = mem->length - 1; mem->bytes[last] == mem->model[last];)
		last--;
	vb_fail(run, "memory of %s is wrong from byte %zu to byte %zu of %zu (there %*phN, right %*phN)",
		dev_name(&mem->host->device->dev), first, last, mem->length,
		(int)min_t(size_t, 8, mem->length - first), mem->bytes + first,
		(int)min_t(size_t, 8, mem->length - first), mem->model + first);
	return false;
}

/* Checks every byte of the run's memory, including bytes that nothing may touch. */
bool vb_memories_right(struct vb_run *run)
{
	struct vb_mem *mem;

	list_for_each_entry(mem, &run->memories, entry)
		if (!memory_right(run, mem))
			return false;
	return true;
}

struct pd_thing {
	struct vb_thing thing;
	struct ib_pd *pd;
};

static void pd_end(struct vb_thing *thing)
{
	struct pd_thing *pd = container_of(thing, struct pd_thing, thing);

	ib_dealloc_pd(pd->pd);
	kfree(pd);
}

/* A further protection domain beside the host's own. */
struct ib_pd *vb_pd(struct vb_run *run, struct vb_host *host, unsigned int flags)
{
	struct pd_thing *pd = kzalloc(sizeof(*pd), GFP_KERNEL);

	if (pd)
		pd->pd = ib_alloc_pd(host->device, flags);
	if (!pd || IS_ERR(pd->pd)) {
		kfree(pd);
		vb_fail(run, "no protection domain");
		return NULL;
	}
	vb_keep(run, &pd->thing, pd_end);
	return pd->pd;
}

static void mr_end(struct vb_thing *thing)
{
	struct vb_mr *mr = container_of(thing, struct vb_mr, thing);

	if (!IS_ERR_OR_NULL(mr->mr))
		ib_dereg_mr(mr->mr);
	kfree(mr->pages);
	kfree(mr);
}

/*
 * A region over a part of @mem, not yet registered. The memory is mapped as a
 * whole, and this is a part of it, because a separate mapping might be
 * followed by other bytes.
 */
struct vb_mr *vb_mr(struct vb_run *run, struct ib_pd *pd, struct vb_mem *mem, u32 offset,
		    u32 length)
{
	struct vb_mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	u32 first = offset / PAGE_SIZE;
	u32 count = DIV_ROUND_UP(offset % PAGE_SIZE + length, PAGE_SIZE);
	u32 at = offset % PAGE_SIZE, left = length, i;

	if (!mr)
		goto fail;
	mr->mem = mem;
	mr->offset = offset;
	mr->length = length;
	vb_keep(run, &mr->thing, mr_end);
	mr->mr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, count);
	mr->pages = kcalloc(count, sizeof(*mr->pages), GFP_KERNEL);
	if (IS_ERR(mr->mr) || !mr->pages)
		goto fail;
	/* One page each, so that the device's own list has the same length. */
	sg_init_table(mr->pages, count);
	for (i = 0; i < count; i++) {
		u32 part = min_t(u32, left, PAGE_SIZE - at);
		size_t page = (size_t)(first + i) * PAGE_SIZE;

		sg_set_page(&mr->pages[i], virt_to_page(mem->bytes + page), part, at);
		sg_dma_address(&mr->pages[i]) = vb_dma(mem, page + at);
		sg_dma_len(&mr->pages[i]) = part;
		left -= part;
		at = 0;
	}
	if (ib_map_mr_sg(mr->mr, mr->pages, count, NULL, PAGE_SIZE) != count)
		goto fail;
	return mr;
fail:
	vb_fail(run, "no memory region of %u bytes", length);
	return NULL;
}
