/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parts of the kernel that Rust cannot call or name: macros, inline
 * functions, and C objects that only C accesses.
 */
#ifndef RLO_HELPERS_H
#define RLO_HELPERS_H

#include <linux/hrtimer.h>
#include <linux/irq_work.h>
#include <linux/list.h>
#include <linux/llist.h>
#include <linux/netdevice.h>
#include <linux/skbuff.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

#include "../../copier/engine.h"

/* A work item on the module's queue, and a timer that queues it. */
struct rlo_task {
	struct work_struct work;
	struct hrtimer timer;
	void (*run)(struct rlo_task *task);
};

int rlo_queue_create(void);
void rlo_queue_destroy(void);

/*
 * run is called in process context, and never concurrently with itself. With
 * stops it may stop tasks that were made without stops.
 */
void rlo_task_init(struct rlo_task *task, void (*run)(struct rlo_task *task), bool stops);
/* From any context. */
void rlo_task_kick(struct rlo_task *task);
/* From any context; a later call replaces the time. */
void rlo_task_kick_after(struct rlo_task *task, u64 nanoseconds);
/* Sleeps until run has returned; there must be no more kicks. */
void rlo_task_stop(struct rlo_task *task);

/* A softirq. */
struct rlo_soft {
	struct irq_work irq;
	struct work_struct work;
	void (*run)(struct rlo_soft *soft);
};

/* run may not sleep, and is never called concurrently with itself. */
void rlo_soft_init(struct rlo_soft *soft, void (*run)(struct rlo_soft *soft));
/* From any context. */
void rlo_soft_kick(struct rlo_soft *soft);
/* Sleeps until run has returned; there must be no more kicks. */
void rlo_soft_stop(struct rlo_soft *soft);

/*
 * Acts as the interrupt of a completion queue: calls its comp_handler with
 * interrupts disabled, in hardirq context or at the end of a post.
 */
struct rlo_bell {
	struct irq_work work;
	/* Instead of it, where an irq_work has no interrupt. */
	struct work_struct soft;
	struct llist_node node;
	/* In the list of a processor. */
	atomic_t is_held;
	/* Handlers that run, or will, by that list. */
	atomic_t calls;
	/* The same by the softirq. */
	atomic_t late;
	struct ib_cq *cq;
};

void rlo_bell_init(struct rlo_bell *bell, struct ib_cq *cq);
/* From any context. */
void rlo_bell_ring(struct rlo_bell *bell);
/* Sleeps until the handler has returned. */
void rlo_bell_sync(struct rlo_bell *bell);
/*
 * Bells that ring on this processor wait until rlo_bells_release(). Returns
 * false if the caller may hold a lock that a handler takes; then they do not
 * wait. The caller must not sleep in between.
 */
bool rlo_bells_hold(void);
/* The same in a softirq, for a caller that was not called by a consumer. */
bool rlo_bells_hold_in_softirq(void);
void rlo_bells_release(void);

u64 rlo_now(void);
/* In process context. */
void rlo_cond_resched(void);
/* The ends may overlap, and others may write to the memory concurrently. */
void rlo_copy_run(void *to, const void *from, size_t len);
u64 rlo_random(void);

/*
 * The kernel address of a device address, or NULL if it is not in the direct
 * map. dev is NULL for devices that use kernel addresses.
 */
void *rlo_address(struct device *dev, u64 address, size_t len);
/*
 * Whether every page of such a range exists. A consumer's own address is trusted;
 * one that a peer chose may be in a hole of the direct map.
 */
bool rlo_pages_exist(struct device *dev, u64 address, size_t len);

/* For irq_lock.rs before Linux 7.3; lock is a spinlock_t. */
unsigned long rlo_spin_lock_irqsave(void *lock);
void rlo_spin_unlock_irqrestore(void *lock, unsigned long flags);
bool rlo_spin_trylock_irqsave(void *lock, unsigned long *flags);

struct rlo_device_object;

/*
 * The path of a queue pair or of a datagram. Holds the GID's entry, if there
 * is one: on InfiniBand LIDs are enough.
 */
