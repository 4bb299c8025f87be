// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// An option of a `do` for each worker and each chunk. The numbers are constants, so that a state needs no variables for
// what is being tried.

#if WORKERS == 2
#define EACH_WORKER(OPTION) OPTION(0) OPTION(1)
#define EACH_OF_WORKERS(OPTION, k) OPTION(0, k) OPTION(1, k)
#define EVERYBODY 3
#elif WORKERS == 3
#define EACH_WORKER(OPTION) OPTION(0) OPTION(1) OPTION(2)
#define EACH_OF_WORKERS(OPTION, k) OPTION(0, k) OPTION(1, k) OPTION(2, k)
#define EVERYBODY 7
#endif

#if CHUNKS > 3
#define CHUNK_3(EACH, OPTION) EACH(OPTION, 3)
#else
#define CHUNK_3(EACH, OPTION)
#endif
#if CHUNKS > 4
#define CHUNK_4(EACH, OPTION) EACH(OPTION, 4)
#else
#define CHUNK_4(EACH, OPTION)
#endif
#if CHUNKS > 5
#define CHUNK_5(EACH, OPTION) EACH(OPTION, 5)
#else
#define CHUNK_5(EACH, OPTION)
#endif
#if CHUNKS > 6
#define CHUNK_6(EACH, OPTION) EACH(OPTION, 6) EACH(OPTION, 7)
#else
#define CHUNK_6(EACH, OPTION)
#endif
#if CHUNKS > 8
#define CHUNK_8(EACH, OPTION) EACH(OPTION, 8) EACH(OPTION, 9)
#else
#define CHUNK_8(EACH, OPTION)
#endif

// At least 3 chunks; 3, 4, 5, 6, 8 or 10.
#define EACH_CHUNK(EACH, OPTION) \
    EACH(OPTION, 0) EACH(OPTION, 1) EACH(OPTION, 2) CHUNK_3(EACH, OPTION) CHUNK_4(EACH, OPTION) \
    CHUNK_5(EACH, OPTION) CHUNK_6(EACH, OPTION) CHUNK_8(EACH, OPTION)
#define FOR_EACH(OPTION) EACH_CHUNK(EACH_OF_WORKERS, OPTION)

#define BIT(k) (1 << (k))
#define HAS(set, k) ((set) >> (k) & 1)

// A property. Spin repeats the schedule that breaks it, and prints the words.
#define MUST(condition, words) if :: (condition) :: else -> printf(words); assert(0) fi
