/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mutant.c - tests the prover: plants each bug in a schedule that it has just proven, and lets each wrong
 * builder build the schedules of a whole proof.  The check that fits the bug must fail.
 */
#include <stdio.h>
#include <string.h>
#include "lib/json.h"
#include "lib/progress.h"
#include "prove/prove.h"
#include "lib/tool.h"

/* The report on a mutant. */
struct mutant {
	const char *name, *kind, *algorithm;
	int check;
	const char *proof; /* the command that tries the case */
	const char *wrong; /* NULL: caught by the expected check */
};

static const char *mutant_expected(const struct mutant *m)
{
	return m->check < PROVE_CHECKS ? prove_check_names[m->check] : "none";
}

/* Returns the index of the algorithm in the table, or -1. */
static int mutant_algorithm(const char *kind, const char *name, coll_algorithm_info_t *info)
{
	for (int i = 0; i < coll_algorithm_count(); i++) {
		info->size = sizeof(*info);
		if (coll_algorithm(i, info) == COLL_SUCCESS &&
		    !strcmp(coll_kind_name(info->kind), kind) && !strcmp(info->name, name))
			return i;
	}
	return -1;
}

/* Returns NULL if the expected check caught the mutant, else a description of the fault. */
static const char *mutant_try(struct prove *p, const struct prove_mutant *m)
{
	coll_algorithm_info_t info, other;
	struct prove_case c = {.info = &info, .elem = 1};

	p->failed = 0;
	p->planted[0] = '\0';
	c.algorithm = mutant_algorithm(m->kind, m->algorithm, &info);
	if (c.algorithm < 0)
		return "NO SUCH ALGORITHM";
	p->mate_algorithm = mutant_algorithm("recv", "direct", &other);
	c.flags = info.flags;
	c.nranks = m->nranks;
	c.count = (uint64_t)m->count;
	c.segment = (uint64_t)m->segment;
	c.form = m->form;
	c.average = m->average;
	c.displs = m->displs;
	c.staged = m->staged;
	prove_one(p, &c);
	if (p->failed)
		return "WRONG WITHOUT IT";
	p->mutant = m;
	c.flags ^= m->claims;
	prove_one(p, &c);
	p->mutant = NULL;
	if (!p->planted[0])
		return "NOT PLANTED";
	if (!p->failed)
		return "SURVIVED";
	return p->failed & 1u << m->check ? NULL : "CAUGHT BY ANOTHER CHECK";
}

/* Tries the numbers of ranks of a proof one after another, up to the first fault. */
static void mutant_prove(struct prove *p, const struct prove_builder *b, int algorithm,
			 const coll_algorithm_info_t *info)
{
	struct prove_plan plan = {.level = (enum prove_level)b->level, .seed = 1};

	plan.counts = prove_counts;
	plan.ncounts = prove_ncounts;
	prove_plan_ranks(&plan, 1, 0);
	for (int n = b->from; n <= b->to && !p->failed; n++)
		if (prove_set_has(&plan.ranks, n))
			prove_sweeps(p, &plan, algorithm, info, n);
}

/* Tries a wrong builder.  Returns as mutant_try. */
static const char *mutant_try_builder(struct prove *p, const struct prove_builder *b)
{
	coll_algorithm_info_t info;
	struct prove right = {0};
	int algorithm = mutant_algorithm(b->kind, b->algorithm, &info);
	const char *wrong = NULL;

	p->failed = 0;
	snprintf(p->planted, sizeof(p->planted), "%s", b->fault);
	if (algorithm < 0)
		return "NO SUCH ALGORITHM";
	p->mate_algorithm = right.mate_algorithm = prove_partner(info.kind);
	p->builder = b;
	mutant_prove(p, b, algorithm, &info);
	p->builder = NULL;
	if (!p->failed)
		return "SURVIVED";
	prove_one(&right, &p->wrong);
	if (right.failed)
		wrong = "WRONG WITHOUT IT";
	else if (!(p->failed & 1u << b->check))
		wrong = "CAUGHT BY ANOTHER CHECK";
	prove_free(&right);
	return wrong;
}

