// SPDX-License-Identifier: GPL-2.0
/*
 * The arenas, the locks of their cells, and the regions over them.
 */
#include <linux/scatterlist.h>
#include <linux/slab.h>

#include "fuzz.h"

#define WRITER 0xffff

static bool piece_lock(u16 *cells, struct fz_piece piece, bool write)
{
	u32 first = piece.at / FZ_CELL, last = (piece.at + piece.length - 1) / FZ_CELL, i;

	for (i = first; i <= last; i++)
		if (write ? cells[i] : cells[i] >= WRITER - 1)
			return false;
	for (i = first; i <= last; i++)
		cells[i] = write ? WRITER : cells[i] + 1;
	return true;
}

static void piece_unlock(u16 *cells, struct fz_piece piece, bool write)
{
	u32 first = piece.at / FZ_CELL, last = (piece.at + piece.length - 1) / FZ_CELL, i;

	for (i = first; i <= last; i++)
		cells[i] = write ? 0 : cells[i] - 1;
}

/* Locks it for one request, or shared for several that only read. */
bool fz_lock(struct fz_world *w, struct fz_range *range)
{
	u32 i;

	for (i = 0; i < range->count; i++) {
		if (piece_lock(w->cells[range->side], range->piece[i], range->write))
			continue;
		while (i--)
			piece_unlock(w->cells[range->side], range->piece[i], range->write);
		return false;
	}
	range->locked = true;
	return true;
}

void fz_unlock(struct fz_world *w, struct fz_range *range)
{
	u32 i;

	if (!range->locked)
		return;
	for (i = 0; i < range->count; i++)
		piece_unlock(w->cells[range->side], range->piece[i], range->write);
	range->locked = false;
}

bool fz_add(struct fz_range *range, u32 at, u32 length)
{
	if (!length)
		return true;
	if (range->count == FZ_PIECES)
		return false;
	range->piece[range->count++] = (struct fz_piece){ at, length };
	range->length += length;
	return true;
}

/* Adds a part of a region, page by page. */
bool fz_add_mr(struct fz_range *range, struct fz_mr *mr, u32 offset, u32 length)
{
	u32 at = mr->first + offset;

	while (length) {
		u32 part = min_t(u32, length, PAGE_SIZE - at % PAGE_SIZE);

		if (!fz_add(range, mr->page[at / PAGE_SIZE] * PAGE_SIZE + at % PAGE_SIZE, part))
			return false;
		at += part;
		length -= part;
	}
	return true;
}

/* Makes the devices' copy in the models. */
void fz_copy(struct fz_world *w, struct fz_range *to, struct fz_range *from, u32 length)
{
	u32 i = 0, j = 0, at = 0, from_at = 0;

	while (length) {
		u32 part = min3(length, to->piece[i].length - at, from->piece[j].length - from_at);

		memcpy(w->mem[to->side]->model + to->piece[i].at + at,
		       w->mem[from->side]->model + from->piece[j].at + from_at, part);
		at += part;
		from_at += part;
		length -= part;
		if (at == to->piece[i].length) {
			at = 0;
			i++;
		}
		if (from_at == from->piece[j].length) {
			from_at = 0;
			j++;
		}
	}
}

/* Checks the first @length bytes of a range, and that the others are unchanged. */
bool fz_same(struct fz_world *w, struct fz_range *range, u32 length, struct fz_op *op)
{
	struct vb_mem *mem = w->mem[range->side];
	u32 i, j, done = 0;

	for (i = 0; i < range->count; i++) {
		struct fz_piece piece = range->piece[i];

		vb_look(mem, piece.at, piece.length);
		for (j = 0; memcmp(mem->bytes + piece.at, mem->model + piece.at, piece.length) &&
		     j < piece.length; j++) {
			if (mem->bytes[piece.at + j] == mem->model[piece.at + j])
				continue;
			w->culprit = op->end->pair;
			vb_fail(w->run, "pair %u, side %u, %s %u of %u bytes: byte %u (arena %u, at %#x) is %02x, not %02x",
				op->end->pair->number, op->end->side,
				op->is_recv ? "receive" : vb_opcode_name(op->opcode),
				(u32)(op - w->ops), length, done + j, range->side, piece.at + j,
				mem->bytes[piece.at + j], mem->model[piece.at + j]);
			return false;
		}
		done += piece.length;
	}
	return true;
}

/* The contents are unknown: the model takes over the present ones. */
void fz_resync(struct fz_world *w, struct fz_range *range)
{
	u32 i;

	for (i = 0; i < range->count; i++)
		vb_forget(w->mem[range->side], range->piece[i].at, range->piece[i].length);
}

