/* SPDX-License-Identifier: GPL-2.0 */
/*
 * C calls of the socket layer that exist only as macros or inline functions, one
 * wrapper each, and walks over its structures.
 */
#ifndef RUST_NET_HELPERS_H
#define RUST_NET_HELPERS_H

#include <linux/ipv6.h>
#include <linux/net.h>
#include <linux/sockptr.h>
#include <linux/types.h>
#include <net/inet_sock.h>
#include <net/sock.h>

struct pipe_inode_info;
struct seq_file;

/*
 * The beginning of a socket: the part that code of the Internet families reaches
 * if it takes the socket for one of theirs. Only sk is used; the rest is memory.
 */
struct rust_net_inet {
	struct inet_sock inet;
#if IS_ENABLED(CONFIG_IPV6)
	struct ipv6_pinfo inet6;
#endif
};

void rust_net_lock_sock(struct sock *sk);
bool rust_net_try_lock_sock(struct sock *sk);
void rust_net_sock_init(struct socket *sock, struct sock *sk,
			void (*destruct)(struct sock *sk),
			void (*room_set)(struct sock *sk));
void rust_net_write_space(struct sock *sk);
bool rust_net_pipe_has_room(const struct pipe_inode_info *pipe);
void rust_net_pipe_give(struct pipe_inode_info *pipe, struct page *page,
			unsigned int offset, unsigned int len);
ssize_t rust_net_pipe_copy(struct pipe_inode_info *pipe, const void *from,
			   size_t n, bool behind);
bool rust_net_is_nonblocking(const struct socket *sock);
ssize_t rust_net_splice_copies(struct socket *sock, loff_t *position,
			       struct pipe_inode_info *pipe, size_t n,
			       unsigned int flags);
void rust_net_sock_poll_wait(struct file *file, struct socket *sock,
			     struct poll_table_struct *wait);
struct wait_queue_head *rust_net_sk_sleep(struct sock *sk);
void rust_net_waitqueue_init(struct wait_queue_head *queue);
void rust_net_waitqueue_wake(struct wait_queue_head *queue);
void rust_net_waitqueue_begin(struct wait_queue_head *queue,
			      struct wait_queue_entry *wait, bool exclusive);
long rust_net_waitqueue_sleep(struct wait_queue_entry *wait, bool interruptible,
			      long timeo);
long rust_net_waitqueue_sleep_killable(struct wait_queue_entry *wait);
void rust_net_waitqueue_end(struct wait_queue_head *queue,
			    struct wait_queue_entry *wait);
bool rust_net_is_watched(struct sock *sk);
bool rust_net_are_pollers_enough(struct sock *sk, bool readers);
void rust_net_wake_pollers(struct sock *sk);
unsigned int rust_net_busy_poll_us(const struct sock *sk);
bool rust_net_must_yield(void);
int rust_net_sock_intr_errno(long timeo);
int rust_net_copy_from_sockptr(void *dst, sockptr_t src, size_t size);
bool rust_net_sock_reuse(const struct sock *sk);
bool rust_net_sock_reuseport(const struct sock *sk);
int rust_net_sock_device(const struct sock *sk);
int rust_net_set_peek_off(struct sock *sk, int value);
void rust_net_set_rcvlowat(struct sock *sk, int value);
int rust_net_peek_offset(const struct sock *sk);
void rust_net_peek_moved(struct sock *sk, bool peeked, int by);
void rust_net_tell_inq(struct msghdr *msg, int left, bool as_message);
bool rust_net_wants_inq(const struct msghdr *msg);
/* 0 where the message is not in memory of a program. */
size_t rust_net_user_segment(const struct msghdr *msg, unsigned long *addr);
void rust_net_prot_inuse_add(struct sock *sk, int val);
void rust_net_sock_hold(struct sock *sk);
bool rust_net_sock_hold_unless_zero(struct sock *sk);
void rust_net_sock_put(struct sock *sk);
struct net *rust_net_sock_net(const struct sock *sk);
bool rust_net_sock_flag(const struct sock *sk, unsigned int flag);
bool rust_net_sock_graft(struct sock *sk, struct socket *parent);
void rust_net_sock_orphan(struct sock *sk);
void rust_net_note_processor(struct sock *sk);
int rust_net_disconnects(const struct sock *sk);
void rust_net_note_disconnect(struct sock *sk);
int rust_net_inet_ioctl(struct socket *sock, unsigned int command,
			unsigned long arg);
