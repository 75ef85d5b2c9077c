/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Sockets Direct Protocol: every number that programs and the module share.
 *
 * Other code, in any language, reads its numbers from here.
 */
#ifndef _UAPI_LINUX_SDP_H
#define _UAPI_LINUX_SDP_H

#include <linux/types.h>

/*
 * socket(AF_INET_SDP, SOCK_STREAM, 0 or IPPROTO_TCP)
 *
 * 27 is what every SDP program has been compiled with (OFED, libsdp, OpenJDK,
 * qperf). Today's headers call the same number AF_IB, but no socket family is
 * registered under that name.
 */
#define AF_INET_SDP		27
#define PF_INET_SDP		AF_INET_SDP

/*
 * Accepted as sa_family of a struct sockaddr_in6 only. It is not a socket
 * family here: the kernel has another owner for the number (AF_MPLS).
 */
#define AF_INET6_SDP		28

/*
 * socket(AF_INET or AF_INET6, SOCK_STREAM, IPPROTO_SDP): the same socket with
 * SDP_TRANSPORT_BOTH set, for programs with a protocol that can be chosen from
 * outside. PROTO_SDP of Solaris has the same number. EPERM where the task may
 * not use TCP beside SDP (SDP_COMPANION_*). Loads no module.
 */
#define IPPROTO_SDP		257

/* IB CM service id of TCP-style port N is SDP_SERVICE_ID_BASE + N. */
#define SDP_SERVICE_ID_BASE	0x10000

/*
 * Options at level SOL_TCP. 80 and 81 are the numbers of the OFED module, and
 * programs use them.
 */
#define SDP_ZCOPY_THRESH	80	/* int, bytes: 0 (off), or a page to 1 MiB */
#define SDP_LAST_BIND_ERR	81	/* int, get only: 0 or -errno of the last bind() */
/*
 * int, AF_INET or AF_INET6: the family of the addresses of a socket that is
 * not bound yet. A socket starts as AF_INET and becomes AF_INET6 when it is
 * bound or connected with an IPv6 address; a program that asked for an
 * AF_INET6 socket sets it at once so that its names are IPv6 from the start.
 */
#define SDP_SOCK_FAMILY		82
/*
 * int: what the socket may use. Set it first, after SDP_SOCK_FAMILY at most:
 * options set before reach the SDP half only. It may be set again until the
 * socket is connected or listens, but not once it is TCP.
 *
 * With SDP_TRANSPORT_BOTH, connect() tries SDP and then TCP, and listen()
 * listens on both; what comes over TCP is accepted as an ordinary TCP socket.
 *
 * get: SDP_TRANSPORT_SDP or _TCP is what the socket uses, _BOTH means that it
 * listens on both or has not decided.
 */
#define SDP_TRANSPORT		83
#define SDP_TRANSPORT_SDP	0
#define SDP_TRANSPORT_BOTH	1
#define SDP_TRANSPORT_TCP	2
/*
 * int, get only: the errno for which SDP was given up, or 0. EOPNOTSUPP: for an
 * option that SDP has not.
 */
#define SDP_FALLBACK_REASON	84
/*
 * int, as SDP_ZCOPY_THRESH, which sets both: from which length on a send()
 * offers its memory, and a recv() has its memory read or written into.
 */
#define SDP_ZCOPY_SOURCE_THRESH	85
#define SDP_ZCOPY_SINK_THRESH	86
/*
 * struct sdp_traffic, get only: what the socket has counted in all its life. A
 * program that knows fewer counters gets those that it has room for, and one
 * that knows more gets a shorter length.
 */
#define SDP_TRAFFIC		87
/* 88 was an option that no longer exists; the number is not used again. */

