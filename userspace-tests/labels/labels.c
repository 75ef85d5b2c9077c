// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/sdp_labels: makes the calls of SELinux and Smack to NetLabel for
 * labelling a socket. The harness kernels have neither, and NetLabel labels
 * no socket by itself. A command is
 *
 *   create FD FAMILY     as after socket(FAMILY, ...)
 *   connect FD FAMILY    as in connect() to an address of FAMILY
 *
 * and its error is NetLabel's. The labels are configured by netlink, as on
 * any host.
 */
#include <linux/fs.h>
#include <linux/in6.h>
#include <linux/kprobes.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/uaccess.h>
#include <net/netlabel.h>
#include <net/sock.h>

/* These symbols are exported to built-in code only, so they have to be looked up. */
static typeof(netlbl_sock_setattr) *label_created;
static typeof(netlbl_conn_setattr) *label_connecting;

static void *address_of(const char *name)
{
	struct kprobe probe = { .symbol_name = name };
	void *address;

	if (register_kprobe(&probe))
		return NULL;
	address = probe.addr;
	unregister_kprobe(&probe);
	return address;
}

static int label(struct sock *sk, const char *when, int family)
{
	const struct netlbl_lsm_secattr label = {
		.flags = NETLBL_SECATTR_MLS_LVL,
		.attr.mls.lvl = 1,
	};
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} peer = {};
	int err;

	lock_sock(sk);
	if (!strcmp(when, "create")) {
		err = label_created(sk, family, &label, true);
	} else {
		peer.any.sa_family = family;
		if (family == AF_INET)
			peer.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		else
			peer.v6.sin6_addr = in6addr_loopback;
		err = label_connecting(sk, &peer.any, &label);
	}
	release_sock(sk);
	return err;
}

static ssize_t labels_write(struct file *file, const char __user *from,
			    size_t size, loff_t *position)
{
	char text[40] = {}, when[8];
	struct socket *socket;
	int fd, family, err;

	if (size >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, from, size))
		return -EFAULT;
	if (sscanf(text, "%7s %d %d", when, &fd, &family) != 3)
		return -EINVAL;
	socket = sockfd_lookup(fd, &err);
	if (!socket)
		return err;
	err = label(socket->sk, when, family);
	sockfd_put(socket);
	return err ?: size;
}

static const struct file_operations labels_operations = {
	.owner = THIS_MODULE,
	.write = labels_write,
};

static struct miscdevice labels_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "sdp_labels",
	.fops = &labels_operations,
};

static int __init labels_init(void)
{
	label_created = address_of("netlbl_sock_setattr");
	label_connecting = address_of("netlbl_conn_setattr");
	if (!label_created || !label_connecting)
		return -ENOENT;
	return misc_register(&labels_device);
}

static void __exit labels_exit(void)
{
	misc_deregister(&labels_device);
}

module_init(labels_init);
module_exit(labels_exit);
MODULE_DESCRIPTION("Labels sockets as security modules do");
MODULE_LICENSE("GPL");
