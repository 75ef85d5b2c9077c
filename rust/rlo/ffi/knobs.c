// SPDX-License-Identifier: GPL-2.0
/*
 * Limits of devices that are made from now on. Small limits show faults of
 * consumers here, before a card with such limits does.
 */
#include <linux/module.h>

#include "helpers.h"

MODULE_VERSION(RLO_VERSION);

struct rlo_knobs rlo_knobs = {
	.max_qp = 65536,
	.max_qp_wr = 16384,
	.max_sge = 16,
	.max_sge_rd = 16,
	.max_rd_atomic = 16,
	.max_cqe = 65535,
	.max_mr_pages = 512,
	.max_inline = 256,
	.max_srq_wr = 16384,
	.inline_bytes = 2097152,
};

#define KNOB(name, text) \
	module_param_named(name, rlo_knobs.name, uint, 0644); \
	MODULE_PARM_DESC(name, text)

KNOB(dma_bits, "width of device addresses, 24 to 64; 0: the kernel's own addresses (default)");
KNOB(no_dma_lkey, "1: no local_dma_lkey");
KNOB(max_qp, "queue pairs of a device");
KNOB(max_qp_wr, "work requests of a queue");
KNOB(max_sge, "pieces of a work request, 2 to 16");
KNOB(max_sge_rd, "pieces of an RDMA Read, 1 to 16");
KNOB(max_rd_atomic, "RDMA Reads of a queue pair under way, 0 to 255");
KNOB(max_cqe, "entries of a completion queue");
KNOB(max_mr_pages, "pages of a memory region, 1 to 4096");
KNOB(max_inline, "bytes of inline data, 0 to 256");
KNOB(max_srq_wr, "work requests of a shared receive queue");
KNOB(no_srq, "1: no shared receive queues");
KNOB(no_mem_mgt, "1: no fast registration");
KNOB(inline_bytes, "bytes that are copied in the poster's context at a time");
