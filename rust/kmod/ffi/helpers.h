/* SPDX-License-Identifier: GPL-2.0 */
/*
 * C calls that exist only as macros or inline functions, one wrapper each.
 * Sorted by the header that owns the wrapped call.
 */
#ifndef SDP_FFI_HELPERS_H
#define SDP_FFI_HELPERS_H

#include <linux/ipv6.h>
#include <linux/sdp.h>
#include <linux/types.h>
#include <linux/net.h>
#include <linux/sockptr.h>
#include <linux/tracepoint-defs.h>
#include <linux/workqueue.h>
#include <net/inet_sock.h>
#include <net/sock.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>
#include "../../net/ffi/helpers.h"

struct pipe_inode_info;
struct seq_file;

/* linux/mm.h, linux/gfp.h */
struct page *sdp_alloc_pages(struct sock *sk, unsigned int order);
/* Whether the socket's cgroup has memory beyond what its programs need soon. May sleep. */
bool sdp_leaves_room(struct sock *sk);
void *sdp_page_address(struct page *page);
/* Pages that a call of sdp_splice_pages() finds at most. */
#define SDP_SPLICE_PAGES 8
struct sdp_spliced {
	struct page *page;
	unsigned int offset;
	unsigned int len;
};

unsigned int sdp_splice_pages(struct msghdr *msg, size_t max,
			      struct sdp_spliced *to, unsigned int count);

/* linux/pipe_fs_i.h, linux/splice.h: a pipe that is locked */

/* linux/poll.h, net/sock.h: waiting */

/* linux/sockptr.h, linux/uaccess.h */
/* TCP_CA_NAME_MAX */
#define SDP_CONGESTION_LEN 16
int sdp_congestion_name(struct net *net, sockptr_t value, unsigned int len,
			char *name);
int sdp_sockopt_int(sockptr_t value, unsigned int len, int *number);
unsigned long sdp_copy_to_user(void __user *to, const void *from, size_t n);
unsigned long sdp_copy_from_user(void *to, const void __user *from, size_t n);

/* linux/percpu.h */
void *sdp_percpu_alloc(size_t size, size_t align);
void sdp_percpu_free(void *memory);
/* The copy of this processor, which may change at any time. */
void *sdp_percpu_here(void *memory);
/* The copy of the next processor after *cpu, or null. */
void *sdp_percpu_next(void *memory, int *cpu);

/* linux/workqueue.h */
struct workqueue_struct *sdp_alloc_workqueue(const char *name);
void sdp_init_delayed_work(struct delayed_work *work, work_func_t func);
bool sdp_mod_delayed_work(struct workqueue_struct *wq,
			  struct delayed_work *work, unsigned long msecs);
bool sdp_queue_delayed_work(struct workqueue_struct *wq,
			    struct delayed_work *work, unsigned long msecs);
bool sdp_is_delayed_work_pending(const struct delayed_work *work);
bool sdp_cancel_delayed_work(struct delayed_work *work);

/* net/sock.h */
int sdp_set_reuseport(struct sock *sk, sockptr_t value, unsigned int len);
void sdp_sock_prepare(struct sock *sk);
void sdp_sock_forget(struct sock *sk);
struct page_frag *sdp_sk_frag(struct sock *sk);
void sdp_sock_inherit(struct sock *child, struct sock *parent);
unsigned int sdp_responsible_user(void);
bool sdp_is_bpf(void);
bool sdp_page_frag_refill(struct sock *sk, struct page_frag *frag, bool small);
bool sdp_drop_fragment(struct sock *sk);
u64 sdp_sock_cookie(struct sock *sk);

/* net/net_namespace.h, net/ip.h, net/ipv6.h: names and ports */
struct sdp_way {
	/* The interface, or 0 if rdma_cm shall find one by the address. */
	int device;
	/* rdma_cm would choose another next hop than this one. */
	bool through;
	/* There is none because of a policy of IPsec. */
	bool is_for_ipsec;
	struct __kernel_sockaddr_storage next;
};

int sdp_find_way(const struct sock *sk, u8 class,
		 const struct __kernel_sockaddr_storage *dst,
		 struct __kernel_sockaddr_storage *src, struct sdp_way *way);
void sdp_addr_set_class(struct sockaddr_in6 *addr, u8 class);
struct dst_entry;
struct flowi;
int sdp_ask_ipsec_out(struct net *net, struct dst_entry *dst, struct flowi *fl);
int sdp_ask_ipsec_in(struct net *net, int device,
		     const struct __kernel_sockaddr_storage *from,
		     const struct __kernel_sockaddr_storage *to);
