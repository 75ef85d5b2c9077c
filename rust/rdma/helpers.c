// SPDX-License-Identifier: GPL-2.0
/*
 * Wrappers of ib_core: devices, queue pairs, DMA, memory regions.
 * helpers.h has the declarations.
 */
#include <linux/completion.h>
#include <linux/dma-mapping.h>
#include <linux/random.h>
#include <linux/scatterlist.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_verbs.h>

#include "helpers.h"

bool rust_ib_is_rxe(const struct ib_device *device)
{
	return device->ops.driver_id == RDMA_DRIVER_RXE;
}

struct ib_pd *rust_ib_alloc_pd(struct ib_device *device)
{
	return ib_alloc_pd(device, 0);
}

void rust_ib_dealloc_pd(struct ib_pd *pd)
{
	ib_dealloc_pd(pd);
}

struct ib_cq *rust_ib_alloc_cq(struct ib_device *device, void *private,
			       int entries, int comp_vector)
{
	return ib_alloc_cq(device, private, entries, comp_vector,
			   IB_POLL_WORKQUEUE);
}

/*
 * Gives the events of a new queue to @event, and its work to @work. The rest of
 * ib_core goes on as with a queue that it polls in its workqueue: a drain waits
 * for its markers. The memory into which ib_core would poll goes, a KiB.
 */
void rust_ib_cq_take(struct ib_cq *cq, ib_comp_handler event, work_func_t work)
{
	kfree(cq->wc);
	cq->wc = NULL;
	INIT_WORK(&cq->work, work);
	cq->comp_handler = event;
}

struct ib_cq *rust_ib_cq_of_work(struct work_struct *work)
{
	return container_of(work, struct ib_cq, work);
}

void rust_ib_cq_start_work(struct ib_cq *cq)
{
	queue_work(cq->comp_wq, &cq->work);
}

int rust_ib_poll_cq(struct ib_cq *cq, int entries, struct ib_wc *wc)
{
	return ib_poll_cq(cq, entries, wc);
}

bool rust_ib_cq_arm(struct ib_cq *cq)
{
	return ib_req_notify_cq(cq, IB_CQ_NEXT_COMP |
				IB_CQ_REPORT_MISSED_EVENTS) > 0;
}

/* An event that comes this late starts no work. */
void rust_ib_free_cq(struct ib_cq *cq)
{
	disable_work_sync(&cq->work);
	ib_free_cq(cq);
}

struct ib_qp *rust_ib_create_qp(struct ib_pd *pd, struct ib_qp_init_attr *attr)
{
	return ib_create_qp(pd, attr);
}

void rust_ib_destroy_qp(struct ib_qp *qp)
{
	ib_destroy_qp(qp);
}

/* The last request of a queue that is drained. */
struct marker {
	struct ib_cqe cqe;
	struct completion done;
};

static void marker_done(struct ib_cq *cq, struct ib_wc *wc)
{
	complete(&container_of(wc->wr_cqe, struct marker, cqe)->done);
}

/*
 * As ib_drain_qp(), which would sleep until workers have taken the completions.
 * Here the caller takes them itself, by @look, and sleeps only if that did not
 * reach the end: an event has to tell of the others.
 */
void rust_ib_drain(struct ib_qp *qp, void (*look)(void *context), void *context)
{
	struct marker sent = { .cqe.done = marker_done };
	struct marker received = { .cqe.done = marker_done };
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct ib_rdma_wr send = {
		.wr = { .wr_cqe = &sent.cqe, .opcode = IB_WR_RDMA_WRITE },
	};
	struct ib_recv_wr receive = { .wr_cqe = &received.cqe };
	bool sends, receives;

	if (qp->device->ops.drain_sq || qp->device->ops.drain_rq) {
		/* The driver knows more about its queues. Its markers need events. */
		look(context);
		ib_drain_qp(qp);
		return;
	}
	init_completion(&sent.done);
	init_completion(&received.done);
	/* Nothing comes from a queue that refuses the marker. */
	if (ib_modify_qp(qp, &attr, IB_QP_STATE))
		return;
	sends = !ib_post_send(qp, &send.wr, NULL);
	receives = !ib_post_recv(qp, &receive, NULL);
	look(context);
	if (sends)
		wait_for_completion(&sent.done);
	if (receives)
		wait_for_completion(&received.done);
}