static void mutant_print(const struct prove *p, const struct mutant *m)
{
	printf("%-24s %-9s %s\n", m->name, mutant_expected(m), m->wrong ? m->wrong : "caught");
	printf("    planted: %s/%s, %s\n", m->kind, m->algorithm, p->planted);
	if (m->proof)
		printf("    tried by: %s\n", m->proof);
	for (int k = 0; k < PROVE_CHECKS; k++)
		if (p->failed & 1u << k && (k == m->check || m->wrong))
			printf("    %s: %s\n", prove_check_names[k], p->text[k]);
}

static void mutant_print_json(struct json *json, const struct prove *p, const struct mutant *m)
{
	json_object(json, NULL);
	json_string(json, "name", m->name);
	json_string(json, "algorithm", m->algorithm);
	json_string(json, "collective", m->kind);
	json_string(json, "planted", p->planted);
	json_string(json, "proof", m->proof ? m->proof : "");
	json_string(json, "check", mutant_expected(m));
	json_string(json, "verdict", m->wrong ? m->wrong : "caught");
	json_object(json, "failures");
	for (int k = 0; k < PROVE_CHECKS; k++)
		if (p->failed & 1u << k)
			json_string(json, prove_check_names[k], p->text[k]);
	json_object_end(json);
	json_object_end(json);
}

static int mutant_unknown(const char *name)
{
	const char *names[128];
	size_t n = 0;

	for (int i = 0; prove_mutants[i].name != NULL && n < 127; i++)
		names[n++] = prove_mutants[i].name;
	for (int i = 0; prove_builders[i].name != NULL && n < 127; i++)
		names[n++] = prove_builders[i].name;
	names[n] = NULL;
	return tool_usage("prove", "no mutant '%s'%s", name, tool_did_you_mean(name, names));
}

/* The mutants that are tried, and the report on them. */
struct mutant_work {
	const char *name;  /* NULL: all */
	struct json *json; /* NULL: as text */
	struct prove p;
	int tried, caught;
	struct progress progress;
};

static void mutant_report(struct mutant_work *w, const struct mutant *m)
{
	progress_clear(&w->progress);
	if (!w->tried && w->json) {
		json_object(w->json, NULL);
		json_array(w->json, "mutants");
	} else if (!w->tried) {
		printf("%-24s %-9s %s\n", "mutant", "check", "verdict");
	}
	w->tried++;
	w->caught += m->wrong == NULL;
	if (w->json)
		mutant_print_json(w->json, &w->p, m);
	else
		mutant_print(&w->p, m);
}

static void mutant_try_bugs(struct mutant_work *w)
{
	for (const struct prove_mutant *m = prove_mutants; m->name != NULL; m++) {
		struct mutant report = {m->name, m->kind, m->algorithm, m->check, NULL, NULL};

		if (w->name ? strcmp(w->name, m->name) != 0 : m->check == PROVE_CHECKS)
			continue;
		progress_show(&w->progress, "mutant %s", m->name);
		report.wrong = mutant_try(&w->p, m);
		mutant_report(w, &report);
	}
}

static void mutant_try_builders(struct mutant_work *w)
{
	static const char *const proofs[PROVE_LEVELS] = {"coll prove --quick", "coll prove",
							 "coll prove --long"};

	for (const struct prove_builder *b = prove_builders; b->name != NULL; b++) {
		struct mutant report = {b->name,  b->kind,          b->algorithm,
					b->check, proofs[b->level], NULL};

		if (w->name && strcmp(w->name, b->name) != 0)
			continue;
		progress_show(&w->progress, "mutant %s", b->name);
		report.wrong = mutant_try_builder(&w->p, b);
		mutant_report(w, &report);
	}
}

int prove_try_mutants(const char *name, int json)
{
	struct json out = {.out = stdout};
	struct mutant_work w = {.name = name, .json = json ? &out : NULL};

	progress_begin(&w.progress, PROGRESS_AFTER_MS);
	mutant_try_bugs(&w);
	mutant_try_builders(&w);
	prove_free(&w.p);
	if (!w.tried)
		return mutant_unknown(name);
	if (json) {
		json_array_end(&out);
		json_object_end(&out);
	} else {
		printf("\n%d of %d mutants caught by the check that fits\n", w.caught, w.tried);
	}
	return w.caught == w.tried ? 0 : 1;
}