int sdp_ask_ipsec(const struct sock *sk, int device, bool within_host,
		  const struct __kernel_sockaddr_storage *local,
		  const struct __kernel_sockaddr_storage *peer);

/* net/netns, procfs and sysctl of one namespace: see namespace.c */
#define SDP_PEERS_LEN 256
struct sdp_knobs {
	int rcv_size;
	int rcv_size_initial;
	int rcv_depth;
	int send_depth;
	int keepalive_time;
	int keepalive_intvl;
	int keepalive_probes;
	int close_timeout_ms;
	int max_orphans;
	/* The tasks that may use TCP beside SDP: SDP_COMPANION_*. */
	int companion;
	int tcp_after_ms;
	int zcopy_thresh;
	int zcopy_regions;
	int zcopy_cache;
	int busy_poll;
	int chunk;
	/* Under the lock of sdp_knob_peers(). */
	char zcopy_except[SDP_PEERS_LEN];
};

int sdp_sysctl_register(struct net *net, struct sdp_knobs *knobs,
			bool (*check)(const char *text),
			struct ctl_table_header **header);
/* Of the whole machine. */
extern int sdp_user_share;
struct net *sdp_first_net(void);
extern int sdp_copy_engine;
int sdp_copy_engine_handler(const struct ctl_table *table, int write,
			    void *buffer, size_t *len, loff_t *pos);
/* The copy engine of readers: see copier.c. */
int sdp_engine_init(void);
void sdp_engine_exit(void);
void sdp_knob_peers(const struct sdp_knobs *knobs, char *text);
void sdp_sysctl_unregister(struct ctl_table_header *header);
int sdp_proc_create(struct net *net,
		    unsigned long (*after)(struct net *, unsigned long),
		    void (*show)(struct seq_file *, struct net *, unsigned long,
				 unsigned int),
		    int (*stats)(struct seq_file *, void *),
		    int (*peers)(struct seq_file *, void *));
void sdp_proc_remove(struct net *net);

/* Longer than the name of any rule of spec/sdp.md. */
#define SDP_RULE_LEN 16

/* Trace events: see trace.c */
struct sdp_trace_ends {
	struct sock *sk;
	u8 local[16];
	u8 peer[16];
	u16 local_port;
	u16 peer_port;
};
#define SDP_PATH_CONTROL	0
#define SDP_PATH_COPY		1
#define SDP_PATH_GATHERED	2
#define SDP_PATH_READ		3
#define SDP_PATH_FETCHED	4
#define SDP_PATH_WRITTEN	5
#define SDP_PATH_WRITTEN_COPY	6
#define SDP_ADVERT_SENT		0
#define SDP_ADVERT_RECEIVED	1
#define SDP_ADVERT_STALE	2
#define SDP_ADVERT_USED		3
#define SDP_ADVERT_DECLINED	4
#define SDP_ADVERT_RECALLED	5
#define SDP_ADVERT_WITHDRAWN	6
#define SDP_ADVERT_UNUSED	7
#define SDP_ADVERT_RETURNED	8
#define SDP_ADVERT_OVER		9
#ifdef CONFIG_TRACEPOINTS
extern struct tracepoint __tracepoint_sdp_state;
extern struct tracepoint __tracepoint_sdp_fallback;
extern struct tracepoint __tracepoint_sdp_transmit;
extern struct tracepoint __tracepoint_sdp_receive;
extern struct tracepoint __tracepoint_sdp_stall;
extern struct tracepoint __tracepoint_sdp_advert;
extern struct tracepoint __tracepoint_sdp_end;
#endif
void sdp_trace_state(const struct sdp_trace_ends *ends, int from, int to);
void sdp_trace_fallback(const struct sdp_trace_ends *ends, int reason);
void sdp_trace_transmit(const struct sdp_trace_ends *ends, u32 len, int path);
void sdp_trace_receive(const struct sdp_trace_ends *ends, u32 len, int path);
void sdp_trace_stall(const struct sdp_trace_ends *ends, bool slots, u32 credits,
		     u32 unsent);
void sdp_trace_advert(const struct sdp_trace_ends *ends, bool sink, int what,
		      u32 len);
void sdp_trace_end(const struct sdp_trace_ends *ends, int end, const char *rule);

