/* SPDX-License-Identifier: BSD-3-Clause */
/* http.c - requests of HTTP/1.1: see http.h. */
#include <string.h>
#include <strings.h>
#include "top/http.h"

/* Cuts off the text up to the separator, or to the end. */
static char *http_cut(char **text, char separator)
{
	char *begin = *text, *end = strchr(begin, separator);

	*text = end ? end + 1 : begin + strlen(begin);
	if (end)
		*end = '\0';
	return begin;
}

static char *http_line(char **text)
{
	char *line = http_cut(text, '\n');
	const size_t length = strlen(line);

	if (length && line[length - 1] == '\r')
		line[length - 1] = '\0';
	return line;
}

/* A proxy names the host in the target too. */
static int http_is_metrics(const char *target)
{
	if (strncasecmp(target, "http://", 7) == 0)
		target += 7 + strcspn(target + 7, "/?");
	return strcspn(target, "?") == 8 && strncmp(target, "/metrics", 8) == 0;
}

/* Reads the fields.  Returns the number of hosts that they name, or -1: a line is no field. */
static int http_hosts(char *fields)
{
	int hosts = 0;

	while (*fields) {
		const char *line = http_line(&fields);
		const size_t name = strcspn(line, ": \t");

		if (!name || line[name] != ':')
			return -1;
		hosts += name == 4 && strncasecmp(line, "host", 4) == 0;
	}
	return hosts;
}

int http_judge(char *head, size_t bytes, const char **method)
{
	char *line;
	const char *target, *version;
	int hosts;

	*method = "";
	if (strlen(head) != bytes)
		return 400;
	line = http_line(&head);
	*method = http_cut(&line, ' ');
	target = http_cut(&line, ' ');
	version = line;
	if (!**method || !*target || strncmp(version, "HTTP/", 5) != 0)
		return 400;
	if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0)
		return 505;
	hosts = http_hosts(head);
	if (hosts < 0 || hosts > 1 || (!hosts && version[7] == '1'))
		return 400;
	if (strcmp(*method, "GET") != 0 && strcmp(*method, "HEAD") != 0)
		return 405;
	return http_is_metrics(target) ? 200 : 404;
}

size_t http_head(char *request, size_t bytes)
{
	char *at = request;

	request[bytes] = '\0';
	while ((at = memchr(at, '\n', bytes - (size_t)(at - request)))) {
		at++;
		if (*at == '\n' || (*at == '\r' && at[1] == '\n')) {
			*at = '\0';
			return (size_t)(at - request);
		}
	}
	return 0;
}
