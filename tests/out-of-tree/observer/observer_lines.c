/* SPDX-License-Identifier: BSD-3-Clause */
/* observer_lines.c - a whole observer: a line on stderr for each call, message and failure of a rank. */
#include <coll/observer.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The state of a rank: what open() makes, and event() and close() get.  Several threads may read it at the same time. */
struct lines {
	const coll_observer_host_t *host;
	uint64_t at_least; /* bytes: shorter calls have no line */
};

/* Each line is one write, so that the lines of several ranks and threads do not mix. */
static void lines_print(const coll_observed_t *e, const char *text)
{
	char line[1024];
	int n = snprintf(line, sizeof(line), "rank %d of %d, comm %" PRIu64 ": %s\n",
			 (int)e->world_rank, (int)e->nranks, e->comm, text);

	if (n > 0 &&
	    write(STDERR_FILENO, line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1) < 0)
		return; /* nobody reads stderr */
}

static void lines_event(void *state, const coll_observed_t *e)
{
	const struct lines *lines = state;
	const char *algorithm = e->algorithm ? e->algorithm : "no algorithm";
	char text[900];

	if (e->what == COLL_OBSERVE_FAILURE)
		snprintf(text, sizeof(text), "failed: %s", e->text);
	else if (e->phase == COLL_OBSERVED_END && e->bytes >= lines->at_least)
		snprintf(text, sizeof(text),
			 "%s %" PRIu64 " of %" PRIu64 " bytes, %s: %.1f us, code %d",
			 lines->host->kind_name(e->kind), e->number, e->bytes, algorithm,
			 (double)(e->time_ns - e->issued_ns) / 1000, (int)e->code);
	else
		return;
	lines_print(e, text);
}

static coll_result_t lines_open(const coll_observer_host_t *host, void **state, coll_error_t *err)
{
	struct lines *lines = malloc(sizeof(*lines));

	if (!lines) {
		snprintf(err->text, sizeof(err->text), "no memory");
		return COLL_ERR_NO_MEMORY;
	}
	*lines = (struct lines){.host = host,
				.at_least = (uint64_t)host->option_int(host, "at_least")};
	*state = lines;
	return COLL_SUCCESS;
}

static const coll_option_t lines_options[] = {
	{.key = "at_least",
	 .fallback = "0",
	 .unit = "bytes",
	 .type = COLL_OPTION_BYTES,
	 .max = INT64_MAX,
	 .help = "bytes of the smallest call that has a line"},
};

COLL_OBSERVER_EXPORT const coll_observer_t coll_observer_v1 = {
	.size = sizeof(coll_observer_t),
	.abi_minor = COLL_OBSERVER_ABI_MINOR,
	.wants = COLL_OBSERVE_CALL | COLL_OBSERVE_MESSAGE | COLL_OBSERVE_FAILURE,
	.name = "lines",
	.version = "1.0",
	.description = "prints a line for each call on stderr",
	.options = lines_options,
	.option_count = 1,
	.option_size = sizeof(coll_option_t),
	.open = lines_open,
	.event = lines_event,
	.close = free,
};
