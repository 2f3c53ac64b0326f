/*
 * stream: the triad of STREAM, a = b + s c, between "remote" and "local" memory (CINI §5.3, Figure 8).
 *
 * On chip, one or two cores serve: the arrays are in their scratchpads, and the other cores stream
 * them. Off chip, the arrays are in DRAM and all cores stream.
 *
 * With dma, a core copies blocks of b and c into a ring of buffers in its scratchpad, in turn, as
 * many ahead as there are buffers; computes in place of c; and copies that to a. One counter for each
 * buffer tells when a copy has ended. With stores, the serving cores store b and c into the others'
 * buffers, word by word, and are told by a store what has been used; results are stored where they
 * belong. Nobody serves DRAM: there, cores load and store it, and buffers do not matter.
 */
#include <inttypes.h>
#include <string.h>

#include "../program.h"
#include "chip.h"

#define NAME "stream"

static const char about[] =
    "Streams three arrays, a = b + 3 c, and prints bytes of them per cycle (STREAM triad).\n"
    "\n"
    "  rackmem sim exec cache-integrated -- stream.rv64 --servers 1 --buffers 3 --buffer-bytes 1K\n"
    "  rackmem sim exec cache-integrated -- stream.rv64 --servers 0 --feasible      off chip\n";

enum { MOST_BUFFERS = 16, MOST_SERVERS = 2, WORDS_AT_ONCE = 8, SCALAR = 3, ARRAYS = 3 };

/* Buffers of a size that is not worth more: a copy loop with these is the feasible maximum. */
enum { FEASIBLE_BUFFERS = 4 };

/* Where a part of the arrays is. */
typedef struct arrays {
    uint64_t *a, *b, *c;
} arrays;

/* What a streaming core has in its scratchpad. Its server stores there. */
typedef struct client {
    __attribute__((aligned(SCR_LINE_BYTES))) scr_word *arrived; /* blocks stored so far */
    char *ring;                /* the buffers */
    scr_word *used;            /* at the server: blocks of those that were used */
    const arrays *remote;
    scr_word *command[MOST_BUFFERS];
    scr_word *completion[MOST_BUFFERS]; /* counters */
    scr_word *flag[MOST_BUFFERS];
    uint64_t begin, end; /* cycles */
} client;

typedef struct stream {
    uint64_t cores;
    uint64_t servers; /* 0: off chip */
    uint64_t buffers;
    uint64_t block_bytes;
    uint64_t array_bytes;
    uint64_t steps; /* blocks of a that each core makes */
    mechanism how;
    bool feasible; /* data go the same ways, but nothing is computed */
    arrays parts[MOST_SERVERS];
    client clients[SYS_MOST_MEMBERS];
    uint64_t wrong; /* words of a */
} stream;

static unsigned clients_of(const stream *s)
{
    return (unsigned)(s->cores - s->servers);
}

/* Servers come first; then clients, the servers' in turn. */
static bool is_server(const stream *s, const sys_member *self)
{
    return self->number < s->servers;
}

static uint64_t blocks(const stream *s)
{
    return s->array_bytes / s->block_bytes;
}

/* Where the block that a client works on in a step begins, in words. */
static uint64_t block_begin(const stream *s, unsigned client_number, uint64_t step)
{
    return (client_number + step * clients_of(s)) % blocks(s) * (s->block_bytes / SCR_WORD_BYTES);
}

