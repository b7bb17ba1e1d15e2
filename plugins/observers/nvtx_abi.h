/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nvtx_abi.h - what NVTX 3 fixes between a program and the injection library of a tool, as far as the observer nvtx uses it.
 * A tool (Nsight Systems) names its library in NVTX_INJECTION64_PATH.  The program opens that, and calls its
 * InitializeInjectionNvtx2 with a function that hands out tables, in which the tool puts its functions.
 */
#ifndef PLUGINS_OBSERVERS_NVTX_ABI_H
#define PLUGINS_OBSERVERS_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { NVTX_TABLE_CALLBACKS = 1, NVTX_TABLE_VERSION = 3 };
enum { NVTX_MODULE_CORE = 1, NVTX_MODULE_CORE2 = 5, NVTX_SLOTS = 16 };

/* Slots of the module CORE2: functions with a domain. */
enum {
	NVTX_DOMAIN_MARK = 1,
	NVTX_DOMAIN_RANGE_START = 2,
	NVTX_DOMAIN_RANGE_END = 3,
	NVTX_DOMAIN_CREATE = 12,
	NVTX_DOMAIN_DESTROY = 14
};

typedef void (*nvtx_function)(void);

struct nvtx_callbacks {
	size_t size;
	/* *table: pointers to `*slots` function pointers.  Returns 0: there is no such module. */
	int (*table_of)(int32_t module, nvtx_function ***table, unsigned *slots);
};

struct nvtx_version {
	size_t size;
	uint32_t version, reserved;
	void (*tell)(uint32_t version); /* the tool's version of NVTX */
};

typedef int (*nvtx_initialize)(const void *(*table)(uint32_t id));

enum { NVTX_VERSION_3 = 3, NVTX_PAYLOAD_UINT64 = 1, NVTX_MESSAGE_ASCII = 1 };

/* nvtxEventAttributes_v2 */
struct nvtx_event {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const char *message;
};

typedef void *(*nvtx_domain_create)(const char *name);
typedef void (*nvtx_domain_mark)(void *domain, const struct nvtx_event *event);
typedef uint64_t (*nvtx_range_start)(void *domain, const struct nvtx_event *event);
typedef void (*nvtx_range_end)(void *domain, uint64_t range);

#endif
