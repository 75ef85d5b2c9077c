// SPDX-License-Identifier: GPL-2.0
/*
 * The trace events of sdp_trace.h as functions. Rust looks whether one is switched on
 * before it puts arguments together (trace.rs).
 */
#define CREATE_TRACE_POINTS
#include "sdp_trace.h"

void sdp_trace_state(const struct sdp_trace_ends *ends, int from, int to)
{
	trace_sdp_state(ends, from, to);
}

void sdp_trace_fallback(const struct sdp_trace_ends *ends, int reason)
{
	trace_sdp_fallback(ends, reason);
}

void sdp_trace_transmit(const struct sdp_trace_ends *ends, u32 len, int path)
{
	trace_sdp_transmit(ends, len, path);
}

void sdp_trace_receive(const struct sdp_trace_ends *ends, u32 len, int path)
{
	trace_sdp_receive(ends, len, path);
}

void sdp_trace_stall(const struct sdp_trace_ends *ends, bool slots, u32 credits,
		     u32 unsent)
{
	trace_sdp_stall(ends, slots, credits, unsent);
}

void sdp_trace_advert(const struct sdp_trace_ends *ends, bool sink, int what,
		      u32 len)
{
	trace_sdp_advert(ends, sink, what, len);
}

void sdp_trace_end(const struct sdp_trace_ends *ends, int end, const char *rule)
{
	trace_sdp_end(ends, end, rule);
}
