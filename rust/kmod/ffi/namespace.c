// SPDX-License-Identifier: GPL-2.0
/*
 * The files that one network namespace has: net.sdp.* sysctls and
 * /proc/net/sdp, /proc/net/sdpstats, /proc/net/sdppeers. Tables of C structs with C callbacks;
 * what they show is made in Rust.
 */
#include <linux/cpumask.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/proc_fs.h>
#include <linux/sdp.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysctl.h>
#include <net/net_namespace.h>

#include "helpers.h"

MODULE_VERSION(SDP_VERSION);

static int rcv_size_min = 2048;		/* messages of less cost too much */
static int rcv_initial_min = 1024;	/* a peer of ours takes no less than 512 */
static int rcv_size_max = 65536;	/* two compound pages */
static int rcv_initial_max = 32768;	/* OpenIB gen2 reads 16 bits of a Hello's size */
static int depth_min = 4;		/* three credits let payload through */
static int depth_max = 1024;
static int send_depth_max = 64;	/* what the engine keeps in flight */
static int seconds_max = 32767;		/* as TCP's MAX_TCP_KEEPIDLE */
static int probes_max = 127;		/* as TCP's MAX_TCP_KEEPCNT */
static int thresh_min = 4096;	/* LEAST of the engine, as for SDP_ZCOPY_THRESH; or 0 */
static int thresh_max = 1024 * 1024;	/* as OFED's SDP_ZCOPY_THRESH */
static int regions_max = 65536;
static int polls_max = 10000;	/* a process that polls for longer can sleep */
static int chunk_min = -2;	/* doubling */
static int chunk_max = 65536;	/* a whole message */
static int msec_min = 1000;
static int msec_max = 600 * 1000;

#define KNOB(field, low, high) {					\
	.procname = #field,						\
	.data = (void *)offsetof(struct sdp_knobs, field),		\
	.maxlen = sizeof(int),						\
	.mode = 0644,							\
	.proc_handler = proc_dointvec_minmax,				\
	.extra1 = (low),						\
	.extra2 = (high),						\
}

static DEFINE_MUTEX(peers_lock);

/* A list of peers: taken as a whole, if it can be read, or not at all. */
static int peers_handler(const struct ctl_table *table, int write,
			 void *buffer, size_t *len, loff_t *pos)
{
	bool (*check)(const char *text) = table->extra1;
	char text[SDP_PEERS_LEN];
	struct ctl_table own = *table;
	int err;

	own.data = text;
	mutex_lock(&peers_lock);
	strscpy(text, table->data, sizeof(text));
	err = proc_dostring(&own, write, buffer, len, pos);
	if (!err && write) {
		if (check(text))
			strscpy(table->data, text, SDP_PEERS_LEN);
		else
			err = -EINVAL;
	}
	mutex_unlock(&peers_lock);
	return err;
}

void sdp_knob_peers(const struct sdp_knobs *knobs, char *text)
{
	mutex_lock(&peers_lock);
	strscpy(text, knobs->zcopy_except, SDP_PEERS_LEN);
	mutex_unlock(&peers_lock);
}

/* Less than a page, and not 0, is refused, as by SDP_ZCOPY_THRESH. */
static int thresh_handler(const struct ctl_table *table, int write,
			  void *buffer, size_t *len, loff_t *pos)
{
	int value = READ_ONCE(*(int *)table->data);
	struct ctl_table own = *table;
	int err;

	own.data = &value;
	err = proc_dointvec_minmax(&own, write, buffer, len, pos);
	if (err || !write)
		return err;
	if (value && value < thresh_min)
		return -EINVAL;
	WRITE_ONCE(*(int *)table->data, value);
	return 0;
}

