// SPDX-License-Identifier: GPL-2.0
/*
 * Commands and their answers:
 *
 *   ping|stream|connections tcp|sdp|smc|unix size=BYTES ms=N a=FD b=FD [WORD=VALUE...]
 *
 *   a, b           descriptors of the network namespaces of client and server
 *   size           bytes of a message: 24 to 4 MiB, a multiple of 8
 *   ms             duration of the measurement
 *   count          maximum number of messages, round trips or connections
 *   warm_ms        duration of the load before it is measured
 *   address        IPv4 address of the server
 *   cpu_a, cpu_b   processor of a thread
 *   patience_s     a load that takes longer has failed (60)
 *
 * The last line of an answer is "result=pass" or "result=fail why=...". A signal ends the load.
 *
 *   count, bytes   messages one way, and their bytes
 *   ns             by the clock
 *   outside_ns     processor time of the kernel's process, as its host measures it; 0 if the
 *                  kernel is no process
 *   busy_ns        of all processors, by the kernel's own account
 *   a_ns, b_ns     of the two threads. A native kernel counts in ticks of 10 ms of the clock
 *
 * The work of sdp and of the device in work queues and interrupts is part of outside_ns and
 * busy_ns, not of the threads' time.
 */
#include <linux/cpumask.h>
#include <linux/inet.h>
#include <linux/kstrtox.h>
#include <linux/limits.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "sockets.h"

#define PATIENCE_S_MAX	600

static const char * const loads[] = {
	[KS_PING] = "ping", [KS_STREAM] = "stream", [KS_CONNECTIONS] = "connections",
};

static const char * const kinds[] = {
	[KS_TCP] = "tcp", [KS_SDP] = "sdp", [KS_SMC] = "smc", [KS_UNIX] = "unix",
};

/* The words NAME=VALUE as they are written. */
struct words {
	u64 size;
	u64 ms;
	u64 count;
	u64 warm_ms;
	u64 patience_s;
	u64 processor[2];
	u64 net[2];
};

static int parse_number(struct words *words, const char *name, const char *value)
{
	const struct { const char *name; u64 *to; } known[] = {
		{ "size", &words->size }, { "ms", &words->ms }, { "count", &words->count },
		{ "warm_ms", &words->warm_ms }, { "patience_s", &words->patience_s },
		{ "cpu_a", &words->processor[0] }, { "cpu_b", &words->processor[1] },
		{ "a", &words->net[0] }, { "b", &words->net[1] },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(known); i++)
		if (!strcmp(known[i].name, name))
			return kstrtou64(value, 10, known[i].to);
	return -EINVAL;
}

static int parse_words(struct ks_run *run, struct words *words, char *line)
{
	char *word;
	int err;

	while ((word = strsep(&line, " "))) {
		char *name = strsep(&word, "=");

		if (!word)
			return -EINVAL;
		if (!strcmp(name, "address")) {
			if (!in4_pton(word, -1, (u8 *)&run->address, -1, NULL))
				return -EINVAL;
			continue;
		}
		err = parse_number(words, name, word);
		if (err)
			return err;
	}
	return 0;
}

static int take_processor(u64 asked, int *processor)
{
	*processor = KS_ANY_PROCESSOR;
	if (asked == U64_MAX)
		return 0;
	if (asked >= nr_cpu_ids || !cpu_online(asked))
		return -EINVAL;
	*processor = asked;
	return 0;
}

static int take(struct ks_run *run, const struct words *words)
{
	int side, err;

	if (words->size < KS_SIZE_MIN || words->size > KS_SIZE_MAX || words->size % sizeof(u64))
		return -EMSGSIZE;
	if (!words->patience_s || words->patience_s > PATIENCE_S_MAX)
		return -EINVAL;
	/* Patience must be longer than the load, and each must fit in nanoseconds. */
	if (words->ms > MSEC_PER_SEC * PATIENCE_S_MAX || words->warm_ms > words->ms || !words->count)
		return -EINVAL;
	run->size = words->size;
	run->ns = words->ms * NSEC_PER_MSEC;
	run->warm_ns = words->warm_ms * NSEC_PER_MSEC;
	run->most = words->count;
	run->patience_s = words->patience_s;
	for (side = 0; side < 2; side++) {
		struct net *net;

		err = take_processor(words->processor[side], &run->processor[side]);
		if (err)
			return err;
		if (words->net[side] > INT_MAX)
			return -EBADF;
		net = get_net_ns_by_fd(words->net[side]);
		if (IS_ERR(net))
			return PTR_ERR(net);
		run->net[side] = net;
	}
	return 0;
}

static int parse(struct ks_run *run, char *line)
{
	struct words words = {
		.count = U64_MAX, .patience_s = 60, .processor = { U64_MAX, U64_MAX },
		.net = { U64_MAX, U64_MAX },
	};
	const char *word = strsep(&line, " ");
	int load = match_string(loads, ARRAY_SIZE(loads), word), kind, err;

	word = strsep(&line, " ");
	if (load < 0 || !word || !line)
		return -EINVAL;
	kind = match_string(kinds, ARRAY_SIZE(kinds), word);
	if (kind < 0)
		return -EINVAL;
	run->load = load;
	run->kind = kind;
	err = parse_words(run, &words, line);
	return err ?: take(run, &words);
}

static void tell(const struct ks_run *run, char *answer)
{
	const struct ks_times *spent = &run->spent;

	if (run->err) {
		snprintf(answer, KS_ANSWER_MAX, "\nresult=fail why=%s: %d\n", run->why, run->err);
		return;
	}
	snprintf(answer, KS_ANSWER_MAX,
		 "load=%s kind=%s size=%zu count=%llu bytes=%llu ns=%llu outside_ns=%llu "
		 "busy_ns=%llu a_ns=%llu b_ns=%llu\nresult=pass\n",
		 loads[run->load], kinds[run->kind], run->size, run->count, run->count * run->size,
		 spent->wall, spent->outside, spent->busy, spent->thread[0], spent->thread[1]);
}

/* @line may be modified. A load that fails has an answer; a command that is wrong, or has a caller that
 * is interrupted, has none.
 */
int ks_command(char *line, char *answer)
{
	struct ks_run *run = kzalloc(sizeof(*run), GFP_KERNEL);
	int side, err;

	if (!run)
		return -ENOMEM;
	spin_lock_init(&run->lock);
	init_completion(&run->over);
	err = parse(run, line) ?: ks_execute(run);
	if (!err)
		tell(run, answer);
	for (side = 0; side < 2; side++)
		if (run->net[side])
			put_net(run->net[side]);
	kfree(run);
	return err;
}