struct rlo_av {
	const struct ib_gid_attr *sgid_attr;
	/* The object of our own port. It outlives this struct. */
	struct rlo_device_object *object;
	union ib_gid sgid;
	union ib_gid dgid;
	/* RoCE: hardware addresses. */
	u8 smac[ETH_ALEN];
	u8 dmac[ETH_ALEN];
	/* InfiniBand: LIDs. slid is 0 on RoCE. dlid 0: the owner of the GID. */
	u16 slid;
	u16 dlid;
	/*
	 * RoCE: the VLAN of the interface of the source's GID; if the path leads
	 * back to its own port, of the destination's GID. Or RLO_NO_VLAN.
	 */
	u16 vlan;
	u8 traffic_class;
	u8 hop_limit;
	u8 has_grh;
};

#define RLO_NO_VLAN 0xffff

/*
 * -EINVAL if the attributes name no GID and the port is not an InfiniBand
 * port, -ENODEV if the GID's interface is gone.
 */
int rlo_av_init(struct rlo_av *av, struct rlo_device_object *object,
		const struct rdma_ah_attr *attr);
/* The path to the owner of a GID, from an InfiniBand port. */
void rlo_av_search(struct rlo_av *av, struct rlo_device_object *object,
		   const union ib_gid *dgid);
/*
 * Looks up the hardware address in the neighbour tables, if only the peer's
 * GID is known. In process context.
 */
void rlo_av_resolve(struct rlo_av *av);
void rlo_av_put(struct rlo_av *av);

enum rlo_frame_kind {
	RLO_FRAME_PING = 1,
	RLO_FRAME_PONG = 2,
	RLO_FRAME_DATAGRAM = 3,
};

#define RLO_FRAME_IMMEDIATE 1
#define RLO_FRAME_SOLICITED 2
/* InfiniBand: the receiver gets the GIDs as well. */
#define RLO_FRAME_GRH 4
/* The receiving interface is in a VLAN. Set by the receiver alone. */
#define RLO_FRAME_VLAN 8

/*
 * The header of frames: probes of reachability, and datagrams. Numbers are in
 * host byte order, because only this machine reads them.
 */
struct rlo_frame {
	u32 magic;
	u16 kind;
	u16 flags;
	u64 nonce;
	u64 token;
	union ib_gid sgid;
	union ib_gid dgid;
	u32 src_qpn;
	u32 dest_qpn;
	u32 qkey;
	u32 immediate;
	u32 len;
	u8 traffic_class;
	u8 hop_limit;
	u16 pkey;
	/* 0 between RoCE ports. */
	u16 slid;
	u16 dlid;
	u16 vlan;
	u16 reserved;
};

#define RLO_FRAME_MAGIC 0x726c6f31
/* The maximum length of a payload: the largest MTU of InfiniBand. */
#define RLO_FRAME_PAYLOAD 4096

/*
 * A frame with room for a payload, or NULL: no memory, the interface is gone
 * or down, or the payload is too long for it. From any context.
 */
struct sk_buff *rlo_frame_new(const struct rlo_av *av, const struct rlo_frame *head,
			      void **payload);
/*
 * The payload of a received frame, or NULL without memory. Only the handler of
 * the frame has it.
 */
const void *rlo_frame_payload(struct sk_buff *skb, const struct rlo_frame *head);
/* Answers a received frame along the reverse path. */
void rlo_frame_answer(struct sk_buff *to, const struct rlo_frame *head);
/* With interrupts enabled. Consumes the frame. */
void rlo_frame_send(struct sk_buff *skb);
/* Frees a frame that is not sent. */
void rlo_frame_drop(struct sk_buff *skb);

/*
 * Writes the 40 bytes before a datagram's payload: the IP header of RoCE v2,
 * or the GRH of InfiniBand, if there is one. grh is aligned to 8 bytes.
 */
void rlo_grh_fill(u8 grh[40], const struct rlo_frame *head);
/* RDMA_NETWORK_IPV4 or RDMA_NETWORK_IPV6. */
u8 rlo_network_type(const struct rlo_frame *head);

int rlo_frames_init(void);
void rlo_frames_exit(void);

