// SPDX-License-Identifier: GPL-2.0
#include "verbs.h"
int vb_speed(struct vb_run *run, char *words){return -EOPNOTSUPP;}
int vb_latency(struct vb_run *run, char *words){return -EOPNOTSUPP;}
int vb_copy(struct vb_run *run, char *words){return -EOPNOTSUPP;}
int vb_fuzz(struct vb_run *run, char *words){return -EOPNOTSUPP;}
