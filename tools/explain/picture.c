/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * picture.c - a schedule as a picture: a row for each rank, and to the right a column for each round.  In a column each rank has
 * first the marks of what came and what it did with it, then a box with what it sends; the arrows have the rest of the
 * column to themselves, so that they cross no label.
 */
#include <stdlib.h>
#include "explain/schedule.h"
#include "lib/grow.h"
#include "lib/svg.h"

enum {
	PICTURE_LEFT = 80,
	PICTURE_TOP = 84,
	PICTURE_ROW = 44,
	PICTURE_BOTTOM = 56,
	PICTURE_MARKS = 50,
	PICTURE_BOX = 96,
	PICTURE_BOX_HEIGHT = 20,
	PICTURE_WIDTH = 900 /* at least, for title and legend */
};

enum { MARK_RECV = 1, MARK_REDUCE = 2, MARK_COPY = 4, MARK_FINISH = 8 };

/* What a rank does in a column. */
struct cell {
	int sends, differ; /* differ: the messages have several lengths */
	uint64_t bytes, one;
	unsigned marks;
};

struct picture {
	const struct schedule *s;
	struct cell *cell; /* rank by rank */
	int column;        /* the width of a column */
};

static struct cell *picture_cell(const struct picture *p, int rank, int round)
{
	return &p->cell[rank * (p->s->rounds + 1) + round];
}

static double picture_x(const struct picture *p, int round)
{
	return PICTURE_LEFT + (double)round * p->column;
}

static double picture_y(int rank)
{
	return PICTURE_TOP + PICTURE_ROW * (rank + 0.5);
}

static int picture_rank(const struct schedule *s, int g)
{
	return s->prove.rank[s->prove.event[g].owner].rank;
}

static void picture_fill(struct picture *p)
{
	const struct schedule *s = p->s;

	for (int g = 0; g < s->prove.nsteps; g++) {
		const coll_step_t *step = prove_step(&s->prove, g);
		const struct schedule_place *place = &s->place[g];
		struct cell *cell = picture_cell(p, picture_rank(s, g), place->end);

		switch (step->kind) {
		case COLL_STEP_SEND:
			cell->differ |= cell->sends && cell->one != step->bytes;
			cell->one = step->bytes;
			cell->bytes += step->bytes;
			cell->sends++;
			break;
		case COLL_STEP_RECV: cell->marks |= MARK_RECV; break;
		case COLL_STEP_RECV_REDUCE:
		case COLL_STEP_REDUCE: cell->marks |= MARK_REDUCE; break;
		case COLL_STEP_COPY: cell->marks |= step->bytes ? MARK_COPY : 0; break;
		default: cell->marks |= MARK_FINISH;
		}
	}
}

static void picture_grid(const struct picture *p, FILE *out, int width)
{
	const struct schedule *s = p->s;
	const double bottom = picture_y(s->c.nranks - 1) + PICTURE_ROW / 2.0;

	for (int r = 0; r < s->c.nranks; r++) {
		if (r % 2 == 0)
			fprintf(out,
				"<rect x=\"0\" y=\"%.1f\" width=\"%d\" height=\"%d\" "
				"fill=\"#f5f7f9\"/>\n",
				picture_y(r) - PICTURE_ROW / 2.0, width, PICTURE_ROW);
		fprintf(out, "<path class=\"row\" d=\"M%d %.1fH%.1f\"/>\n", PICTURE_LEFT - 6,
			picture_y(r), picture_x(p, s->rounds) + PICTURE_MARKS);
		svg_text(out, PICTURE_LEFT - 14, picture_y(r) + 4, "text-anchor=\"end\"", "rank %d",
			 r);
	}
	for (int c = 0; c < s->rounds; c++) {
		const double x = picture_x(p, c);

		fprintf(out, "<path class=\"round\" d=\"M%.1f %dV%.1f\"/>\n", x - 4,
			PICTURE_TOP - 22, bottom);
		svg_text(out, x + p->column / 2.0, PICTURE_TOP - 10, "text-anchor=\"middle\"",
			 "round %d", c + 1);
	}
	fprintf(out, "<path class=\"round\" d=\"M%.1f %dV%.1f\"/>\n", picture_x(p, s->rounds) - 4,
		PICTURE_TOP - 22, bottom);
}

