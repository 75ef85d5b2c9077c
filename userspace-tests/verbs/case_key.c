// SPDX-License-Identifier: GPL-2.0
/*
 * Memory regions and their keys: checks of access.
 *
 * [0] requests and [1] responds. A refused request must change nothing: all
 * memory is compared with its model at the end of a case.
 */
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/uaccess.h>

#include "verbs.h"

#define ALL_RIGHTS (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)

/* The region of [1]: its memory from within the second page on, over three pages. */
#define REGION_AT	(PAGE_SIZE + 100)
#define REGION_LENGTH	(2 * PAGE_SIZE + 200)

/* A request that the other side refuses without any effect. */
static bool refused(struct vb_run *run, struct vb_pair *pair, enum ib_wr_opcode opcode,
		    u64 address, u32 rkey, u32 length)
{
	struct vb_qp *q = pair->q[0];
	int err = vb_rdma(q, 1, opcode, vb_sge(q->mem, 0, length), address, rkey,
			  IB_SEND_SIGNALED);

	if (err) {
		vb_fail(run, "%s cannot be posted: %d", vb_opcode_name(opcode), err);
		return false;
	}
	return vb_wait(run, q->scq, 1, IB_WC_REM_ACCESS_ERR, NULL);
}

static const enum ib_wr_opcode both[] = { IB_WR_RDMA_WRITE, IB_WR_RDMA_READ };

/* The address and key of a refused request. */
struct aim {
	s64 offset;
	u32 length;
	u32 key_change;
	int access;
	bool other_pd;
	bool unregistered;
	bool invalidated;
	bool freed;
	bool dma_key;
};

/* WRITE and READ, each on its own connection, which is lost each time. */
static void aim_at(struct vb_run *run, struct aim aim)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(both); i++) {
		struct vb_options options = { };
		struct vb_pair pair, owner;
		struct ib_pd *pd = run->host[1].pd;
		struct vb_mr *mr;
		u64 address;
		u32 rkey;

		if (aim.other_pd)
			TRY(pd = vb_pd(run, &run->host[1], 0));
		options.pd = pd;
		TRY(vb_pair(run, &owner, &options));
		TRY(vb_pair(run, &pair, NULL));
		TRY(mr = vb_mr(run, pd, pair.q[1]->mem, REGION_AT, REGION_LENGTH));
		if (!aim.unregistered)
			TRY(vb_register(run, owner.q[1], mr, aim.access));
		if (aim.invalidated)
			TRY(vb_invalidate(run, owner.q[1], mr->mr->rkey));
		address = vb_mr_address(mr, aim.offset);
		rkey = aim.dma_key ? pd->local_dma_lkey : mr->mr->rkey ^ aim.key_change;
		if (aim.freed)
			vb_end(&mr->thing);
		TRY(refused(run, &pair, both[i], address, rkey, aim.length));
		/* Only this connection has failed. */
		TRY(vb_alive(run, &owner));
	}
}

static void remote_stranger(struct vb_run *run)
{
	aim_at(run, (struct aim){ .length = 64, .access = ALL_RIGHTS, .key_change = 0x00f00000 });
}

static void remote_low_byte(struct vb_run *run)
{
	aim_at(run, (struct aim){ .length = 64, .access = ALL_RIGHTS, .key_change = 1 });
}

static void remote_other_pd(struct vb_run *run)
{
	aim_at(run, (struct aim){ .length = 64, .access = ALL_RIGHTS, .other_pd = true });
}

static void remote_before(struct vb_run *run)
{
	aim_at(run, (struct aim){ .offset = -1, .length = 64, .access = ALL_RIGHTS });
}

static void remote_behind(struct vb_run *run)
{
	aim_at(run, (struct aim){ .offset = REGION_LENGTH - 63, .length = 64,
				  .access = ALL_RIGHTS });
}

static void remote_longer(struct vb_run *run)
{
	aim_at(run, (struct aim){ .length = REGION_LENGTH + 1, .access = ALL_RIGHTS });
}

