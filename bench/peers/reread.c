/*
 * reread: node 0 writes to node 1 and reads back, and adds to a counter there, until it is told to stop.
 *
 * It knows which bytes may be there: those of the last write that succeeded, or of one that failed after it, as such a
 * write may have been done in part. A counter has at least the additions that succeeded, and at most those that failed
 * besides: an addition that is done twice, or lost, is found.
 *
 *     rackmem run --rack-file FILE ... -- ./reread BOARD
 */
#include <fcntl.h>
#include <inttypes.h>
#include <rackmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { KEYS = 32, KEY_BYTES = 1 << 16, COUNTERS_BYTES = 4096, SEGMENT_BYTES = KEYS * KEY_BYTES + COUNTERS_BYTES };
enum { WRONG = 4, PAUSE_NS = 2000000 };

/* Shared with the script: lib/outages.py reads these words. */
typedef struct board {
    volatile uint64_t done;   /* operations that succeeded */
    volatile uint64_t failed; /* operations that did not */
    volatile uint64_t wrong;
    volatile uint64_t stop; /* set by the script */
    char text[224];
} board;

/* Versions that may be in a key: from the last one that was certainly written to the last one that may have been. */
typedef struct key {
    uint64_t certain;
    uint64_t last;
    size_t words;
} key;

static board *b;
static key keys[KEYS];

static int wrong(const char *what, uint64_t at, uint64_t found, uint64_t least, uint64_t most)
{
    snprintf(b->text, sizeof b->text, "%s %" PRIu64 ": %" PRIx64 ", not %" PRIx64 " to %" PRIx64, what, at, found,
             least, most);
    b->wrong++;
    return WRONG;
}

static int is_done(int error)
{
    if (error == 0) {
        b->done++;
        return 1;
    }
    b->failed++;
    snprintf(b->text, sizeof b->text, "%s", rackmem_strerror(error));
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    return 0;
}

/* Key, version and place of a word. */
static uint64_t word_of(uint64_t number, uint64_t version, uint64_t index)
{
    return number << 56 | version << 16 | index;
}

static int check(uint64_t number, const uint64_t *words)
{
    const key *k = &keys[number];
    for (uint64_t i = 0; i < k->words; i++) {
        uint64_t version = words[i] << 8 >> 24;
        int is_new = words[i] == 0 && k->certain == 0;
        if (!is_new && (words[i] != word_of(number, version, i) || version < k->certain || version > k->last))
            return wrong("word", number << 16 | i, words[i], word_of(number, k->certain, i),
                         word_of(number, k->last, i));
    }
    return 0;
}

static int write_and_read(QP *qp, uint64_t *words)
{
    static const size_t lengths[] = {1, 8, 64, 512, 5000, KEY_BYTES / 8};
    uint64_t number = (uint64_t)rand() % KEYS;
    key *k = &keys[number];
    /* A key keeps its length, so that every version covers all of it. */
    k->words = lengths[number % (sizeof lengths / sizeof *lengths)];
    k->last++;
    for (uint64_t i = 0; i < k->words; i++)
        words[i] = word_of(number, k->last, i);
    uint64_t offset = COUNTERS_BYTES + number * KEY_BYTES;
    if (is_done(rmc_write(qp, 1, offset, words, k->words * 8)))
        k->certain = k->last;
    memset(words, 0xee, k->words * 8);
    return is_done(rmc_read(qp, 1, offset, words, k->words * 8)) ? check(number, words) : 0;
}

/* Additions of one that succeeded, that failed, and that failed and were certainly done. */
static uint64_t added, unsure, done_unsure;

static int add(QP *qp)
{
    uint64_t before;
    if (!is_done(rmc_fetch_and_add(qp, 1, 0, 1, &before))) {
        unsure++;
        return 0;
    }
    if (before < added + done_unsure || before > added + unsure)
        return wrong("counter after additions:", added, before, added + done_unsure, added + unsure);
    done_unsure = before - added;
    added++;
    return 0;
}

int main(int argc, char **argv)
{
    static uint64_t words[KEY_BYTES / 8];
    rackmem_context *ctx;
    QP *qp;
    int file = argc == 2 ? open(argv[1], O_RDWR) : -1;
    if (file < 0 || (b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)) == MAP_FAILED)
        return fprintf(stderr, "reread: names no board\n"), 2;
    if (rackmem_init(&ctx, SEGMENT_BYTES) != 0 || rackmem_qp_create(ctx, 64, &qp) != 0 ||
        rackmem_wait_joined(ctx, !rackmem_nid(ctx), 30000) != 0)
        return fprintf(stderr, "reread: %s\n", rackmem_last_error()), 1;
    srand(1);
    while (!b->stop) {
        if (rackmem_nid(ctx) != 0)
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        else if (write_and_read(qp, words) != 0 || add(qp) != 0)
            return fprintf(stderr, "reread: %s\n", b->text), WRONG;
    }
    rackmem_close(ctx);
    return 0;
}
