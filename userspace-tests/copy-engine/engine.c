// SPDX-License-Identifier: GPL-2.0
/*
 * A copy engine in software, with fault injection: a channel of dmaengine
 * with a thread as its hardware, so that its processor time can be measured. For
 * tests of users of such channels.
 *
 * Parameters may be written at any time:
 *   fail_prepare: number of descriptors that are refused.
 *   fail_copies: number of copies that write half of the bytes, wrong ones,
 *     and fail.
 *   stall: nothing is executed, until it is 0 and something is issued again.
 *   attentive: the thread does not sleep between copies, so that a doorbell
 *     costs as little as hardware's. It needs a processor of its own.
 * Results: copies, copied (bytes), terminated, most (concurrent descriptors,
 * since 0 was written).
 */
#include <linux/bottom_half.h>
#include <linux/dma-direct.h>
#include <linux/dma-mapping.h>
#include <linux/dmaengine.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/slab.h>

#define NAME "sdp_copy_engine"

static unsigned int fail_prepare;
module_param(fail_prepare, uint, 0644);
static unsigned int fail_copies;
module_param(fail_copies, uint, 0644);
static bool stall;
module_param(stall, bool, 0644);
static bool attentive;
module_param(attentive, bool, 0644);

static unsigned long copies;
module_param(copies, ulong, 0444);
static unsigned long copied;
module_param(copied, ulong, 0444);
static unsigned long terminated;
module_param(terminated, ulong, 0444);
static unsigned int most;
module_param(most, uint, 0644);

/* One descriptor. */
struct job {
	struct dma_async_tx_descriptor txd;
	struct list_head entry;
	dma_addr_t from;
	dma_addr_t to;
	size_t len;
};

struct engine {
	struct dma_device dma;
	struct dma_chan chan;
	spinlock_t lock;
	struct list_head submitted;
	struct list_head issued;
	/* Submitted and not finished. */
	unsigned int under_way;
	struct kthread_worker *thread;
	struct kthread_work work;
	/* A caller waits until the thread does nothing. */
	atomic_t awaited;
	/* The driver is being removed. */
	bool is_gone;
	struct completion released;
};

static struct engine *to_engine(struct dma_chan *chan)
{
	return container_of(chan, struct engine, chan);
}

static bool take(unsigned int *number)
{
	unsigned int left = READ_ONCE(*number);

	while (left) {
		unsigned int now = cmpxchg(number, left, left - 1);

		if (now == left)
			return true;
		left = now;
	}
	return false;
}

static dma_cookie_t submit(struct dma_async_tx_descriptor *txd)
{
	struct job *job = container_of(txd, struct job, txd);
	struct engine *engine = to_engine(txd->chan);
	unsigned long flags;

	spin_lock_irqsave(&engine->lock, flags);
	txd->cookie = max(txd->chan->cookie + 1, DMA_MIN_COOKIE);
	txd->chan->cookie = txd->cookie;
	list_add_tail(&job->entry, &engine->submitted);
	most = max(most, ++engine->under_way);
	spin_unlock_irqrestore(&engine->lock, flags);
	return txd->cookie;
}

static struct dma_async_tx_descriptor *prepare(struct dma_chan *chan, dma_addr_t to,
					       dma_addr_t from, size_t len, unsigned long flags)
{
	struct job *job;

	if (READ_ONCE(to_engine(chan)->is_gone) || take(&fail_prepare))
		return NULL;
	job = kzalloc_obj(*job, GFP_NOWAIT);
	if (!job)
		return NULL;
	dma_async_tx_descriptor_init(&job->txd, chan);
	job->txd.tx_submit = submit;
	job->txd.flags = flags;
	job->from = from;
	job->to = to;
	job->len = len;
	return &job->txd;
}