static const struct ctl_table knob_table[] = {
	KNOB(rcv_size, &rcv_size_min, &rcv_size_max),
	KNOB(rcv_size_initial, &rcv_initial_min, &rcv_initial_max),
	KNOB(rcv_depth, &depth_min, &depth_max),
	KNOB(send_depth, &depth_min, &send_depth_max),
	KNOB(keepalive_time, SYSCTL_ONE, &seconds_max),
	KNOB(keepalive_intvl, SYSCTL_ONE, &seconds_max),
	KNOB(keepalive_probes, SYSCTL_ONE, &probes_max),
	KNOB(close_timeout_ms, &msec_min, &msec_max),
	KNOB(max_orphans, SYSCTL_ZERO, SYSCTL_INT_MAX),
	KNOB(companion, SYSCTL_ZERO, SYSCTL_TWO),
	KNOB(tcp_after_ms, SYSCTL_ZERO, &msec_max),
	KNOB(zcopy_regions, SYSCTL_ZERO, &regions_max),
	KNOB(zcopy_cache, SYSCTL_ZERO, SYSCTL_ONE),
	KNOB(busy_poll, SYSCTL_NEG_ONE, &polls_max),
	KNOB(chunk, &chunk_min, &chunk_max),
	{
		.procname = "zcopy_thresh",
		.data = (void *)offsetof(struct sdp_knobs, zcopy_thresh),
		.maxlen = sizeof(int),
		.mode = 0644,
		.proc_handler = thresh_handler,
		.extra1 = SYSCTL_ZERO,
		.extra2 = &thresh_max,
	},
	{
		.procname = "zcopy_except",
		.data = (void *)offsetof(struct sdp_knobs, zcopy_except),
		.maxlen = SDP_PEERS_LEN,
		.mode = 0644,
		.proc_handler = peers_handler,
	},
};

int sdp_user_share = 50;

struct net *sdp_first_net(void)
{
	return &init_net;
}

/* Knobs of the whole machine: in the first namespace, as tcp_mem. */
static const struct ctl_table machine_table[] = {
	{
		.procname = "mem",
		.data = &rust_net_mem,
		.maxlen = sizeof(rust_net_mem),
		.mode = 0644,
		.proc_handler = proc_doulongvec_minmax,
	},
	{
		.procname = "user_share",
		.data = &sdp_user_share,
		.maxlen = sizeof(int),
		.mode = 0644,
		.proc_handler = proc_dointvec_minmax,
		.extra1 = SYSCTL_ONE,
		.extra2 = SYSCTL_ONE_HUNDRED,
	},
	{
		.procname = "copy_engine",
		.data = &sdp_copy_engine,
		.maxlen = sizeof(int),
		.mode = 0644,
		.proc_handler = sdp_copy_engine_handler,
		.extra1 = SYSCTL_NEG_ONE,
		.extra2 = SYSCTL_INT_MAX,
	},
};

/* A kernel without sysctl has the defaults, and @header stays NULL. */
int sdp_sysctl_register(struct net *net, struct sdp_knobs *knobs,
			bool (*check)(const char *text),
			struct ctl_table_header **header)
{
	int i, count = ARRAY_SIZE(knob_table);
	struct ctl_table *table;

	if (!IS_ENABLED(CONFIG_SYSCTL))
		return 0;
	table = kmalloc(sizeof(knob_table) + sizeof(machine_table), GFP_KERNEL);
	if (!table)
		return -ENOMEM;
	memcpy(table, knob_table, sizeof(knob_table));
	for (i = 0; i < ARRAY_SIZE(knob_table); i++) {
		table[i].data = (char *)knobs + (size_t)knob_table[i].data;
		if (table[i].proc_handler == peers_handler)
			table[i].extra1 = check;
	}
	if (net_eq(net, &init_net)) {
		memcpy(table + count, machine_table, sizeof(machine_table));
		count += ARRAY_SIZE(machine_table);
	}
	*header = register_net_sysctl_sz(net, SDP_SYSCTL_DIR, table, count);
	if (*header)
		return 0;
	kfree(table);
	return -ENOMEM;
}

void sdp_sysctl_unregister(struct ctl_table_header *header)
{
	const struct ctl_table *table;

	if (!header)
		return;
	table = header->ctl_table_arg;
	unregister_net_sysctl_table(header);
	kfree(table);
}

