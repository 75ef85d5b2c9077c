/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The trace events sdp:*. Each has the ends of the connection, the number that
 * SO_COOKIE and `sdp_ss -e` show of the socket, and the SO_NETNS_COOKIE of its namespace.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM sdp

#if !defined(_SDP_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _SDP_TRACE_H

#include <linux/sdp_diag.h>
#include <linux/string.h>
#include <linux/tracepoint.h>
#include <net/net_namespace.h>
#include <net/sock.h>
#include <net/tcp_states.h>

#include "helpers.h"

#ifndef SDP_TRACE_ENDS
#define SDP_TRACE_ENDS							\
	__field(const void *, skaddr)					\
	__field(u64, cookie)						\
	__field(u64, net_cookie)					\
	__field(u16, sport)						\
	__field(u16, dport)						\
	__array(u8, saddr, 16)						\
	__array(u8, daddr, 16)
#define SDP_TRACE_ASSIGN_ENDS						\
	__entry->skaddr = ends->sk;					\
	__entry->cookie = sdp_sock_cookie(ends->sk);			\
	__entry->net_cookie = sock_net(ends->sk)->net_cookie;		\
	__entry->sport = ends->local_port;				\
	__entry->dport = ends->peer_port;				\
	memcpy(__entry->saddr, ends->local, sizeof(ends->local));	\
	memcpy(__entry->daddr, ends->peer, sizeof(ends->peer))
#define SDP_TRACE_PRINT "cookie=%llx [%pI6c]:%u [%pI6c]:%u "
#define SDP_TRACE_PRINTED						\
	__entry->cookie, __entry->saddr, __entry->sport,		\
	__entry->daddr, __entry->dport
#define sdp_show_state(number) __print_symbolic(number,			\
	{ 1, "ESTABLISHED" }, { 2, "SYN_SENT" }, { 3, "SYN_RECV" },	\
	{ 4, "FIN_WAIT1" }, { 5, "FIN_WAIT2" }, { 6, "TIME_WAIT" },	\
	{ 7, "CLOSE" }, { 8, "CLOSE_WAIT" }, { 9, "LAST_ACK" },		\
	{ 10, "LISTEN" }, { 11, "CLOSING" })
#define sdp_show_path(number) __print_symbolic(number,			\
	{ SDP_PATH_CONTROL, "control" }, { SDP_PATH_COPY, "copy" },	\
	{ SDP_PATH_GATHERED, "gathered" }, { SDP_PATH_READ, "read" },	\
	{ SDP_PATH_FETCHED, "fetched" },				\
	{ SDP_PATH_WRITTEN, "written" },				\
	{ SDP_PATH_WRITTEN_COPY, "written_copy" })
#define sdp_show_advert(number) __print_symbolic(number,		\
	{ SDP_ADVERT_SENT, "sent" }, { SDP_ADVERT_RECEIVED, "received" }, \
	{ SDP_ADVERT_STALE, "stale" }, { SDP_ADVERT_USED, "used" },	\
	{ SDP_ADVERT_DECLINED, "declined" },				\
	{ SDP_ADVERT_RECALLED, "recalled" },				\
	{ SDP_ADVERT_WITHDRAWN, "withdrawn" },				\
	{ SDP_ADVERT_UNUSED, "unused" },				\
	{ SDP_ADVERT_RETURNED, "returned" }, { SDP_ADVERT_OVER, "over" })
#define sdp_show_end(number) __print_symbolic(number,			\
	{ SDP_END_FINISHED, "finished" }, { SDP_END_RESET, "reset" },	\
	{ SDP_END_ABORTED, "aborted" },					\
	{ SDP_END_VIOLATION, "violation" },				\
	{ SDP_END_LINK_FAILED, "link_failed" },				\
	{ SDP_END_UNANSWERED, "unanswered" },				\
	{ SDP_END_TIMED_OUT, "timed_out" })
#endif

/* A socket's state has changed, in TCP's words. */
TRACE_EVENT(sdp_state,
	TP_PROTO(const struct sdp_trace_ends *ends, int oldstate, int newstate),
	TP_ARGS(ends, oldstate, newstate),
	TP_STRUCT__entry(
		SDP_TRACE_ENDS
		__field(int, oldstate)
		__field(int, newstate)
	),
	TP_fast_assign(
		SDP_TRACE_ASSIGN_ENDS;
		__entry->oldstate = oldstate;
		__entry->newstate = newstate;
	),
	TP_printk(SDP_TRACE_PRINT "oldstate=%s newstate=%s", SDP_TRACE_PRINTED,
		  sdp_show_state(__entry->oldstate),
		  sdp_show_state(__entry->newstate))
);