static void remote_at_end(struct vb_run *run)
{
	aim_at(run, (struct aim){ .offset = REGION_LENGTH, .length = 1, .access = ALL_RIGHTS });
}

/* The sum of address and length exceeds 64 bits. */
static void remote_wrapping(struct vb_run *run)
{
	struct vb_pair pair;
	struct vb_mr *mr;

	TRY(vb_pair(run, &pair, NULL));
	TRY(mr = vb_mr(run, run->host[1].pd, pair.q[1]->mem, REGION_AT, REGION_LENGTH));
	TRY(vb_register(run, pair.q[1], mr, ALL_RIGHTS));
	TRY(refused(run, &pair, IB_WR_RDMA_WRITE, U64_MAX - 31, mr->mr->rkey, 64));
}

static void remote_unregistered(struct vb_run *run)
{
	aim_at(run, (struct aim){ .length = 64, .unregistered = true });
}

static void remote_invalidated(struct vb_run *run)
{
	aim_at(run, (struct aim){ .length = 64, .access = ALL_RIGHTS, .invalidated = true });
}

static void remote_freed(struct vb_run *run)
{
	aim_at(run, (struct aim){ .length = 64, .access = ALL_RIGHTS, .freed = true });
}

static void remote_local_only(struct vb_run *run)
{
	aim_at(run, (struct aim){ .length = 64, .access = IB_ACCESS_LOCAL_WRITE });
}

static void remote_dma_key(struct vb_run *run)
{
	aim_at(run, (struct aim){ .length = 64, .access = ALL_RIGHTS, .dma_key = true });
}

/*
 * A page that has a number amid the memory and no place in the direct map; 0 for
 * none. A machine has one after memmap=4M$256M.
 */
static phys_addr_t hole(void)
{
	unsigned long pfn, end = PHYS_PFN(__pa((void *)high_memory - 1)), step = PHYS_PFN(SZ_2M);
	u8 byte;

	for (pfn = step; pfn < end; pfn += step)
		if (pfn_valid(pfn) && get_kernel_nofault(byte, (u8 *)__va(PFN_PHYS(pfn))))
			return PFN_PHYS(pfn);
	return 0;
}

static void remote_hole(struct vb_run *run)
{
	struct vb_host *host = &run->host[1];
	struct vb_options options = { };
	phys_addr_t phys = hole();
	struct ib_pd *pd;
	u64 address;
	int i;

	if (!phys)
		return vb_absent(run, "the memory has no hole");
	address = ib_uses_virt_dma(host->device) ? (u64)(uintptr_t)__va(phys) : phys;
	TRY(pd = vb_pd(run, host, IB_PD_UNSAFE_GLOBAL_RKEY));
	options.pd = pd;
	for (i = 0; i < ARRAY_SIZE(both); i++) {
		struct vb_pair pair;

		TRY(vb_pair(run, &pair, &options));
		TRY(refused(run, &pair, both[i], address, pd->unsafe_global_rkey, 64));
	}
}

static void remote_no_right(struct vb_run *run)
{
	static const int rights[] = {
		IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ,
		IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE,
	};
	int i;

	for (i = 0; i < 2; i++) {
		enum ib_wr_opcode right = i ? IB_WR_RDMA_WRITE : IB_WR_RDMA_READ;
		struct vb_pair pair;
		struct vb_mr *mr;

		TRY(vb_pair(run, &pair, NULL));
		TRY(mr = vb_mr(run, run->host[1].pd, pair.q[1]->mem, REGION_AT, REGION_LENGTH));
		TRY(vb_register(run, pair.q[1], mr, rights[i]));
		RETURNS(0, vb_rdma(pair.q[0], 2, right, vb_sge(pair.q[0]->mem, 5000, 64),
				   vb_mr_address(mr, 0), mr->mr->rkey, IB_SEND_SIGNALED));
		TRY(vb_ok(run, pair.q[0]->scq, 2));
		if (right == IB_WR_RDMA_READ)
			vb_moved(pair.q[0]->mem, 5000, mr->mem, REGION_AT, 64);
		else
			vb_moved(mr->mem, REGION_AT, pair.q[0]->mem, 5000, 64);
		TRY(refused(run, &pair, both[i], vb_mr_address(mr, 0), mr->mr->rkey, 64));
	}
}

