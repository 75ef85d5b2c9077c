// SPDX-License-Identifier: GPL-2.0
/*
 * The account of the protocol: the pages of payload that all its sockets hold, and
 * their limits, which a sysctl may have. /proc/net/protocols shows both.
 *
 * The pages are charged to a memory cgroup one by one, when they are allocated
 * (__GFP_ACCOUNT), because mem_cgroup_sk_charge() is not for modules, and because a
 * page that goes on into a pipe stays charged. So __sk_mem_schedule(), which charges
 * the cgroup as well, would charge it twice; what follows is the other half of it.
 * It needs no lock, neither the socket's nor any other.
 */
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/swap.h>
#include <net/hotdata.h>
#include <net/proto_memory.h>
#include <net/sock.h>

#include "helpers.h"

static atomic_long_t memory_allocated;
/*
 * Allocated, because clang's large code model, which User Mode Linux has, cannot take
 * the address of a static one in a module.
 */
static int __percpu *memory_per_cpu;
static unsigned long memory_pressure;
static struct proto *accounted;

/*
 * Limits in pages: no pressure, pressure, maximum. For all namespaces together.
 */
long rust_net_mem[3];

/*
 * As tcp_init_mem(), and twice as much: a connection that does nothing holds receive
 * buffers of 16 KiB, where TCP's holds nothing.
 */
int rust_net_memory_init(struct proto *prot)
{
	unsigned long limit = max(nr_free_buffer_pages() / 8, 128UL);

	memory_per_cpu = alloc_percpu(int);
	if (!memory_per_cpu)
		return -ENOMEM;
	rust_net_mem[0] = limit / 4 * 3;
	rust_net_mem[1] = limit;
	rust_net_mem[2] = rust_net_mem[0] * 2;
	prot->memory_allocated = &memory_allocated;
	prot->per_cpu_fw_alloc = memory_per_cpu;
	prot->memory_pressure = &memory_pressure;
	prot->sysctl_mem = rust_net_mem;
	accounted = prot;
	return 0;
}

/* No socket is left. */
void rust_net_memory_exit(void)
{
	long left = atomic_long_read(&memory_allocated);
	int cpu;

	for_each_possible_cpu(cpu)
		left += *per_cpu_ptr(memory_per_cpu, cpu);
	WARN(left, "%ld pages of payload belong to no socket\n", left);
	free_percpu(memory_per_cpu);
}

static void leave_pressure(long allocated)
{
	if (READ_ONCE(memory_pressure) && allocated <= READ_ONCE(rust_net_mem[0]))
		WRITE_ONCE(memory_pressure, 0);
}

/*
 * Charges @pages for @sk. Returns the number to uncharge later, or -ENOBUFS
 * beyond the limit, which does not apply to pages that a connection @needs to
 * go on.
 */
int rust_net_memory_charge(const struct sock *sk, unsigned int pages, bool needs)
{
	long allocated;

	/* net.core.bypass_prot_mem: only the cgroup limits the memory. */
	if (sk->sk_bypass_prot_mem)
		return 0;
	sk_memory_allocated_add(sk, pages);
	allocated = sk_memory_allocated(sk);
	leave_pressure(allocated);
	if (allocated > READ_ONCE(rust_net_mem[1]) && !READ_ONCE(memory_pressure))
		WRITE_ONCE(memory_pressure, 1);
	if (allocated > READ_ONCE(rust_net_mem[2]) && !needs) {
		sk_memory_allocated_sub(sk, pages);
		return -ENOBUFS;
	}
	return pages;
}

/* The sockets for which @pages were charged may be gone. */
void rust_net_memory_uncharge(unsigned int pages)
{
	int val = this_cpu_sub_return(*memory_per_cpu, pages);

	if (unlikely(val <= -READ_ONCE(net_hotdata.sysctl_mem_pcpu_rsv)))
		proto_memory_pcpu_drain(accounted);
	leave_pressure(atomic_long_read(&memory_allocated));
}

/* Whether the windows of @sk must not grow. */
bool rust_net_memory_is_tight(const struct sock *sk)
{
	return !sk->sk_bypass_prot_mem && READ_ONCE(memory_pressure);
}

/* Whether @sk gets no more than it needs to go on. */
bool rust_net_memory_is_out(const struct sock *sk)
{
	return !sk->sk_bypass_prot_mem &&
	       atomic_long_read(&memory_allocated) > READ_ONCE(rust_net_mem[2]);
}

long rust_net_memory_pages(void)
{
	return proto_memory_allocated(accounted);
}
