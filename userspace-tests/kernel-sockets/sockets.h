/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Loads over one kind of socket, from one network namespace to another, inside the kernel.
 *
 * Side 0 (a) is the client, which measures; side 1 (b) is the server.
 */
#ifndef SDP_KERNEL_SOCKETS_H
#define SDP_KERNEL_SOCKETS_H

#include <linux/completion.h>
#include <linux/in.h>
#include <linux/net.h>
#include <linux/sched.h>
#include <linux/sizes.h>
#include <linux/socket.h>
#include <linux/types.h>
#include <net/net_namespace.h>

#define KS_SIZE_MAX	SZ_4M
#define KS_ANSWER_MAX	512
#define KS_WHY_MAX	128
#define KS_ANY_PROCESSOR	(-1)

enum ks_kind { KS_TCP, KS_SDP, KS_SMC, KS_UNIX };

enum ks_load {
	KS_PING,	/* each message comes back */
	KS_STREAM,	/* messages one way; the last one is answered */
	KS_CONNECTIONS,	/* connect, a message, its answer, the server's close, close */
};

/* The beginning of each message. Its last eight bytes repeat the number. */
struct ks_header {
	u64 number;
	u64 answered;
};

#define KS_SIZE_MIN	(sizeof(struct ks_header) + sizeof(u64))

/* In nanoseconds. */
struct ks_times {
	u64 wall;
	/* Of this kernel's process, measured by its host; zero if there is no such host. */
	u64 outside;
	/* Of all processors of this kernel, by its own account. */
	u64 busy;
	u64 thread[2];
};

struct ks_run {
	/* The request. */
	enum ks_load load;
	enum ks_kind kind;
	size_t size;
	/* A measurement ends after so much time or so many messages, without what warms up. */
	u64 ns;
	u64 most;
	u64 warm_ns;
	u32 patience_s;
	int processor[2];
	struct net *net[2];
	__be32 address;

	/* Of the threads. */
	struct task_struct *thread[2];
	char *memory[2];
	/* The bytes that come back to the client. */
	char *back;
	struct socket *listener;
	struct sockaddr_storage name;
	int name_length;
	u64 number;
	u64 answers;
	/* Both threads shall end: a signal tells them. */
	bool ending;
	/* The client has finished, or a thread has failed. */
	struct completion over;

	/* The results. */
	u64 count;
	struct ks_times spent;
	spinlock_t lock;
	int err;
	char why[KS_WHY_MAX];
};

/* run.c */
int ks_execute(struct ks_run *run);
void ks_fail(struct ks_run *run, const char *step, int err);

/* load.c */
int ks_client(struct ks_run *run);
int ks_server(struct ks_run *run);

/* socket.c */
int ks_listen(struct ks_run *run);
struct socket *ks_connect(struct ks_run *run);
struct socket *ks_accept(struct ks_run *run);
int ks_send(struct socket *sock, const void *from, size_t size);
int ks_receive(struct socket *sock, void *to, size_t size);

/* clock.c */
void ks_times(const struct ks_run *run, struct ks_times *times);
void ks_subtract(struct ks_times *times, const struct ks_times *before);

/* command.c */
int ks_command(char *line, char *answer);

#endif
