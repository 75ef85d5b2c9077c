// SPDX-License-Identifier: GPL-2.0
/*
 * The work of client and server. Each message is numbered at both ends, and each answer names the number
 * of what it answers, so a message that is lost, doubled or cut is noticed.
 *
 * In a stream the receiver waits for whole messages (MSG_WAITALL). The last one is answered, and the time
 * ends with the answer. A short connection is connect, a message, its answer, the server's close, the
 * client's close: the server closes first, so the client's ports do not run out.
 */
#include <linux/cleanup.h>
#include <linux/ktime.h>

#include "sockets.h"

/* Reading the clock is as dear as a short message, so these are not timed one by one. */
#define TIMED_EACH	16
#define SHORT_MAX	SZ_4K

DEFINE_FREE(socket, struct socket *, if (!IS_ERR_OR_NULL(_T)) sock_release(_T))

static u64 *tail(char *memory, size_t size)
{
	return (u64 *)(memory + size - sizeof(u64));
}

static size_t answer_size(const struct ks_run *run)
{
	return run->load == KS_STREAM ? KS_SIZE_MIN : run->size;
}

static bool is_message(char *memory, size_t size, u64 number)
{
	const struct ks_header *header = (const struct ks_header *)memory;

	return header->number == number && *tail(memory, size) == number;
}

static int send_number(struct ks_run *run, int side, struct socket *sock, size_t size, u64 number,
		       bool answered)
{
	struct ks_header *header = (struct ks_header *)run->memory[side];

	header->number = number;
	header->answered = answered;
	*tail(run->memory[side], size) = number;
	return ks_send(sock, header, size);
}

/* One message of the client, and its answer, if it is to have one. */
static int ask(struct ks_run *run, struct socket *sock, bool answered)
{
	size_t size = answer_size(run);
	int err;

	run->number++;
	err = send_number(run, 0, sock, run->size, run->number, answered);
	if (err) {
		ks_fail(run, "send", err);
		return err;
	}
	if (!answered)
		return 0;
	err = ks_receive(sock, run->back, size);
	if (!err && !is_message(run->back, size, run->number))
		err = -EBADMSG;
	if (err)
		ks_fail(run, "receive an answer", err > 0 ? -EPIPE : err);
	return err;
}

/* A connection of its own. The server closes first, so that no port of the client waits afterwards. */
static int visit(struct ks_run *run)
{
	struct socket *sock __free(socket) = ks_connect(run);
	int err;

	if (IS_ERR(sock)) {
		ks_fail(run, "connect", PTR_ERR(sock));
		return PTR_ERR(sock);
	}
	err = ask(run, sock, true);
	if (err)
		return err;
	err = ks_receive(sock, run->back, 1);
	if (err == 1)
		return 0;
	err = err ?: -EBADMSG;
	ks_fail(run, "wait for the server's close", err);
	return err;
}

/* So many messages, or as many as there is time for; at least one. */
static int work(struct ks_run *run, struct socket *sock, u64 ns, u64 most)
{
	u32 timed_each = run->load == KS_STREAM && run->size <= SHORT_MAX ? TIMED_EACH : 1;
	u64 end = ktime_get_ns() + ns;
	bool last;

	run->count = 0;
	do {
		int err;

		run->count++;
		last = run->count == most ||
		       (!(run->count % timed_each) && ktime_get_ns() >= end);
		err = sock ? ask(run, sock, last || run->load == KS_PING) : visit(run);
		if (err)
			return err;
	} while (!last);
	return 0;
}

int ks_client(struct ks_run *run)
{
	struct socket *sock __free(socket) = NULL;
	struct ks_times before;
	int err;

	if (run->load != KS_CONNECTIONS) {
		sock = ks_connect(run);
		if (IS_ERR(sock)) {
			ks_fail(run, "connect", PTR_ERR(sock));
			return PTR_ERR(sock);
		}
	}
	if (run->warm_ns) {
		err = work(run, sock, run->warm_ns, U64_MAX);
		if (err)
			return err;
	}
	ks_times(run, &before);
	err = work(run, sock, run->ns, run->most);
	if (err)
		return err;
	ks_times(run, &run->spent);
	ks_subtract(&run->spent, &before);
	return 0;
}

/* Serves a connection, up to the end of its stream; one answer is all for a visitor. */
static int serve(struct ks_run *run, struct socket *sock)
{
	const struct ks_header *header = (const struct ks_header *)run->memory[1];
	int err;

	while (!(err = ks_receive(sock, run->memory[1], run->size))) {
		run->answers++;
		if (!is_message(run->memory[1], run->size, run->answers))
			return -EBADMSG;
		if (header->answered)
			err = send_number(run, 1, sock, answer_size(run), run->answers, false);
		if (err || run->load == KS_CONNECTIONS)
			break;
	}
	return err;
}

int ks_server(struct ks_run *run)
{
	int err;

	do {
		struct socket *sock __free(socket) = ks_accept(run);

		err = IS_ERR(sock) ? PTR_ERR(sock) : serve(run, sock);
	} while (!err);
	/* The end of the stream, and the signal by which a server ends. */
	if (err > 0 || READ_ONCE(run->ending))
		return 0;
	ks_fail(run, "serve", err);
	return err;
}
