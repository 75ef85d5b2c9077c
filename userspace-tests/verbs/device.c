// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/sdp_verbs, and the list of RDMA devices.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "verbs.h"

#define COMMAND_MAX	1024

struct known {
	struct list_head entry;
	struct ib_device *device;
};

static DEFINE_MUTEX(known_lock);
static LIST_HEAD(all_known);

static struct ib_client client;

/* Until the caller puts it, the device's removal waits. */
struct ib_device *vb_device_get(const char *name)
{
	struct ib_device *found = NULL;
	struct known *known;

	mutex_lock(&known_lock);
	list_for_each_entry(known, &all_known, entry)
		if (!strcmp(dev_name(&known->device->dev), name) &&
		    ib_device_try_get(known->device))
			found = known->device;
	mutex_unlock(&known_lock);
	return found;
}

static int client_add(struct ib_device *device)
{
	struct known *known = kzalloc(sizeof(*known), GFP_KERNEL);

	if (!known)
		return -ENOMEM;
	known->device = device;
	mutex_lock(&known_lock);
	list_add(&known->entry, &all_known);
	mutex_unlock(&known_lock);
	ib_set_client_data(device, &client, known);
	return 0;
}

static void client_remove(struct ib_device *device, void *data)
{
	struct known *known = data;

	mutex_lock(&known_lock);
	list_del(&known->entry);
	mutex_unlock(&known_lock);
	kfree(known);
}

static struct ib_client client = {
	.name = "sdp_verbs",
	.add = client_add,
	.remove = client_remove,
};

/* A file executes one command at a time; several files work concurrently. */
struct place {
	struct mutex lock;
	char *text;
	size_t length;
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

	kvfree(place->text);
	mutex_destroy(&place->lock);
	kfree(place);
	return 0;
}

static int run_line(struct place *place, char *line)
{
	struct vb_run *run = kzalloc(sizeof(*run), GFP_KERNEL);
	int err;

	if (!run)
		return -ENOMEM;
	INIT_LIST_HEAD(&run->things);
	INIT_LIST_HEAD(&run->queue_pairs);
	INIT_LIST_HEAD(&run->memories);
	err = vb_command(run, line);
	kvfree(place->text);
	place->text = run->text;
	place->length = run->length;
	kfree(run);
	return err;
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
		err = run_line(place, strim(line));
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

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = place_open,
	.release = place_release,
	.read = place_read,
	.write = place_write,
};

static struct miscdevice misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "sdp_verbs",
	.fops = &operations,
	.mode = 0600,
};

static int __init sdp_verbs_init(void)
{
	int err = ib_register_client(&client);

	if (err)
		return err;
	err = misc_register(&misc);
	if (err)
		ib_unregister_client(&client);
	return err;
}

static void __exit sdp_verbs_exit(void)
{
	misc_deregister(&misc);
	ib_unregister_client(&client);
}

module_init(sdp_verbs_init);
module_exit(sdp_verbs_exit);
MODULE_DESCRIPTION("A judge of RDMA devices");
MODULE_LICENSE("GPL");