/* The queue pair itself does not allow remote accesses. */
static void remote_closed_queue_pair(struct vb_run *run)
{
	struct vb_options options = { .no_remote_access = true };
	int i;

	for (i = 0; i < ARRAY_SIZE(both); i++) {
		struct vb_pair pair;
		struct vb_mr *mr;
		struct ib_wc wc;

		TRY(vb_pair(run, &pair, &options));
		TRY(mr = vb_mr(run, run->host[1].pd, pair.q[1]->mem, REGION_AT, REGION_LENGTH));
		TRY(vb_register(run, pair.q[1], mr, ALL_RIGHTS));
		RETURNS(0, vb_rdma(pair.q[0], 1, both[i], vb_sge(pair.q[0]->mem, 0, 64),
				   vb_mr_address(mr, 0), mr->mr->rkey, IB_SEND_SIGNALED));
		CHECK(vb_poll(pair.q[0]->scq, &wc, VB_PATIENCE_MS), "no completion");
		/* Two readings: an opcode that is not supported, or an access error. */
		CHECK(wc.status == IB_WC_REM_INV_REQ_ERR || wc.status == IB_WC_REM_ACCESS_ERR,
		      "%s", ib_wc_status_msg(wc.status));
	}
}

/* The first byte, the last byte and the whole region are within bounds. */
static void remote_within(struct vb_run *run)
{
	static const u32 pieces[][2] = {
		{ 0, 1 }, { REGION_LENGTH - 1, 1 }, { PAGE_SIZE - 101, 2 }, { 0, REGION_LENGTH },
		{ 1, REGION_LENGTH - 1 }, { 0, REGION_LENGTH - 1 }, { 77, PAGE_SIZE },
	};
	struct vb_pair pair;
	struct vb_mr *mr;
	int i;

	TRY(vb_pair(run, &pair, NULL));
	TRY(mr = vb_mr(run, run->host[1].pd, pair.q[1]->mem, REGION_AT, REGION_LENGTH));
	TRY(vb_register(run, pair.q[1], mr, ALL_RIGHTS));
	for (i = 0; i < ARRAY_SIZE(pieces); i++) {
		u32 at = pieces[i][0], length = pieces[i][1];
		struct vb_qp *q = pair.q[0];

		RETURNS(0, vb_rdma(q, 1, IB_WR_RDMA_WRITE, vb_sge(q->mem, 13 * i, length),
				   vb_mr_address(mr, at), mr->mr->rkey, IB_SEND_SIGNALED));
		TRY(vb_ok(run, q->scq, 1));
		vb_moved(mr->mem, REGION_AT + at, q->mem, 13 * i, length);
		RETURNS(0, vb_rdma(q, 2, IB_WR_RDMA_READ, vb_sge(q->mem, 30001 + 7 * i, length),
				   vb_mr_address(mr, at), mr->mr->rkey, IB_SEND_SIGNALED));
		TRY(vb_ok(run, q->scq, 2));
		vb_moved(q->mem, 30001 + 7 * i, mr->mem, REGION_AT + at, length);
		TRY(vb_memories_right(run));
	}
}

/* A request without bytes needs no key and no address. */
static void remote_nothing(struct vb_run *run)
{
	struct vb_pair pair;
	int i;

	TRY(vb_pair(run, &pair, NULL));
	for (i = 0; i < ARRAY_SIZE(both); i++) {
		RETURNS(0, vb_rdma(pair.q[0], 1, both[i], VB_NOTHING, 0xdeadbeef, 0xdead,
				   IB_SEND_SIGNALED));
		TRY(vb_ok(run, pair.q[0]->scq, 1));
	}
	TRY(vb_alive(run, &pair));
}

