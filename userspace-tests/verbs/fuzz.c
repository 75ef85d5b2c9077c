// SPDX-License-Identifier: GPL-2.0
#include "verbs.h"
int vb_fuzz(struct vb_run *run, char *words){return -EOPNOTSUPP;}
