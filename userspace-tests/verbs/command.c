// SPDX-License-Identifier: GPL-2.0
/*
 * Commands, their answers, and the objects that must be destroyed after them.
 *
 * A write to /dev/sdp_verbs is one command and returns at its end; a read gives its answer. The
 * last line of that is "result=pass", "result=fail line=N why=..." or "result=absent why=...".
 *
 *   cases                      their names
 *   case DEVICE DEVICE NAME    one of them
 *   fuzz DEVICE DEVICE seed=N ms=N pairs=N longest=N parts=N
 *                              random verbs, of at most `longest` bytes, in memory for `parts`
 *                              (2 to 8) of the longest
 *   speed DEVICE DEVICE op=send|write|read size=N depth=N polled=0|1 ms=N   a rate
 *   latency DEVICE DEVICE size=N polled=0|1 count=N ms=N                    half a round trip
 *   copy size=N ms=N           the rate of the processor's own copies
 */
#include <linux/kstrtox.h>
#include <linux/mm.h>
#include <linux/string.h>
#include <net/addrconf.h>
#include <rdma/ib_cache.h>

#include "verbs.h"

#define ANSWER_MAX	(256 * 1024)

void vb_say(struct vb_run *run, const char *format, ...)
{
	va_list arguments;

	if (!run->text) {
		run->text = kvmalloc(ANSWER_MAX, GFP_KERNEL);
		if (!run->text)
			return;
		run->room = ANSWER_MAX;
	}
	va_start(arguments, format);
	run->length += vscnprintf(run->text + run->length, run->room - run->length, format,
				  arguments);
	va_end(arguments);
}

/* Only the first failure counts, because it causes the later ones. */
void vb_fail(struct vb_run *run, const char *format, ...)
{
	va_list arguments;

	if (run->failed)
		return;
	run->failed = true;
	va_start(arguments, format);
	vscnprintf(run->why, sizeof(run->why), format, arguments);
	va_end(arguments);
}

/* The device lacks an optional feature that the case tests. */
void vb_absent(struct vb_run *run, const char *format, ...)
{
	va_list arguments;

	run->absent = true;
	va_start(arguments, format);
	vscnprintf(run->why, sizeof(run->why), format, arguments);
	va_end(arguments);
}

void vb_keep(struct vb_run *run, struct vb_thing *thing, void (*end)(struct vb_thing *thing))
{
	thing->end = end;
	list_add(&thing->entry, &run->things);
}

void vb_end(struct vb_thing *thing)
{
	list_del(&thing->entry);
	thing->end(thing);
}

/* NAME=VALUE among the words of a command. */
bool vb_word(char *words, const char *name, char *to, size_t room)
{
	size_t length = strlen(name);
	char *at = words;

	while (at && *at) {
		if (!strncmp(at, name, length) && at[length] == '=') {
			char *from = at + length + 1;

			strscpy(to, from, min(room, strcspn(from, " ") + 1));
			return true;
		}
		at = strchr(at, ' ');
		if (at)
			at++;
	}
	return false;
}

u64 vb_number(char *words, const char *name, u64 otherwise)
{
	char word[32];
	u64 value;

	if (!vb_word(words, name, word, sizeof(word)) || kstrtou64(word, 0, &value))
		return otherwise;
	return value;
}

/* The first IPv4 address with a GID of RoCE version 2. */
static bool find_address(struct vb_host *host)
{
	int index;

	for (index = 0; index < host->device->port_data[host->port].immutable.gid_tbl_len;
	     index++) {
		const struct ib_gid_attr *attr;
		bool found;

		attr = rdma_get_gid_attr(host->device, host->port, index);
		if (IS_ERR(attr))
			continue;
		found = attr->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP &&
			ipv6_addr_v4mapped((const struct in6_addr *)&attr->gid) &&
			!rdma_read_gid_l2_fields(attr, NULL, host->mac);
		if (found) {
			host->gid_index = index;
			host->gid = attr->gid;
		}
		rdma_put_gid_attr(attr);
		if (found)
			return true;
	}
	return false;
}

static bool host_open(struct vb_run *run, struct vb_host *host, const char *name)
{
	struct ib_port_attr attr;
	struct ib_pd *pd;

	host->device = vb_device_get(name);
	if (!host->device) {
		vb_fail(run, "%s: no such device", name);
		return false;
	}
	host->port = rdma_start_port(host->device);
	if (ib_query_port(host->device, host->port, &attr)) {
		vb_fail(run, "%s: its port cannot be queried", name);
		return false;
	}
	host->mtu = attr.active_mtu;
	if (!find_address(host)) {
		vb_fail(run, "%s: no address of IPv4 by RoCE version 2", name);
		return false;
	}
	pd = ib_alloc_pd(host->device, 0);
	if (IS_ERR(pd)) {
		vb_fail(run, "%s: no protection domain: %ld", name, PTR_ERR(pd));
		return false;
	}
	host->pd = pd;
	return true;
}

/* Removes the first two words, which name the devices. */
bool vb_hosts_open(struct vb_run *run, char **words)
{
	int i;

	for (i = 0; i < 2; i++) {
		char *name = strsep(words, " ");

		if (!name) {
			vb_fail(run, "two devices are needed");
			return false;
		}
		if (!host_open(run, &run->host[i], name))
			return false;
	}
	return true;
}

void vb_hosts_close(struct vb_run *run)
{
	int i;

	while (!list_empty(&run->queue_pairs))
		vb_end(list_first_entry(&run->queue_pairs, struct vb_thing, entry));
	while (!list_empty(&run->things))
		vb_end(list_first_entry(&run->things, struct vb_thing, entry));
	for (i = 0; i < 2; i++) {
		if (run->host[i].pd)
			ib_dealloc_pd(run->host[i].pd);
		if (run->host[i].device)
			ib_device_put(run->host[i].device);
	}
	memset(run->host, 0, sizeof(run->host));
}

struct command {
	const char *name;
	int (*run)(struct vb_run *run, char *words);
};

/* case DEVICE DEVICE NAME */
static int run_case(struct vb_run *run, char *words)
{
	return vb_case_run(run, words);
}

static const struct command commands[] = {
	{ "case", run_case },
	{ "speed", vb_speed },
	{ "latency", vb_latency },
	{ "fuzz", vb_fuzz },
};

static int with_hosts(struct vb_run *run, const struct command *command, char *words)
{
	int err = 0;

	if (vb_hosts_open(run, &words))
		err = command->run(run, words ?: "");
	vb_hosts_close(run);
	if (!err && run->failed)
		vb_say(run, "result=fail line=%d why=%s\n", run->line, run->why);
	else if (!err && run->absent)
		vb_say(run, "result=absent why=%s\n", run->why);
	else if (!err)
		vb_say(run, "result=pass\n");
	return err;
}

/* @line may be modified. */
int vb_command(struct vb_run *run, char *line)
{
	char *word = strsep(&line, " ");
	size_t i;
	int err;

	if (!strcmp(word, "cases")) {
		vb_cases_list(run);
		return 0;
	}
	/* Without devices. */
	if (!strcmp(word, "copy")) {
		err = vb_copy(run, line ?: "");
		if (!err)
			vb_say(run, "result=pass\n");
		return err;
	}
	for (i = 0; i < ARRAY_SIZE(commands); i++)
		if (!strcmp(commands[i].name, word))
			return with_hosts(run, &commands[i], line);
	return -EOPNOTSUPP;
}