/* How far a reader has come in the table of sockets. */
struct walk {
	struct seq_net_private p;
	/* Which socket is at @at; 0: none, it is the end. */
	unsigned long socket;
	loff_t at;
};

/* The same for all namespaces. */
static unsigned long (*socket_after)(struct net *net, unsigned long socket);
static void (*show_socket)(struct seq_file *m, struct net *net,
			   unsigned long socket, unsigned int line);

static void *walk_to(struct seq_file *m, loff_t at)
{
	struct walk *walk = m->private;

	if (at < walk->at) {
		walk->at = 0;
		walk->socket = 0;
	}
	while (walk->at < at && (walk->socket || !walk->at)) {
		walk->socket = socket_after(seq_file_net(m), walk->socket);
		walk->at++;
	}
	return walk->socket ? walk : NULL;
}

static void *sockets_start(struct seq_file *m, loff_t *pos)
{
	return *pos ? walk_to(m, *pos) : SEQ_START_TOKEN;
}

static void *sockets_next(struct seq_file *m, void *v, loff_t *pos)
{
	return walk_to(m, ++*pos);
}

static void sockets_stop(struct seq_file *m, void *v)
{
}

static int sockets_show(struct seq_file *m, void *v)
{
	const struct walk *walk = v;

	if (v == SEQ_START_TOKEN)
		seq_puts(m, "  sl  local_address rem_address   st tx_queue rx_queue   uid  inode\n");
	else
		show_socket(m, seq_file_net(m), walk->socket, walk->at - 1);
	return 0;
}

static const struct seq_operations sockets_ops = {
	.start = sockets_start,
	.next = sockets_next,
	.stop = sockets_stop,
	.show = sockets_show,
};

int sdp_proc_create(struct net *net,
		    unsigned long (*after)(struct net *, unsigned long),
		    void (*show)(struct seq_file *, struct net *, unsigned long,
				 unsigned int),
		    int (*stats)(struct seq_file *, void *),
		    int (*peers)(struct seq_file *, void *))
{
	socket_after = after;
	show_socket = show;
	if (!IS_ENABLED(CONFIG_PROC_FS))
		return 0;
	if (!proc_create_net(SDP_PROC_SOCKETS, 0444, net->proc_net,
			     &sockets_ops, sizeof(struct walk)))
		return -ENOMEM;
	if (!proc_create_net_single(SDP_PROC_STATS, 0444, net->proc_net,
				    stats, NULL))
		goto no_stats;
	if (!proc_create_net_single(SDP_PROC_PEERS, 0444, net->proc_net,
				    peers, NULL))
		goto no_peers;
	return 0;

no_peers:
	remove_proc_entry(SDP_PROC_STATS, net->proc_net);
no_stats:
	remove_proc_entry(SDP_PROC_SOCKETS, net->proc_net);
	return -ENOMEM;
}

void sdp_proc_remove(struct net *net)
{
	if (!IS_ENABLED(CONFIG_PROC_FS))
		return;
	remove_proc_entry(SDP_PROC_PEERS, net->proc_net);
	remove_proc_entry(SDP_PROC_STATS, net->proc_net);
	remove_proc_entry(SDP_PROC_SOCKETS, net->proc_net);
}

/* Rust knows no address space but one: these pointers are only handed back. */
static void __percpu *percpu(void *memory)
{
	return (void __percpu *)(__force unsigned long)memory;
}

void *sdp_percpu_alloc(size_t size, size_t align)
{
	return (void *)(__force unsigned long)__alloc_percpu(size, align);
}

void sdp_percpu_free(void *memory)
{
	free_percpu(percpu(memory));
}

void *sdp_percpu_here(void *memory)
{
	return raw_cpu_ptr(percpu(memory));
}

void *sdp_percpu_next(void *memory, int *cpu)
{
	unsigned int next = cpumask_next(*cpu, cpu_possible_mask);

	if (next >= nr_cpu_ids)
		return NULL;
	*cpu = next;
	return per_cpu_ptr(percpu(memory), next);
}
