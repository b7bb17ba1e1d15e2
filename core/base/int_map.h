/* SPDX-License-Identifier: BSD-3-Clause */
/* int_map.h - numbers distinct integers from 0 on, in the order of their arrival: a hash table. */
#ifndef CORE_BASE_INT_MAP_H
#define CORE_BASE_INT_MAP_H

/* A map that is all zero is empty. */
struct int_map {
	struct int_map_key *key; /* in the order of their numbers */
	int *slot;               /* 0, or 1 plus the number of the key that hashed to here */
	int nkeys, nslots;       /* nslots: 0, or a power of two */
};

/* Returns the number of the key, or -1 without memory.  A new key gets the number nkeys. */
int int_map_number(struct int_map *map, int key);
/* Removes all keys and keeps the memory.  The work depends on the number of keys, not of slots. */
void int_map_clear(struct int_map *map);
void int_map_free(struct int_map *map);

#endif
