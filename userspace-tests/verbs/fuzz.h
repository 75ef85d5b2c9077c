/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random verbs with a model that knows every byte.
 *
 * A world has an arena of memory on each side, with a model of the same size.
 * Every posted request locks the cells of the arenas that it reads or writes
 * until its end is known. No two requests in flight conflict about a byte, so
 * the expected contents are always known.
 *
 * A world can always be brought to rest. So a world that does not come to rest
 * shows a fault of the device. A sent message waits for a receive, which may
 * find no room in an arena that is locked by other waiting requests. Hence the
 * last part of an arena, as long as the longest message, and the last few
 * requests are reserved for a world that is coming to rest (fz_world.calm).
 *
 * One thread runs one world. Several worlds share the devices and nothing else.
 */
#ifndef SDP_VERBS_FUZZ_H
#define SDP_VERBS_FUZZ_H

#include <linux/prandom.h>

#include "verbs.h"

#define FZ_CELL		64
/* The longest message; less if the device cannot map as much. */
#define FZ_LONGEST	SZ_256K
#define FZ_PDS		2
#define FZ_CQS		3
#define FZ_MRS		12
#define FZ_MR_PAGES	64
#define FZ_PIECES	160
#define FZ_SGES		8
#define FZ_USED		FZ_SGES
#define FZ_OPS		768
#define FZ_PAIRS_MAX	32
#define FZ_HISTORY	4096
#define FZ_SRQ_LENGTH	4096

struct fz_piece {
	u32 at;
	u32 length;
};

/* Places of one arena, in the order of the bytes. */
struct fz_range {
	u8 side;
	bool write;
	bool locked;
	u16 count;
	u32 length;
	struct fz_piece piece[FZ_PIECES];
};

enum fz_mr_state { FZ_FREE, FZ_BUSY, FZ_VALID };

/* A region over pages of the arena in any order. */
struct fz_mr {
	u8 side;
	u8 pd;
	enum fz_mr_state state;
	/* Its state is unknown: it is replaced once no request uses it. */
	bool spoilt;
	int access;
	u32 users;
	struct ib_mr *mr;
	u32 first;
	u32 length;
	u32 page_count;
	u32 page[FZ_MR_PAGES];
	struct scatterlist sg[FZ_MR_PAGES];
};

/* The purpose of a request. */
enum fz_aim {
	FZ_FINE,
	FZ_REMOTE_ACCESS,
	FZ_LOCAL_KEY,
	FZ_TOO_LONG,
	FZ_TOO_SHORT,
	FZ_OPERATION,
};

struct fz_end;

struct fz_op {
	struct list_head entry;
	struct list_head message;
	struct fz_end *end;
	u32 generation;
	bool used;
	bool is_recv;
	bool signaled;
	/* In the list of posted requests that may complete. */
	bool posted;
	/* A message that has not been received yet. */
	bool awaited;
	bool applied;
	/* The contents of its target are unknown. */
	bool unknown;
	enum ib_wr_opcode opcode;
	enum fz_aim aim;
	u32 length;
	u32 extra;
	u32 flags;
	u32 pieces;
	struct fz_range local;
	struct fz_range remote;
	struct fz_mr *user_of[FZ_USED + 1];
	u32 user_count;
	/* The region that it registers or invalidates. */
	struct fz_mr *target;
};

struct fz_pair;

struct fz_end {
	struct fz_pair *pair;
	struct fz_end *peer;
	u8 side;
	u8 pd;
	struct ib_qp *qp;
	struct ib_srq *srq;
	u32 send_cap;
	u32 recv_cap;
	u32 sges;
	struct list_head sends;
	struct list_head receives;
	struct list_head messages;
	u32 send_count;
	u32 recv_count;
	u32 message_count;
	u32 unsignaled;
	/* One of its requests has failed: later ones have no effect. */
	bool failed;
	/* A request was posted that must fail. */
	bool bad;
	/* A receive was flushed: later ones are unused. */
	bool flushing;
};

struct fz_group;

struct fz_pair {
	struct fz_group *group;
	u8 number;
	struct fz_end end[2];
	/* Its end has begun, by a deliberate error or by force. */
	bool doomed;
	bool killed;
	u32 grace;
};