/* A key chosen by the user: the old one is void once the region has the new one. */
static void stepped_key(struct vb_run *run)
{
	struct vb_pair pair;
	struct vb_mr *mr;
	u32 old;
	int i;

	TRY(vb_pair(run, &pair, NULL));
	TRY(mr = vb_mr(run, run->host[1].pd, pair.q[1]->mem, REGION_AT, REGION_LENGTH));
	/* More often than the 256 values of the key's byte. */
	for (i = 0; i < 260; i++) {
		TRY(vb_register(run, pair.q[1], mr, ALL_RIGHTS));
		RETURNS(0, vb_rdma(pair.q[0], 1, IB_WR_RDMA_WRITE,
				   vb_sge(pair.q[0]->mem, i, 32), vb_mr_address(mr, 40 * (i % 64)),
				   mr->mr->rkey, IB_SEND_SIGNALED));
		TRY(vb_ok(run, pair.q[0]->scq, 1));
		vb_moved(mr->mem, REGION_AT + 40 * (i % 64), pair.q[0]->mem, i, 32);
		TRY(vb_invalidate(run, pair.q[1], mr->mr->rkey));
		old = mr->mr->rkey;
		vb_step_key(mr);
		CHECK(old >> 8 == mr->mr->rkey >> 8 && old != mr->mr->rkey, "key %#x after %#x",
		      mr->mr->rkey, old);
	}
	TRY(vb_register(run, pair.q[1], mr, ALL_RIGHTS));
	TRY(refused(run, &pair, IB_WR_RDMA_WRITE, vb_mr_address(mr, 0), old, 64));
}

/* The key of ib_update_fast_reg_key() is valid from REG_MR on, not before. */
static void stepped_key_unregistered(struct vb_run *run)
{
	struct vb_pair pair;
	struct vb_mr *mr;
	u32 old;

	TRY(vb_pair(run, &pair, NULL));
	TRY(mr = vb_mr(run, run->host[1].pd, pair.q[1]->mem, REGION_AT, REGION_LENGTH));
	TRY(vb_register(run, pair.q[1], mr, ALL_RIGHTS));
	old = mr->mr->rkey;
	vb_step_key(mr);
	RETURNS(0, vb_rdma(pair.q[0], 1, IB_WR_RDMA_WRITE, vb_sge(pair.q[0]->mem, 0, 32),
			   vb_mr_address(mr, 0), old, IB_SEND_SIGNALED));
	TRY(vb_ok(run, pair.q[0]->scq, 1));
	vb_moved(mr->mem, REGION_AT, pair.q[0]->mem, 0, 32);
	TRY(refused(run, &pair, IB_WR_RDMA_WRITE, vb_mr_address(mr, 0), mr->mr->rkey, 64));
}

/* A region may have any address with the same offset in the page; NFS uses this. */
static void chosen_address(struct vb_run *run)
{
	static const u64 bases[] = { 0, PAGE_SIZE, 0x123456789abcd000, ~0ull << 20 };
	struct vb_pair pair;
	struct vb_mr *mr;
	int i;

	TRY(vb_pair(run, &pair, NULL));
	TRY(mr = vb_mr(run, run->host[1].pd, pair.q[1]->mem, REGION_AT, REGION_LENGTH));
	for (i = 0; i < ARRAY_SIZE(bases); i++) {
		mr->mr->iova = bases[i] + REGION_AT % PAGE_SIZE;
		TRY(vb_register(run, pair.q[1], mr, ALL_RIGHTS));
		RETURNS(0, vb_rdma(pair.q[0], 1, IB_WR_RDMA_WRITE,
				   vb_sge(pair.q[0]->mem, 1000 * i, 8000), mr->mr->iova + 5,
				   mr->mr->rkey, IB_SEND_SIGNALED));
		TRY(vb_ok(run, pair.q[0]->scq, 1));
		vb_moved(mr->mem, REGION_AT + 5, pair.q[0]->mem, 1000 * i, 8000);
		TRY(vb_memories_right(run));
		TRY(vb_invalidate(run, pair.q[1], mr->mr->rkey));
	}
}

