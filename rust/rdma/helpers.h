/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A function for each macro or inline function of ib_core that Rust needs.
 */
#ifndef RDMA_HELPERS_H
#define RDMA_HELPERS_H

#include <linux/socket.h>
#include <linux/types.h>
#include <linux/workqueue.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

struct page;
struct rust_interval;
struct scatterlist;
struct user_struct;

void rust_ib_device_name(const struct ib_device *device, char *name);
bool rust_ib_is_rxe(const struct ib_device *device);
struct ib_pd *rust_ib_alloc_pd(struct ib_device *device);
void rust_ib_dealloc_pd(struct ib_pd *pd);
struct ib_cq *rust_ib_alloc_cq(struct ib_device *device, void *private,
			       int entries, int comp_vector);
void rust_ib_cq_take(struct ib_cq *cq, ib_comp_handler event, work_func_t work);
struct ib_cq *rust_ib_cq_of_work(struct work_struct *work);
void rust_ib_cq_start_work(struct ib_cq *cq);
int rust_ib_poll_cq(struct ib_cq *cq, int entries, struct ib_wc *wc);
/* Whether there are completions that no event announces. */
bool rust_ib_cq_arm(struct ib_cq *cq);
void rust_ib_free_cq(struct ib_cq *cq);
struct ib_qp *rust_ib_create_qp(struct ib_pd *pd, struct ib_qp_init_attr *attr);
void rust_ib_destroy_qp(struct ib_qp *qp);
void rust_ib_drain(struct ib_qp *qp, void (*look)(void *context), void *context);
int rust_ib_post_send(struct ib_qp *qp, const struct ib_send_wr *wr);
int rust_ib_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr);
u64 rust_ib_dma_map_single(struct ib_device *device, void *memory, size_t size,
			   int direction);
int rust_ib_dma_mapping_error(struct ib_device *device, u64 addr);
void rust_ib_dma_unmap_single(struct ib_device *device, u64 addr, size_t size,
			      int direction);
void rust_ib_dma_sync_for_cpu(struct ib_device *device, u64 addr, size_t size,
			      int direction);
void rust_ib_dma_sync_for_device(struct ib_device *device, u64 addr, size_t size,
				 int direction);
bool rust_ib_device_speaks_ib_cm(struct ib_device *device);
int rust_ib_dma_map_pages(struct ib_device *device, struct scatterlist *sgl,
			  struct page **pages, unsigned int count,
			  unsigned int offset, size_t len, int direction,
			  unsigned int *used);
void rust_ib_dma_unmap_sg(struct ib_device *device, struct scatterlist *sgl,
			  unsigned int count, int direction);
bool rust_ib_can_register(struct ib_device *device);
bool rust_ib_repeats_registrations(struct ib_device *device);
void rust_ib_next_key(struct ib_mr *mr);
void rust_ib_dereg_mr(struct ib_mr *mr);

/* linux/mm.h, linux/uaccess.h: see helpers_mm.c */
unsigned int rust_noio_begin(void);
void rust_noio_end(unsigned int before);
unsigned int rust_reserves_begin(void);
void rust_reserves_end(unsigned int before);
/* Between pages; a program may write to one of them meanwhile */
void rust_copy_bytes(void *to, const void *from, size_t n);
int rust_pin_user_pages(unsigned long addr, int count, bool write,
			struct page **pages);
int rust_get_user_pages(unsigned long addr, int count, struct page **pages);
void rust_put_user_pages(struct page **pages, unsigned int count);
int rust_count_borrowable(struct page **pages, int count);
int rust_account_pinned(size_t len, struct user_struct **user,
			unsigned int *pages);
void rust_unaccount_pinned(struct user_struct *user, unsigned int pages);
const struct user_struct *rust_current_user(void);
void rust_get_page(struct page *page);
void rust_put_page(struct page *page);
size_t rust_page_size(struct page *page);
void *rust_page_address(struct page *page);
void rust_copy_shared(void *to, const void *from, size_t len);
unsigned long rust_copy_to_user(void __user *to, const void *from, size_t n);

/* The translation cache: see helpers_cache.c */
unsigned long rust_current_mm(void);
bool rust_may_access(bool write);
bool rust_is_cacheable(unsigned long start, unsigned long len);
struct rust_interval *rust_interval_new(unsigned long start, unsigned long len,
					void (*changed)(void *owner, bool ended), void *owner);
void rust_interval_free(struct rust_interval *interval);
extern struct workqueue_struct *rust_cache_queue;
int rust_cache_begin(work_func_t sweep, unsigned long (*count)(void),
		     unsigned long (*give)(unsigned long pages));
void rust_cache_sweep(unsigned int msecs);
void rust_cache_stop(void);
void rust_cache_end(void);
bool rust_ib_dma_needs_sync(struct ib_device *device, struct scatterlist *sgl,
			    unsigned int entries);
unsigned int rust_ib_dma_part(struct scatterlist *sgl, unsigned int entries,
			      size_t at, size_t len, struct scatterlist *to);

/* rdma/ib_cm.h, rdma/rdma_cm.h: see helpers_cm.c */
struct rdma_cm_id *rust_rdma_create_id(struct net *net,
				       rdma_cm_event_handler handler, void *context);
struct net *rust_cm_req_net(struct ib_cm_id *id, const struct ib_cm_event *event,
			    const struct sockaddr *daddr, int *device);
bool rust_cm_req_is_roce(struct ib_cm_id *id, const struct ib_cm_event *event);
int rust_device_local_address(struct ib_device *device, struct net *net,
			      int family, struct sockaddr_storage *out);
int rust_route_bind(struct rdma_cm_id *id, struct sockaddr_storage *address);
void rust_route_set_device(struct rdma_cm_id *id, int device);
void rust_route_set_peer(struct rdma_cm_id *id,
			 const struct __kernel_sockaddr_storage *peer);
bool rust_route_is_in_net(const struct rdma_cm_id *id, struct net *net, int device);

#endif /* RDMA_HELPERS_H */