/* Pairs that are created and destroyed together, because they share a receive queue. */
struct fz_group {
	u8 first;
	u8 count;
	bool shares;
	struct ib_srq *srq[2];
	struct list_head receives[2];
	u32 recv_count[2];
	/* Ended requests with unknown targets, until the queue pairs are destroyed. */
	struct list_head wrecks;
};

struct fz_event {
	u64 step;
	const char *what;
	u8 pair;
	u8 side;
	s16 status;
	u32 op;
	u32 length;
	u32 aim;
	u32 flags;
};

struct fz_world {
	struct vb_run *run;
	struct rnd_state random;
	u64 seed;
	bool rxe;
	/* The longest message; also the length of each separately mapped part of the memory. */
	u32 longest;
	/* Bytes of an arena, without the reserved part. */
	u32 arena;
	struct vb_mem *mem[2];
	u16 *cells[2];
	struct ib_pd *pd[2][FZ_PDS];
	struct ib_cq *cq[2][FZ_CQS];
	struct fz_mr *mr[2][FZ_MRS];
	struct fz_group group[FZ_PAIRS_MAX];
	u32 group_count;
	struct fz_pair pair[FZ_PAIRS_MAX];
	u32 pair_count;
	struct fz_op *ops;
	struct list_head free_ops;
	u32 free_count;
	u64 steps;
	u64 posted[8];
	u64 completed;
	u64 failures;
	u64 rebuilt;
	u64 checks;
	u64 bytes;
	/* Only requests that help to end those in flight are posted. */
	bool calm;
	/* The pair whose history is printed; NULL: all. */
	struct fz_pair *culprit;
	struct fz_event history[FZ_HISTORY];
};

/* fuzz.c */
u32 fz_random(struct fz_world *w, u32 below);
bool fz_chance(struct fz_world *w, u32 of);
void fz_note(struct fz_world *w, const char *what, struct fz_end *end, struct fz_op *op,
	     int status);
bool fz_progress(struct fz_world *w, const char *what, u64 *completed, unsigned long *since);

/* fuzz_memory.c */
bool fz_lock(struct fz_world *w, struct fz_range *range);
void fz_unlock(struct fz_world *w, struct fz_range *range);
bool fz_add(struct fz_range *range, u32 at, u32 length);
bool fz_add_mr(struct fz_range *range, struct fz_mr *mr, u32 offset, u32 length);
void fz_copy(struct fz_world *w, struct fz_range *to, struct fz_range *from, u32 length);
bool fz_same(struct fz_world *w, struct fz_range *range, u32 length, struct fz_op *op);
void fz_resync(struct fz_world *w, struct fz_range *range);
struct fz_mr *fz_mr_pick(struct fz_world *w, u8 side, u8 pd, enum fz_mr_state state, int access);
bool fz_mr_map(struct fz_world *w, struct fz_mr *mr);
bool fz_mrs_make(struct fz_world *w);
bool fz_mr_renew(struct fz_world *w, struct fz_mr *mr);
void fz_mrs_end(struct fz_world *w);

/* fuzz_post.c */
struct fz_op *fz_op_new(struct fz_world *w, struct fz_end *end, bool needed);
void fz_op_free(struct fz_world *w, struct fz_op *op);
bool fz_op_lock(struct fz_world *w, struct fz_op *op);
void fz_use(struct fz_op *op, struct fz_mr *mr);
u64 fz_id(struct fz_world *w, struct fz_op *op);
void fz_post_send(struct fz_world *w, struct fz_end *end);
void fz_post_recv(struct fz_world *w, struct fz_end *end);
void fz_post_rdma(struct fz_world *w, struct fz_end *end);
void fz_post_last(struct fz_world *w, struct fz_end *end);
void fz_post_region(struct fz_world *w, struct fz_end *end);

/* fuzz_done.c */
bool fz_poll(struct fz_world *w);
void fz_look_on(struct fz_world *w);
void fz_spoil(struct fz_op *op);

/* fuzz_pair.c */
bool fz_group_make(struct fz_world *w, struct fz_group *group);
void fz_group_end(struct fz_world *w, struct fz_group *group);
void fz_kill(struct fz_world *w, struct fz_pair *pair);
bool fz_group_break(struct fz_world *w, struct fz_group *group, bool abrupt);
bool fz_calm_down(struct fz_world *w);

#endif /* SDP_VERBS_FUZZ_H */
