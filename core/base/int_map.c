/* SPDX-License-Identifier: BSD-3-Clause */
/* int_map.c - open addressing; at most half of the slots are in use. */
#include "base/int_map.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { INT_MAP_FIRST = 16 };

struct int_map_key {
	int key, slot;
};

/* Returns the slot of the key, or the free slot where the key belongs. */
static int int_map_find(const struct int_map *map, int key)
{
	/* Peers of one schedule are often powers of two apart; the high bits of the product still differ. */
	uint32_t hash = (uint32_t)key * 2654435769u;
	int at = (int)((hash ^ hash >> 16) & (uint32_t)(map->nslots - 1));

	while (map->slot[at] && map->key[map->slot[at] - 1].key != key)
		at = (at + 1) & (map->nslots - 1);
	return at;
}

static int int_map_grow(struct int_map *map)
{
	size_t n = map->nslots ? 2 * (size_t)map->nslots : INT_MAP_FIRST;
	struct int_map_key *key = realloc(map->key, n / 2 * sizeof(*key));
	int *slot = key ? calloc(n, sizeof(*slot)) : NULL;

	if (key)
		map->key = key;
	if (!slot)
		return -1;
	free(map->slot);
	map->slot = slot;
	map->nslots = (int)n;
	for (int i = 0; i < map->nkeys; i++) {
		key[i].slot = int_map_find(map, key[i].key);
		slot[key[i].slot] = i + 1;
	}
	return 0;
}

int int_map_number(struct int_map *map, int key)
{
	int at = map->nslots ? int_map_find(map, key) : 0;

	if (map->nslots && map->slot[at])
		return map->slot[at] - 1;
	if (map->nkeys == map->nslots / 2) {
		if (int_map_grow(map))
			return -1;
		at = int_map_find(map, key);
	}
	map->key[map->nkeys] = (struct int_map_key){key, at};
	map->slot[at] = ++map->nkeys;
	return map->nkeys - 1;
}

void int_map_clear(struct int_map *map)
{
	for (int i = 0; i < map->nkeys; i++)
		map->slot[map->key[i].slot] = 0;
	map->nkeys = 0;
}

void int_map_free(struct int_map *map)
{
	free(map->key);
	free(map->slot);
	memset(map, 0, sizeof(*map));
}