/* What the arrays hold. */
static uint64_t value_of_b(uint64_t index)
{
    return index * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t value_of_c(uint64_t index)
{
    return index ^ UINT64_C(0x2545f4914f6cdd1d);
}

/* A line at a time: loads first, so that they do not wait for each other. */
static inline void triad(uint64_t *a, const uint64_t *b, const uint64_t *c, uint64_t words)
{
    for (uint64_t i = 0; i < words; i += WORDS_AT_ONCE) {
        uint64_t sum[WORDS_AT_ONCE];
        for (int k = 0; k < WORDS_AT_ONCE; k++)
            sum[k] = b[i + (unsigned)k] + SCALAR * c[i + (unsigned)k];
        for (int k = 0; k < WORDS_AT_ONCE; k++)
            a[i + (unsigned)k] = sum[k];
    }
}

static inline void copy_words(uint64_t *to, const uint64_t *from, uint64_t words)
{
    for (uint64_t i = 0; i < words; i += WORDS_AT_ONCE) {
        uint64_t line[WORDS_AT_ONCE];
        for (int k = 0; k < WORDS_AT_ONCE; k++)
            line[k] = from[i + (unsigned)k];
        for (int k = 0; k < WORDS_AT_ONCE; k++)
            to[i + (unsigned)k] = line[k];
    }
}

/* ---- With copies ------------------------------------------------------------------------- */

/*
 * Blocks are numbered as they are fetched: 2 i is that of b for step i, 2 i + 1 that of c; block n
 * goes to buffer n modulo their number. A buffer with a block of b is free once that has been used;
 * one with a block of c holds results then and is free when these have been copied.
 */
typedef struct fetching {
    const stream *s;
    const client *c;
    unsigned number; /* of the client */
    uint64_t next;   /* block */
} fetching;

static uint64_t *buffer(const fetching *f, uint64_t block)
{
    return (uint64_t *)(void *)(f->c->ring + block % f->s->buffers * f->s->block_bytes);
}

static bool holds_results(const fetching *f, uint64_t block)
{
    return block >= f->s->buffers && (block - f->s->buffers) % 2 == 1;
}

static void fetch(fetching *f)
{
    uint64_t slot = f->next % f->s->buffers;
    const arrays *remote = f->c->remote;
    const uint64_t *source = f->next % 2 ? remote->c : remote->b;
    source += block_begin(f->s, f->number, f->next / 2);
    ni_copy(f->c->command[slot], buffer(f, f->next), source, f->s->block_bytes,
            f->c->completion[slot]);
    f->next++;
}

/* Fetches blocks into all buffers that are free now that those before `used` have been used; those
 * before `needed` it waits for. */
static void fetch_ahead(fetching *f, uint64_t used, uint64_t needed)
{
    uint64_t end = used + f->s->buffers;
    end = end < 2 * f->s->steps ? end : 2 * f->s->steps;
    while (f->next < end) {
        if (holds_results(f, f->next)) {
            scr_word *copied = f->c->flag[f->next % f->s->buffers];
            if (f->next < needed)
                (void)ni_wait(copied);
            else if (!ni_test(copied))
                break;
        }
        fetch(f);
    }
}

static void stream_by_copies(const stream *s, const client *c, unsigned number)
{
    fetching f = {s, c, number, 0};
    uint64_t words = s->block_bytes / SCR_WORD_BYTES;
    for (uint64_t step = 0; step < s->steps; step++) {
        uint64_t b = 2 * step, result = b + 1, slot = result % s->buffers;
        fetch_ahead(&f, b, b + 2);
        (void)ni_wait(c->flag[b % s->buffers]);
        (void)ni_wait(c->flag[slot]);
        if (!s->feasible)
            triad(buffer(&f, result), buffer(&f, b), buffer(&f, result), words);
        scr_release();
        ni_copy(c->command[slot], c->remote->a + block_begin(s, number, step),
                buffer(&f, result), s->block_bytes, c->completion[slot]);
    }
    /* Results whose buffers nobody has needed since. */
    uint64_t end = 2 * s->steps;
    for (uint64_t block = end > s->buffers ? end - s->buffers : 0; block < end; block++)
        if (block % 2 == 1)
            (void)ni_wait(c->flag[block % s->buffers]);
}

/* ---- With stores ------------------------------------------------------------------------- */

/* Stores the next block for a client into its ring, and says so. */
static void push_block(const stream *s, unsigned number, uint64_t block)
{
    const client *c = &s->clients[number];
    const uint64_t *source = block % 2 ? c->remote->c : c->remote->b;
    char *to = c->ring + block % s->buffers * s->block_bytes;
    copy_words((uint64_t *)(void *)to, source + block_begin(s, number, block / 2),
               s->block_bytes / SCR_WORD_BYTES);
    ni_signal(c->arrived, block + 1);
}

/* Gives all clients of this server their blocks, as they have buffers for them. */
static void serve(const stream *s, unsigned server)
{
    uint64_t pushed[SYS_MOST_MEMBERS] = {0}, end = 2 * s->steps;
    for (bool is_done = false; !is_done;) {
        is_done = true;
        for (unsigned n = server; n < clients_of(s); n += (unsigned)s->servers) {
            uint64_t used = *s->clients[n].used;
            if (pushed[n] < end && pushed[n] < used + s->buffers)
                push_block(s, n, pushed[n]++);
            is_done = is_done && used == end;
        }
    }
}

/* The feasible maximum: as many stores to a, of anything. */
static void store_words(uint64_t *to, uint64_t value, uint64_t words)
{
    for (uint64_t i = 0; i < words; i += WORDS_AT_ONCE)
        for (int k = 0; k < WORDS_AT_ONCE; k++)
            *(scr_word *)&to[i + (unsigned)k] = value;
}

static void stream_by_stores(const stream *s, const client *c, unsigned number)
{
    uint64_t words = s->block_bytes / SCR_WORD_BYTES;
    for (uint64_t step = 0; step < s->steps; step++) {
        uint64_t *a = c->remote->a + block_begin(s, number, step);
        const char *b = c->ring + 2 * step % s->buffers * s->block_bytes;
        const char *next = c->ring + (2 * step + 1) % s->buffers * s->block_bytes;
        while (*c->arrived < 2 * step + 2)
            ;
        scr_acquire();
        if (s->feasible)
            store_words(a, step, words);
        else
            triad(a, (const uint64_t *)(const void *)b, (const uint64_t *)(const void *)next,
                  words);
        ni_signal(c->used, 2 * step + 2);
    }
}

/* Off chip: loads from DRAM, and stores to it. */
static void stream_by_loads_and_stores(const stream *s, const client *c, unsigned number)
{
    uint64_t words = s->block_bytes / SCR_WORD_BYTES;
    for (uint64_t step = 0; step < s->steps; step++) {
        uint64_t begin = block_begin(s, number, step);
        triad(c->remote->a + begin, c->remote->b + begin, c->remote->c + begin, words);
    }
    scr_fence();
}

/* ---- Arrays: made and looked at ---------------------------------------------------------- */

static void fill_scratchpad(const arrays *part, uint64_t words)
{
    for (uint64_t i = 0; i < words; i++) {
        part->a[i] = 0;
        part->b[i] = value_of_b(i);
        part->c[i] = value_of_c(i);
    }
}

/* A copy by the first buffer's command; returns when it has ended. */
static void copy_block(const stream *s, const client *c, void *to, const void *from)
{
    scr_release();
    ni_copy(c->command[0], to, from, s->block_bytes, c->completion[0]);
    (void)ni_wait(c->flag[0]);
}

/* This client's share of the arrays in DRAM, through its buffers. */
static void fill_dram(const stream *s, const client *c, unsigned number)
{
    uint64_t words = s->block_bytes / SCR_WORD_BYTES;
    uint64_t *b = (uint64_t *)(void *)c->ring, *next = b + words;
    for (uint64_t block = number; block < blocks(s); block += clients_of(s)) {
        for (uint64_t i = 0; i < words; i++) {
            b[i] = value_of_b(block * words + i);
            next[i] = value_of_c(block * words + i);
        }
        copy_block(s, c, c->remote->b + block * words, b);
        copy_block(s, c, c->remote->c + block * words, next);
    }
}

/* How many words of a client's results are not what they should be. */
static uint64_t count_wrong(const stream *s, const client *c, unsigned number)
{
    uint64_t words = s->block_bytes / SCR_WORD_BYTES, wrong = 0;
    uint64_t *local = (uint64_t *)(void *)c->ring;
    uint64_t steps = s->steps < blocks(s) ? s->steps : blocks(s); /* then they repeat */
    for (uint64_t step = 0; step < steps; step++) {
        uint64_t begin = block_begin(s, number, step);
        copy_block(s, c, local, c->remote->a + begin);
        for (uint64_t i = 0; i < words; i++)
            wrong += local[i] != value_of_b(begin + i) + SCALAR * value_of_c(begin + i);
    }
    return wrong;
}

/* ---- Work of a core ---------------------------------------------------------------------- */

static void make_server(stream *s, sys_member *self)
{
    arrays *part = &s->parts[self->number];
    part->a = scr_alloc(&self->pad, s->array_bytes, SCR_LINE_BYTES);
    part->b = scr_alloc(&self->pad, s->array_bytes, SCR_LINE_BYTES);
    part->c = scr_alloc(&self->pad, s->array_bytes, SCR_LINE_BYTES);
    fill_scratchpad(part, s->array_bytes / SCR_WORD_BYTES);
    for (unsigned n = self->number; n < clients_of(s); n += (unsigned)s->servers)
        s->clients[n].used = scr_alloc(&self->pad, SCR_WORD_BYTES, SCR_WORD_BYTES);
}

static void make_client(stream *s, sys_member *self, unsigned number)
{
    client *c = &s->clients[number];
    c->remote = &s->parts[s->servers ? number % s->servers : 0];
    c->arrived = scr_alloc(&self->pad, SCR_WORD_BYTES, SCR_WORD_BYTES);
    for (uint64_t i = 0; i < s->buffers; i++) {
        c->command[i] = scr_alloc_command(&self->pad);
        c->flag[i] = scr_alloc(&self->pad, SCR_WORD_BYTES, SCR_WORD_BYTES);
        c->completion[i] =
            scr_alloc_counter(&self->pad, -(int64_t)s->block_bytes, c->flag[i]);
    }
    c->ring = scr_alloc(&self->pad, s->buffers * s->block_bytes, SCR_LINE_BYTES);
    if (s->servers == 0)
        fill_dram(s, c, number);
}

/* What is left of a scratchpad for buffers: the rest of make_client() takes lines. */
static uint64_t lines_beside_buffers(uint64_t buffers)
{
    return CHIP_BARRIER_LINES + 1 + 3 * buffers;
}

static void work(sys_member *self, void *argument)
{
    stream *s = argument;
    unsigned number = self->number - (unsigned)s->servers;
    sys_counter_barrier barrier = chip_barrier(self);
    if (is_server(s, self))
        make_server(s, self);
    else
        make_client(s, self, number);
    sys_meet(self->team);
    sys_counter_barrier_wait(barrier);
    if (is_server(s, self)) {
        if (s->how == MECHANISM_STORES)
            serve(s, self->number);
        sys_meet(self->team);
        sys_meet(self->team);
        return;
    }
    client *c = &s->clients[number];
    c->begin = sys_cycles();
    if (s->how == MECHANISM_DMA)
        stream_by_copies(s, c, number);
    else if (s->servers == 0)
        stream_by_loads_and_stores(s, c, number);
    else
        stream_by_stores(s, c, number);
    c->end = sys_cycles();
    sys_meet(self->team);
    if (!s->feasible)
        __atomic_add_fetch(&s->wrong, count_wrong(s, c, number), __ATOMIC_RELAXED);
    sys_meet(self->team);
}

/* ---- Output and command line ------------------------------------------------------------- */

static void print(const stream *s, bool json)
{
    uint64_t begin = s->clients[0].begin, end = s->clients[0].end;
    for (unsigned n = 1; n < clients_of(s); n++) {
        begin = s->clients[n].begin < begin ? s->clients[n].begin : begin;
        end = s->clients[n].end > end ? s->clients[n].end : end;
    }
    uint64_t bytes = ARRAYS * s->steps * s->block_bytes * clients_of(s);
    double per_cycle = (double)bytes / (double)(end - begin);
    if (json)
        printf("{\"program\":\"%s\",\"cores\":%" PRIu64 ",\"servers\":%" PRIu64
               ",\"streaming\":%u,\"mechanism\":\"%s\",\"feasible\":%s,\"buffers\":%" PRIu64
               ",\"buffer_bytes\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"cycles\":%" PRIu64
               ",\"bytes_per_cycle\":%.4f}\n",
               NAME, s->cores, s->servers, clients_of(s), mechanism_name(s->how),
               s->feasible ? "true" : "false", s->buffers, s->block_bytes, bytes, end - begin,
               per_cycle);
    else
        printf("%s chip, %u cores stream, %s, %" PRIu64 " buffers of %" PRIu64
               " bytes: %s%.3f bytes per cycle\n",
               s->servers ? "on" : "off", clients_of(s), mechanism_name(s->how), s->buffers,
               s->block_bytes, s->feasible ? "feasible: " : "", per_cycle);
}

/* The largest power of two that is not above. */
static uint64_t floor_power(uint64_t number)
{
    uint64_t power = 1;
    while (power <= number / 2)
        power *= 2;
    return power;
}

/* Sizes that were not given: the largest that fit. */
static void choose_sizes(stream *s, const scr_pad *pad)
{
    uint64_t room = scr_left(pad);
    if (s->array_bytes == 0 && s->servers != 0)
        s->array_bytes = floor_power((room - (CHIP_BARRIER_LINES + s->cores) * SCR_LINE_BYTES) / ARRAYS);
    else if (s->array_bytes == 0)
        s->array_bytes = 256 << 10;
    if (!s->feasible)
        return;
    s->buffers = FEASIBLE_BUFFERS;
    room -= lines_beside_buffers(s->buffers) * SCR_LINE_BYTES;
    uint64_t most = floor_power(room / s->buffers);
    s->block_bytes = most < s->array_bytes ? most : s->array_bytes;
    s->block_bytes = s->block_bytes < NI_MOST_COPY_BYTES ? s->block_bytes : NI_MOST_COPY_BYTES;
}

/* What is wrong with the sizes, or NULL. */
static const char *complaint(const stream *s, const scr_pad *pad)
{
    uint64_t room = scr_left(pad);
    uint64_t lines = lines_beside_buffers(s->buffers) * SCR_LINE_BYTES;
    uint64_t served = ARRAYS * s->array_bytes;
    if (s->servers >= s->cores)
        return "--servers: no core is left that streams";
    if (s->block_bytes % SCR_LINE_BYTES != 0)
        return "--buffer-bytes: expected whole lines of 64 bytes";
    if (s->block_bytes > NI_MOST_COPY_BYTES)
        return "--buffer-bytes: a copy has 64K at most";
    if (lines > room || s->buffers * s->block_bytes > room - lines)
        return "--buffers: they do not fit in a scratchpad";
    if (s->array_bytes % s->block_bytes != 0)
        return "--array-bytes: expected a multiple of --buffer-bytes";
    if (s->servers != 0 && served + (CHIP_BARRIER_LINES + s->cores) * SCR_LINE_BYTES > room)
        return "--array-bytes: three arrays do not fit in a scratchpad";
    if (s->servers == 0 && served > pad->dram_bytes)
        return "--array-bytes: there is not so much DRAM";
    return NULL;
}

int main(int argc, char **argv)
{
    static stream s = {.cores = 4, .servers = 1, .buffers = 3, .block_bytes = 1024, .steps = 64};
    const char *how = "dma";
    bool json = false;
    const option options[] = {
        {"cores", OPTION_NUMBER, &s.cores, "N", "in all (4)", 1, SYS_MOST_MEMBERS},
        {"servers", OPTION_NUMBER, &s.servers, "N",
         "of these have the arrays in their scratchpads (1);\n0: the arrays are in DRAM", 0,
         MOST_SERVERS},
        {"mechanism", OPTION_TEXT, &how, MECHANISM_VALUE, MECHANISM_HELP, 0, 0},
        {"buffers", OPTION_NUMBER, &s.buffers, "N",
         "of each streaming core; a block of b or c takes one (3)", 2, MOST_BUFFERS},
        {"buffer-bytes", OPTION_BYTES, &s.block_bytes, "SIZE", "of one, and of copies (1K)",
         SCR_LINE_BYTES, NI_MOST_COPY_BYTES},
        {"array-bytes", OPTION_BYTES, &s.array_bytes, "SIZE",
         "of one array, at each server (what fits, or 256K in DRAM)", SCR_LINE_BYTES, 1 << 30},
        {"steps", OPTION_NUMBER, &s.steps, "N", "blocks that each core makes (64)", 1, 1 << 20},
        {"feasible", OPTION_FLAG, &s.feasible, NULL,
         "move the same, in the largest blocks, without computing", 0, 0},
        {"json", OPTION_FLAG, &json, NULL, "print one line of JSON", 0, 0},
        {0},
    };
    const command_line line = {NAME, "[OPTIONS]", about, options, NULL};
    int status = options_parse(&line, argc, argv);
    if (status == OPTIONS_GO_ON)
        status = mechanism_parse(&line, how, &s.how);
    if (status != OPTIONS_GO_ON)
        return status;
    const scr_pad *pad = chip_pad(NAME);
    if (!pad)
        return PROGRAM_FAILED;
    choose_sizes(&s, pad);
    const char *wrong = complaint(&s, pad);
    if (wrong)
        return options_usage(&line, wrong);
    if (s.servers == 0) {
        s.parts[0].a = (uint64_t *)(uintptr_t)SCR_DRAM;
        s.parts[0].b = s.parts[0].a + s.array_bytes / SCR_WORD_BYTES;
        s.parts[0].c = s.parts[0].b + s.array_bytes / SCR_WORD_BYTES;
    }

    status = chip_run(NAME, (unsigned)s.cores, work, &s);
    if (status == 0 && s.wrong != 0)
        status = program_failed(NAME, "%" PRIu64 " words of the result are wrong", s.wrong);
    if (status != 0)
        return status;
    print(&s, json);
    return program_flush(NAME);
}
