// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/sdp_kernel_sockets: a write is one command and returns at its end, a read gives its
 * answer. An open file keeps the module, so it cannot go while something runs.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "sockets.h"

#define COMMAND_MAX	512

struct place {
	/* A file executes one command at a time; several files work concurrently. */
	struct mutex lock;
	size_t length;
	char answer[KS_ANSWER_MAX];
};

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
		place->length = 0;
		err = ks_command(strim(line), place->answer);
		if (!err)
			place->length = strlen(place->answer);
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
	if (copy_to_user(to, place->answer, done))
		done = -EFAULT;
	else
		place->length = 0;
	mutex_unlock(&place->lock);
	return done;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = place_open,
	.release = place_release,
	.read = place_read,
	.write = place_write,
};

static struct miscdevice misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "sdp_kernel_sockets",
	.fops = &operations,
	.mode = 0600,
};

module_misc_device(misc);
MODULE_DESCRIPTION("Loads over sockets inside the kernel");
MODULE_LICENSE("GPL");
