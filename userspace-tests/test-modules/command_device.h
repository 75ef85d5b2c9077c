/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A file of commands: a write is one command and returns at its end, a read gives its answer. An open file keeps the
 * module, so it cannot go while a command runs.
 *
 * One file of a module includes this, registers a misc device with `place_operations`, and defines place_run().
 */
#ifndef SDP_COMMAND_DEVICE_H
#define SDP_COMMAND_DEVICE_H

#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#define COMMAND_MAX	1024

struct place {
	/* A file executes one command at a time; several files work concurrently. */
	struct mutex lock;
	/* The answer of the last command: of kvmalloc(), or none. */
	char *text;
	size_t length;
};

/* Executes the command in `line`, and leaves its answer. With the lock. */
static int place_run(struct place *place, char *line);

static int place_open(struct inode *inode, struct file *file)
{
	struct place *place = kzalloc(sizeof(*place), GFP_KERNEL);

	if (!place)
		return -ENOMEM;
	mutex_init(&place->lock);
	file->private_data = place;
	return stream_open(inode, file);
}

static int place_release(struct inode *inode, struct file *file)
{
	struct place *place = file->private_data;

	kvfree(place->text);
	mutex_destroy(&place->lock);
	kfree(place);
	return 0;
}

static ssize_t place_write(struct file *file, const char __user *from, size_t length,
			   loff_t *position)
{
	struct place *place = file->private_data;
	char *line;
	int err;

	if (!length || length > COMMAND_MAX)
		return -EMSGSIZE;
	line = memdup_user_nul(from, length);
	if (IS_ERR(line))
		return PTR_ERR(line);
	err = mutex_lock_interruptible(&place->lock);
	if (!err) {
		err = place_run(place, strim(line));
		mutex_unlock(&place->lock);
	}
	kfree(line);
	return err ?: length;
}

/* The whole answer of the last command; it can be read once. */
static ssize_t place_read(struct file *file, char __user *to, size_t length, loff_t *position)
{
	struct place *place = file->private_data;
	ssize_t done;

	mutex_lock(&place->lock);
	done = min(length, place->length);
	if (copy_to_user(to, place->text, done))
		done = -EFAULT;
	else
		place->length = 0;
	mutex_unlock(&place->lock);
	return done;
}

static const struct file_operations place_operations = {
	.owner = THIS_MODULE,
	.open = place_open,
	.release = place_release,
	.read = place_read,
	.write = place_write,
};

#endif
