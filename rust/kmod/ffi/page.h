/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SDP_FFI_PAGE_H
#define SDP_FFI_PAGE_H

#include <linux/gfp.h>

/*
 * Buffers of the stream. A cgroup without free memory slows its streams down;
 * the OOM killer is not invoked for bytes that a peer has sent or will wait
 * for.
 */
#define SDP_GFP_PAYLOAD	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

#endif