/* The device's maximum number of pages, and one page more. */
static void longest_region(struct vb_run *run)
{
	u32 pages = min_t(u32, run->host[1].device->attrs.max_fast_reg_page_list_len, 1024);
	size_t length = (size_t)pages * PAGE_SIZE;
	struct vb_mem *mem, *source;
	struct vb_pair pair;
	struct vb_mr *mr;

	CHECK(pages, "max_fast_reg_page_list_len is 0");
	TRY(vb_pair(run, &pair, NULL));
	TRY(mem = vb_mem(run, &run->host[1], length));
	TRY(source = vb_mem(run, &run->host[0], length));
	TRY(mr = vb_mr(run, run->host[1].pd, mem, 0, length));
	TRY(vb_register(run, pair.q[1], mr, ALL_RIGHTS));
	RETURNS(0, vb_rdma(pair.q[0], 1, IB_WR_RDMA_WRITE, vb_sge(source, 0, length),
			   vb_mr_address(mr, 0), mr->mr->rkey, IB_SEND_SIGNALED));
	TRY(vb_ok(run, pair.q[0]->scq, 1));
	vb_moved(mem, 0, source, 0, length);
	TRY(refused(run, &pair, IB_WR_RDMA_WRITE, vb_mr_address(mr, length - 1), mr->mr->rkey, 2));
}

static void region_too_long(struct vb_run *run)
{
	u32 pages = run->host[1].device->attrs.max_fast_reg_page_list_len;
	struct ib_mr *mr;

	mr = ib_alloc_mr(run->host[1].pd, IB_MR_TYPE_MEM_REG, pages + 1);
	if (!IS_ERR(mr))
		ib_dereg_mr(mr);
	CHECK(IS_ERR(mr), "a region of %u pages, where %u are the most", pages + 1, pages);
}

static void register_twice(struct vb_run *run)
{
	struct vb_pair pair, other;
	struct vb_mr *mr;

	TRY(vb_pair(run, &pair, NULL));
	TRY(vb_pair(run, &other, NULL));
	TRY(mr = vb_mr(run, run->host[1].pd, pair.q[1]->mem, REGION_AT, REGION_LENGTH));
	TRY(vb_register(run, pair.q[1], mr, ALL_RIGHTS));
	vb_step_key(mr);
	RETURNS(0, vb_reg(pair.q[1], 9, mr, ALL_RIGHTS, IB_SEND_SIGNALED));
	TRY(vb_error(run, pair.q[1]->scq, 9));
	TRY(vb_alive(run, &other));
}

static void register_other_pd(struct vb_run *run)
{
	struct vb_pair pair;
	struct ib_pd *pd;
	struct vb_mr *mr;

	TRY(vb_pair(run, &pair, NULL));
	TRY(pd = vb_pd(run, &run->host[1], 0));
	TRY(mr = vb_mr(run, pd, pair.q[1]->mem, REGION_AT, REGION_LENGTH));
	RETURNS(0, vb_reg(pair.q[1], 9, mr, ALL_RIGHTS, IB_SEND_SIGNALED));
	TRY(vb_error(run, pair.q[1]->scq, 9));
}

/* The request's key and its pointer are of different regions. */
static void register_other_key(struct vb_run *run)
{
	struct ib_reg_wr wr = { };
	struct vb_pair pair;
	struct vb_mr *mr;

	TRY(vb_pair(run, &pair, NULL));
	TRY(mr = vb_mr(run, run->host[1].pd, pair.q[1]->mem, REGION_AT, REGION_LENGTH));
	wr.wr.wr_id = 9;
	wr.wr.opcode = IB_WR_REG_MR;
	wr.wr.send_flags = IB_SEND_SIGNALED;
	wr.mr = mr->mr;
	wr.key = mr->mr->rkey ^ 0x00f00000;
	wr.access = ALL_RIGHTS;
	RETURNS(0, vb_post(pair.q[1], &wr.wr));
	TRY(vb_error(run, pair.q[1]->scq, 9));
}

