/* SPDX-License-Identifier: BSD-3-Clause */
/* shares.c - which things two ranks share: the process, the host, namespaces of the kernel. */
#include "bootstrap/bootstrap_impl.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/siphash.h"

#include <coll/backend.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHARES_BOOT_ID "/proc/sys/kernel/random/boot_id"

enum { SHARES_UUID = 36, SHARES_LINK = 40 };

/* A thing of the host, and the namespace in which two processes must be to share it. */
static const struct shares_thing {
	uint8_t bit;
	const char *namespace;
} shares_things[BOOTSTRAP_THINGS] = {
	{COLL_SHARES_HOST, NULL},
	{COLL_SHARES_NETWORK, "/proc/self/ns/net"},
	{COLL_SHARES_PIDS, "/proc/self/ns/pid"},
	{COLL_SHARES_FILES, "/proc/self/ns/mnt"},
	{COLL_SHARES_IPC, "/proc/self/ns/ipc"},
};

/* What two processes have in common if they share a thing; no bytes are left uninitialised. */
struct shares_facts {
	char boot_id[SHARES_UUID]; /* of the running kernel */
	char link[SHARES_LINK];    /* the name of the namespace, such as "net:[4026531840]" */
	uint8_t process[16];       /* all 0, unless the other facts are unknown */
};

static int shares_read_boot_id(char boot_id[SHARES_UUID])
{
	int fd = descriptor_lift(open(SHARES_BOOT_ID, O_RDONLY | O_CLOEXEC)), whole;

	if (fd < 0)
		return 0;
	whole = read(fd, boot_id, SHARES_UUID) == SHARES_UUID;
	close(fd);
	return whole;
}

/* A process without readable facts shares the thing with no other process. */
static uint64_t shares_hash(const struct bootstrap_peer *peer, const char *boot_id,
			    const struct shares_thing *thing)
{
	static const uint8_t key[16] = "libcoll shares";
	struct shares_facts facts;
	uint8_t hash[16];
	uint64_t first;

	memset(&facts, 0, sizeof(facts));
	if (!boot_id ||
	    (thing->namespace && readlink(thing->namespace, facts.link, sizeof(facts.link)) <= 0)) {
		memset(&facts, 0, sizeof(facts));
		memcpy(facts.process, peer->process, sizeof(facts.process));
	} else {
		memcpy(facts.boot_id, boot_id, sizeof(facts.boot_id));
	}
	siphash128(key, &facts, sizeof(facts), hash);
	memcpy(&first, hash, sizeof(first));
	return first;
}

void bootstrap_read_things(struct bootstrap_peer *peer)
{
	char boot_id[SHARES_UUID];
	int known = shares_read_boot_id(boot_id);

	for (int i = 0; i < BOOTSTRAP_THINGS; i++)
		peer->thing[i] = shares_hash(peer, known ? boot_id : NULL, &shares_things[i]);
}

uint8_t bootstrap_shares(const struct bootstrap *bootstrap, int a, int b)
{
	const struct bootstrap_peer *p = &bootstrap->peers[a], *q = &bootstrap->peers[b];
	uint8_t bits = memcmp(p->process, q->process, sizeof(p->process)) ? 0 : COLL_SHARES_PROCESS;

	for (int i = 0; i < BOOTSTRAP_THINGS; i++)
		bits |= p->thing[i] == q->thing[i] ? shares_things[i].bit : 0;
	return bits;
}

/* A hash table of the lowest ranks, 1 plus each; at most half of the slots are in use. */
int bootstrap_hosts(const struct bootstrap *bootstrap, int *lowest)
{
	int bits = 1;
	int *slot;

	while (bits < 31 && 1 << (bits - 1) < bootstrap->nranks)
		bits++;
	slot = calloc((size_t)1 << bits, sizeof(*slot));
	if (!slot)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", bootstrap->nranks);
	for (int r = 0; r < bootstrap->nranks; r++) {
		uint64_t hash = bootstrap->peers[r].thing[0] * 0x9e3779b97f4a7c15u;
		size_t at = (size_t)(hash >> (64 - bits));

		while (slot[at] &&
		       !(bootstrap_shares(bootstrap, slot[at] - 1, r) & COLL_SHARES_HOST))
			at = (at + 1) & (((size_t)1 << bits) - 1);
		slot[at] = slot[at] ? slot[at] : r + 1;
		lowest[r] = slot[at] - 1;
	}
	free(slot);
	return COLL_SUCCESS;
}