static void picture_arrow(const struct picture *p, int g, FILE *out)
{
	const struct schedule *s = p->s;
	const int mate = s->prove.event[g].mate, from = picture_rank(s, g);
	const int begin = s->place[g].begin, end = s->place[mate].end;
	const double y = picture_y(picture_rank(s, mate)), to = picture_x(p, end) - 1;
	const double x = picture_x(p, begin) + PICTURE_MARKS + PICTURE_BOX;

	fprintf(out, "<path class=\"arrow\" stroke=\"%s\" marker-end=\"url(#a%d)\" d=\"M%.1f %.1f",
		svg_colours[from % SVG_COLOURS], from % SVG_COLOURS, x, picture_y(from));
	fprintf(out, "L%.1f %.1f\"/>\n", to, y);
}

/* Draws one mark, with its centre at (x, y). */
static void picture_mark(FILE *out, unsigned mark, double x, double y)
{
	if (mark == MARK_RECV) {
		fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"#333\"/>\n", x, y);
		return;
	}
	if (mark == MARK_COPY) {
		fprintf(out,
			"<rect class=\"mark\" x=\"%.1f\" y=\"%.1f\" width=\"11\" height=\"11\"/>\n",
			x - 5.5, y - 5.5);
		return;
	}
	fprintf(out, "<circle class=\"mark\" cx=\"%.1f\" cy=\"%.1f\" r=\"7\"/>", x, y);
	fprintf(out, "<path class=\"sign\" d=\"M%.1f %.1fh8", x - 4, y);
	if (mark == MARK_REDUCE)
		fprintf(out, "m-4 -4v8");
	fprintf(out, "\"/>\n");
}

static void picture_marks(FILE *out, unsigned marks, double x, double y)
{
	/* The mark of a reduction says that a message has come. */
	if (marks & MARK_REDUCE)
		marks &= ~(unsigned)MARK_RECV;
	x += 9;
	for (unsigned mark = MARK_RECV; mark <= MARK_FINISH; mark <<= 1)
		if (marks & mark) {
			picture_mark(out, mark, x, y);
			x += 16;
		}
}

static void picture_box(FILE *out, double x, double y, const char *colour, const char *text)
{
	fprintf(out,
		"<rect x=\"%.1f\" y=\"%.1f\" width=\"%d\" height=\"%d\" rx=\"4\" fill=\"#fff\" "
		"stroke=\"%s\"/>\n",
		x, y - PICTURE_BOX_HEIGHT / 2.0, PICTURE_BOX, PICTURE_BOX_HEIGHT, colour);
	svg_text(out, x + PICTURE_BOX / 2.0, y + 4, "text-anchor=\"middle\" class=\"bytes\"", "%s",
		 text);
}

static void picture_cells(const struct picture *p, FILE *out)
{
	const struct schedule *s = p->s;
	char text[64], size[32];

	for (int i = 0; i < s->c.nranks * (s->rounds + 1); i++) {
		const int rank = i / (s->rounds + 1), round = i % (s->rounds + 1);
		const struct cell *cell = picture_cell(p, rank, round);
		const double x = picture_x(p, round), y = picture_y(rank);

		picture_marks(out, cell->marks, x, y);
		if (!cell->sends)
			continue;
		schedule_size(cell->differ ? cell->bytes : cell->one, size);
		if (cell->sends == 1)
			snprintf(text, sizeof(text), "%s", size);
		else
			snprintf(text, sizeof(text), cell->differ ? "%d, sum %s" : "%d x %s",
				 cell->sends, size);
		picture_box(out, x + PICTURE_MARKS - 6, y, svg_colours[rank % SVG_COLOURS], text);
	}
}

