/*
 * stream: the triad of STREAM, a = b + s c, between "remote" and "local" memory (CINI §5.3, Figure 8).
 *
 * On chip, one or two cores serve: the arrays are in their scratchpads, and the other cores stream
 * them. Off chip, the arrays are in DRAM and all cores stream.
 *
 * A buffer holds what a step needs, a block of b and one of c, half a buffer each: with three, one step
 * is on its way here while another one is computed and the results of a third are on their way back.
 *
 * With dma, a core copies blocks of b and c into a ring of buffers in its scratchpad, as many steps
 * ahead as there are buffers; computes in place of c; and copies that to a. Counters of each buffer
 * tell when copies have ended. With stores, the serving cores store b and c into the others'
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

enum { MOST_BUFFERS = 16, MOST_SERVERS = 2, SCALAR = 3, ARRAYS = 3 };

/* Buffers of a size that is not worth more: a copy loop with these is the feasible maximum. */
enum { FEASIBLE_BUFFERS = 4 };

/* An element: a word of the prototype. */
typedef uint32_t element;
_Static_assert(sizeof(element) == CHIP_WORD_BYTES, "elements are words");

/* The place of a part of the arrays. */
typedef struct arrays {
    element *a, *b, *c;
} arrays;

/* A streaming core's scratchpad. Its server stores there. */
typedef struct client {
    __attribute__((aligned(SCR_LINE_BYTES))) scr_word *arrived; /* blocks stored so far */
    char *ring;                /* the buffers */
    scr_word *used;            /* at the server: blocks of those that were used */
    const arrays *remote;
    scr_word *command[MOST_BUFFERS], *other_command[MOST_BUFFERS];
    scr_word *fetched[MOST_BUFFERS], *back[MOST_BUFFERS]; /* counters */
    scr_word *fetched_flag[MOST_BUFFERS], *back_flag[MOST_BUFFERS];
    uint64_t begin, end; /* cycles */
} client;