static void invalidate_stranger(struct vb_run *run)
{
	struct vb_pair pair;
	struct vb_mr *mr;

	TRY(vb_pair(run, &pair, NULL));
	TRY(mr = vb_mr(run, run->host[1].pd, pair.q[1]->mem, REGION_AT, REGION_LENGTH));
	RETURNS(0, vb_inv(pair.q[1], 9, mr->mr->rkey ^ 0x00f00000, IB_SEND_SIGNALED));
	TRY(vb_error(run, pair.q[1]->scq, 9));
}

static void invalidate_old_key(struct vb_run *run)
{
	struct vb_pair pair;
	struct vb_mr *mr;

	TRY(vb_pair(run, &pair, NULL));
	TRY(mr = vb_mr(run, run->host[1].pd, pair.q[1]->mem, REGION_AT, REGION_LENGTH));
	TRY(vb_register(run, pair.q[1], mr, ALL_RIGHTS));
	RETURNS(0, vb_inv(pair.q[1], 9, mr->mr->rkey ^ 1, IB_SEND_SIGNALED));
	TRY(vb_error(run, pair.q[1]->scq, 9));
}

static void invalidate_other_pd(struct vb_run *run)
{
	struct vb_options options = { };
	struct vb_pair pair, owner;
	struct vb_mr *mr;

	TRY(options.pd = vb_pd(run, &run->host[1], 0));
	TRY(vb_pair(run, &owner, &options));
	TRY(vb_pair(run, &pair, NULL));
	TRY(mr = vb_mr(run, options.pd, owner.q[1]->mem, REGION_AT, REGION_LENGTH));
	TRY(vb_register(run, owner.q[1], mr, ALL_RIGHTS));
	RETURNS(0, vb_inv(pair.q[1], 9, mr->mr->rkey, IB_SEND_SIGNALED));
	TRY(vb_error(run, pair.q[1]->scq, 9));
	RETURNS(0, vb_rdma(owner.q[0], 2, IB_WR_RDMA_WRITE, vb_sge(owner.q[0]->mem, 0, 64),
			   vb_mr_address(mr, 0), mr->mr->rkey, IB_SEND_SIGNALED));
	TRY(vb_ok(run, owner.q[0]->scq, 2));
	vb_moved(mr->mem, REGION_AT, owner.q[0]->mem, 0, 64);
}

/* The fault of a local key. */
struct local {
	s64 offset;
	u32 length;
	u32 key_change;
	int access;
	bool other_pd;
	bool unregistered;
	bool invalidated;
};

static struct vb_mr *local_region(struct vb_run *run, struct vb_qp *q, struct vb_qp *owner,
				  const struct local *local)
{
	struct vb_mr *mr = vb_mr(run, owner->pd, q->mem, REGION_AT, REGION_LENGTH);

	if (!mr)
		return NULL;
	if (!local->unregistered && !vb_register(run, owner, mr, local->access))
		return NULL;
	if (local->invalidated && !vb_invalidate(run, owner, mr->mr->rkey))
		return NULL;
	return mr;
}

/*
 * As source of SEND and WRITE, and as target of READ. A region without all
 * rights is a valid source.
 */
