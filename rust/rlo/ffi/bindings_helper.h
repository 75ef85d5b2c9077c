/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What bindgen reads. `bindgen_parameters` says which of it is kept: the parts
 * that `kernel::bindings` does not have.
 */
#include <linux/workqueue.h>
#include <linux/debugfs.h>
#include <rdma/ib_verbs.h>
#include <rdma/ib_cache.h>
#include "helpers.h"
