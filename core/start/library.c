/* SPDX-License-Identifier: BSD-3-Clause */
/* library.c - names the functions that the small core of libcoll reaches through tables. */
#include "start/library.h"
#include "algorithm/selection.h"
#include "exec/control.h"
#include "serve/serve.h"
#include "transport/channel.h"
#include "base/error.h"

#include <stdlib.h>

static int library_choose(const struct config *config, struct selection **selection)
{
	*selection = calloc(1, sizeof(**selection));
	return *selection ? choose_compile(config, *selection)
			  : error_set(COLL_ERR_NO_MEMORY, "no memory for the rules of algorithms");
}

const struct library library = {
	.context = &comm_context_client,
	.check_option = rules_check_option,
	.choose = library_choose,
	.agree = agree_selection,
	.open_channel = channel_open,
	.made = channel_watch,
	.all_ok = serve_all_ok,
};