static void picture_legend(const struct picture *p, FILE *out)
{
	static const struct {
		unsigned mark;
		const char *text;
	} entry[] = {{MARK_RECV, "received"},
		     {MARK_REDUCE, "reduced"},
		     {MARK_COPY, "copied"},
		     {MARK_FINISH, "finished (an average's division)"}};
	const double y = picture_y(p->s->c.nranks - 1) + PICTURE_ROW / 2.0 + 28;
	double x = PICTURE_LEFT;

	picture_box(out, x, y, "#333", "128K");
	svg_text(out, x + PICTURE_BOX + 8, y + 4, "", "sends so many bytes");
	x += PICTURE_BOX + 162;
	for (size_t i = 0; i < sizeof(entry) / sizeof(entry[0]); i++) {
		picture_mark(out, entry[i].mark, x, y);
		svg_text(out, x + 13, y + 4, "", "%s", entry[i].text);
		x += 90;
	}
}

static int picture_width(const struct picture *p)
{
	const int width = (int)picture_x(p, p->s->rounds) + PICTURE_MARKS + 16;

	return width > PICTURE_WIDTH ? width : PICTURE_WIDTH;
}

static void picture_draw(FILE *out, const void *what)
{
	const struct picture *p = what;
	const struct schedule *s = p->s;
	const int width = picture_width(p);
	char title[160], size[32];

	svg_begin(out, width, PICTURE_TOP + PICTURE_ROW * s->c.nranks + PICTURE_BOTTOM,
		  "path{fill:none}.row{stroke:#ccc}.round{stroke:#ddd;stroke-dasharray:3 3}"
		  ".arrow{stroke-width:1.5}.mark{fill:#fff;stroke:#333;stroke-width:1.5}"
		  ".sign{stroke:#333;stroke-width:1.5}.bytes{font-size:11px}",
		  PICTURE_LEFT - 60, schedule_title(s, title));
	svg_text(out, PICTURE_LEFT - 60, 48, "", "%d round%s, %llu message%s, %s bytes in all",
		 s->rounds, s->rounds == 1 ? "" : "s", (unsigned long long)s->messages,
		 s->messages == 1 ? "" : "s", schedule_size(s->bytes, size));
	fprintf(out, "<defs>\n");
	for (int i = 0; i < SVG_COLOURS; i++)
		fprintf(out,
			"<marker id=\"a%d\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" "
			"markerWidth=\"6\" markerHeight=\"6\" orient=\"auto\">"
			"<path d=\"M0 0L8 4L0 8z\" style=\"fill:%s\"/></marker>\n",
			i, svg_colours[i]);
	fprintf(out, "</defs>\n");
	picture_grid(p, out, width);
	for (int g = 0; g < s->prove.nsteps; g++)
		if (prove_step(&s->prove, g)->kind == COLL_STEP_SEND)
			picture_arrow(p, g, out);
	picture_cells(p, out);
	picture_legend(p, out);
	svg_end(out);
}

int schedule_draw(const struct schedule *s, const char *path)
{
	struct picture p = {.s = s};
	int status;

	if (s->c.nranks > SCHEDULE_PICTURE_RANKS || s->rounds > SCHEDULE_PICTURE_ROUNDS) {
		fprintf(stderr,
			"coll explain: a picture has up to %d ranks and %d rounds, and this one "
			"would "
			"have %d and %d: give fewer ranks, or longer pieces with --segment\n",
			SCHEDULE_PICTURE_RANKS, SCHEDULE_PICTURE_ROUNDS, s->c.nranks, s->rounds);
		return 1;
	}
	/* The more ranks there are, the more room the arrows need. */
	p.column = PICTURE_MARKS + PICTURE_BOX + 56 + 4 * s->c.nranks;
	p.cell = tool_array((size_t)s->c.nranks * (size_t)(s->rounds + 1), sizeof(*p.cell));
	picture_fill(&p);
	status = svg_save("explain", path, picture_draw, &p) ? 1 : 0;
	free(p.cell);
	return status;
}