/* Called as from a tasklet, like in most drivers. */
static void finish(struct engine *engine, struct job *job, enum dmaengine_tx_result how)
{
	struct dmaengine_result result = { .result = how };
	struct dma_async_tx_descriptor *txd = &job->txd;

	spin_lock_irq(&engine->lock);
	engine->under_way--;
	spin_unlock_irq(&engine->lock);
	WRITE_ONCE(engine->chan.completed_cookie, txd->cookie);
	local_bh_disable();
	if (txd->callback_result)
		txd->callback_result(txd->callback_param, &result);
	else if (txd->callback)
		txd->callback(txd->callback_param);
	local_bh_enable();
	kfree(job);
}

static enum dmaengine_tx_result carry_out(struct engine *engine, struct job *job)
{
	struct device *dev = engine->dma.dev;
	void *from = phys_to_virt(dma_to_phys(dev, job->from));
	void *to = phys_to_virt(dma_to_phys(dev, job->to));

	if (take(&fail_copies)) {
		memset(to, 0x5a, job->len / 2);
		return DMA_TRANS_WRITE_FAILED;
	}
	memcpy(to, from, job->len);
	copies++;
	copied += job->len;
	return DMA_TRANS_NOERROR;
}

static struct job *next(struct engine *engine)
{
	struct job *job;

	/* A look at an empty list must not delay those that fill it. */
	if (list_empty_careful(&engine->issued))
		return NULL;
	spin_lock_irq(&engine->lock);
	job = list_first_entry_or_null(&engine->issued, struct job, entry);
	if (job)
		list_del(&job->entry);
	spin_unlock_irq(&engine->lock);
	return job;
}

/* Whether the thread should look for more requests instead of sleeping. */
static bool is_attentive(struct engine *engine)
{
	return READ_ONCE(attentive) && !READ_ONCE(engine->is_gone) && !atomic_read(&engine->awaited);
}

static void work(struct kthread_work *work)
{
	struct engine *engine = container_of(work, struct engine, work);
	struct job *job;

	while (!READ_ONCE(stall)) {
		job = next(engine);
		if (job)
			finish(engine, job, carry_out(engine, job));
		else if (!is_attentive(engine))
			return;
		else
			cpu_relax();
		cond_resched();
	}
}

static void issue(struct dma_chan *chan)
{
	struct engine *engine = to_engine(chan);
	unsigned long flags;

	spin_lock_irqsave(&engine->lock, flags);
	list_splice_tail_init(&engine->submitted, &engine->issued);
	kthread_queue_work(engine->thread, &engine->work);
	spin_unlock_irqrestore(&engine->lock, flags);
}

static enum dma_status status(struct dma_chan *chan, dma_cookie_t cookie,
			      struct dma_tx_state *state)
{
	dma_cookie_t done = READ_ONCE(chan->completed_cookie);

	dma_set_tx_state(state, done, chan->cookie, 0);
	return dma_async_is_complete(cookie, done, chan->cookie);
}

/* Takes all jobs that are not being executed. */
static void take_all(struct engine *engine, struct list_head *jobs)
{
	unsigned long flags;

	spin_lock_irqsave(&engine->lock, flags);
	list_splice_tail_init(&engine->issued, jobs);
	list_splice_tail_init(&engine->submitted, jobs);
	spin_unlock_irqrestore(&engine->lock, flags);
}

static int terminate(struct dma_chan *chan)
{
	struct engine *engine = to_engine(chan);
	struct job *job, *after;
	unsigned long flags;
	unsigned int count;
	LIST_HEAD(jobs);

	take_all(engine, &jobs);
	count = list_count_nodes(&jobs);
	spin_lock_irqsave(&engine->lock, flags);
	engine->under_way -= count;
	terminated += count;
	spin_unlock_irqrestore(&engine->lock, flags);
	list_for_each_entry_safe(job, after, &jobs, entry)
		kfree(job);
	return 0;
}

