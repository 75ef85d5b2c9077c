/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Input of bindgen. `bindgen_parameters` selects the parts that
 * `kernel::bindings` lacks.
 */
#include <asm/ioctls.h>
#include <linux/net.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/tcp.h>
#include <linux/sockios.h>
#include <linux/poll.h>
#include <linux/seq_file.h>
#include <linux/workqueue.h>
#include <linux/completion.h>
#include <net/sock.h>
#include <net/net_namespace.h>
#include <rdma/ib_verbs.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_cm.h>
#include <rdma/rdma_cm.h>
#include <linux/sdp.h>
#include <linux/sdp_diag.h>
#include "helpers.h"
#include "zcopy.h"
#include "../../rdma/helpers.h"
#include "../../copier/engine.h"
