/* SPDX-License-Identifier: BSD-3-Clause */
/* svg.h - pictures as SVG files: begin, end, colours, texts. */
#ifndef TOOLS_SVG_H
#define TOOLS_SVG_H

#include <stdio.h>

enum { SVG_COLOURS = 8 };

/* Colours that people with any colour vision can tell apart, after Okabe and Ito. */
extern const char *const svg_colours[SVG_COLOURS];

/* Begins a picture of so many pixels.  `style` is CSS, and the title stands at (x, 28). */
void svg_begin(FILE *out, int width, int height, const char *style, int x, const char *title);
void svg_end(FILE *out);
/* Writes a text at (x, y).  `attributes` is "" or more of the element: "text-anchor=\"middle\"". */
__attribute__((format(printf, 5, 6))) void svg_text(FILE *out, double x, double y,
						    const char *attributes, const char *fmt, ...);
/* Has `draw` write a file.  Returns 0, or -1 after printing "coll COMMAND: ..." with the reason. */
int svg_save(const char *command, const char *path, void (*draw)(FILE *out, const void *picture),
	     const void *picture);

#endif