/* Any region of that kind, or NULL. */
struct fz_mr *fz_mr_pick(struct fz_world *w, u8 side, u8 pd, enum fz_mr_state state, int access)
{
	u32 start = fz_random(w, FZ_MRS), i;

	for (i = 0; i < FZ_MRS; i++) {
		struct fz_mr *mr = w->mr[side][(start + i) % FZ_MRS];

		if (mr->pd == pd && mr->state == state && !mr->spoilt &&
		    (state != FZ_VALID || (mr->access & access) == access))
			return mr;
	}
	return NULL;
}

/* Maps other pages, in another order, at another address; no request uses it. */
bool fz_mr_map(struct fz_world *w, struct fz_mr *mr)
{
	u32 pages = w->arena / PAGE_SIZE, left, i, mapped;

	mr->page_count = fz_chance(w, 3) ? 1 + fz_random(w, 3) : 1 + fz_random(w, FZ_MR_PAGES);
	mr->page_count = min(mr->page_count, pages / 2);
	mr->first = fz_chance(w, 3) ? 0 : fz_random(w, PAGE_SIZE);
	mr->length = mr->page_count * PAGE_SIZE - mr->first;
	if (fz_chance(w, 2))
		mr->length -= fz_random(w, min_t(u32, mr->length, PAGE_SIZE));
	mr->page_count = DIV_ROUND_UP(mr->first + mr->length, PAGE_SIZE);
	sg_init_table(mr->sg, mr->page_count);
	left = mr->length;
	for (i = 0; i < mr->page_count; i++) {
		u32 at = i ? 0 : mr->first;
		u32 part = min_t(u32, left, PAGE_SIZE - at);
		bool again;
		u32 j;

		/* No page twice, because two places of a region must differ. */
		do {
			mr->page[i] = i && fz_chance(w, 2) ? (mr->page[i - 1] + 1) % pages :
				      fz_random(w, pages);
			for (again = false, j = 0; j < i; j++)
				again |= mr->page[j] == mr->page[i];
		} while (again);
		sg_set_page(&mr->sg[i], virt_to_page(w->mem[mr->side]->bytes +
						     (size_t)mr->page[i] * PAGE_SIZE), part, at);
		/* The arena is mapped already, and this is a part of it. */
		sg_dma_address(&mr->sg[i]) = vb_dma(w->mem[mr->side],
						    (size_t)mr->page[i] * PAGE_SIZE + at);
		sg_dma_len(&mr->sg[i]) = part;
		left -= part;
	}
	mapped = ib_map_mr_sg(mr->mr, mr->sg, mr->page_count, NULL, PAGE_SIZE);
	if (mapped != mr->page_count) {
		vb_fail(w->run, "ib_map_mr_sg: %d of %u", mapped, mr->page_count);
		return false;
	}
	if (fz_chance(w, 2))
		mr->mr->iova = ((u64)prandom_u32_state(&w->random) << 20) + mr->first;
	ib_update_fast_reg_key(mr->mr, ib_inc_rkey(mr->mr->rkey));
	return true;
}

/* Replaces it, because its state was lost with the queue pair that was to change it. */
bool fz_mr_renew(struct fz_world *w, struct fz_mr *mr)
{
	if (!IS_ERR_OR_NULL(mr->mr))
		ib_dereg_mr(mr->mr);
	mr->mr = ib_alloc_mr(w->pd[mr->side][mr->pd], IB_MR_TYPE_MEM_REG, FZ_MR_PAGES);
	if (IS_ERR(mr->mr)) {
		vb_fail(w->run, "ib_alloc_mr: %ld", PTR_ERR(mr->mr));
		return false;
	}
	mr->state = FZ_FREE;
	mr->spoilt = false;
	return true;
}

bool fz_mrs_make(struct fz_world *w)
{
	u32 side, i;

	for (side = 0; side < 2; side++) {
		for (i = 0; i < FZ_MRS; i++) {
			struct fz_mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL);

			if (!mr)
				return false;
			w->mr[side][i] = mr;
			mr->side = side;
			mr->pd = i % FZ_PDS;
			if (!fz_mr_renew(w, mr))
				return false;
		}
	}
	return true;
}

void fz_mrs_end(struct fz_world *w)
{
	u32 side, i;

	for (side = 0; side < 2; side++) {
		for (i = 0; i < FZ_MRS && w->mr[side][i]; i++) {
			if (!IS_ERR_OR_NULL(w->mr[side][i]->mr))
				ib_dereg_mr(w->mr[side][i]->mr);
			kfree(w->mr[side][i]);
		}
	}
}
