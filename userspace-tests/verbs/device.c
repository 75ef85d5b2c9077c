// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/sdp_verbs, and the list of RDMA devices.
 */
#include "../test-modules/command_device.h"
#include "verbs.h"

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

static int place_run(struct place *place, char *line)
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

static struct miscdevice misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "sdp_verbs",
	.fops = &place_operations,
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