static void local_at(struct vb_run *run, struct local local)
{
	static const enum ib_wr_opcode opcodes[] = {
		IB_WR_RDMA_READ, IB_WR_SEND, IB_WR_RDMA_WRITE,
	};
	int i, count = local.access & IB_ACCESS_LOCAL_WRITE || local.unregistered ? 3 : 1;

	for (i = 0; i < count; i++) {
		/* The other protection domain is that of its pair's [1]. */
		struct vb_options options = { };
		struct vb_mr *mr, *theirs;
		struct vb_pair pair, other;
		struct vb_qp *q, *owner;
		struct ib_sge sge;

		TRY(vb_pair(run, &pair, NULL));
		q = pair.q[1];
		owner = q;
		if (local.other_pd) {
			TRY(options.pd = vb_pd(run, &run->host[1], 0));
			TRY(vb_pair(run, &other, &options));
			owner = other.q[1];
		}
		TRY(mr = local_region(run, q, owner, &local));
		TRY(theirs = vb_mr(run, run->host[0].pd, pair.q[0]->mem, 0, SZ_32K));
		TRY(vb_register(run, pair.q[0], theirs, ALL_RIGHTS));
		RETURNS(0, vb_recv(pair.q[0], 3, vb_sge(pair.q[0]->mem, SZ_32K, SZ_16K)));
		sge = vb_mr_sge(mr, local.offset, local.length);
		sge.lkey ^= local.key_change;
		RETURNS(0, opcodes[i] == IB_WR_SEND ?
			vb_send(q, 1, IB_WR_SEND, sge, IB_SEND_SIGNALED, 0) :
			vb_rdma(q, 1, opcodes[i], sge, vb_mr_address(theirs, 0),
				theirs->mr->rkey, IB_SEND_SIGNALED));
		TRY(vb_wait(run, q->scq, 1, IB_WC_LOC_PROT_ERR, NULL));
		TRY(vb_silent(run, pair.q[0]->rcq, 20));
	}
}

static void local_stranger(struct vb_run *run)
{
	local_at(run, (struct local){ .length = 64, .access = ALL_RIGHTS,
				      .key_change = 0x00f00000 });
}

static void local_low_byte(struct vb_run *run)
{
	local_at(run, (struct local){ .length = 64, .access = ALL_RIGHTS, .key_change = 1 });
}

static void local_other_pd(struct vb_run *run)
{
	local_at(run, (struct local){ .length = 64, .access = ALL_RIGHTS, .other_pd = true });
}

static void local_before(struct vb_run *run)
{
	local_at(run, (struct local){ .offset = -1, .length = 64, .access = ALL_RIGHTS });
}

static void local_behind(struct vb_run *run)
{
	local_at(run, (struct local){ .offset = REGION_LENGTH - 63, .length = 64,
				      .access = ALL_RIGHTS });
}

static void local_unregistered(struct vb_run *run)
{
	local_at(run, (struct local){ .length = 64, .unregistered = true });
}

static void local_invalidated(struct vb_run *run)
{
	local_at(run, (struct local){ .length = 64, .access = ALL_RIGHTS, .invalidated = true });
}

static void local_no_write(struct vb_run *run)
{
	local_at(run, (struct local){ .length = 64, .access = IB_ACCESS_REMOTE_READ });
}

/* A receive with a wrong key fails at the receiver; the sender fails with another status. */
static void receive_at(struct vb_run *run, struct local local)
{
	struct vb_options options = { };
	struct vb_pair pair, other;
	struct vb_qp *q, *owner;
	struct ib_sge sge;
	struct vb_mr *mr;

	TRY(vb_pair(run, &pair, NULL));
	q = pair.q[1];
	owner = q;
	if (local.other_pd) {
		TRY(options.pd = vb_pd(run, &run->host[1], 0));
		TRY(vb_pair(run, &other, &options));
		owner = other.q[1];
	}
	TRY(mr = local_region(run, q, owner, &local));
	sge = vb_mr_sge(mr, local.offset, local.length);
	sge.lkey ^= local.key_change;
	RETURNS(0, vb_recv(q, 1, sge));
	RETURNS(0, vb_send(pair.q[0], 2, IB_WR_SEND, vb_sge(pair.q[0]->mem, 0, local.length),
			   IB_SEND_SIGNALED, 0));
	TRY(vb_wait(run, q->rcq, 1, IB_WC_LOC_PROT_ERR, NULL));
	TRY(vb_wait(run, pair.q[0]->scq, 2, IB_WC_REM_OP_ERR, NULL));
}

static void receive_stranger(struct vb_run *run)
{
	receive_at(run, (struct local){ .length = 64, .access = ALL_RIGHTS,
					.key_change = 0x00f00000 });
}

static void receive_other_pd(struct vb_run *run)
{
	receive_at(run, (struct local){ .length = 64, .access = ALL_RIGHTS, .other_pd = true });
}

