// SPDX-License-Identifier: GPL-2.0
/*
 * Files for faults.rs. A kernel without debugfs has inline functions instead, which
 * Rust cannot call.
 */
#include <linux/debugfs.h>

#include "helpers.h"

struct dentry *rlo_faults_dir(const char *name, struct dentry *parent)
{
	return debugfs_create_dir(name, parent);
}

void rlo_faults_file(const char *name, struct dentry *dir, u32 *number)
{
	debugfs_create_u32(name, 0600, dir, number);
}

void rlo_faults_remove(struct dentry *dir)
{
	debugfs_remove(dir);
}