struct sdp_traffic {
	/* stream bytes sent by BCopy */
	__u64 bcopy_bytes_sent;
	/* stream bytes received by BCopy */
	__u64 bcopy_bytes_received;
	/* stream bytes that the peer read from where the writer has them */
	__u64 zcopy_bytes_sent;
	/* stream bytes read to where the reader wants them */
	__u64 zcopy_bytes_received;
	/* stream bytes written by RDMA from where the writer has them */
	__u64 written_bytes_sent;
	/* stream bytes that the peer wrote to where the reader wants them */
	__u64 written_bytes_received;
	/* stream bytes written by RDMA from a copy */
	__u64 copied_bytes_written;
	/* stream bytes sent as Data from where the writer has them */
	__u64 gathered_bytes_sent;
	/* stream bytes read into buffers of the kernel */
	__u64 fetched_bytes_received;
	/* bytes copied because the reader's memory had changed meanwhile */
	__u64 changed_bytes;
	/* stretches of memory offered to peers to be read */
	__u64 adverts_sent;
	/* stretches of memory that peers offered to be read */
	__u64 adverts_received;
	/* offers with a rest that peers wanted as Data */
	__u64 adverts_declined;
	/*
	 * offers taken back because no peer read, or as peers had room to be
	 * written to
	 */
	__u64 adverts_recalled;
	/* offers withdrawn: a signal, a timeout */
	__u64 adverts_withdrawn;
	/* offers not made in the end: the bytes went as Data */
	__u64 adverts_unused;
	/* answers of peers about offers that had ended */
	__u64 answers_stale;
	/* stretches of memory offered to peers to be written */
	__u64 sinks_sent;
	/* of these, written to */
	__u64 sinks_used;
	/* of these, used up by a message with payload */
	__u64 sinks_discarded;
	/* of these, taken back or crossed, unused */
	__u64 sinks_returned;
	/* stretches of memory that peers offered to be written */
	__u64 sinks_received;
	/* of these, offered too late */
	__u64 sinks_stale;
	/* calls cut short by a signal while they had something offered */
	__u64 cancels_by_signal;
	/* as before, by the end of their time */
	__u64 cancels_by_timeout;
	/* as before, by a signal that kills */
	__u64 cancels_by_kill;
	/* registrations with a memory region that was there */
	__u64 region_hits;
	/* registrations for which one was made */
	__u64 region_misses;
	/* times that there was none */
	__u64 region_shortages;
	/*
	 * stretches of memory that could not be pinned or mapped, and were
	 * copied
	 */
	__u64 pin_failures;
	/* microseconds that calls waited for the peer with their memory pinned */
	__u64 peer_wait_us;
	/* stretches of memory that the translation cache had */
	__u64 cache_hits;
	/* stretches of memory that it could have had */
	__u64 cache_misses;
	/* stream bytes copied because a long call may not wait for the peer */
	__u64 copied_nowait_bytes;
	/* as before, because the memory cannot be pinned */
	__u64 copied_memory_bytes;
	/* as before, because regions or memory to pin have run out */
	__u64 copied_limit_bytes;
	/* as before, because the peer takes no offer at that time */
	__u64 copied_busy_bytes;
	/* bytes of offers requested as Data, because a call may not wait for a Read */
	__u64 declined_bytes;
};

/*
 * Borrowing: a sendmsg() with the control message SDP_BORROW (level SOL_TCP)
 * returns while the peer still has to read pages of the program. It must not
 * change them until the counter says that they are its own again. sdp(7)
 * explains it.
 *
 * struct sdp_borrow, set only: where the socket counts, and how much it may
 * borrow. Set it before connect() or listen() the first time; accepted sockets
 * inherit nothing but that they can borrow, and have a counter set for
 * themselves. Lent memory goes on being counted where it was.
 */
#define SDP_BORROW		89

struct sdp_borrow {
	/*
	 * address of a struct sdp_borrow_counter, on a multiple of 8, in memory
	 * of the program that stays mapped; 0: none, nothing is borrowed
	 */
	__u64 counter;
	/* an eventfd to signal when a stretch has ended, or -1 */
	__s32 eventfd;
	__u32 flags;
	/* bytes from which on a stretch is borrowed: 0 (never), or a page to 1 MiB */
	__u32 least;
	/* limits of what is borrowed at a time; 0: 4 MiB, 16 stretches */
	__u32 window_bytes;
	__u32 window_runs;
	__u32 reserved;
};

/* Flag: close() does not wait for the ends of borrowed stretches. */
#define SDP_BORROW_NO_LINGER	1

struct sdp_borrow_counter {
	/* stretches that have ended; wraps */
	__u32 ended;
	/* 1 when nothing is or will be counted here any more */
	__u32 gone;
};

