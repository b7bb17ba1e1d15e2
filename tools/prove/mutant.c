/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mutant.c - tests the prover: plants each bug in a schedule that was proven just before, and
 * expects the fitting check to fail.
 */
#include <stdio.h>
#include <string.h>
#include "lib/json.h"
#include "prove/prove.h"
#include "lib/tool.h"

static const char *mutant_expected(const struct prove_mutant *m)
{
	return m->check < PROVE_CHECKS ? prove_check_names[m->check] : "none";
}

/* Index of the algorithm in the table, or -1. */
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
	c.gaps = m->gaps;
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

static void mutant_print(const struct prove *p, const struct prove_mutant *m, const char *wrong)
{
	printf("%-24s %-9s %s\n", m->name, mutant_expected(m), wrong ? wrong : "caught");
	printf("    planted: %s/%s, %s\n", m->kind, m->algorithm, p->planted);
	for (int k = 0; k < PROVE_CHECKS; k++)
		if (p->failed & 1u << k && (k == m->check || wrong))
			printf("    %s: %s\n", prove_check_names[k], p->text[k]);
}

static void mutant_print_json(struct json *json, const struct prove *p,
			      const struct prove_mutant *m, const char *wrong)
{
	json_object(json, NULL);
	json_string(json, "name", m->name);
	json_string(json, "planted", p->planted);
	json_string(json, "check", mutant_expected(m));
	json_string(json, "verdict", wrong ? wrong : "caught");
	json_object(json, "failures");
	for (int k = 0; k < PROVE_CHECKS; k++)
		if (p->failed & 1u << k)
			json_string(json, prove_check_names[k], p->text[k]);
	json_object_end(json);
	json_object_end(json);
}

static int mutant_unknown(const char *name)
{
	const char *names[64];
	size_t n = 0;

	for (; prove_mutants[n].name != NULL && n < 63; n++)
		names[n] = prove_mutants[n].name;
	names[n] = NULL;
	return tool_usage("prove", "no mutant '%s'%s", name, tool_did_you_mean(name, names));
}

int prove_try_mutants(const char *name, int json)
{
	struct json out = {.out = stdout};
	struct prove p = {0};
	int tried = 0, caught = 0;

	for (const struct prove_mutant *m = prove_mutants; m->name != NULL; m++) {
		const char *wrong;

		if (name ? strcmp(name, m->name) != 0 : m->check == PROVE_CHECKS)
			continue;
		if (json && !tried) {
			json_object(&out, NULL);
			json_array(&out, "mutants");
		}
		if (!json && !tried)
			printf("%-24s %-9s %s\n", "mutant", "check", "verdict");
		wrong = mutant_try(&p, m);
		tried++;
		caught += wrong == NULL;
		if (json)
			mutant_print_json(&out, &p, m, wrong);
		else
			mutant_print(&p, m, wrong);
	}
	prove_free(&p);
	if (!tried)
		return mutant_unknown(name);
	if (json) {
		json_array_end(&out);
		json_object_end(&out);
	} else {
		printf("\n%d of %d mutants caught by the check that fits\n", caught, tried);
	}
	return caught == tried ? 0 : 1;
}
