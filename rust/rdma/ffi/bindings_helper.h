/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Input of bindgen. bindgen_parameters selects the parts that
 * kernel::bindings lacks.
 */
#include <linux/completion.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_cm.h>
#include <rdma/rdma_cm.h>
#include "../../net/ffi/helpers.h"
#include "../../rdma/helpers.h"

#ifndef CONFIG_64BIT
#error "the kernel has to be one of 64 bits: addresses of memory and of devices share a type"
#endif
