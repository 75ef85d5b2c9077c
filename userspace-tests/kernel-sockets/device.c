// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/sdp_kernel_sockets.
 */
#include "../test-modules/command_device.h"
#include "sockets.h"

static int place_run(struct place *place, char *line)
{
	int err;

	if (!place->text)
		place->text = kvzalloc(KS_ANSWER_MAX, GFP_KERNEL);
	if (!place->text)
		return -ENOMEM;
	place->length = 0;
	err = ks_command(line, place->text);
	if (!err)
		place->length = strlen(place->text);
	return err;
}

static struct miscdevice misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "sdp_kernel_sockets",
	.fops = &place_operations,
	.mode = 0600,
};

module_misc_device(misc);
MODULE_DESCRIPTION("Loads over sockets inside the kernel");
MODULE_LICENSE("GPL");
