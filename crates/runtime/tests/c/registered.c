/*
 * Memory is registered that shares pages with registered memory, or is memory of rackmem: operations use
 * the bytes that the program has at those addresses, and so do the peers.
 */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "rackmem.h"

#include "check.h"

enum { PAGE = 4096, THERE = 64 << 10, AWAY = 128 << 10 };

static rackmem_context *ctx;
static QP *qp;

/* Bytes go from `buffer` to the segment, and others come from there. */
static void there_and_back(unsigned char *buffer, size_t n, int seed)
{
    unsigned char *segment = (unsigned char *)rackmem_segment(ctx);
    for (size_t i = 0; i < n; i++) {
        buffer[i] = (unsigned char)(i * 31 + i / 251 + (size_t)seed);
        segment[AWAY + i] = (unsigned char)~buffer[i];
    }
    CHECK(rmc_write(qp, 0, THERE, buffer, n) == 0);
    CHECK(memcmp(segment + THERE, buffer, n) == 0);
    CHECK(rmc_read(qp, 0, AWAY, buffer, n) == 0);
    CHECK(memcmp(segment + AWAY, buffer, n) == 0);
    uint64_t old, before;
    memcpy(&before, segment + THERE, 8);
    CHECK(rmc_fetch_and_add(qp, 0, THERE, 1, &old) == 0 && old == before);
}

static unsigned char *pages(void *address, size_t n)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (address ? MAP_FIXED : 0);
    void *made = mmap(address, n * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    CHECK(made != MAP_FAILED);
    return (unsigned char *)made;
}

/* The page in the middle belongs to both. */
static void neighbours(void)
{
    unsigned char *both = pages(0, 4), *one = both, *two = both + 6000;
    memset(both, 1, (size_t)4 * PAGE);
    CHECK(rackmem_register(ctx, one, 6000) == 0);
    CHECK(rackmem_register(ctx, two, 6000) == 0);
    for (int i = 0; i < 4 * PAGE; i++)
        CHECK(both[i] == 1);
    there_and_back(one, 6000, 1);
    there_and_back(two, 6000, 2);
    there_and_back(both, (size_t)4 * PAGE, 3);
    there_and_back(both + 2 * PAGE - 3, 8, 4);
}

/* The second time needs no buffer of its own: a member has 64. */
static void again(void)
{
    unsigned char *array = pages(0, 2);
    for (int i = 0; i < 100; i++) {
        CHECK(rackmem_register(ctx, array, 6000) == 0);
        there_and_back(array, 6000, i);
    }
    unsigned char *given = (unsigned char *)rackmem_alloc(ctx, 3 * PAGE);
    CHECK(rackmem_register(ctx, given + 100, 2 * PAGE) == 0);
    there_and_back(given, (size_t)3 * PAGE, 5);
}

/* The program unmaps a page of registered memory, and has another there. */
static void unmapped(void)
{
    unsigned char *array = pages(0, 3);
    CHECK(rackmem_register(ctx, array, (size_t)3 * PAGE) == 0);
    there_and_back(array, (size_t)3 * PAGE, 6);
    CHECK(munmap(array + PAGE, PAGE) == 0 && pages(array + PAGE, 1) == array + PAGE);
    CHECK(rackmem_register(ctx, array, (size_t)3 * PAGE) == 0);
    there_and_back(array, (size_t)3 * PAGE, 7);
    there_and_back(array + PAGE + 5, 100, 8);
}

static void other_context(void)
{
    unsigned char *array = pages(0, 3);
    rackmem_context *mine = ctx;
    QP *my_qp = qp, *other_qp;
    CHECK(rackmem_register(mine, array, (size_t)2 * PAGE) == 0);
    rackmem_context *other;
    CHECK(rackmem_init(&other, 1 << 20) == 0 && rackmem_qp_create(other, 8, &other_qp) == 0);
    CHECK(rackmem_register(other, array + PAGE, (size_t)2 * PAGE) == 0);
    ctx = other, qp = other_qp;
    there_and_back(array, (size_t)3 * PAGE, 9);
    ctx = mine, qp = my_qp;
    there_and_back(array, (size_t)3 * PAGE, 10);
    rackmem_close(other);
    there_and_back(array, (size_t)3 * PAGE, 11);
}

static void is_refused(void *memory, size_t n)
{
    rackmem_set_last_error(-1, "");
    CHECK(rackmem_register(ctx, memory, n) == -EINVAL);
    CHECK(strstr(rackmem_last_error(), "register"));
}

static void refused(void)
{
    unsigned char *segment = (unsigned char *)rackmem_segment(ctx);
    const size_t size = rackmem_segment_bytes(ctx);
    is_refused(segment, size);
    is_refused(segment + 5, 8);
    is_refused(segment + size - 1, 1);
    there_and_back(segment, 6000, 12);
    uint64_t word = 0;
    memcpy(segment, "hello, x", 8);
    CHECK(rmc_read(qp, 0, 0, &word, 8) == 0 && memcmp(&word, "hello, x", 8) == 0);
    is_refused((void *)(UINTPTR_MAX - 10), 100);
    is_refused((void *)(UINTPTR_MAX - 10), 5);
    is_refused(&word, SIZE_MAX);
}

int main(void)
{
    if (rackmem_init(&ctx, 0) != 0 || rackmem_qp_create(ctx, 8, &qp) != 0) {
        fprintf(stderr, "%s\n", rackmem_last_error());
        return 1;
    }
    neighbours();
    again();
    unmapped();
    other_context();
    refused();
    rackmem_close(ctx);
    return 0;
}
