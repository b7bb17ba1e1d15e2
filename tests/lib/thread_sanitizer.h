/* SPDX-License-Identifier: BSD-3-Clause */
/* thread_sanitizer.h - defines TESTS_THREAD_SANITIZER if the compiler adds ThreadSanitizer's checks. */
#ifndef TESTS_THREAD_SANITIZER_H
#define TESTS_THREAD_SANITIZER_H

#ifdef __SANITIZE_THREAD__
#define TESTS_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TESTS_THREAD_SANITIZER 1
#endif
#endif

#endif
