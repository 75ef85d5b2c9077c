// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/sdp_peer, and the removal of RDMA devices.
 *
 * One open file is one peer with at most one connection. Closing it, or the death of the program,
 * ends and frees everything. A write is one command and fails with an errno; a read is one event;
 * poll tells when there is one.
 *
 * Locks, outermost first: all_peers_lock, command, qp_lock.
 */
#include <linux/err.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/xarray.h>

#include "peer.h"

/* The words of a command, and the longest message in hexadecimal. */
#define COMMAND_MAX	(2 * PEER_MESSAGE_MAX + 256)

/*
 * The peers of all open files, by number. The lock is held while a peer is
 * taken down, so that the removal of a device waits for it.
 */
static DEFINE_MUTEX(all_peers_lock);
static DEFINE_XARRAY_ALLOC1(all_peers);
static u32 last_number;

static struct ib_client client;

/*
 * A device is usable from its addition until its removal begins. A command
 * checks this with its lock held, and the removal takes that lock for each
 * peer afterwards. So either the command sees the removal, or the removal
 * sees the objects that the command has made.
 */
bool peer_device_usable(struct ib_device *device)
{
	return ib_get_client_data(device, &client);
}

static int client_add(struct ib_device *device)
{
	if (!rdma_cap_ib_cm(device, rdma_start_port(device)))
		return -EOPNOTSUPP;
	ib_set_client_data(device, &client, device);
	return 0;
}

static void client_remove(struct ib_device *device, void *data)
{
	unsigned long number;
	struct peer *peer;

	ib_set_client_data(device, &client, NULL);
	mutex_lock(&all_peers_lock);
	xa_for_each(&all_peers, number, peer) {
		mutex_lock(&peer->command);
		if (peer->device == device) {
			peer_take_down(peer);
			peer_report(peer, "removed");
		}
		mutex_unlock(&peer->command);
	}
	mutex_unlock(&all_peers_lock);
}

static struct ib_client client = {
	.name = "sdp_peer",
	.add = client_add,
	.remove = client_remove,
};

/* The context of a CM id. */
void *peer_context(const struct peer *peer)
{
	return xa_mk_value(peer->number);
}

/* The peer of that context, unless it was removed. Process context. */
struct peer *peer_get(const void *context)
{
	struct peer *peer;

	xa_lock(&all_peers);
	peer = xa_load(&all_peers, xa_to_value(context));
	if (peer)
		kref_get(&peer->references);
	xa_unlock(&all_peers);
	return peer;
}

static void peer_free(struct kref *references)
{
	struct peer *peer = container_of(references, struct peer, references);

	peer_events_free(peer);
	mutex_destroy(&peer->qp_lock);
	mutex_destroy(&peer->command);
	kfree(peer);
}

void peer_put(struct peer *peer)
{
	kref_put(&peer->references, peer_free);
}

static int peer_open(struct inode *inode, struct file *file)
{
	struct peer *peer = kzalloc(sizeof(*peer), GFP_KERNEL);
	int err;

	if (!peer)
		return -ENOMEM;
	kref_init(&peer->references);
	mutex_init(&peer->command);
	mutex_init(&peer->qp_lock);
	peer_settings_init(&peer->settings);
	peer_events_init(peer);
	INIT_LIST_HEAD(&peer->memories);
	mutex_lock(&all_peers_lock);
	/* A number is reused only after all others. */
	err = xa_alloc_cyclic(&all_peers, &peer->number, peer, xa_limit_31b, &last_number,
			      GFP_KERNEL);
	mutex_unlock(&all_peers_lock);
	if (err < 0) {
		peer_put(peer);
		return err;
	}
	file->private_data = peer;
	return stream_open(inode, file);
}

static int peer_release(struct inode *inode, struct file *file)
{
	struct peer *peer = file->private_data;

	mutex_lock(&all_peers_lock);
	/* From now on no handler finds it. */
	xa_erase(&all_peers, peer->number);
	mutex_lock(&peer->command);
	peer_take_down(peer);
	mutex_unlock(&peer->command);
	mutex_unlock(&all_peers_lock);
	peer_put(peer);
	return 0;
}

static ssize_t peer_write(struct file *file, const char __user *from, size_t length,
			  loff_t *position)
{
	struct peer *peer = file->private_data;
	char *line;
	int err;

	if (!length || length > COMMAND_MAX)
		return -EMSGSIZE;
	line = kvmalloc(length + 1, GFP_KERNEL);
	if (!line)
		return -ENOMEM;
	err = -EFAULT;
	if (copy_from_user(line, from, length))
		goto free;
	line[length] = '\0';
	strim(line);
	err = mutex_lock_interruptible(&peer->command);
	if (err)
		goto free;
	err = peer_command(peer, line);
	mutex_unlock(&peer->command);
free:
	kvfree(line);
	return err ?: length;
}

static ssize_t peer_read(struct file *file, char __user *to, size_t length, loff_t *position)
{
	struct peer *peer = file->private_data;
	ssize_t done;

	for (;;) {
		done = peer_event_read(peer, to, length);
		if (done)
			return done;
		if (file->f_flags & O_NONBLOCK)
			return -EAGAIN;
		if (wait_event_interruptible(peer->event_wait, peer_event_waiting(peer)))
			return -ERESTARTSYS;
	}
}

static __poll_t peer_poll(struct file *file, struct poll_table_struct *table)
{
	struct peer *peer = file->private_data;
	__poll_t mask = EPOLLOUT | EPOLLWRNORM;

	poll_wait(file, &peer->event_wait, table);
	if (peer_event_waiting(peer))
		mask |= EPOLLIN | EPOLLRDNORM;
	return mask;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = peer_open,
	.release = peer_release,
	.read = peer_read,
	.write = peer_write,
	.poll = peer_poll,
};

static struct miscdevice misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "sdp_peer",
	.fops = &operations,
	.mode = 0600,
};

static int __init sdp_peer_init(void)
{
	int err;

	err = ib_register_client(&client);
	if (err)
		return err;
	err = misc_register(&misc);
	if (err)
		ib_unregister_client(&client);
	return err;
}

static void __exit sdp_peer_exit(void)
{
	misc_deregister(&misc);
	ib_unregister_client(&client);
}

module_init(sdp_peer_init);
module_exit(sdp_peer_exit);
MODULE_DESCRIPTION("The other end of an SDP connection, played by a script");
MODULE_LICENSE("GPL");
