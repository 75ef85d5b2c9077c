/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A raw peer: the other end of an SDP connection, controlled by a script.
 *
 * The module knows the IB connection manager and RC queue pairs. Of SDP it
 * knows only the service id: the script provides every byte of private data
 * and of messages. One open /dev/sdp_peer is one peer with at most one
 * connection. A write is one command, a read is one event; README lists both.
 */
#ifndef SDP_PEER_H
#define SDP_PEER_H

#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

/* Maximum length of a message or RDMA operation. */
#define PEER_MESSAGE_MAX	(128 * 1024)

/* The service id of a port, in the range of Annex A4. */
#define PEER_SERVICE_ID(port)	cpu_to_be64(0x10000ULL + (port))

/* The settings of "set"; see setting.c. */
struct peer_settings {
	u32 receive_size;
	u32 receives;
	u32 posted;
	u32 sends;
	u32 retry;
	u32 rnr_retry;
	u32 rnr_timer;
	u32 cm_timeout;
	u32 remote_cm_timeout;
	u32 cm_retries;
	u32 responder_resources;
	u32 initiator_depth;
	u32 remote_retry;
	u32 remote_rnr_retry;
	u32 remote_ack_timeout;
	u32 remote_mtu;
	u32 remote_qp_type;
};

struct peer {
	/*
	 * Held by the file and by handlers of the connection manager, which know a
	 * peer by its number. Handlers of REQ, REP and DREQ errors run without a
	 * reference to their id, so its destruction does not wait for them.
	 */
	struct kref references;
	u32 number;

	/* One command at a time; also held while the peer is taken down. */
	struct mutex command;
	struct peer_settings settings;
	/* Set from the first use of a device until it is taken down. */
	struct ib_device *device;
	struct ib_cm_id *listener;
	/* Set by the handler of the listener as well, hence atomically. */
	struct ib_cm_id *cm;
	struct ib_pd *pd;
	struct ib_cq *cq;
	u64 sent;
	/* Memory that the other side may read and write. */
	struct list_head memories;

	/*
	 * Protects qp, which handlers of the connection manager use as well. It is
	 * not held while a CM id is destroyed, because that waits for these
	 * handlers.
	 */
	struct mutex qp_lock;
	struct ib_qp *qp;

	/* Protects the events; also taken in atomic context. */
	spinlock_t event_lock;
	struct list_head events;
	u32 event_count;
	bool events_lost;
	wait_queue_head_t event_wait;
};

/* device.c */
struct peer *peer_get(const void *context);
void peer_put(struct peer *peer);
void *peer_context(const struct peer *peer);
bool peer_device_usable(struct ib_device *device);

/* command.c */
int peer_command(struct peer *peer, char *line);

/* setting.c */
void peer_settings_init(struct peer_settings *settings);
int peer_setting_set(struct peer_settings *settings, const char *name, u64 value);

/* event.c */
void peer_events_init(struct peer *peer);
void peer_events_free(struct peer *peer);
bool peer_events_full(struct peer *peer);
bool peer_event_waiting(struct peer *peer);
ssize_t peer_event_read(struct peer *peer, char __user *to, size_t room);
__printf(2, 3) void peer_report(struct peer *peer, const char *format, ...);
void peer_report_bytes(struct peer *peer, const char *kind, u8 *bytes, size_t length);
void peer_report_copy(struct peer *peer, const char *kind, const void *bytes, size_t length);

/* route.c */
struct peer_route {
	struct rdma_cm_id *id;
	struct completion done;
	int status;
};

int peer_route_to(struct peer_route *route, struct sockaddr_storage *from,
		  struct sockaddr_storage *to);
int peer_route_at(struct peer_route *route, struct sockaddr_storage *address);
void peer_route_end(struct peer_route *route);

/* connection.c */
int peer_connect(struct peer *peer, struct sockaddr_storage *from, struct sockaddr_storage *to,
		 u16 port, const u8 *data, size_t length);
int peer_sidr(struct peer *peer, struct sockaddr_storage *from, struct sockaddr_storage *to,
	      u16 port, const u8 *data, size_t length);
int peer_listen(struct peer *peer, struct sockaddr_storage *address, u16 port);
int peer_reply(struct peer *peer, const u8 *data, size_t length);
int peer_reject(struct peer *peer, u32 reason);
int peer_turn_away(struct peer *peer, u32 reason);
int peer_rtu(struct peer *peer);
int peer_dreq(struct peer *peer);
int peer_drep(struct peer *peer);
void peer_take_down(struct peer *peer);

/* transfer.c */
int peer_qp_create(struct peer *peer);
int peer_qp_ready(struct peer *peer, struct ib_cm_id *cm, const u32 *receive_psn);
int peer_qp_init(struct peer *peer, struct ib_cm_id *cm);
void peer_qp_destroy(struct peer *peer);
int peer_post_receives(struct peer *peer, u32 count);
int peer_send(struct peer *peer, const u8 *data, size_t length);
int peer_rdma_write(struct peer *peer, u32 rkey, u64 address, const u8 *data, size_t length);
int peer_memory_add(struct peer *peer, const u8 *data, size_t length);
int peer_memory_look(struct peer *peer, u64 address, size_t length);
int peer_rdma_read(struct peer *peer, u32 rkey, u64 address, size_t length);

#endif /* SDP_PEER_H */
