/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A judge of RDMA devices: it compares a device's verbs with the InfiniBand
 * specification.
 *
 * It depends on no driver, except for the declared differences of rxe (struct
 * vb_case), and connects queue pairs by ib_modify_qp() alone. A write to
 * /dev/sdp_verbs is one command, which has ended when the call returns; a read
 * returns its answer. README lists them.
 */
#ifndef SDP_VERBS_H
#define SDP_VERBS_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/types.h>
#include <rdma/ib_verbs.h>

/* Time limit of a completion; only a lost one takes that long. */
#define VB_PATIENCE_MS	20000
/* Waiting time before an event counts as absent. */
#define VB_SILENCE_MS	100

struct vb_run;

/* Objects that are destroyed with the run, newest first. */
struct vb_thing {
	struct list_head entry;
	void (*end)(struct vb_thing *thing);
};

/* A device, and the address of its queue pairs. */
struct vb_host {
	struct ib_device *device;
	u32 port;
	int gid_index;
	union ib_gid gid;
	u8 mac[ETH_ALEN];
	enum ib_mtu mtu;
	struct ib_pd *pd;
};

/* Maximum number of separately mapped pieces of memory. */
#define VB_PARTS	8

/*
 * Physically contiguous memory and its expected contents. The cases change the
 * model, the device changes the bytes, and both are compared at the end.
 */
struct vb_mem {
	struct vb_thing thing;
	struct list_head entry;
	struct vb_host *host;
	/* The protection domain whose key of all local memory is used. */
	struct ib_pd *pd;
	u8 *bytes;
	u8 *model;
	size_t length;
	/* The size of separately mapped pieces, whose device addresses are unrelated. */
	size_t part;
	u32 mapped;
	u64 dma[VB_PARTS];
};

struct vb_mr {
	struct vb_thing thing;
	struct ib_mr *mr;
	struct vb_mem *mem;
	u32 offset;
	u32 length;
	struct scatterlist *pages;
};

struct vb_cq {
	struct vb_thing thing;
	struct ib_cq *cq;
	atomic_t notices;
	atomic_t errors;
};

struct vb_srq {
	struct vb_thing thing;
	struct ib_srq *srq;
	atomic_t limits;
	u32 max_wr;
};

/* The number of event types in enum ib_event_type. */
#define VB_EVENTS	24

struct vb_qp {
	struct vb_thing thing;
	struct vb_host *host;
	struct ib_qp *qp;
	struct ib_pd *pd;
	struct vb_cq *scq;
	struct vb_cq *rcq;
	struct vb_mem *mem;
	struct ib_qp_cap cap;
	u32 psn;
	atomic_t events[VB_EVENTS];
};

/* Parameters of queue pairs; zero is a useful default for each. */
struct vb_options {
	u32 send_wr;
	u32 recv_wr;
	u32 sge;
	u32 inline_data;
	u32 send_cqe;
	u32 recv_cqe;
	bool all_signaled;
	bool one_cq;
	/* One more than the value, so that zero is the default. */
	u8 rd_atomic_plus_1;
	u8 retry_plus_1;
	u8 rnr_retry_plus_1;
	u8 timeout_plus_1;
	u8 rnr_timer;
	bool no_remote_access;
	enum ib_mtu mtu;
	struct vb_srq *srq;
	struct ib_pd *pd;
};

/* The ends of a connection; usually [0] requests and [1] responds. */
struct vb_pair {
	struct vb_qp *q[2];
};

/* One command. */
struct vb_run {
	struct vb_host host[2];
	struct list_head things;
	/* Destroyed first, because they may still move bytes. */
	struct list_head queue_pairs;
	struct list_head memories;
	bool failed;
	bool absent;
	int line;
	char why[400];
	char *text;
	size_t length;
	size_t room;
};

/* device.c */
struct ib_device *vb_device_get(const char *name);

/* command.c */
int vb_command(struct vb_run *run, char *line);
__printf(2, 3) void vb_say(struct vb_run *run, const char *format, ...);
__printf(2, 3) void vb_fail(struct vb_run *run, const char *format, ...);
__printf(2, 3) void vb_absent(struct vb_run *run, const char *format, ...);
void vb_keep(struct vb_run *run, struct vb_thing *thing, void (*end)(struct vb_thing *thing));
void vb_end(struct vb_thing *thing);
bool vb_hosts_open(struct vb_run *run, char **words);
void vb_hosts_close(struct vb_run *run);
u64 vb_number(char *words, const char *name, u64 otherwise);
bool vb_word(char *words, const char *name, char *to, size_t room);

/* memory.c */
size_t vb_mappable(struct vb_host *host);
struct vb_mem *vb_mem(struct vb_run *run, struct vb_host *host, size_t length);
struct vb_mem *vb_mem_parts(struct vb_run *run, struct vb_host *host, size_t part, u32 parts);
u64 vb_dma(const struct vb_mem *mem, size_t at);
void vb_moved(struct vb_mem *to, size_t at, const struct vb_mem *from, size_t from_at,
	      size_t length);
