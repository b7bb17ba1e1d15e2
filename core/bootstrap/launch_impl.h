/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launch_impl.h - the table of launchers (launch.c) and where the ranks of each meet (launch_root.c); for
 * core/bootstrap/ only.
 */
#ifndef CORE_BOOTSTRAP_LAUNCH_IMPL_H
#define CORE_BOOTSTRAP_LAUNCH_IMPL_H

#include "bootstrap/bootstrap.h"

/*
 * The value of an environment variable without white space before it; NULL if it is unset or white space only, or if
 * name is NULL.
 */
const char *launch_get(const char *name);
/* The number of bytes of a value of launch_get without the white space behind it. */
size_t launch_length(const char *value);
/* The value without white space around it, in `text`; "" if launch_get returns NULL. */
const char *launch_text(const char *name, char *text, size_t size);
/* Are two variables set and equal? */
int launch_same(const char *a, const char *b);

/* Do the variables of another launcher say another rank or number of ranks?  Then the text says so. */
int launch_disagrees(const struct launch *launch, char *text, size_t size);

/* Has `coll run` started this process, itself or through another launcher? (launch_below.c) */
int launch_is_below_run(void);
/* Has the variable the value with which `coll run` left it, or another?  0 and 0 without `coll run`, and for NULL. */
int launch_is_left(const char *name);
int launch_is_newer(const char *name);

/* Each fills launch->root and launch->key, or returns an error that asks for COLL_ROOT. */
int launch_meet_coll(struct launch *launch);
int launch_meet_torchrun(struct launch *launch);
int launch_meet_openmpi(struct launch *launch);
int launch_meet_pmix(struct launch *launch);
int launch_meet_flux(struct launch *launch);
int launch_meet_pals(struct launch *launch);
int launch_meet_mpich(struct launch *launch);
int launch_meet_mvapich(struct launch *launch);
int launch_meet_slurm(struct launch *launch);

#endif