/* A socket has given SDP up for TCP. */
TRACE_EVENT(sdp_fallback,
	TP_PROTO(const struct sdp_trace_ends *ends, int reason),
	TP_ARGS(ends, reason),
	TP_STRUCT__entry(
		SDP_TRACE_ENDS
		__field(int, reason)
	),
	TP_fast_assign(
		SDP_TRACE_ASSIGN_ENDS;
		__entry->reason = reason;
	),
	TP_printk(SDP_TRACE_PRINT "reason=%d", SDP_TRACE_PRINTED, __entry->reason)
);

/* Bytes of the stream have gone a way, or a message without any. */
DECLARE_EVENT_CLASS(sdp_bytes,
	TP_PROTO(const struct sdp_trace_ends *ends, u32 len, int path),
	TP_ARGS(ends, len, path),
	TP_STRUCT__entry(
		SDP_TRACE_ENDS
		__field(u32, len)
		__field(int, path)
	),
	TP_fast_assign(
		SDP_TRACE_ASSIGN_ENDS;
		__entry->len = len;
		__entry->path = path;
	),
	TP_printk(SDP_TRACE_PRINT "len=%u path=%s", SDP_TRACE_PRINTED,
		  __entry->len, sdp_show_path(__entry->path))
);

DEFINE_EVENT(sdp_bytes, sdp_transmit,
	TP_PROTO(const struct sdp_trace_ends *ends, u32 len, int path),
	TP_ARGS(ends, len, path));

DEFINE_EVENT(sdp_bytes, sdp_receive,
	TP_PROTO(const struct sdp_trace_ends *ends, u32 len, int path),
	TP_ARGS(ends, len, path));

/* Payload begins to wait: for a credit of the peer, or for a place in the send queue. */
TRACE_EVENT(sdp_stall,
	TP_PROTO(const struct sdp_trace_ends *ends, bool slots, u32 credits, u32 unsent),
	TP_ARGS(ends, slots, credits, unsent),
	TP_STRUCT__entry(
		SDP_TRACE_ENDS
		__field(bool, slots)
		__field(u32, credits)
		__field(u32, unsent)
	),
	TP_fast_assign(
		SDP_TRACE_ASSIGN_ENDS;
		__entry->slots = slots;
		__entry->credits = credits;
		__entry->unsent = unsent;
	),
	TP_printk(SDP_TRACE_PRINT "for=%s credits=%u unsent=%u", SDP_TRACE_PRINTED,
		  __entry->slots ? "slot" : "credit", __entry->credits,
		  __entry->unsent)
);

/* The life of an advertisement; len is 0 where it is not known or means nothing. */
TRACE_EVENT(sdp_advert,
	TP_PROTO(const struct sdp_trace_ends *ends, bool sink, int what, u32 len),
	TP_ARGS(ends, sink, what, len),
	TP_STRUCT__entry(
		SDP_TRACE_ENDS
		__field(bool, sink)
		__field(int, what)
		__field(u32, len)
	),
	TP_fast_assign(
		SDP_TRACE_ASSIGN_ENDS;
		__entry->sink = sink;
		__entry->what = what;
		__entry->len = len;
	),
	TP_printk(SDP_TRACE_PRINT "kind=%s what=%s len=%u", SDP_TRACE_PRINTED,
		  __entry->sink ? "SinkAvail" : "SrcAvail",
		  sdp_show_advert(__entry->what), __entry->len)
);

/* A connection has ended: how, and of a violation which rule of spec/sdp.md. */
TRACE_EVENT(sdp_end,
	TP_PROTO(const struct sdp_trace_ends *ends, int end, const char *rule),
	TP_ARGS(ends, end, rule),
	TP_STRUCT__entry(
		SDP_TRACE_ENDS
		__field(int, end)
		__array(char, rule, SDP_RULE_LEN)
	),
	TP_fast_assign(
		SDP_TRACE_ASSIGN_ENDS;
		__entry->end = end;
		strscpy(__entry->rule, rule, SDP_RULE_LEN);
	),
	TP_printk(SDP_TRACE_PRINT "end=%s rule=%s", SDP_TRACE_PRINTED,
		  sdp_show_end(__entry->end), __entry->rule)
);

#endif /* _SDP_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE sdp_trace

#include <trace/define_trace.h>
