// SPDX-License-Identifier: GPL-2.0
/*
 * The speed of the device alone: rates of SEND, WRITE and READ, the latency
 * of a message, and for comparison the processor's own copies.
 *
 * Completions are polled or come as events, like for all users of ib_core.
 */
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/sort.h>

#include "../test-modules/processor_time.h"
#include "verbs.h"

#define DEPTH_MAX	64
#define SIZE_MAX_BYTES	SZ_4M
#define PINGS_MAX	20000
/* Receives for each message in flight, so that senders do not wait for them. */
#define SPARE		4
/* Further sends: an acknowledgement may come later than the receiver's answer. */
#define LATE		16

struct speed;

/* One operation: as many requests as its regions need, the last of them signaled. */
struct turn {
	struct ib_cqe sent;
	struct ib_cqe received;
	struct speed *speed;
	u32 number;
};

struct speed {
	enum ib_wr_opcode opcode;
	u32 size;
	u32 depth;
	bool polled;
	/* Those of [0] and [1]. */
	struct ib_cq *cq[2];
	struct vb_qp q[2];
	struct vb_mem *mem[2];
	struct vb_mr **regions;
	u32 region_size;
	u32 region_count;
	struct turn turns[DEPTH_MAX];
	atomic_t under_way;
	u64 done;
	ktime_t end;
	ktime_t last;
	int err;
	struct completion over;
	/* Ping-pong. */
	struct ib_cqe ping;
	struct ib_cqe pong;
	u32 *times;
	u32 time_count;
	u32 wanted;
	ktime_t began;
};

/* In thousandths of MiB/s. */
static u64 rate(u64 operations, u32 size, u64 ns)
{
	return mul_u64_u64_div_u64(operations * size, 1000000000000ULL / SZ_1M, ns);
}

static void stop(struct speed *speed, int err)
{
	if (err && !speed->err)
		speed->err = err;
	complete(&speed->over);
}

static int post_recv(struct speed *speed, struct turn *turn)
{
	struct ib_sge sge = vb_sge(speed->mem[1], 0, speed->size);
	struct ib_recv_wr wr = { .wr_cqe = &turn->received, .sg_list = &sge, .num_sge = 1 };

	return ib_post_recv(speed->q[1].qp, &wr, NULL);
}

/* Pieces of the size of a region each, for operations with keys. */
static int post_rdma(struct speed *speed, struct turn *turn)
{
	u32 at = 0, i;

	for (i = 0; at < speed->size; i++) {
		u32 part = min(speed->size - at, speed->region_size);
		struct ib_sge sge = vb_sge(speed->mem[0], at, part);
		struct ib_rdma_wr wr = {
			.wr = {
				.wr_cqe = &turn->sent, .sg_list = &sge, .num_sge = 1,
				.opcode = speed->opcode,
				.send_flags = at + part == speed->size ? IB_SEND_SIGNALED : 0,
			},
			.remote_addr = vb_mr_address(speed->regions[i], 0),
			.rkey = speed->regions[i]->mr->rkey,
		};
		int err = ib_post_send(speed->q[0].qp, &wr.wr, NULL);

		if (err)
			return err;
		at += part;
	}
	return 0;
}

static int post_send(struct speed *speed, struct turn *turn)
{
	struct ib_sge sge = vb_sge(speed->mem[0], 0, speed->size);
	struct ib_send_wr wr = {
		.wr_cqe = &turn->sent, .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};

	return ib_post_send(speed->q[0].qp, &wr, NULL);
}

static int post_turn(struct speed *speed, struct turn *turn)
{
	return speed->opcode == IB_WR_SEND ? post_send(speed, turn) : post_rdma(speed, turn);
}

static void turn_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	struct turn *turn = container_of(wc->wr_cqe, struct turn, sent);
	struct speed *speed = turn->speed;
	int err = wc->status == IB_WC_SUCCESS ? 0 : -EIO;

	speed->done++;
	speed->last = ktime_get();
	if (!err && !speed->err && ktime_before(speed->last, speed->end)) {
		err = post_turn(speed, turn);
		if (!err)
			return;
	}
	if (err && !speed->err)
		speed->err = err;
	if (atomic_dec_and_test(&speed->under_way))
		stop(speed, 0);
}

static void turn_received(struct ib_cq *cq, struct ib_wc *wc)
{
	struct turn *turn = container_of(wc->wr_cqe, struct turn, received);

	if (wc->status == IB_WC_SUCCESS)
		post_recv(turn->speed, turn);
}

