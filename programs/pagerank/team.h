/*
 * Threads of one process that work in step. They wait for each other by polling, and no two of them
 * write the same line: threads come together within a few misses, however many they are.
 */
#ifndef PAGERANK_TEAM_H
#define PAGERANK_TEAM_H

#include <stdint.h>

typedef struct team team;
typedef void (*team_work)(team *t, uint32_t number, void *argument);

/* Calls work(t, number, argument) in so many threads, the calling one being number 0, and returns
 * when all have. 0, or a positive errno if there are not enough threads: then nobody has worked. */
int team_run(uint32_t threads, team_work work, void *argument);

/* Every thread calls it. Number 0 returns when all are here; the others, when number 0 releases
 * them: in between, it is the only one that does something. */
void team_gather(team *t, uint32_t number);
void team_release(team *t);

/* Returns when all threads have called it. */
void team_barrier(team *t, uint32_t number);

#endif
