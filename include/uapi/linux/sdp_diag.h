/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * SDP sockets by NETLINK_SOCK_DIAG: SOCK_DIAG_BY_FAMILY with NLM_F_DUMP lists the sockets of
 * the netlink socket's namespace.
 *
 * Request and answer are a struct sdp_diag with attributes behind it. Attributes are
 * added at the end; a reader skips those that it does not know. One that the
 * module does not know is EINVAL. Documentation for tools: spec/netlink/sdp.yaml.
 */
#ifndef _UAPI_LINUX_SDP_DIAG_H
#define _UAPI_LINUX_SDP_DIAG_H

#include <linux/types.h>

struct sdp_diag {
	__u8 family;		/* AF_INET_SDP */
	__u8 protocol;		/* 0 */
	__u16 reserved;		/* 0 */
};

/* Groups of attributes that are shown on request. */
#define SDP_DIAG_SHOW_FLOW	1	/* from SDP_DIAG_CREDITS to _ROUND_TRIP_US */
#define SDP_DIAG_SHOW_TRAFFIC	2	/* SDP_DIAG_TRAFFIC and those behind it */

/*
 * Attributes. A request may have the two that say so, and an answer has the others, except
 * attributes without a meaning for the socket.
 */
enum {
	SDP_DIAG_UNSPEC,
	SDP_DIAG_PAD,
	SDP_DIAG_STATES,	/* u32: of a request: a bit 1 << TCP_* for each state that is wanted; all */
	SDP_DIAG_SHOW,		/* u32: of a request: SDP_DIAG_SHOW_*; none */
	SDP_DIAG_STATE,		/* u8: TCP_* */
	SDP_DIAG_TRANSPORT,	/* u8: SDP_TRANSPORT_*, as by getsockopt(2) */
	SDP_DIAG_REASON,	/* u32: the errno for which SDP was given up */
	SDP_DIAG_LOCAL_ADDR,	/* 4 or 16 bytes */
	SDP_DIAG_LOCAL_PORT,	/* be16 */
	SDP_DIAG_LOCAL_SCOPE,	/* u32: interface of a link-local address */
	SDP_DIAG_PEER_ADDR,
	SDP_DIAG_PEER_PORT,
	SDP_DIAG_PEER_SCOPE,
	SDP_DIAG_RX_QUEUE,	/* u32: bytes not read; of a listener: connections not accepted */
	SDP_DIAG_TX_QUEUE,	/* u32: bytes not completed; of a listener: its backlog */
	SDP_DIAG_INODE,		/* u64; 0: no program has it */
	SDP_DIAG_UID,		/* u32, in the user namespace of the reader */
	SDP_DIAG_COOKIE,	/* u64: of this socket alone while the machine runs */
	SDP_DIAG_IFINDEX,	/* u32: SO_BINDTODEVICE */
	SDP_DIAG_DEVICE,	/* string: the RDMA device */
	SDP_DIAG_MODE_SEND,	/* u8: SDP_MODE_* of what the socket sends */
	SDP_DIAG_MODE_RECEIVE,
	SDP_DIAG_OFFERED,	/* u64: bytes in the peer's memory that can be read */
	SDP_DIAG_END,		/* u8: SDP_END_* */
	SDP_DIAG_RULE,		/* string: with SDP_END_VIOLATION, which rule of spec/sdp.md */
	SDP_DIAG_CREDITS,	/* u32: messages that the peer would take now */
	SDP_DIAG_POSTED,	/* u32: receive buffers posted */
	SDP_DIAG_RCV_SIZE,	/* u32: size of each */
	SDP_DIAG_MAX_PAYLOAD,	/* u32: of one message to the peer */
	SDP_DIAG_CREDIT_STALLS,	/* u32: times that payload waited for a credit */
	SDP_DIAG_SLOT_STALLS,	/* u32: times that it waited for a place of the send queue */
	SDP_DIAG_ROUND_TRIP_US,	/* u32: measured last, smoothed; 0: never */
	SDP_DIAG_TRAFFIC,	/* struct sdp_traffic, which may grow at its end */
	SDP_DIAG_CAUSE,		/* u8: SDP_CAUSE_*: why all that is sent is copied, or why it is TCP */
	SDP_DIAG_THRESHOLD,	/* u32: bytes from which a send() that may wait goes without a copy; 0: none */
	SDP_DIAG_OWN_THRESHOLD,	/* u8: 1: the program has set it; 0: net.sdp.zcopy_thresh */
	SDP_DIAG_TCP_SENT,	/* u64: of a socket on TCP: bytes sent, without those sent again */
	SDP_DIAG_TCP_RECEIVED,	/* u64 */
	__SDP_DIAG_MAX,
};
#define SDP_DIAG_MAX (__SDP_DIAG_MAX - 1)

/* How the bytes of one direction travel. */
#define SDP_MODE_BUFFERED	0	/* in messages only */
#define SDP_MODE_COMBINED	1	/* one SrcAvail at a time as well */
#define SDP_MODE_PIPELINED	2	/* SrcAvails and SinkAvails */

/* Why all that a connection sends is copied. */
#define SDP_CAUSE_OFF		1	/* zero copy is off at this end */
#define SDP_CAUSE_EXCEPTED	2	/* the peer is in net.sdp.zcopy_except */
#define SDP_CAUSE_DEVICE	3	/* the device has too few work requests, or pages in a region */
#define SDP_CAUSE_PEER		4	/* the peer has zero copy off, or takes one offer at a time */
/* The cause of a fallback that its errno does not tell. */
#define SDP_CAUSE_IPSEC		5	/* a policy of IPsec demands TCP's packets */

/* How a connection has ended. */
#define SDP_END_FINISHED	1	/* all bytes of both streams were transferred */
#define SDP_END_RESET		2	/* the peer ended it before that */
#define SDP_END_ABORTED		3	/* this end did */
#define SDP_END_VIOLATION	4	/* the peer broke a rule */
#define SDP_END_LINK_FAILED	5	/* the device or its queue pair failed */
#define SDP_END_UNANSWERED	6	/* the peer was silent */
#define SDP_END_TIMED_OUT	7	/* the peer took no part in the close */

#endif /* _UAPI_LINUX_SDP_DIAG_H */
