/* SPDX-License-Identifier: BSD-3-Clause */
/* text.c - how `coll info` writes text: colour, and lines that fit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "info/info.h"

enum { TEXT_WIDTH = 100, TEXT_WIDTH_MIN = 60 };

static const struct info_style text_plain = {"", "", "", ""};
static const struct info_style text_colour = {"\033[1m", "\033[32m", "\033[31m", "\033[0m"};

const struct info_style *info_choose_style(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	if ((no != NULL && no[0]) || term == NULL || strcmp(term, "dumb") == 0)
		return &text_plain;
	return isatty(STDOUT_FILENO) ? &text_colour : &text_plain;
}

/* Returns the columns of the terminal; 0: the output is no terminal. */
static int text_columns(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
		return 0;
	return size.ws_col < TEXT_WIDTH_MIN ? TEXT_WIDTH_MIN : size.ws_col;
}

void info_put(const char *text)
{
	for (; *text; text++)
		putchar((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text);
}

/* Prints n bytes as info_put does. */
static void text_put_part(const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		info_put((const char[]){text[i], '\0'});
}

/* Returns how many bytes of the text go on a line of `room` columns: up to a space, if there is one. */
static size_t text_break(const char *text, size_t room)
{
	size_t n = strlen(text), at = room;

	if (n <= room)
		return n;
	while (at > 0 && text[at] != ' ')
		at--;
	return at > 0 ? at : strcspn(text, " ");
}

static void text_fold(const char *text, int indent, int width)
{
	size_t n = text_break(text, (size_t)(width - indent));

	text_put_part(text, n);
	while (text[n] != '\0') {
		text += n + strspn(text + n, " ");
		printf("\n%*s", indent, "");
		n = text_break(text, (size_t)(width - indent));
		text_put_part(text, n);
	}
}

void info_put_sentence(const char *text, int indent)
{
	int columns = text_columns();

	if (columns)
		text_fold(text, indent, columns);
	else
		info_put(text);
}

void info_put_value(const char *text, int indent)
{
	int columns = text_columns();

	text_fold(text, indent, columns ? columns : TEXT_WIDTH);
}