static void receive_behind(struct vb_run *run)
{
	receive_at(run, (struct local){ .offset = REGION_LENGTH - 63, .length = 64,
					.access = ALL_RIGHTS });
}

static void receive_no_write(struct vb_run *run)
{
	receive_at(run, (struct local){ .length = 64, .access = IB_ACCESS_REMOTE_READ });
}

static void receive_invalidated(struct vb_run *run)
{
	receive_at(run, (struct local){ .length = 64, .access = ALL_RIGHTS,
					.invalidated = true });
}

/* The queue pair fails, and the request that caused it is flushed with the others. */
#define FLUSHES		"rxe: flushes the request instead of saying what is wrong with it"
#define MALFORMED	"rxe: takes a receive with a wrong key for a malformed one"

const struct vb_case vb_key_cases[] = {
	{ "key: a request by the key of no region is refused", remote_stranger },
	{ "key: a key that is wrong in its low byte is refused", remote_low_byte },
	{ "key: a key of another protection domain is refused", remote_other_pd },
	{ "key: one byte before the region is refused", remote_before },
	{ "key: one byte behind the region is refused", remote_behind },
	{ "key: one byte more than the region is refused", remote_longer },
	{ "key: a byte right behind the region is refused", remote_at_end },
	{ "key: an address that wraps is refused", remote_wrapping },
	{ "key: a region that was never registered is refused", remote_unregistered },
	{ "key: an invalidated region is refused", remote_invalidated },
	{ "key: a region that is gone is refused", remote_freed },
	{ "key: a region for local use is refused to others", remote_local_only },
	{ "key: the key of all local memory is none for others", remote_dma_key },
	{ "key: a key of all memory opens no hole of it", remote_hole },
	{ "key: the right to read is not the right to write, nor the reverse", remote_no_right },
	{ "key: a queue pair that is closed to others refuses them", remote_closed_queue_pair },
	{ "key: every piece of a region can be written and read", remote_within },
	{ "key: a request of no bytes needs no key", remote_nothing },
	{ "key: a stepped key replaces the old one", stepped_key },
	{ "key: a stepped key is void until registered", stepped_key_unregistered },
	{ "key: a region at an address of the user's choice", chosen_address },
	{ "key: the longest region", longest_region },
	{ "key: a region that is too long", region_too_long,
	  "rxe: takes regions of any length" },
	{ "key: a valid region is not registered again", register_twice,
	  FLUSHES },
	{ "key: a region of another protection domain is not registered", register_other_pd,
	  FLUSHES },
	{ "key: a region is not registered by the key of another one", register_other_key,
	  FLUSHES },
	{ "key: no region is not invalidated", invalidate_stranger,
	  FLUSHES },
	{ "key: a region is not invalidated by an old key", invalidate_old_key,
	  FLUSHES },
	{ "key: a region of another protection domain is not invalidated", invalidate_other_pd,
	  "rxe: invalidates regions of other protection domains" },
	{ "key: the local key of no region", local_stranger,
	  FLUSHES },
	{ "key: a local key that is wrong in its low byte", local_low_byte,
	  FLUSHES },
	{ "key: a local key of another protection domain", local_other_pd,
	  FLUSHES },
	{ "key: local memory one byte before the region", local_before,
	  FLUSHES },
	{ "key: local memory one byte behind the region", local_behind,
	  FLUSHES },
	{ "key: local memory that was never registered", local_unregistered,
	  FLUSHES },
	{ "key: local memory that was invalidated", local_invalidated,
	  FLUSHES },
	{ "key: a READ into memory that may not be written", local_no_write },
	{ "key: a receive by the key of no region", receive_stranger,
	  MALFORMED },
	{ "key: a receive by a key of another protection domain", receive_other_pd,
	  MALFORMED },
	{ "key: a receive one byte behind the region", receive_behind,
	  MALFORMED },
	{ "key: a receive into memory that may not be written", receive_no_write,
	  MALFORMED },
	{ "key: a receive into memory that was invalidated", receive_invalidated,
	  MALFORMED },
	{ }
};
