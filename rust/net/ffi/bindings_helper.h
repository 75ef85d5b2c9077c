/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Input of bindgen. bindgen_parameters selects the parts that
 * kernel::bindings lacks.
 */
#include <linux/net.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/tcp.h>
#include <linux/poll.h>
#include <linux/seq_file.h>
#include <net/sock.h>
#include <net/net_namespace.h>
#include "helpers.h"
