// SPDX-License-Identifier: GPL-2.0
/*
 * Deliberate faults. The judge of the kernel log can only be trusted if each
 * kind of fault has been seen to make it fail. Loading this module with
 * fault=KIND commits exactly that fault.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/timer.h>
#include <net/net_namespace.h>

static char *fault = "none";
module_param(fault, charp, 0);
MODULE_PARM_DESC(fault, "which fault to commit");

static DEFINE_SPINLOCK(lock_a);
static DEFINE_SPINLOCK(lock_b);
static int zero;

static int commit_none(void)
{
	return 0;
}

static int commit_warn(void)
{
	WARN(1, "a warning to order\n");
	return 0;
}

static int commit_oops(void)
{
	*(volatile int *)((unsigned long)zero + 8) = 1;
	return 0;
}

/*
 * The addresses are not stored. The last one may remain on an unused stack,
 * which kmemleak still scans, so several objects are leaked.
 */
static int commit_leak(void)
{
	void *volatile lost;
	int i;

	for (i = 0; i < 4; i++)
		lost = kmalloc(200, GFP_KERNEL);
	lost = NULL;
	return 0;
}

static int commit_use_after_free(void)
{
	volatile char *p = kmalloc(64, GFP_KERNEL);

	kfree((void *)p);
	return p[8] & 0;
}

static int commit_overflow(void)
{
	volatile char *p = kmalloc(64, GFP_KERNEL);

	p[64 + zero] = 1;
	kfree((void *)p);
	return 0;
}

static int commit_shift(void)
{
	volatile int amount = 40 + zero;
	volatile int one = 1;

	one <<= amount;
	return 0;
}

static int commit_atomic_sleep(void)
{
	spin_lock(&lock_a);
	msleep(1);
	spin_unlock(&lock_a);
	return 0;
}

static int commit_lock_order(void)
{
	spin_lock(&lock_a);
	spin_lock(&lock_b);
	spin_unlock(&lock_b);
	spin_unlock(&lock_a);
	spin_lock(&lock_b);
	spin_lock(&lock_a);
	spin_unlock(&lock_a);
	spin_unlock(&lock_b);
	return 0;
}

static int commit_list(void)
{
	LIST_HEAD(head);
	struct list_head entry;

	list_add(&entry, &head);
	list_add(&entry, &head);
	return 0;
}

static void expire(struct timer_list *timer)
{
}

/* A timer that is still armed when its memory is freed. */
static int commit_live_timer(void)
{
	struct timer_list *timer = kzalloc(sizeof(*timer), GFP_KERNEL);

	if (!timer)
		return -ENOMEM;
	timer_setup(timer, expire, 0);
	mod_timer(timer, jiffies + 100 * HZ);
	kfree(timer);
	return 0;
}

static struct task_struct *hanging;
static DECLARE_COMPLETION(release);

static int sleeper(void *unused)
{
	wait_for_completion(&release);
	while (!kthread_should_stop())
		schedule_timeout_interruptible(1);
	return 0;
}

static int commit_hung_task(void)
{
	hanging = kthread_run(sleeper, NULL, "sleeper");
	if (IS_ERR(hanging)) {
		int err = PTR_ERR(hanging);

		hanging = NULL;
		return err;
	}
	return 0;
}

/* The network namespace of the loading process is never freed. */
static int commit_namespace_reference(void)
{
	get_net(current->nsproxy->net_ns);
	return 0;
}

static int commit_device_reference(void)
{
	struct net_device *dev = dev_get_by_name(current->nsproxy->net_ns, "vb");

	return dev ? 0 : -ENODEV;
}

/* It cannot be unloaded, because it holds a reference to itself. */
static int commit_stuck_module(void)
{
	__module_get(THIS_MODULE);
	return 0;
}

static const struct {
	const char *name;
	int (*commit)(void);
} kinds[] = {
	{ "none", commit_none },
	{ "warn", commit_warn },
	{ "oops", commit_oops },
	{ "leak", commit_leak },
	{ "use-after-free", commit_use_after_free },
	{ "overflow", commit_overflow },
	{ "shift", commit_shift },
	{ "atomic-sleep", commit_atomic_sleep },
	{ "lock-order", commit_lock_order },
	{ "list", commit_list },
	{ "live-timer", commit_live_timer },
	{ "hung-task", commit_hung_task },
	{ "namespace-reference", commit_namespace_reference },
	{ "device-reference", commit_device_reference },
	{ "stuck-module", commit_stuck_module },
};

static int __init faults_init(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(kinds[i].name, fault))
			return kinds[i].commit();
	return -EINVAL;
}

static void __exit faults_exit(void)
{
	if (!hanging)
		return;
	complete(&release);
	kthread_stop(hanging);
}

module_init(faults_init);
module_exit(faults_exit);
MODULE_DESCRIPTION("Faults to order, for testing the judge of the kernel log");
MODULE_LICENSE("GPL");
