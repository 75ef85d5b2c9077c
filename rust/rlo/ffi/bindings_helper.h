/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The input of bindgen. `bindgen_parameters` selects the parts that
 * `kernel::bindings` lacks.
 */
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/ib_cache.h>
#include "helpers.h"
