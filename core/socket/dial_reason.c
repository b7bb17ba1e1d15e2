/* SPDX-License-Identifier: BSD-3-Clause */
/* dial_reason.c - why the addresses of a dial have not led to the peer, and for how long. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "socket/dial.h"

enum { DIAL_BRIEF_MS = 100 }; /* a shorter time is not told */

/* One for each address. */
typedef char reason_phrases[ADDRESS_MAX][200];

static void reason_add(struct dial_reason *reason, int *n, int why, int64_t ms)
{
	int i = 0;

	while (i < *n && reason[i].why != why)
		i++;
	if (i == DIAL_REASONS)
		return;
	if (i == *n)
		reason[(*n)++] = (struct dial_reason){.why = why};
	reason[i].ms += ms;
}

void dial_reason_add(struct dial_attempt *y, int why)
{
	int64_t now = clock_now_ms();

	reason_add(y->reason, &y->nreasons, why, now - y->since);
	y->since = now;
}

/* The reason of one address that took most of the time, with the try that is under way; 0: it was not tried. */
static int reason_of(const struct dial_attempt *y, struct dial_reason *most)
{
	struct dial_reason reason[DIAL_REASONS];
	const int64_t ms = clock_now_ms() - y->since;
	int n = y->nreasons;

	memcpy(reason, y->reason, sizeof(reason));
	if (y->state == DIAL_CONNECTING)
		reason_add(reason, &n, ETIMEDOUT, ms);
	else if (y->state == DIAL_CHALLENGE || y->state == DIAL_VERDICT)
		reason_add(reason, &n, DIAL_SILENT, ms);
	for (int i = 0; i < n; i++)
		if (i == 0 || reason[i].ms > most->ms)
			*most = reason[i];
	return n > 0;
}

static const char *reason_text(int why, int family, char text[SOCKET_WHY_SIZE])
{
	if (why == DIAL_SILENT)
		return "accepts connections, but nobody answers";
	if (why == EADDRNOTAVAIL)
		return family == AF_INET
			       ? "no local port is free (see net.ipv4.ip_local_port_range)"
			       : "no local port is free (see net.ipv4.ip_local_port_range), "
				 "or this host has no IPv6 address";
	return socket_why(why, text);
}

/* "Connection refused (for 4.9 s)" */
static void reason_phrase(const struct dial_reason *reason, int family, char *text, size_t size)
{
	char why[SOCKET_WHY_SIZE], time[32] = "";

	if (reason->ms >= DIAL_BRIEF_MS)
		snprintf(time, sizeof(time), reason->ms < 9950 ? " (for %.1f s)" : " (for %.0f s)",
			 (double)reason->ms / 1e3);
	snprintf(text, size, "%s%s", reason_text(reason->why, family, why), time);
}

/* Appends two pieces.  Where they do not fit the text ends in "...", and later pieces are left out too. */
static void reason_append(char text[DIAL_REPORT_SIZE], const char *join, const char *piece)
{
	static const char rest[] = " ...";
	const size_t used = strlen(text),
		     least = used + strlen(join) + strlen(piece) + sizeof(rest);

	if (used >= sizeof(rest) && strcmp(text + used + 1 - sizeof(rest), rest) == 0)
		return;
	snprintf(text + used, DIAL_REPORT_SIZE - used, "%s%s", least > DIAL_REPORT_SIZE ? "" : join,
		 least > DIAL_REPORT_SIZE ? rest : piece);
}

/* Appends the address and all later ones that have the same phrase, which are done then. */
static void reason_append_alike(const struct dial *dial, reason_phrases phrase, int first,
				char text[DIAL_REPORT_SIZE])
{
	char same[sizeof(phrase[0])], address[ADDRESS_TEXT_SIZE];

	memcpy(same, phrase[first], sizeof(same));
	for (int i = first; i < dial->addresses.count; i++) {
		if (strcmp(phrase[i], same) != 0)
			continue;
		address_format(&dial->addresses.item[i], address);
		reason_append(text, i > first ? ", " : text[0] ? "; " : "", address);
		phrase[i][0] = '\0';
	}
	reason_append(text, ": ", same);
}

void dial_report(const struct dial *dial, char text[DIAL_REPORT_SIZE])
{
	reason_phrases phrase = {{0}};
	struct dial_reason most;

	text[0] = '\0';
	for (int i = 0; dial->attempts && i < dial->addresses.count; i++)
		if (reason_of(&dial->attempts[i], &most))
			reason_phrase(&most, dial->addresses.item[i].sa.ss_family, phrase[i],
				      sizeof(phrase[i]));
	for (int i = 0; i < dial->addresses.count; i++)
		if (phrase[i][0])
			reason_append_alike(dial, phrase, i, text);
	if (dial->addresses.more)
		reason_append(text, text[0] ? "; " : "",
			      "that host has more addresses (its option interface chooses some)");
}

static int reason_any(const struct dial *dial, int (*is)(int why))
{
	struct dial_reason most;

	for (int i = 0; dial->attempts && i < dial->addresses.count; i++)
		if (reason_of(&dial->attempts[i], &most) && is(most.why))
			return 1;
	return 0;
}

static int reason_is_peers(int why)
{
	return why != EADDRNOTAVAIL && why != EAFNOSUPPORT && why != EINVAL && why != EACCES &&
	       why != EPERM && why != ENETUNREACH;
}

static int reason_is_silence(int why)
{
	return why == DIAL_SILENT;
}

int dial_misses_peer(const struct dial *dial)
{
	return reason_any(dial, reason_is_peers);
}

int dial_meets_silence(const struct dial *dial)
{
	return reason_any(dial, reason_is_silence);
}
