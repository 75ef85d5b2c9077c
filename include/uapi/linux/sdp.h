/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/*
 * Sockets Direct Protocol: every number that programs and the module share.
 *
 * Other code, in any language, reads its numbers from here.
 */
#ifndef _UAPI_LINUX_SDP_H
#define _UAPI_LINUX_SDP_H

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
 * SDP_TRANSPORT_BOTH set, for programs whose protocol can be chosen from
 * outside. The number is that of PROTO_SDP in Solaris.
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
/* int, get only: the errno for which SDP was given up, or 0. */
#define SDP_FALLBACK_REASON	84

/* Directories of the knobs and names of the files under /proc. */
#define SDP_SYSCTL_DIR		"net/sdp"
#define SDP_PROC_SOCKETS	"sdp"
#define SDP_PROC_STATS		"sdpstats"

#endif /* _UAPI_LINUX_SDP_H */
