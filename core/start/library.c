/* SPDX-License-Identifier: BSD-3-Clause */
/* library.c - names the functions that the small core of libcoll reaches through tables. */
#include "start/library.h"
#include "algorithm/selection.h"
#include "exec/control.h"
#include "transport/channel.h"

const struct library library = {
	.context = &comm_context_client,
	.check_option = rules_check_option,
	.choose = choose_compile,
	.agree = agree_selection,
	.open_channel = channel_open,
	.made = channel_watch,
};
