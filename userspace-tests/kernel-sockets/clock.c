// SPDX-License-Identifier: GPL-2.0
/*
 * Wall-clock time and processor time.
 */
#include <linux/ktime.h>
#include <linux/sched.h>

#include "../test-modules/processor_time.h"
#include "sockets.h"

#ifdef CONFIG_UML
#include <asm/unistd.h>

/* Of the C library of the kernel's process, which exports it for drivers. */
extern long syscall(long number, ...);

/* The processor time of the kernel's process, in which all kernel threads and interrupts run, but no
 * programs. The kernel cannot know when the host runs something else instead.
 */
static u64 outside(void)
{
	struct __kernel_timespec time;

	if (syscall(__NR_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &time))
		return 0;
	return time.tv_sec * NSEC_PER_SEC + time.tv_nsec;
}
#else
static u64 outside(void)
{
	return 0;
}
#endif

/* Called by the client, while the server waits or will soon. */
void ks_times(const struct ks_run *run, struct ks_times *times)
{
	int side;

	/* The scheduler brings the time of the running thread up to date. */
	yield();
	for (side = 0; side < 2; side++)
		times->thread[side] = READ_ONCE(run->thread[side]->se.sum_exec_runtime);
	times->busy = processor_time();
	times->outside = outside();
	times->wall = ktime_get_ns();
}

void ks_subtract(struct ks_times *times, const struct ks_times *before)
{
	int side;

	for (side = 0; side < 2; side++)
		times->thread[side] -= before->thread[side];
	times->busy -= before->busy;
	times->outside -= before->outside;
	times->wall -= before->wall;
}