static void synchronize(struct dma_chan *chan)
{
	struct engine *engine = to_engine(chan);

	atomic_inc(&engine->awaited);
	kthread_flush_work(&engine->work);
	atomic_dec(&engine->awaited);
}

static int alloc_resources(struct dma_chan *chan)
{
	return 1;
}

static void free_resources(struct dma_chan *chan)
{
	terminate(chan);
	synchronize(chan);
}

static void release(struct dma_device *dma)
{
	complete(&container_of(dma, struct engine, dma)->released);
}

static int probe(struct platform_device *pdev)
{
	struct engine *engine;
	int ret;

	ret = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (ret)
		return ret;
	engine = kzalloc_obj(*engine);
	if (!engine)
		return -ENOMEM;
	engine->thread = kthread_run_worker(0, NAME);
	if (IS_ERR(engine->thread)) {
		ret = PTR_ERR(engine->thread);
		kfree(engine);
		return ret;
	}
	spin_lock_init(&engine->lock);
	INIT_LIST_HEAD(&engine->submitted);
	INIT_LIST_HEAD(&engine->issued);
	kthread_init_work(&engine->work, work);
	init_completion(&engine->released);
	engine->chan.device = &engine->dma;
	engine->chan.cookie = DMA_MIN_COOKIE;
	engine->chan.completed_cookie = DMA_MIN_COOKIE;
	INIT_LIST_HEAD(&engine->dma.channels);
	list_add_tail(&engine->chan.device_node, &engine->dma.channels);
	dma_cap_set(DMA_MEMCPY, engine->dma.cap_mask);
	engine->dma.dev = &pdev->dev;
	engine->dma.device_alloc_chan_resources = alloc_resources;
	engine->dma.device_free_chan_resources = free_resources;
	engine->dma.device_prep_dma_memcpy = prepare;
	engine->dma.device_issue_pending = issue;
	engine->dma.device_tx_status = status;
	engine->dma.device_terminate_all = terminate;
	engine->dma.device_synchronize = synchronize;
	engine->dma.device_release = release;
	ret = dma_async_device_register(&engine->dma);
	if (ret) {
		kthread_destroy_worker(engine->thread);
		kfree(engine);
		return ret;
	}
	platform_set_drvdata(pdev, engine);
	return 0;
}

/* Like removed hardware: pending requests are aborted, and no more are accepted. */
static void remove(struct platform_device *pdev)
{
	struct engine *engine = platform_get_drvdata(pdev);
	struct job *job, *after;
	LIST_HEAD(jobs);

	WRITE_ONCE(engine->is_gone, true);
	take_all(engine, &jobs);
	list_for_each_entry_safe(job, after, &jobs, entry)
		finish(engine, job, DMA_TRANS_ABORTED);
	dma_async_device_unregister(&engine->dma);
	/* Waits until the last user has released it. */
	wait_for_completion(&engine->released);
	/*
	 * dma_release_channel() reads the channel after it has dropped the last
	 * reference. It holds the list's mutex meanwhile, which these take.
	 */
	dmaengine_get();
	dmaengine_put();
	kthread_destroy_worker(engine->thread);
	kfree(engine);
}

static struct platform_driver driver = {
	.probe = probe,
	.remove = remove,
	.driver = { .name = NAME },
};

static struct platform_device *pdev;

static int __init engine_init(void)
{
	int ret = platform_driver_register(&driver);

	if (ret)
		return ret;
	pdev = platform_device_register_simple(NAME, PLATFORM_DEVID_NONE, NULL, 0);
	if (!IS_ERR(pdev))
		return 0;
	platform_driver_unregister(&driver);
	return PTR_ERR(pdev);
}
module_init(engine_init);

static void __exit engine_exit(void)
{
	platform_device_unregister(pdev);
	platform_driver_unregister(&driver);
}
module_exit(engine_exit);

MODULE_DESCRIPTION("A copy engine in software, with faults on request");
MODULE_LICENSE("GPL");
