/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_real.h - finds NVIDIA's NCCL, also in a process that has libcoll's drop-in for it. */
#ifndef NCCL_REAL_H
#define NCCL_REAL_H

/*
 * Opens NVIDIA's library of this name or path.  NULL if there is none: *drop_in says whether the loader found the
 * drop-in instead; if not, dlerror() has the reason.
 */
void *nccl_open_real(const char *name, int *drop_in);

#endif