/* The view of one socket by netlink: see diag.c */
struct sdp_view {
	u8 state;
	u8 transport;
	/* It may still become one or the other. */
	bool open;
	/* Of an address: 4 or 16. */
	u8 local_len;
	u8 peer_len;
	u8 local[16];
	u8 peer[16];
	u16 local_port;
	u16 peer_port;
	u32 local_scope;
	u32 peer_scope;
	u32 rx_queue;
	u32 tx_queue;
	int reason;
	char device[IB_DEVICE_NAME_MAX];
	/* There is or was a connection: the modes mean something. */
	bool has_modes;
	u8 mode_send;
	u8 mode_receive;
	u8 end;
	char rule[SDP_RULE_LEN];
	u64 offered;
	/* Those below mean something. */
	bool has_flow;
	u32 credits;
	u32 posted;
	u32 rcv_size;
	u32 max_payload;
	u32 credit_stalls;
	u32 slot_stalls;
	u32 round_trip_us;
	struct sdp_traffic traffic;
	u8 cause;
	bool own_threshold;
	u32 threshold;
	/* Of a socket on TCP. */
	u64 tcp_sent;
	u64 tcp_received;
};

/* @look gives the socket with a reference, or NULL where there is none any more. */
int sdp_diag_register(unsigned long (*after)(struct net *, unsigned long),
		      struct sock *(*look)(struct net *, unsigned long,
					   struct sdp_view *));
void sdp_diag_unregister(void);
void sdp_companion_view(struct sock *sk, struct sdp_view *view);

/* The account of the protocol: see memory.c */

/* The TCP socket beside an SDP one: see companion.c, companion_calls.c, option.c */
struct sdp_companion;
int sdp_companion_make(struct sock *sk, int family);
void sdp_companion_init(struct sock *sk);
struct sdp_companion *sdp_companion_detach(struct sock *sk);
void sdp_companion_free(struct sdp_companion *c);
struct socket *sdp_companion_ready(struct sock *sk);
struct socket *sdp_companion_enter(struct sock *sk);
void sdp_companion_set_idle(struct sock *sk, bool idle);
void sdp_companion_use(struct sock *sk, int reason);
int sdp_companion_reason(struct sock *sk);
void sdp_companion_begin(struct sock *sk, const void *addr, int len);
bool sdp_companion_attempt(struct sock *sk);
void sdp_companion_end(struct sock *sk);
void sdp_companion_retry(struct sock *sk);
bool sdp_companion_race(struct sock *sk);
int sdp_companion_state(struct sock *sk);
bool sdp_companion_is_reset(struct sock *sk);
bool sdp_companion_leave_race(struct sock *sk, bool made);
int sdp_companion_retry_error(struct sock *sk);
void sdp_companion_catch_up(struct sock *sk);
__poll_t sdp_companion_poll(struct sock *sk, struct file *file);
int sdp_companion_listen(struct sock *sk, int backlog);
int sdp_companion_shutdown(struct sock *sk, int how);
void sdp_companion_show_state(struct sock *sk);
int sdp_companion_accept(struct sock *sk, struct socket *new_socket,
			 struct proto_accept_arg *arg);
bool sdp_companion_turn(struct sock *sk);
int sdp_companion_setsockopt(struct sock *sk, int level, int option,
			     sockptr_t value, unsigned int len, int own);
int sdp_companion_set_tcp(struct sock *sk, int level, int option,
			  sockptr_t value, unsigned int len);
int sdp_companion_getsockopt(struct socket *tcp, int level, int option,
			     char __user *value, int __user *len);
void sdp_companion_show_moved(struct sock *sk);
int sdp_companion_ioctl(struct sock *sk, int command, int *result);

/* The tasks that may use it: see permission.c */
bool sdp_is_confined(void);
int sdp_ask_connect(struct socket *tcp, const void *addr, int len);
int sdp_ask_bind(struct socket *tcp, const void *addr, int len);

/* IPPROTO_SDP: see protocol.c */
int sdp_shells_register(void);
void sdp_shells_unregister(void);
int sdp_protocol_register(const struct proto_ops *ops,
			  int (*make)(struct socket *, struct sock *, int),
			  void (*unmake)(struct sock *));
void sdp_protocol_unregister(void);
void sdp_shell_free(struct sock *shell);

/* net/ip_fib.h, net/ip6_route.h: see routes.c */
bool sdp_route_is_by(struct net *net, int device, const struct sockaddr *local,
		     const struct sockaddr *peer);

#endif /* SDP_FFI_HELPERS_H */
