// SPDX-License-Identifier: GPL-2.0
/*
 * The spinlock of irq_lock.rs before Linux 7.3.
 */
#include <linux/spinlock.h>

#include "helpers.h"

unsigned long rlo_spin_lock_irqsave(void *lock)
{
	unsigned long flags;

	spin_lock_irqsave((spinlock_t *)lock, flags);
	return flags;
}

void rlo_spin_unlock_irqrestore(void *lock, unsigned long flags)
{
	spin_unlock_irqrestore((spinlock_t *)lock, flags);
}

bool rlo_spin_trylock_irqsave(void *lock, unsigned long *flags)
{
	return spin_trylock_irqsave((spinlock_t *)lock, *flags);
}