static int ping(struct speed *speed, int side)
{
	struct ib_sge sge = vb_sge(speed->mem[side], 0, speed->size);
	struct ib_send_wr wr = {
		.wr_cqe = &speed->ping, .sg_list = &sge, .num_sge = 1, .opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};

	if (!side)
		speed->began = ktime_get();
	return ib_post_send(speed->q[side].qp, &wr, NULL);
}

static int post_pong(struct speed *speed, int side)
{
	/* A long message is sent from where the one before was received, and not before that. */
	u32 at = speed->size > PAGE_SIZE ? 0 : PAGE_SIZE;
	struct ib_sge sge = vb_sge(speed->mem[side], at, speed->size);
	struct ib_recv_wr wr = { .wr_cqe = &speed->pong, .sg_list = &sge, .num_sge = 1 };

	return ib_post_recv(speed->q[side].qp, &wr, NULL);
}

static void pinged(struct ib_cq *cq, struct ib_wc *wc)
{
	struct speed *speed = container_of(wc->wr_cqe, struct speed, ping);

	if (wc->status != IB_WC_SUCCESS && wc->status != IB_WC_WR_FLUSH_ERR)
		stop(speed, -EIO);
}

static void ponged(struct ib_cq *cq, struct ib_wc *wc)
{
	struct speed *speed = container_of(wc->wr_cqe, struct speed, pong);
	int side = wc->qp == speed->q[1].qp, err;

	if (wc->status != IB_WC_SUCCESS)
		return;
	if (!side) {
		if (speed->time_count < speed->wanted)
			speed->times[speed->time_count++] =
				min_t(s64, ktime_to_ns(ktime_sub(ktime_get(), speed->began)),
				      U32_MAX);
		if (speed->time_count == speed->wanted ||
		    ktime_after(ktime_get(), speed->end)) {
			stop(speed, 0);
			return;
		}
	}
	err = post_pong(speed, side) ?: ping(speed, side);
	if (err)
		stop(speed, err);
}

static void speed_end(struct speed *speed)
{
	int i;

	for (i = 0; i < 2; i++)
		if (speed->q[i].qp)
			ib_drain_qp(speed->q[i].qp);
	for (i = 0; i < 2; i++)
		if (speed->q[i].qp)
			ib_destroy_qp(speed->q[i].qp);
	for (i = 0; i < 2; i++)
		if (speed->cq[i])
			ib_free_cq(speed->cq[i]);
	kfree(speed->regions);
	kvfree(speed->times);
	kfree(speed);
}

static int queues(struct vb_run *run, struct speed *speed)
{
	u32 requests = speed->depth * max(1u, speed->region_count) + LATE;
	struct vb_options options = {
		.rd_atomic_plus_1 = 16 + 1, .rnr_timer = IB_RNR_TIMER_000_01,
	};
	int i, err;

	for (i = 0; i < 2; i++) {
		struct ib_device_attr *has = &run->host[i].device->attrs;
		u8 reads = min_t(int, 16, min(has->max_qp_rd_atom, has->max_qp_init_rd_atom));
		struct ib_qp_init_attr attr = {
			.cap = { .max_send_wr = requests, .max_recv_wr = SPARE * speed->depth + 2,
				 .max_send_sge = 1, .max_recv_sge = 1 },
			.sq_sig_type = IB_SIGNAL_REQ_WR, .qp_type = IB_QPT_RC,
		};
		struct ib_cq *cq;
		struct ib_qp *qp;

		options.rd_atomic_plus_1 = min_t(u8, options.rd_atomic_plus_1, reads + 1);
		cq = ib_alloc_cq(run->host[i].device, NULL, requests + SPARE * speed->depth + 8, i %
				 run->host[i].device->num_comp_vectors,
				 speed->polled ? IB_POLL_DIRECT : IB_POLL_WORKQUEUE);
		if (IS_ERR(cq))
			return PTR_ERR(cq);
		speed->cq[i] = cq;
		attr.send_cq = cq;
		attr.recv_cq = cq;
		qp = ib_create_qp(run->host[i].pd, &attr);
		if (IS_ERR(qp))
			return PTR_ERR(qp);
		speed->q[i] = (struct vb_qp){ .host = &run->host[i], .pd = run->host[i].pd,
					      .qp = qp };
	}
	for (i = 0; i < 2; i++) {
		err = vb_modify_init(&speed->q[i], &options) ?:
		      vb_modify_rtr(&speed->q[i], &speed->q[!i], &options);
		if (err)
			return err;
	}
	return vb_modify_rts(&speed->q[0], &options) ?: vb_modify_rts(&speed->q[1], &options);
}