void vb_look(struct vb_mem *mem, size_t at, size_t length);
void vb_forget(struct vb_mem *mem, size_t at, size_t length);
bool vb_memories_right(struct vb_run *run);
struct ib_pd *vb_pd(struct vb_run *run, struct vb_host *host, unsigned int flags);
struct vb_mr *vb_mr(struct vb_run *run, struct ib_pd *pd, struct vb_mem *mem, u32 offset,
		    u32 length);
u8 vb_pattern(u32 seed, size_t at);

/* queue.c */
struct vb_cq *vb_cq(struct vb_run *run, struct vb_host *host, u32 cqe);
struct vb_srq *vb_srq(struct vb_run *run, struct vb_host *host, u32 wr);
struct vb_qp *vb_qp(struct vb_run *run, struct vb_host *host, const struct vb_options *options);
int vb_modify_init(struct vb_qp *q, const struct vb_options *options);
int vb_modify_rtr(struct vb_qp *q, struct vb_qp *peer, const struct vb_options *options);
int vb_modify_rts(struct vb_qp *q, const struct vb_options *options);
int vb_modify_to(struct vb_qp *q, enum ib_qp_state state);
void vb_route(struct vb_host *from, struct vb_host *to, struct rdma_ah_attr *ah);
bool vb_connect(struct vb_run *run, struct vb_pair *pair, const struct vb_options *options);
bool vb_pair(struct vb_run *run, struct vb_pair *pair, const struct vb_options *options);
bool vb_event(struct vb_run *run, struct vb_qp *q, enum ib_event_type type);

/* work.c */
/* A request without bytes. */
#define VB_NOTHING	((struct ib_sge){ })

struct ib_sge vb_sge(struct vb_mem *mem, u32 offset, u32 length);
struct ib_sge vb_mr_sge(struct vb_mr *mr, s32 offset, u32 length);
int vb_post(struct vb_qp *q, struct ib_send_wr *wr);
int vb_send(struct vb_qp *q, u64 id, enum ib_wr_opcode opcode, struct ib_sge sge, int flags,
	    u32 extra);
int vb_rdma(struct vb_qp *q, u64 id, enum ib_wr_opcode opcode, struct ib_sge sge, u64 address,
	    u32 rkey, int flags);
int vb_recv(struct vb_qp *q, u64 id, struct ib_sge sge);
int vb_srq_recv(struct vb_srq *srq, u64 id, struct ib_sge sge);
int vb_reg(struct vb_qp *q, u64 id, struct vb_mr *mr, int access, int flags);
int vb_inv(struct vb_qp *q, u64 id, u32 rkey, int flags);
u64 vb_mr_address(const struct vb_mr *mr, s64 offset);
void vb_step_key(struct vb_mr *mr);
bool vb_error(struct vb_run *run, struct vb_cq *cq, u64 id);
bool vb_poll(struct vb_cq *cq, struct ib_wc *wc, u32 ms);
bool vb_wait(struct vb_run *run, struct vb_cq *cq, u64 id, enum ib_wc_status status,
	     struct ib_wc *wc);
bool vb_ok(struct vb_run *run, struct vb_cq *cq, u64 id);
bool vb_silent(struct vb_run *run, struct vb_cq *cq, u32 ms);
bool vb_flushed(struct vb_run *run, struct vb_cq *cq, u64 first, u64 count);
bool vb_register(struct vb_run *run, struct vb_qp *q, struct vb_mr *mr, int access);
bool vb_invalidate(struct vb_run *run, struct vb_qp *q, u32 rkey);
bool vb_alive(struct vb_run *run, struct vb_pair *pair);
bool vb_counts(const atomic_t *what, int least);
const char *vb_opcode_name(enum ib_wr_opcode opcode);

/* case.c */
struct vb_case {
	const char *name;
	void (*run)(struct vb_run *run);
	/* Rxe's difference from the specification, if there is one. */
	const char *rxe;
	/* It would crash the machine. */
	bool rxe_harmful;
};

void vb_cases_list(struct vb_run *run);
int vb_case_run(struct vb_run *run, const char *name);

extern const struct vb_case vb_key_cases[], vb_message_cases[], vb_order_cases[],
	vb_queue_cases[], vb_retry_cases[], vb_event_cases[], vb_state_cases[],
	vb_datagram_cases[];

/* speed.c */
int vb_speed(struct vb_run *run, char *words);
int vb_latency(struct vb_run *run, char *words);
int vb_copy(struct vb_run *run, char *words);

/* fuzz.c */
int vb_fuzz(struct vb_run *run, char *words);

/* A step of a case: the case ends if it fails, with the line of the step. */
#define TRY(step)						\
	do {							\
		run->line = __LINE__;				\
		if (!(step))					\
			return;					\
	} while (0)

#define CHECK(condition, ...)					\
	do {							\
		run->line = __LINE__;				\
		if (!(condition)) {				\
			vb_fail(run, __VA_ARGS__);		\
			return;					\
		}						\
	} while (0)

/* A call that must return this value. */
#define RETURNS(expected, call)						\
	do {								\
		int __is = (call);					\
									\
		CHECK(__is == (expected), "%s: %d, not %d", #call, __is, (expected)); \
	} while (0)

#endif /* SDP_VERBS_H */