/* The data of the control message: the address of one of these. */
struct sdp_borrowed {
	/* set: the address of the socket's counter; 0 if this process set none */
	__u64 counter;
	/* the address of an array of struct sdp_borrow_range */
	__u64 ranges;
	/* the number of its elements */
	__u32 room;
	/* those in use; the call appends its own and adds their number */
	__u32 count;
};

/* Whole pages that are borrowed. */
struct sdp_borrow_range {
	__u64 start;
	__u32 len;
	/* they are free as soon as (__s32)(ended - id) >= 0 */
	__u32 id;
};

/*
 * struct sdp_borrow_wait, set only: waits until the stretch of that id and
 * those before it have ended. EAGAIN after the time.
 */
#define SDP_BORROW_WAIT		90
/*
 * The same, and has the peer give them back: what it has not read is copied
 * and sent from the copy.
 */
#define SDP_BORROW_CANCEL	91

struct sdp_borrow_wait {
	__u32 id;
	/* milliseconds, or SDP_BORROW_FOREVER */
	__u32 timeout_ms;
};

#define SDP_BORROW_FOREVER	0xffffffff

/* struct sdp_borrow_info, get only */
#define SDP_BORROW_INFO		92

struct sdp_borrow_info {
	/* the address of the counter; 0 if this process set none */
	__u64 counter;
	/* the number of stretches that were borrowed, which is the last id */
	__u32 issued;
	/* of these, ended */
	__u32 ended;
	/* bytes that are borrowed now */
	__u32 bytes;
	__u32 least;
	__u32 window_bytes;
	__u32 window_runs;
	/* stretches that can be offered to the peer at a time; 0: none */
	__u32 adverts;
	__u32 reserved;
	/* the address of the counter of SDP_AHEAD; 0 if this process set none */
	__u64 ahead;
};

/*
 * Receiving ahead: a blocking recvmsg() with the flag MSG_ZEROCOPY returns while
 * RDMA Reads still write to whole pages of the program. The control message
 * SDP_AHEAD (level SOL_TCP), a struct sdp_borrow_range, says which pages. The
 * program must not touch them until the counter says that they are filled, and
 * they never are if it says that the connection broke. sdp(7) explains it.
 *
 * struct sdp_ahead, set only: where the socket counts. The rules of struct
 * sdp_borrow hold for it.
 */
#define SDP_AHEAD		93

struct sdp_ahead {
	/*
	 * address of a struct sdp_ahead_counter, on a multiple of 16, in memory
	 * of the program that stays mapped; 0: none
	 */
	__u64 counter;
	/* bytes from which on a call receives ahead: 0 (never), or a page to 1 MiB */
	__u32 least;
	__u32 reserved;
};

struct sdp_ahead_counter {
	/* stretches that have come; wraps */
	__u32 ended;
	/* 1 when the stretches that are not counted by now will never come */
	__u32 failed;
	/* of the first one of these, the bytes at its beginning that have come */
	__u32 filled;
	/* 1 when nothing is or will be counted here any more */
	__u32 gone;
};

/*
 * struct sdp_borrow_wait, set only: waits until the stretch of that id and those
 * before it have come. EAGAIN after the time, EIO if they never will.
 */
#define SDP_AHEAD_WAIT		94

/*
 * Values of the knob "companion": in which processes a socket may use TCP beside
 * SDP. The others get EPERM from setsockopt(SDP_TRANSPORT) and from
 * socket(..., IPPROTO_SDP), and a socket that they were given and that has not
 * decided is SDP's alone from bind(), connect() or listen() on.
 */
#define SDP_COMPANION_NEVER	0
#define SDP_COMPANION_UNCONFINED	1	/* not those with no_new_privs */
#define SDP_COMPANION_ALWAYS	2

/* Directories of the knobs and names of the files under /proc. */
#define SDP_SYSCTL_DIR		"net/sdp"
#define SDP_PROC_SOCKETS	"sdp"
#define SDP_PROC_STATS		"sdpstats"
#define SDP_PROC_PEERS		"sdppeers"

#endif /* _UAPI_LINUX_SDP_H */