/* On a separate connection, so that the measured one has no other work. */
static int regions(struct vb_run *run, struct speed *speed)
{
	u32 longest = run->host[1].device->attrs.max_fast_reg_page_list_len;
	struct vb_pair pair;
	u32 i;

	speed->region_size = min_t(u64, speed->size, (u64)longest * PAGE_SIZE);
	if (speed->opcode == IB_WR_SEND)
		return 0;
	speed->region_count = DIV_ROUND_UP(speed->size, speed->region_size);
	speed->regions = kcalloc(speed->region_count, sizeof(*speed->regions), GFP_KERNEL);
	if (!speed->regions)
		return -ENOMEM;
	if (!vb_pair(run, &pair, NULL))
		return -EIO;
	for (i = 0; i < speed->region_count; i++) {
		u32 at = i * speed->region_size;

		speed->regions[i] = vb_mr(run, run->host[1].pd, speed->mem[1], at,
					  min(speed->region_size, speed->size - at));
		if (!speed->regions[i] ||
		    !vb_register(run, pair.q[1], speed->regions[i],
				 IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ |
				 IB_ACCESS_REMOTE_WRITE))
			return -EIO;
	}
	return 0;
}

static struct speed *speed_begin(struct vb_run *run, char *words)
{
	struct speed *speed = kzalloc(sizeof(*speed), GFP_KERNEL);
	char word[16] = "";
	size_t length;
	int i, err = -EINVAL;

	if (!speed)
		return NULL;
	init_completion(&speed->over);
	speed->size = clamp_t(u64, vb_number(words, "size", 64), 1, SIZE_MAX_BYTES);
	speed->depth = clamp_t(u64, vb_number(words, "depth", 1), 1, DEPTH_MAX);
	speed->polled = vb_number(words, "polled", 0);
	speed->opcode = IB_WR_SEND;
	if (vb_word(words, "op", word, sizeof(word)) && !strcmp(word, "write"))
		speed->opcode = IB_WR_RDMA_WRITE;
	else if (!strcmp(word, "read"))
		speed->opcode = IB_WR_RDMA_READ;
	length = max_t(size_t, PAGE_ALIGN(speed->size), 2 * PAGE_SIZE);
	for (i = 0; i < 2; i++) {
		speed->mem[i] = vb_mem(run, &run->host[i], length);
		if (!speed->mem[i])
			goto fail;
	}
	err = regions(run, speed) ?: queues(run, speed);
	if (!err)
		return speed;
fail:
	vb_fail(run, "it cannot be set up: %d", err);
	speed_end(speed);
	return NULL;
}

/*
 * Lets the device's threads run beside a loop that polls. A native kernel counts as one that is preempted by
 * interrupts, so cond_resched() does nothing there; but its interrupts do not preempt the kernel.
 */
static void let_others_run(void)
{
	if (need_resched())
		schedule();
}

/* Waits for the end, or for a time that means a fault. */
static bool wait_for_end(struct vb_run *run, struct speed *speed, u64 ms)
{
	unsigned long late = jiffies + msecs_to_jiffies(ms + VB_PATIENCE_MS);

	if (!speed->polled) {
		if (wait_for_completion_timeout(&speed->over, late - jiffies))
			return true;
	} else {
		while (!try_wait_for_completion(&speed->over)) {
			ib_process_cq_direct(speed->cq[0], 16);
			ib_process_cq_direct(speed->cq[1], 16);
			let_others_run();
			if (time_after(jiffies, late))
				break;
		}
		if (time_before(jiffies, late))
			return true;
	}
	vb_fail(run, "it did not end");
	return false;
}

