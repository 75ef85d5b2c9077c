// SPDX-License-Identifier: GPL-2.0
/*
 * Settings of the transport that a script can make before it connects,
 * listens or replies. The defaults make a well-behaved peer.
 */
#include <linux/build_bug.h>
#include <linux/stddef.h>
#include <linux/string.h>

#include "peer.h"

struct setting {
	const char *name;
	size_t offset;
	u32 initial, min, max;
};

#define SETTING(_name, _field, _initial, _min, _max) {			\
	.name = _name,							\
	.offset = offsetof(struct peer_settings, _field),		\
	.initial = _initial,						\
	.min = _min,							\
	.max = _max,							\
}

static const struct setting settings[] = {
	/* Bytes of one receive buffer. */
	SETTING("receive-size", receive_size, 32784, 1, PEER_MESSAGE_MAX),
	/* Entries of the receive queue, and the number posted at the start. */
	SETTING("receives", receives, 64, 1, 4096),
	SETTING("posted", posted, 16, 0, 4096),
	/* Entries of the send queue. */
	SETTING("sends", sends, 256, 1, 4096),
	/* Retries of our own queue pair, for silence and for an empty receive queue. 7: endless. */
	SETTING("retry", retry, 5, 0, 7),
	SETTING("rnr-retry", rnr_retry, 7, 0, 7),
	/* Code of the other side's delay after it found our receive queue empty. */
	SETTING("rnr-timer", rnr_timer, 12, 0, 31),
	/* Timeouts of our connection manager and of the other side's, as 4.096 us << N, and tries. */
	SETTING("cm-timeout", cm_timeout, 18, 0, 31),
	SETTING("remote-cm-timeout", remote_cm_timeout, 18, 0, 31),
	SETTING("cm-retries", cm_retries, 7, 0, 15),
	/* Outstanding RDMA Reads that we announce. */
	SETTING("responder-resources", responder_resources, 4, 0, 255),
	SETTING("initiator-depth", initiator_depth, 4, 0, 255),
	/* Values that the other side shall use: in the REQ only, except remote-rnr-retry. */
	SETTING("remote-retry", remote_retry, 5, 0, 7),
	SETTING("remote-rnr-retry", remote_rnr_retry, 7, 0, 7),
	/* 0: the path's value. */
	SETTING("remote-ack-timeout", remote_ack_timeout, 0, 0, 31),
	SETTING("remote-mtu", remote_mtu, 0, 0, 15),
	SETTING("remote-qp-type", remote_qp_type, IB_QPT_RC, IB_QPT_RC, IB_QPT_UC),
};

static u32 *field(struct peer_settings *to, const struct setting *setting)
{
	return (void *)to + setting->offset;
}

void peer_settings_init(struct peer_settings *to)
{
	size_t i;

	BUILD_BUG_ON(sizeof(*to) != ARRAY_SIZE(settings) * sizeof(u32));
	for (i = 0; i < ARRAY_SIZE(settings); i++)
		*field(to, &settings[i]) = settings[i].initial;
}

int peer_setting_set(struct peer_settings *to, const char *name, u64 value)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(settings); i++) {
		if (strcmp(settings[i].name, name))
			continue;
		if (value < settings[i].min || value > settings[i].max)
			return -ERANGE;
		*field(to, &settings[i]) = value;
		return 0;
	}
	return -ENOENT;
}
