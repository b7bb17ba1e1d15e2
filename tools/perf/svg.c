/* SPDX-License-Identifier: BSD-3-Clause */
/* svg.c - draws time and bus bandwidth over the size into an SVG file; both axes are logarithmic. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/svg.h"
#include "perf/perf.h"

/* The file holds two panels below each other. */
enum {
	SVG_WIDTH = 900,
	SVG_PANEL = 380, /* height of a panel with its labels */
	SVG_LEFT = 80,
	SVG_RIGHT = 220, /* room for the names of the lines */
	SVG_TOP = 40,
	SVG_BOTTOM = 60
};

/* One panel: its place, and the logarithms at the ends of its axes. */
struct svg_panel {
	const struct perf_chart *chart;
	const char *label;
	int of_time; /* 1: y is the time; 0: the bus bandwidth */
	double top, x_min, x_max, y_min, y_max;
};

void perf_chart_add(struct perf_chart *chart, const struct perf_point *point)
{
	const size_t room = chart->room ? 2 * chart->room : 64;
	struct perf_point *grown;

	if (chart->points == chart->room) {
		grown = realloc(chart->point, room * sizeof(*grown));
		if (grown == NULL) {
			chart->failed = 1;
			return;
		}
		chart->point = grown;
		chart->room = room;
	}
	chart->point[chart->points++] = *point;
}

static double svg_value(const struct svg_panel *p, const struct perf_point *point)
{
	return p->of_time ? point->time : point->busbw;
}

static double svg_x(const struct svg_panel *p, double size)
{
	return SVG_LEFT +
	       (log2(size) - p->x_min) / (p->x_max - p->x_min) * (SVG_WIDTH - SVG_LEFT - SVG_RIGHT);
}

static double svg_y(const struct svg_panel *p, double value)
{
	return p->top + SVG_PANEL - SVG_BOTTOM -
	       (log10(value) - p->y_min) / (p->y_max - p->y_min) *
		       (SVG_PANEL - SVG_TOP - SVG_BOTTOM);
}

/* Finds whole powers at the ends of the axes. */
static void svg_scale(struct svg_panel *p)
{
	p->x_min = p->y_min = HUGE_VAL;
	p->x_max = p->y_max = -HUGE_VAL;
	for (size_t i = 0; i < p->chart->points; i++) {
		const struct perf_point *at = &p->chart->point[i];

		if (!(svg_value(p, at) > 0))
			continue;
		p->x_min = fmin(p->x_min, floor(log2(at->size)));
		p->x_max = fmax(p->x_max, ceil(log2(at->size)));
		p->y_min = fmin(p->y_min, floor(log10(svg_value(p, at))));
		p->y_max = fmax(p->y_max, ceil(log10(svg_value(p, at))));
	}
	if (p->x_min > p->x_max) /* no point has a value */
		p->x_min = p->y_min = 0;
	p->x_max = fmax(p->x_max, p->x_min + 1);
	p->y_max = fmax(p->y_max, p->y_min + 1);
}

static void svg_grid(FILE *out, const struct svg_panel *p)
{
	static const char units[][4] = {"", "K", "M", "G", "T", "P", "E"};
	const double step = ceil((p->x_max - p->x_min) / 14), right = SVG_WIDTH - SVG_RIGHT;
	const double bottom = p->top + SVG_PANEL - SVG_BOTTOM;

	for (double e = p->x_min; e <= p->x_max; e += step) {
		const double x = svg_x(p, exp2(e));
		const int unit = (int)e / 10;

		fprintf(out, "<path d=\"M%.1f %.1fV%.1f\"/>", x, p->top + SVG_TOP, bottom);
		svg_text(out, x, bottom + 18, "text-anchor=\"middle\"", "%.0f%s",
			 exp2(e - 10 * unit), units[unit]);
	}
	for (double e = p->y_min; e <= p->y_max; e++) {
		const double y = svg_y(p, pow(10, e));

		fprintf(out, "<path d=\"M%d %.1fH%.1f\"/>", SVG_LEFT, y, right);
		svg_text(out, SVG_LEFT - 8, y + 4, "text-anchor=\"end\"", "%g", pow(10, e));
	}
	svg_text(out, SVG_LEFT, p->top + SVG_TOP - 10, "", "%s", p->label);
	svg_text(out, right, bottom + 36, "text-anchor=\"end\"", "bytes");
}

static int svg_same_line(const struct perf_point *a, const struct perf_point *b)
{
	return a->kind == b->kind && a->dtype == b->dtype && (!a->kind->reduces || a->op == b->op);
}

/* Draws the line that begins with point `first`, and its name. */
static void svg_line(FILE *out, const struct svg_panel *p, size_t first, int number)
{
	const struct perf_point *begin = &p->chart->point[first];
	const char *colour = svg_colours[number % SVG_COLOURS];
	const double x = SVG_WIDTH - SVG_RIGHT + 16, y = p->top + SVG_TOP + 8 + 18.0 * number;
	const char *command = "M";
	char style[32];

	fprintf(out, "<path class=\"line\" style=\"stroke:%s\"%s d=\"", colour,
		number / SVG_COLOURS % 2 ? " stroke-dasharray=\"6 3\"" : "");
	for (size_t i = first; i < p->chart->points; i++) {
		const struct perf_point *at = &p->chart->point[i];

		if (!svg_same_line(at, begin) || !(svg_value(p, at) > 0))
			continue;
		fprintf(out, "%s%.1f %.1f", command, svg_x(p, at->size),
			svg_y(p, svg_value(p, at)));
		command = "L";
	}
	fprintf(out, "\"/>\n");
	snprintf(style, sizeof(style), "style=\"fill:%s\"", colour);
	svg_text(out, x, y, style, "%s, %s%s%s", begin->kind->name, coll_dtype_name(begin->dtype),
		 begin->kind->reduces ? ", " : "",
		 begin->kind->reduces ? coll_op_name(begin->op) : "");
}

static void svg_panel(FILE *out, struct svg_panel *p)
{
	int lines = 0;

	svg_scale(p);
	svg_grid(out, p);
	for (size_t i = 0; i < p->chart->points; i++) {
		size_t j = 0;

		while (!svg_same_line(&p->chart->point[j], &p->chart->point[i]))
			j++;
		if (j == i)
			svg_line(out, p, i, lines++);
	}
}

/* A chart and its title. */
struct svg_picture {
	const struct perf_chart *chart;
	const char *title;
};

static void svg_write(FILE *out, const void *what)
{
	const struct svg_picture *picture = what;
	struct svg_panel time = {.chart = picture->chart,
				 .label = "time of a call (us, mean, out of place)",
				 .of_time = 1,
				 .top = SVG_TOP};
	struct svg_panel busbw = {.chart = picture->chart,
				  .label = "bus bandwidth (GB/s)",
				  .top = SVG_TOP + SVG_PANEL};

	svg_begin(out, SVG_WIDTH, SVG_TOP + 2 * SVG_PANEL,
		  "path{stroke:#ddd;fill:none}.line{stroke-width:2}", SVG_LEFT, picture->title);
	svg_panel(out, &time);
	svg_panel(out, &busbw);
	svg_end(out);
}

int perf_chart_write(struct perf_chart *chart, const char *path, const char *title)
{
	const struct svg_picture picture = {chart, title};
	int status = -1;

	if (chart->failed)
		fprintf(stderr, "coll perf: cannot write '%s': %s\n", path, strerror(ENOMEM));
	else
		status = svg_save("perf", path, svg_write, &picture);
	free(chart->point);
	*chart = (struct perf_chart){0};
	return status;
}
