/* SPDX-License-Identifier: GPL-2.0 */
#ifndef SDP_PROCESSOR_TIME_H
#define SDP_PROCESSOR_TIME_H

#include <linux/kernel_stat.h>

/* The busy time of all processors, by the kernel's own account, in nanoseconds. */
static inline u64 processor_time(void)
{
	u64 sum = 0;
	int cpu;

	for_each_online_cpu(cpu) {
		struct kernel_cpustat stat;

		kcpustat_cpu_fetch(&stat, cpu);
		sum += stat.cpustat[CPUTIME_USER] + stat.cpustat[CPUTIME_SYSTEM] +
		       stat.cpustat[CPUTIME_SOFTIRQ] + stat.cpustat[CPUTIME_IRQ] +
		       stat.cpustat[CPUTIME_NICE];
	}
	return sum;
}

#endif