struct rlo_device_object {
	struct ib_device ib;
	/* The Rust part; see device.rs. */
	const void *own;
	struct net_device *ndev;
	/* The interface's namespace, with a reference, until the device is registered. */
	struct net *net;
	struct hlist_node by_interface;
	struct hlist_node by_token;
	/* A copy of the Rust part's, for lookups. */
	u64 token;
	/* The port's LID on InfiniBand; 0: the port is a RoCE port. */
	u16 lid;
};

/*
 * LIDs are unique in the machine. The LID of the subnet administrator means
 * the one in the sender's own device.
 */
#define RLO_LID_SM 0xbfff
/* LIDs from here on are multicast groups. */
#define RLO_LID_MULTICAST 0xc000
#define RLO_LID_PERMISSIVE 0xffff

/* The hardware address of the port with that LID. Under RCU. */
bool rlo_lid_address(u16 lid, u8 address[ETH_ALEN]);
void rlo_port_gid(const struct rlo_device_object *object, union ib_gid *gid);

/* Holds the interface, its namespace until the registration, and a LID if the port is an InfiniBand port. */
struct rlo_device_object *rlo_device_alloc(struct net_device *ndev, bool infiniband);
/* Frees a device that was never registered. */
void rlo_device_free(struct rlo_device_object *object);
int rlo_device_register(struct rlo_device_object *object, const char *name,
			struct device *dma_device);
/*
 * Makes the device known to lookups; it receives frames until it is unlisted.
 * That sleeps and releases the interface.
 */
void rlo_device_list(struct rlo_device_object *object, u64 token);
void rlo_device_unlist(struct rlo_device_object *object);
/*
 * The Rust part of the device on an interface, or on one of the first 32 below
 * it, or NULL. Under RCU, and valid until its end.
 */
const void *rlo_device_on(struct net_device *dev);
/* The VLAN of an interface, or of the first one below it that has one, or RLO_NO_VLAN. Under RCU. */
u16 rlo_vlan_of(struct net_device *dev);
/* The Rust part of the device with the token in its answers, or NULL. As above. */
const void *rlo_device_with_token(u64 token);
void rlo_port_state(struct ib_device *ib, struct ib_port_attr *attr);
int rlo_processors(void);
/* The module becomes the owner of the functions in the table. */
void rlo_set_ops(struct ib_device *ib, const struct ib_device_ops *ops);
void rlo_immutable(struct ib_port_immutable *immutable, const struct ib_port_attr *attr);
void rlo_guid(struct net_device *ndev, __be64 *guid);

struct device *rlo_bus_create(int id, unsigned int bits);
void rlo_bus_destroy(struct device *dev);

int rlo_link_register(void);
void rlo_link_unregister(void);

void rlo_event_qp(struct ib_qp *qp, enum ib_event_type type);
void rlo_event_cq(struct ib_cq *cq, enum ib_event_type type);
void rlo_event_srq(struct ib_srq *srq, enum ib_event_type type);

struct rdma_hw_stats *rlo_stats_alloc(const struct rdma_stat_desc *descs, int count);

/* Files in debugfs: see faults.c. A directory may be an error pointer. */
struct dentry *rlo_faults_dir(const char *name, struct dentry *parent);
/* The number outlives its file. */
void rlo_faults_file(const char *name, struct dentry *dir, u32 *number);
/* The directory and all in it. */
void rlo_faults_remove(struct dentry *dir);

/* The module's copy engine: see copier.c. */
int rlo_engine_init(void);
void rlo_engine_exit(void);

/* Limits and behaviour of devices that are made from now on. Module parameters. */
struct rlo_knobs {
	unsigned int dma_bits;
	unsigned int no_dma_lkey;
	unsigned int max_qp;
	unsigned int max_qp_wr;
	unsigned int max_sge;
	unsigned int max_sge_rd;
	unsigned int max_rd_atomic;
	unsigned int max_cqe;
	unsigned int max_mr_pages;
	unsigned int max_inline;
	unsigned int max_srq_wr;
	unsigned int no_srq;
	unsigned int no_mem_mgt;
	unsigned int inline_bytes;
};

extern struct rlo_knobs rlo_knobs;

/* Functions of Rust that C calls. */
void rlo_frame_received(const void *own, struct sk_buff *skb, const struct rlo_frame *head);
void rlo_link_changed(const void *own);
int rlo_link_add(const char *name, struct net_device *ndev, bool infiniband);

#endif
