/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Input of bindgen. bindgen_parameters selects the parts that
 * kernel::bindings lacks.
 */
#include "../../copier/engine.h"