/* speed DEVICE DEVICE op=send|write|read size= depth= polled= ms= */
int vb_speed(struct vb_run *run, char *words)
{
	u64 ms = clamp_t(u64, vb_number(words, "ms", 500), 10, 60000), used, ns;
	struct speed *speed = speed_begin(run, words);
	ktime_t begin;
	int err = 0;
	u32 i, j;

	if (!speed)
		return 0;
	for (i = 0; !err && i < speed->depth; i++) {
		struct turn *turn = &speed->turns[i];

		turn->speed = speed;
		turn->sent.done = turn_sent;
		turn->received.done = turn_received;
		for (j = 0; !err && j < SPARE && speed->opcode == IB_WR_SEND; j++)
			err = post_recv(speed, turn);
	}
	used = processor_time();
	begin = ktime_get();
	speed->end = ktime_add_ms(begin, ms);
	atomic_set(&speed->under_way, speed->depth);
	for (i = 0; !err && i < speed->depth; i++)
		err = post_turn(speed, &speed->turns[i]);
	if (err)
		vb_fail(run, "a request was not taken: %d", err);
	else if (wait_for_end(run, speed, ms) && speed->err)
		vb_fail(run, "a request has failed: %d", speed->err);
	used = processor_time() - used;
	ns = max_t(s64, 1, ktime_to_ns(ktime_sub(speed->last, begin)));
	if (!run->failed)
		vb_say(run, "op=%s size=%u depth=%u polled=%d operations=%llu ns=%llu mib_per_s=%llu.%03llu cpu_ns=%llu cpu_ns_per_op=%llu\n",
		       vb_opcode_name(speed->opcode), speed->size, speed->depth, speed->polled,
		       speed->done, ns,
		       rate(speed->done, speed->size, ns) / 1000,
		       rate(speed->done, speed->size, ns) % 1000, used,
		       div64_u64(used, max(1ull, speed->done)));
	speed_end(speed);
	return 0;
}

static int compare(const void *one, const void *other)
{
	u32 a = *(const u32 *)one, b = *(const u32 *)other;

	return a < b ? -1 : a > b;
}

/* latency DEVICE DEVICE size= polled= count= ms= */
int vb_latency(struct vb_run *run, char *words)
{
	u64 ms = clamp_t(u64, vb_number(words, "ms", 1000), 10, 60000), used;
	struct speed *speed = speed_begin(run, words);
	int err;

	if (!speed)
		return 0;
	speed->wanted = clamp_t(u64, vb_number(words, "count", 2000), 1, PINGS_MAX);
	speed->times = kvcalloc(speed->wanted, sizeof(*speed->times), GFP_KERNEL);
	speed->ping.done = pinged;
	speed->pong.done = ponged;
	speed->end = ktime_add_ms(ktime_get(), ms);
	used = processor_time();
	err = !speed->times ? -ENOMEM :
	      post_pong(speed, 0) ?: post_pong(speed, 1) ?: ping(speed, 0);
	if (err)
		vb_fail(run, "it cannot begin: %d", err);
	else if (wait_for_end(run, speed, ms) && speed->err)
		vb_fail(run, "a message has failed: %d", speed->err);
	used = processor_time() - used;
	if (!run->failed && speed->time_count) {
		u32 n = speed->time_count, *t = speed->times;

		sort(t, n, sizeof(*t), compare, NULL);
		vb_say(run, "size=%u polled=%d count=%u min_ns=%u median_ns=%u p99_ns=%u cpu_ns_per_op=%llu\n",
		       speed->size, speed->polled, n, t[0] / 2, t[n / 2] / 2, t[n * 99 / 100] / 2,
		       div64_u64(used, 2 * n));
	}
	speed_end(speed);
	return 0;
}

/* copy size= ms=: copies by the processor, between two pieces of memory */
int vb_copy(struct vb_run *run, char *words)
{
	u64 ms = clamp_t(u64, vb_number(words, "ms", 200), 10, 10000), done = 0, ns;
	u32 size = clamp_t(u64, vb_number(words, "size", 64), 1, SIZE_MAX_BYTES);
	u8 *from = alloc_pages_exact(size, GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN);
	u8 *to = alloc_pages_exact(size, GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN);
	ktime_t begin = ktime_get(), end = ktime_add_ms(begin, ms), now = begin;

	while (from && to && ktime_before(now, end)) {
		u32 i, rounds = max(1u, SZ_64K / size);

		for (i = 0; i < rounds; i++) {
			memcpy(to, from, size);
			barrier_data(to);
		}
		done += rounds;
		let_others_run();
		now = ktime_get();
	}
	ns = max_t(s64, 1, ktime_to_ns(ktime_sub(now, begin)));
	if (done)
		vb_say(run, "op=copy size=%u operations=%llu ns=%llu mib_per_s=%llu.%03llu\n", size, done,
		       ns, rate(done, size, ns) / 1000, rate(done, size, ns) % 1000);
	if (from)
		free_pages_exact(from, size);
	if (to)
		free_pages_exact(to, size);
	return done ? 0 : -ENOMEM;
}