int rust_ib_post_send(struct ib_qp *qp, const struct ib_send_wr *wr)
{
	return ib_post_send(qp, wr, NULL);
}

int rust_ib_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr)
{
	return ib_post_recv(qp, wr, NULL);
}

u64 rust_ib_dma_map_single(struct ib_device *device, void *memory, size_t size,
			   int direction)
{
	return ib_dma_map_single(device, memory, size, direction);
}

int rust_ib_dma_mapping_error(struct ib_device *device, u64 addr)
{
	return ib_dma_mapping_error(device, addr);
}

void rust_ib_dma_unmap_single(struct ib_device *device, u64 addr, size_t size,
			      int direction)
{
	ib_dma_unmap_single(device, addr, size, direction);
}

void rust_ib_dma_sync_for_cpu(struct ib_device *device, u64 addr, size_t size,
			      int direction)
{
	ib_dma_sync_single_for_cpu(device, addr, size, direction);
}

void rust_ib_dma_sync_for_device(struct ib_device *device, u64 addr, size_t size,
				 int direction)
{
	ib_dma_sync_single_for_device(device, addr, size, direction);
}

/* The room for names in device.rs. */
static_assert(IB_DEVICE_NAME_MAX == 64);

/* @name has room for IB_DEVICE_NAME_MAX. Of a device that is renamed now it may be both. */
void rust_ib_device_name(const struct ib_device *device, char *name)
{
	strscpy(name, device->name, IB_DEVICE_NAME_MAX);
}

bool rust_ib_device_speaks_ib_cm(struct ib_device *device)
{
	u32 port;

	rdma_for_each_port(device, port)
		if (rdma_cap_ib_cm(device, port))
			return true;
	return false;
}

/*
 * Maps the pages; the first begins at @offset. Adjacent ones share an
 * element of the list, which has room for @count: the fewer there are, the less
 * is to be done for each page. Returns the number of mapped elements, and in
 * @used the number of those to be unmapped.
 */
int rust_ib_dma_map_pages(struct ib_device *device, struct scatterlist *sgl,
			  struct page **pages, unsigned int count,
			  unsigned int offset, size_t len, int direction,
			  unsigned int *used)
{
	unsigned int most = ib_dma_max_seg_size(device);
	unsigned int i, n = 0;

	sg_init_table(sgl, count);
	for (i = 0; i < count; i++) {
		unsigned int part = min_t(size_t, len, PAGE_SIZE - offset);
		struct scatterlist *last = n ? &sgl[n - 1] : NULL;

		if (last && page_to_pfn(pages[i]) == page_to_pfn(pages[i - 1]) + 1 &&
		    last->length + part <= most)
			last->length += part;
		else
			sg_set_page(&sgl[n++], pages[i], part, offset);
		len -= part;
		offset = 0;
	}
	sg_mark_end(&sgl[n - 1]);
	*used = n;
	return ib_dma_map_sg(device, sgl, n, direction);
}

void rust_ib_dma_unmap_sg(struct ib_device *device, struct scatterlist *sgl,
			  unsigned int count, int direction)
{
	ib_dma_unmap_sg(device, sgl, count, direction);
}

bool rust_ib_can_register(struct ib_device *device)
{
	return device->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS;
}

/* Whether the device may carry out a registration twice. */
bool rust_ib_repeats_registrations(struct ib_device *device)
{
	return device->ops.driver_id == RDMA_DRIVER_RXE;
}

void rust_ib_next_key(struct ib_mr *mr)
{
	/* Never 0, so that no key is used twice in a row. */
	ib_update_fast_reg_key(mr, mr->rkey + 1 + get_random_u32_below(U8_MAX));
}

void rust_ib_dereg_mr(struct ib_mr *mr)
{
	ib_dereg_mr(mr);
}