int rust_net_sock_error(struct sock *sk);
int rust_net_sock_cmsg_check(struct sock *sk, struct msghdr *msg);
void rust_net_set_err(struct sock *sk, int err);
int rust_net_get_err(const struct sock *sk);
int rust_net_get_shutdown(const struct sock *sk);
void rust_net_set_shutdown(struct sock *sk, int how);
void rust_net_clear_shutdown(struct sock *sk);
bool rust_net_exiting(void);
bool rust_net_killed(void);
int rust_net_get_state(const struct sock *sk);
void rust_net_set_state(struct sock *sk, int state);
int rust_net_get_sndbuf(const struct sock *sk);
void rust_net_grow_sndbuf(struct sock *sk, int bytes);
int rust_net_get_rcvbuf(const struct sock *sk);
bool rust_net_has_own_rcvbuf(const struct sock *sk);
void rust_net_set_wmem_queued(struct sock *sk, int bytes);
long rust_net_sock_sndtimeo(const struct sock *sk, bool nonblock);
long rust_net_sock_rcvtimeo(const struct sock *sk, bool nonblock);
int rust_net_sock_rcvlowat(const struct sock *sk, bool waitall, int len);
bool rust_net_sock_linger(const struct sock *sk, unsigned long *jiffies);
void rust_net_wake_readable(struct sock *sk);
void rust_net_wake_writable(struct sock *sk);
void rust_net_wake_state(struct sock *sk);
void rust_net_wake_sleepers(struct sock *sk);
void rust_net_wake_connected(struct sock *sk);
void rust_net_wake_hangup(struct sock *sk);
void rust_net_wake_urgent(struct sock *sk);
void rust_net_wake_error(struct sock *sk);
void rust_net_note_no_space(struct sock *sk);
unsigned long rust_net_sock_inode(struct sock *sk);
unsigned int rust_net_sock_uid(struct sock *sk);
unsigned int rust_net_sock_kuid(struct sock *sk);
unsigned int rust_net_uid_of(struct net *net, unsigned int kuid);
void *rust_net_net_generic(struct net *net, unsigned int id);
void rust_net_local_port_range(struct net *net, int *low, int *high);
bool rust_net_port_is_reserved(struct net *net, unsigned short port);
bool rust_net_may_bind_low_port(struct net *net, unsigned short port);
bool rust_net_addr_is_local4(struct net *net, __be32 addr, int device);
bool rust_net_addr_is_local6(struct net *net, const struct in6_addr *addr,
			     int ifindex);
bool rust_net_v6only_by_default(struct net *net);
int rust_net_vrf_of(struct net *net, int device);
bool rust_net_vrfs_are_open(struct net *net);
int rust_net_sock_vrf(const struct sock *sk);
void rust_net_sock_enter_vrf(struct sock *sk, int vrf);
struct net *rust_net_seq_net(struct seq_file *m);
extern long rust_net_mem[3];
int rust_net_memory_init(struct proto *prot);
void rust_net_memory_exit(void);
int rust_net_memory_charge(const struct sock *sk, unsigned int pages, bool needs);
void rust_net_memory_uncharge(unsigned int pages);
bool rust_net_memory_is_tight(const struct sock *sk);
bool rust_net_memory_is_out(const struct sock *sk);
long rust_net_memory_pages(void);
void rust_net_put_net(struct net *net);

#endif /* RUST_NET_HELPERS_H */
