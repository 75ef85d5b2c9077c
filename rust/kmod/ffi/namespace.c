// SPDX-License-Identifier: GPL-2.0
/*
 * The files that one network namespace has: net.sdp.* sysctls and
 * /proc/net/sdp, /proc/net/sdpstats. Tables of C structs with C callbacks;
 * what they show is made in Rust.
 */
#include <linux/proc_fs.h>
#include <linux/sdp.h>
#include <linux/slab.h>
#include <linux/sysctl.h>
#include <net/net_namespace.h>

#include "helpers.h"

static int rcv_size_min = 2048;		/* a Hello's worth and some data */
static int rcv_size_max = 32768;	/* one compound page, 16 bits on the wire */
static int depth_min = 4;		/* three credits let payload through */
static int depth_max = 1024;
static int send_depth_max = 64;	/* what the engine keeps in flight */
static int seconds_max = 32767;		/* as TCP's MAX_TCP_KEEPIDLE */
static int probes_max = 127;		/* as TCP's MAX_TCP_KEEPCNT */
static int thresh_max = 1024 * 1024;	/* as OFED's SDP_ZCOPY_THRESH */
static int regions_max = 65536;
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

static const struct ctl_table knob_table[] = {
	KNOB(rcv_size, &rcv_size_min, &rcv_size_max),
	KNOB(rcv_size_initial, &rcv_size_min, &rcv_size_max),
	KNOB(rcv_depth, &depth_min, &depth_max),
	KNOB(send_depth, &depth_min, &send_depth_max),
	KNOB(keepalive_time, SYSCTL_ONE, &seconds_max),
	KNOB(keepalive_intvl, SYSCTL_ONE, &seconds_max),
	KNOB(keepalive_probes, SYSCTL_ONE, &probes_max),
	KNOB(close_timeout_ms, &msec_min, &msec_max),
	KNOB(zcopy_thresh, SYSCTL_ZERO, &thresh_max),
	KNOB(zcopy_regions, SYSCTL_ZERO, &regions_max),
};

struct ctl_table_header *sdp_sysctl_register(struct net *net,
					     struct sdp_knobs *knobs)
{
	struct ctl_table_header *header;
	struct ctl_table *table;
	int i;

	table = kmemdup(knob_table, sizeof(knob_table), GFP_KERNEL);
	if (!table)
		return NULL;
	for (i = 0; i < ARRAY_SIZE(knob_table); i++)
		table[i].data = (char *)knobs + (size_t)knob_table[i].data;
	header = register_net_sysctl_sz(net, SDP_SYSCTL_DIR, table,
					ARRAY_SIZE(knob_table));
	if (!header)
		kfree(table);
	return header;
}

void sdp_sysctl_unregister(struct ctl_table_header *header)
{
	const struct ctl_table *table = header->ctl_table_arg;

	unregister_net_sysctl_table(header);
	kfree(table);
}

int sdp_proc_create(struct net *net,
		    int (*sockets)(struct seq_file *, void *),
		    int (*stats)(struct seq_file *, void *))
{
	if (!proc_create_net_single(SDP_PROC_SOCKETS, 0444, net->proc_net,
				    sockets, NULL))
		return -ENOMEM;
	if (!proc_create_net_single(SDP_PROC_STATS, 0444, net->proc_net,
				    stats, NULL)) {
		remove_proc_entry(SDP_PROC_SOCKETS, net->proc_net);
		return -ENOMEM;
	}
	return 0;
}

void sdp_proc_remove(struct net *net)
{
	remove_proc_entry(SDP_PROC_STATS, net->proc_net);
	remove_proc_entry(SDP_PROC_SOCKETS, net->proc_net);
}