typedef struct stream {
    uint64_t cores;
    uint64_t servers; /* 0: off chip */
    uint64_t buffers;
    uint64_t buffer_bytes;
    uint64_t block_bytes; /* half of that */
    uint64_t array_bytes;
    uint64_t blocks; /* of an array */
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

/* The place of a client in a step: the buffer, and the block of the arrays. Both go round. */
typedef struct place {
    uint64_t slot, block;
} place;

static place first_place(const stream *s, unsigned client_number)
{
    return (place){0, client_number % s->blocks};
}

static void advance(const stream *s, place *p)
{
    p->slot = p->slot + 1 < s->buffers ? p->slot + 1 : 0;
    p->block += clients_of(s);
    while (p->block >= s->blocks)
        p->block -= s->blocks;
}

static uint64_t block_words(const stream *s)
{
    return s->block_bytes / sizeof(element);
}

/* Words of an array before a block. */
static uint64_t block_begin(const stream *s, uint64_t block)
{
    return block * block_words(s);
}

/* The content of the arrays. */
static element value_of_b(uint64_t index)
{
    return (element)index * UINT32_C(0x9e3779b9);
}

static element value_of_c(uint64_t index)
{
    return (element)index ^ UINT32_C(0x4f6cdd1d);
}

/* A plain loop, as STREAM's own: the paper says nothing of loops that it unrolled, nor did its compiler. */
static inline void triad(element *a, const element *b, const element *c, uint64_t words)
{
    for (uint64_t i = 0; i < words; i++)
        a[i] = b[i] + SCALAR * c[i];
}

/* Volatile: no compiler makes it a call of memcpy, whose stores are longer. */
static inline void copy_words(chip_word *to, const element *from, uint64_t words)
{
    for (uint64_t i = 0; i < words; i++)
        to[i] = from[i];
}

/* ---- With copies ------------------------------------------------------------------------- */

/*
 * Step n has buffer n modulo their number: a block of b, and behind it one of c, in whose place the
 * results are. While a step's are computed, those of the steps before are on their way back, and those
 * of the steps after on their way here. One counter of a buffer waits for both blocks, another one for
 * the results.
 */
typedef struct fetching {
    const stream *s;
    const client *c;
    uint64_t next; /* step */
    place at;      /* its */
} fetching;

/* The first of a buffer's blocks. */
static element *buffer(const stream *s, const client *c, uint64_t slot)
{
    return (element *)(void *)(c->ring + slot * s->buffer_bytes);
}

static void fetch(fetching *f)
{
    const stream *s = f->s;
    const client *c = f->c;
    uint64_t slot = f->at.slot, begin = block_begin(s, f->at.block);
    element *b = buffer(s, c, slot);
    ni_copy(c->command[slot], b, c->remote->b + begin, s->block_bytes, c->fetched[slot]);
    ni_copy(c->other_command[slot], b + block_words(s), c->remote->c + begin,
            s->block_bytes, c->fetched[slot]);
    advance(s, &f->at);
    f->next++;
}

/* Fetches into all buffers that are free now; for that of step `needed` it waits. */
static void fetch_ahead(fetching *f, uint64_t needed)
{
    const stream *s = f->s;
    uint64_t end = needed + s->buffers < s->steps ? needed + s->buffers : s->steps;
    while (f->next < end) {
        if (f->next >= s->buffers) {
            scr_word *is_back = f->c->back_flag[f->at.slot];
            if (f->next <= needed)
                (void)ni_wait(is_back);
            else if (!ni_test(is_back))
                return;
        }
        fetch(f);
    }
}

static void stream_by_copies(const stream *s, const client *c, unsigned number)
{
    place at = first_place(s, number);
    fetching f = {s, c, 0, at};
    uint64_t words = block_words(s);
    for (uint64_t step = 0; step < s->steps; step++, advance(s, &at)) {
        element *b = buffer(s, c, at.slot), *results = b + words;
        fetch_ahead(&f, step);
        (void)ni_wait(c->fetched_flag[at.slot]);
        if (!s->feasible)
            triad(results, b, results, words);
        scr_release();
        ni_copy(c->command[at.slot], c->remote->a + block_begin(s, at.block), results,
                s->block_bytes, c->back[at.slot]);
    }
    /* Results whose buffers nobody has needed since. */
    uint64_t left = s->steps < s->buffers ? s->steps : s->buffers;
    for (uint64_t slot = 0; slot < left; slot++)
        (void)ni_wait(c->back_flag[slot]);
}

/* ---- With stores ------------------------------------------------------------------------- */

/* The progress of a server for a client: steps so far, and the place of the next one. */
typedef struct pushing {
    uint64_t steps;
    place at;
} pushing;

/* Stores a client's next blocks of b and c into its ring, and says so. */
static void push_step(const stream *s, const client *c, pushing *p)
{
    uint64_t begin = block_begin(s, p->at.block), words = block_words(s);
    element *b = buffer(s, c, p->at.slot);
    copy_words(b, c->remote->b + begin, words);
    copy_words(b + words, c->remote->c + begin, words);
    ni_signal(c->arrived, ++p->steps);
    advance(s, &p->at);
}

/* Gives all clients of this server their blocks, as they have buffers for them. */
static void serve(const stream *s, unsigned server)
{
    pushing pushed[SYS_MOST_MEMBERS];
    for (unsigned n = 0; n < clients_of(s); n++)
        pushed[n] = (pushing){0, first_place(s, n)};
    for (bool is_done = false; !is_done;) {
        is_done = true;
        for (unsigned n = server; n < clients_of(s); n += (unsigned)s->servers) {
            uint64_t used = *s->clients[n].used;
            if (pushed[n].steps < s->steps && pushed[n].steps < used + s->buffers)
                push_step(s, &s->clients[n], &pushed[n]);
            is_done = is_done && used == s->steps;
        }
    }
}

/* The feasible maximum: as many stores to a, of anything. */
static void store_words(chip_word *to, element value, uint64_t words)
{
    for (uint64_t i = 0; i < words; i++)
        to[i] = value;
}

static void stream_by_stores(const stream *s, const client *c, unsigned number)
{
    place at = first_place(s, number);
    uint64_t words = block_words(s);
    for (uint64_t step = 0; step < s->steps; step++, advance(s, &at)) {
        element *a = c->remote->a + block_begin(s, at.block);
        const element *b = buffer(s, c, at.slot);
        while (*c->arrived <= step)
            ;
        scr_acquire();
        if (s->feasible)
            store_words(a, (element)step, words);
        else
            triad(a, b, b + words, words);
        ni_signal(c->used, step + 1);
    }
}

/* Off chip: loads from DRAM, and stores to it. */
static void stream_by_loads_and_stores(const stream *s, const client *c, unsigned number)
{
    place at = first_place(s, number);
    uint64_t words = block_words(s);
    for (uint64_t step = 0; step < s->steps; step++, advance(s, &at)) {
        uint64_t begin = block_begin(s, at.block);
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
    ni_copy(c->command[0], to, from, s->block_bytes, c->back[0]);
    (void)ni_wait(c->back_flag[0]);
}

/* This client's share of the arrays in DRAM, through its buffers. */
static void fill_dram(const stream *s, const client *c, unsigned number)
{
    uint64_t words = block_words(s);
    element *b = (element *)(void *)c->ring, *next = b + words;
    for (uint64_t block = number; block < s->blocks; block += clients_of(s)) {
        for (uint64_t i = 0; i < words; i++) {
            b[i] = value_of_b(block * words + i);
            next[i] = value_of_c(block * words + i);
        }
        copy_block(s, c, c->remote->b + block * words, b);
        copy_block(s, c, c->remote->c + block * words, next);
    }
}

/* Number of wrong words in a client's results. */
static uint64_t count_wrong(const stream *s, const client *c, unsigned number)
{
    uint64_t words = block_words(s), wrong = 0;
    const element *local = (const element *)(const void *)c->ring;
    uint64_t steps = s->steps < s->blocks ? s->steps : s->blocks; /* then they repeat */
    place at = first_place(s, number);
    for (uint64_t step = 0; step < steps; step++, advance(s, &at)) {
        uint64_t begin = block_begin(s, at.block);
        copy_block(s, c, c->ring, c->remote->a + begin);
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
    fill_scratchpad(part, s->array_bytes / sizeof(element));
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
        c->other_command[i] = scr_alloc_command(&self->pad);
        c->fetched_flag[i] = scr_alloc(&self->pad, SCR_WORD_BYTES, SCR_WORD_BYTES);
        c->back_flag[i] = scr_alloc(&self->pad, SCR_WORD_BYTES, SCR_WORD_BYTES);
        c->fetched[i] =
            scr_alloc_counter(&self->pad, -2 * (int64_t)s->block_bytes, c->fetched_flag[i]);
        c->back[i] = scr_alloc_counter(&self->pad, -(int64_t)s->block_bytes, c->back_flag[i]);
    }
    c->ring = scr_alloc(&self->pad, s->buffers * s->buffer_bytes, SCR_LINE_BYTES);
    if (s->servers == 0)
        fill_dram(s, c, number);
}

/* Lines of a scratchpad that are no buffers: those of make_client() and of the barrier. */
static uint64_t lines_beside_buffers(uint64_t buffers)
{
    return CHIP_BARRIER_LINES + 1 + 6 * buffers;
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
               s->feasible ? "true" : "false", s->buffers, s->buffer_bytes, bytes, end - begin,
               per_cycle);
    else
        printf("%s chip, %u cores stream, %s, %" PRIu64 " buffers of %" PRIu64
               " bytes: %s%.3f bytes per cycle\n",
               s->servers ? "on" : "off", clients_of(s), mechanism_name(s->how), s->buffers,
               s->buffer_bytes, s->feasible ? "feasible: " : "", per_cycle);
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
    most = most / 2 < s->array_bytes ? most : 2 * s->array_bytes;
    s->buffer_bytes = most / 2 < NI_MOST_COPY_BYTES ? most : 2 * NI_MOST_COPY_BYTES;
}

/* The fault in the sizes, or NULL. */
static const char *complaint(const stream *s, const scr_pad *pad)
{
    uint64_t room = scr_left(pad);
    uint64_t lines = lines_beside_buffers(s->buffers) * SCR_LINE_BYTES;
    uint64_t served = ARRAYS * s->array_bytes;
    if (s->servers >= s->cores)
        return "--servers: no core is left that streams";
    if (s->buffer_bytes % (2 * SCR_LINE_BYTES) != 0)
        return "--buffer-bytes: expected whole lines of 64 bytes in each half";
    if (lines > room || s->buffers * s->buffer_bytes > room - lines)
        return "--buffers: they do not fit in a scratchpad";
    if (s->array_bytes % (s->buffer_bytes / 2) != 0)
        return "--array-bytes: expected a multiple of half of --buffer-bytes";
    if (s->servers != 0 && served + (CHIP_BARRIER_LINES + s->cores) * SCR_LINE_BYTES > room)
        return "--array-bytes: three arrays do not fit in a scratchpad";
    if (s->servers == 0 && served > pad->dram_bytes)
        return "--array-bytes: there is not so much DRAM";
    return NULL;
}

int main(int argc, char **argv)
{
    static stream s = {.cores = 4, .servers = 1, .buffers = 3, .buffer_bytes = 1024, .steps = 128};
    const char *how = "dma";
    bool json = false;
    const option options[] = {
        {"cores", OPTION_NUMBER, &s.cores, "N", "in all (4)", 1, SYS_MOST_MEMBERS},
        {"servers", OPTION_NUMBER, &s.servers, "N",
         "of these have the arrays in their scratchpads (1);\n0: the arrays are in DRAM", 0,
         MOST_SERVERS},
        {"mechanism", OPTION_TEXT, &how, MECHANISM_VALUE, MECHANISM_HELP, 0, 0},
        {"buffers", OPTION_NUMBER, &s.buffers, "N",
         "of each streaming core; a step takes one (3)", 1, MOST_BUFFERS},
        {"buffer-bytes", OPTION_BYTES, &s.buffer_bytes, "SIZE",
         "of one; a half is for b, a half for c (1K)", 2 * SCR_LINE_BYTES, 2 * NI_MOST_COPY_BYTES},
        {"array-bytes", OPTION_BYTES, &s.array_bytes, "SIZE",
         "of one array, at each server (what fits, or 256K in DRAM)", SCR_LINE_BYTES, 1 << 30},
        {"steps", OPTION_NUMBER, &s.steps, "N", "blocks that each core makes (128)", 1, 1 << 20},
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
    s.block_bytes = s.buffer_bytes / 2;
    s.blocks = s.array_bytes / s.block_bytes;
    if (s.servers == 0) {
        s.parts[0].a = (element *)(uintptr_t)SCR_DRAM;
        s.parts[0].b = s.parts[0].a + s.array_bytes / sizeof(element);
        s.parts[0].c = s.parts[0].b + s.array_bytes / sizeof(element);
    }

    status = chip_run(NAME, (unsigned)s.cores, work, &s);
    if (status == 0 && s.wrong != 0)
        status = program_failed(NAME, "%" PRIu64 " words of the result are wrong", s.wrong);
    if (status != 0)
        return status;
    print(&s, json);
    return program_flush(NAME);
}
