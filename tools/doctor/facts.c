/* SPDX-License-Identifier: BSD-3-Clause */
/* facts.c - what one rank knows of its host, its limits and its plugins. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "doctor/doctor.h"
#include "lib/interfaces.h"
#include "lib/tool.h"

/* Adds text to a list in `out`.  An entry that does not fit is left out. */
static void facts_append(char out[DOCTOR_TEXT], const char *text)
{
	const size_t used = strlen(out), more = strlen(text) + 2;

	if (used + more < DOCTOR_TEXT)
		snprintf(out + used, DOCTOR_TEXT - used, "%s%s", used ? ", " : "", text);
}

static int64_t facts_limit(int resource)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)resource, &limit) != 0)
		return 0;
	return limit.rlim_cur == RLIM_INFINITY ? DOCTOR_UNLIMITED : (int64_t)limit.rlim_cur;
}

/*
 * Names the kernel and the network namespace in which this process runs.  Host names do not tell kernels apart, since two
 * hosts may have the same name; nor do namespaces, since the first one has the same number in many kernels.
 */
static void facts_of_network(char network[DOCTOR_WORD])
{
	enum { BOOT_ID = 36 };
	/* "net:[4026531840]" */
	const ssize_t link =
		readlink("/proc/self/ns/net", network + BOOT_ID, DOCTOR_WORD - BOOT_ID);
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (file == NULL || fread(network, BOOT_ID, 1, file) != 1 || link <= 0 ||
	    link >= DOCTOR_WORD - BOOT_ID)
		memset(network, 0, DOCTOR_WORD);
	if (file != NULL)
		fclose(file);
}

static void facts_of_host(struct doctor_facts *facts)
{
	struct utsname system;
	struct statvfs shm;
	double load = 0;
	cpu_set_t set;

	if (uname(&system) == 0) {
		snprintf(facts->host, sizeof(facts->host), "%.63s", system.nodename);
		snprintf(facts->kernel, sizeof(facts->kernel), "%.31s %.31s", system.sysname,
			 system.release);
	}
	facts_of_network(facts->network);
	facts->memlock = facts_limit(RLIMIT_MEMLOCK);
	facts->nofile = facts_limit(RLIMIT_NOFILE);
	facts->shm_free = statvfs("/dev/shm", &shm) == 0
				  ? (int64_t)(shm.f_bavail * (uint64_t)shm.f_frsize)
				  : -1;
	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		facts->processors = CPU_COUNT(&set);
	if (getloadavg(&load, 1) == 1)
		facts->load_percent = (int32_t)(load * 100);
}

static void facts_of_interfaces(struct doctor_facts *facts)
{
	struct interface *list;
	int n = interfaces_list(&list);
	char text[128];

	for (int i = 0; i < n; i++) {
		char speed[24] = "";

		if (!list[i].up || list[i].loopback || !list[i].addresses)
			continue;
		if (list[i].mbits)
			snprintf(speed, sizeof(speed), " %d Mb/s", list[i].mbits);
		snprintf(text, sizeof(text), "%s%s %.63s", list[i].name, speed, list[i].address[0]);
		facts_append(facts->interfaces, text);
	}
	free(list);
}

static void facts_of_plugins(struct doctor_facts *facts)
{
	coll_backend_info_t b = {.size = sizeof(b)};
	coll_option_info_t o = {.size = sizeof(o)};
	coll_info_t info;
	uint64_t bytes;
	char text[128];

	tool_probe_apart();
	if (coll_info_create(NULL, &info) != COLL_SUCCESS)
		return;
	for (int32_t i = 0; i < coll_info_backend_count(info); i++) {
		if (coll_info_backend(info, i, &b) != COLL_SUCCESS || !b.usable)
			continue;
		snprintf(text, sizeof(text), "%.63s %.31s", b.name, b.version);
		facts_append(facts->plugins, text);
	}
	for (int32_t i = 0; i < coll_info_option_count(info); i++)
		if (coll_info_option(info, i, &o) == COLL_SUCCESS &&
		    strcmp(o.name, "tcp.ring_memory") == 0 && tool_parse_size(o.value, &bytes) == 0)
			facts->shm_wanted = (int64_t)bytes;
	coll_info_destroy(info);
}

void doctor_facts(struct doctor_facts *facts)
{
	memset(facts, 0, sizeof(*facts));
	facts_of_host(facts);
	facts_of_interfaces(facts);
	facts_of_plugins(facts);
}
