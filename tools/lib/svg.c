/* SPDX-License-Identifier: BSD-3-Clause */
/* svg.c - pictures as SVG files. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include "lib/svg.h"

const char *const svg_colours[SVG_COLOURS] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
					      "#e69f00", "#56b4e9", "#000000", "#999999"};

static void svg_escape(FILE *out, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '&': fputs("&amp;", out); break;
		case '<': fputs("&lt;", out); break;
		case '>': fputs("&gt;", out); break;
		default: fputc(*text, out);
		}
}

void svg_text(FILE *out, double x, double y, const char *attributes, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	fprintf(out, "<text x=\"%.1f\" y=\"%.1f\"%s%s>", x, y, attributes[0] ? " " : "",
		attributes);
	svg_escape(out, text);
	fprintf(out, "</text>\n");
}

void svg_begin(FILE *out, int width, int height, const char *style, int x, const char *title)
{
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
		"height=\"%d\">\n"
		"<style>text{font:12px sans-serif;fill:#333}%s</style>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
		width, height, width, height, style);
	svg_text(out, x, 28, "style=\"font-size:16px\"", "%s", title);
}

void svg_end(FILE *out)
{
	fprintf(out, "</svg>\n");
}

int svg_save(const char *command, const char *path, void (*draw)(FILE *out, const void *picture),
	     const void *picture)
{
	FILE *out = fopen(path, "w");
	int failed = out == NULL;

	if (out != NULL) {
		draw(out, picture);
		failed = ferror(out);
		failed |= fclose(out) != 0;
	}
	if (failed)
		fprintf(stderr, "coll %s: cannot write '%s': %s\n", command, path, strerror(errno));
	return failed ? -1 : 0;
}
