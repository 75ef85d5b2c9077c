// SPDX-License-Identifier: GPL-2.0
/*
 * The events of a peer, one line each, in order.
 *
 *   reads BEGUN ANSWERED       simultaneous RDMA Reads that the other side will begin, and
 *                              answers; before req or rep
 *   from NUMBER                the queue pair that asks; before req
 *   req BYTES, rep BYTES       private data that has come
 *   established                the RTU has come
 *   rej REASON                 enum ib_cm_rej_reason
 *   sidr STATUS                enum ib_cm_sidr_status
 *   dreq, drep, timewait-exit  from the connection manager
 *   unanswered req|rep|dreq|sidr   it has tried often enough
 *   message BYTES              a message
 *   memory RKEY ADDRESS, bytes BYTES   the answers to the commands memory and look
 *   sent NUMBER STATUS         the request of that number is complete (enum ib_wc_status)
 *   receive-failed STATUS      a posted buffer has come back without a message
 *   queue-pair NUMBER TEXT     enum ib_event_type
 *   fault WHAT ERRNO           the peer could not do its part
 *   removed                    the RDMA device has gone, and with it the connection
 *
 * Events come from handlers of the connection manager, from completions and,
 * for events of the queue pair, from atomic context.
 */
#include <linux/hex.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "peer.h"

/* The limit for a script that reads no events. */
#define EVENTS_MAX	65536

struct event {
	struct list_head entry;
	/* Shown in hexadecimal after the text. */
	u8 *bytes;
	size_t length;
	char text[56];
};

void peer_events_init(struct peer *peer)
{
	spin_lock_init(&peer->event_lock);
	INIT_LIST_HEAD(&peer->events);
	init_waitqueue_head(&peer->event_wait);
}

static void event_free(struct event *event)
{
	kfree(event->bytes);
	kfree(event);
}

void peer_events_free(struct peer *peer)
{
	struct event *event, *next;

	list_for_each_entry_safe(event, next, &peer->events, entry)
		event_free(event);
	INIT_LIST_HEAD(&peer->events);
}

bool peer_events_full(struct peer *peer)
{
	return READ_ONCE(peer->event_count) >= EVENTS_MAX;
}

bool peer_event_waiting(struct peer *peer)
{
	return READ_ONCE(peer->event_count) || READ_ONCE(peer->events_lost);
}

static void add(struct peer *peer, struct event *event)
{
	unsigned long flags;

	spin_lock_irqsave(&peer->event_lock, flags);
	list_add_tail(&event->entry, &peer->events);
	WRITE_ONCE(peer->event_count, peer->event_count + 1);
	wake_up_interruptible(&peer->event_wait);
	spin_unlock_irqrestore(&peer->event_lock, flags);
}

/* Reported, because the script must not mistake lost events for silence. */
static void lose(struct peer *peer)
{
	WRITE_ONCE(peer->events_lost, true);
	wake_up_interruptible(&peer->event_wait);
}

void peer_report(struct peer *peer, const char *format, ...)
{
	struct event *event = kzalloc(sizeof(*event), GFP_ATOMIC);
	va_list arguments;

	if (!event) {
		lose(peer);
		return;
	}
	va_start(arguments, format);
	vscnprintf(event->text, sizeof(event->text), format, arguments);
	va_end(arguments);
	add(peer, event);
}

/* Takes ownership of @bytes, allocated by kmalloc(). May sleep. */
void peer_report_bytes(struct peer *peer, const char *kind, u8 *bytes, size_t length)
{
	struct event *event = kzalloc(sizeof(*event), GFP_KERNEL);

	if (!event) {
		kfree(bytes);
		lose(peer);
		return;
	}
	strscpy(event->text, kind);
	event->bytes = bytes;
	event->length = length;
	add(peer, event);
}

void peer_report_copy(struct peer *peer, const char *kind, const void *bytes, size_t length)
{
	u8 *copy = kmemdup(bytes, length, GFP_KERNEL);

	if (copy)
		peer_report_bytes(peer, kind, copy, length);
	else
		lose(peer);
}

static size_t line_length(const struct event *event)
{
	size_t length = strlen(event->text) + 1;

	return event->bytes ? length + 1 + 2 * event->length : length;
}

static struct event *take(struct peer *peer, size_t room, bool *too_long)
{
	struct event *event;
	unsigned long flags;

	spin_lock_irqsave(&peer->event_lock, flags);
	event = list_first_entry_or_null(&peer->events, struct event, entry);
	*too_long = event && line_length(event) > room;
	if (event && !*too_long) {
		list_del(&event->entry);
		WRITE_ONCE(peer->event_count, peer->event_count - 1);
	}
	spin_unlock_irqrestore(&peer->event_lock, flags);
	return *too_long ? NULL : event;
}

static int put_hex(char __user *to, const u8 *bytes, size_t length)
{
	char digits[128];

	while (length) {
		size_t step = min(length, sizeof(digits) / 2);

		bin2hex(digits, bytes, step);
		if (copy_to_user(to, digits, 2 * step))
			return -EFAULT;
		to += 2 * step;
		bytes += step;
		length -= step;
	}
	return 0;
}

static int put_line(char __user *to, const struct event *event)
{
	size_t length = strlen(event->text);

	if (copy_to_user(to, event->text, length))
		return -EFAULT;
	to += length;
	if (event->bytes) {
		if (put_user(' ', to++) || put_hex(to, event->bytes, event->length))
			return -EFAULT;
		to += 2 * event->length;
	}
	return put_user('\n', to);
}

/* The oldest event as a line, or 0 if there is none. */
ssize_t peer_event_read(struct peer *peer, char __user *to, size_t room)
{
	struct event *event;
	bool too_long;
	ssize_t length;

	event = take(peer, room, &too_long);
	if (too_long)
		return -EMSGSIZE;
	if (!event) {
		if (!READ_ONCE(peer->events_lost))
			return 0;
		WRITE_ONCE(peer->events_lost, false);
		return -EOVERFLOW;
	}
	length = line_length(event);
	if (put_line(to, event))
		length = -EFAULT;
	event_free(event);
	return length;
}
