/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Input of bindgen. bindgen_parameters selects the parts that
 * kernel::bindings lacks.
 */
#include <asm/ioctls.h>
#include <linux/sockios.h>
#include <linux/sdp.h>
#include <linux/sdp_diag.h>
#include "../../net/ffi/bindings_helper.h"
#include "../../rdma/ffi/bindings_helper.h"
#include "../../copier/ffi/bindings_helper.h"
#include "helpers.h"
#include "zcopy.h"
