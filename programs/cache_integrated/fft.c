/*
 * fft: a fast Fourier transform whose data stay in scratchpads (CINI §5.3, Figure 10; after that of
 * the StreamIt benchmarks: reordering, then combining of ever longer transforms).
 *
 * P cores have n / P elements each. With their inputs dealt out in turn, P transforms of n / P elements
 * need nobody else. Then every core sends each other one a part of its results, and combines what
 * has come, the same part of all transforms, into a part of the whole: log2 P steps more.
 *
 * With dma, a part is a copy that is acknowledged to a counter of its receiver. With stores, it is a
 * store for each element, and one to the counter at the end. The counter tells when all have come.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../program.h"
#include "chip.h"

#define NAME "fft"

static const char about[] =
    "Transforms n complex numbers of single precision on 1, 2 or 4 cores, and prints the cycles that\n"
    "it takes: in all, computing, and communicating.\n"
    "\n"
    "  rackmem sim exec cache-integrated -- fft.rv64 --n 256 --cores 4 --mechanism stores\n";

enum { MOST_CORES = 4, MOST_N = 1 << 16, CHECKED = 64 };

/* An element: one word, as it is sent. */
typedef struct complex_number {
    __attribute__((aligned(SCR_WORD_BYTES))) float re;
    float im;
} complex_number;

/* What a core has in its scratchpad. */
typedef struct worker {
    __attribute__((aligned(SCR_LINE_BYTES))) complex_number *data; /* n / P */
    complex_number *inbox;  /* likewise: a part from each core, its own unused */
    scr_word *command[MOST_CORES]; /* one for each receiver */
    scr_word *arrivals;     /* counter */
    scr_word *flag;         /* which the counter sets */
} worker;

typedef struct transform {
    uint64_t n;
    uint64_t cores;
    unsigned log2_n, log2_cores;
    mechanism how;
    uint64_t rounds;
    uint64_t warm_up;
    complex_number *input;
    complex_number *output;
    complex_number *roots;   /* exp(-2 pi i k / n), k < n / 2 */
    uint16_t *reversed;      /* of n / P indices, their bits in reverse order */
    worker workers[MOST_CORES];
    round_times times[MOST_CORES];
    breakdown sum;
} transform;

static uint64_t own_elements(const transform *t)
{
    return UINT64_C(1) << (t->log2_n - t->log2_cores);
}

static uint64_t part_elements(const transform *t)
{
    return UINT64_C(1) << (t->log2_n - 2 * t->log2_cores);
}

static unsigned reverse_bits(unsigned number, unsigned bits)
{
    unsigned reversed = 0;
    for (unsigned i = 0; i < bits; i++)
        reversed |= (number >> i & 1) << (bits - 1 - i);
    return reversed;
}

/* ---- Computation ------------------------------------------------------------------------- */

/* (low, high) becomes (low + root * high, low - root * high). */
static inline void butterfly(complex_number *low, complex_number *high, complex_number root)
{
    float re = root.re * high->re - root.im * high->im;
    float im = root.re * high->im + root.im * high->re;
    high->re = low->re - re;
    high->im = low->im - im;
    low->re += re;
    low->im += im;
}

static void reorder(complex_number *data, const uint16_t *reversed, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t other = reversed[i];
        if (i < other) {
            complex_number element = data[i];
            data[i] = data[other];
            data[other] = element;
        }
    }
}

/* Transforms of 2, 4, ... elements, to one of `count`. */
static void transform_own(const transform *t, complex_number *data, uint64_t count)
{
    uint64_t stride = t->n;
    for (uint64_t half = 1; half < count; half *= 2) {
        stride /= 2; /* n / (2 half) */
        for (uint64_t first = 0; first < count; first += 2 * half)
            for (uint64_t i = 0; i < half; i++)
                butterfly(&data[first + i], &data[first + half + i], t->roots[i * stride]);
    }
}

/* The same part of the transforms of all cores becomes that of the whole. */
static void combine(const transform *t, unsigned self, complex_number *const part[MOST_CORES])
{
    uint64_t own = own_elements(t), count = part_elements(t), stride = t->cores;
    for (unsigned half = 1; half < t->cores; half *= 2) {
        stride /= 2; /* n / the transform's length */
        for (unsigned low = 0; low < t->cores; low++) {
            if (low & half)
                continue;
            const complex_number *root = t->roots + ((low & (half - 1)) * own + self * count) * stride;
            complex_number *here = part[low], *there = part[low + half];
            for (uint64_t i = 0; i < count; i++)
                butterfly(&here[i], &there[i], root[i * stride]);
        }
    }
}

/* ---- Communication ----------------------------------------------------------------------- */

static void send_by_copies(const transform *t, const sys_member *self)
{
    const worker *w = &t->workers[self->number];
    uint64_t count = part_elements(t);
    scr_release();
    for (unsigned to = 0; to < t->cores; to++) {
        if (to == self->number)
            continue;
        ni_copy(w->command[to], sys_at(self->team, to, w->inbox + self->number * count),
                w->data + to * count, count * sizeof *w->data,
                (scr_word *)sys_at(self->team, to, w->arrivals));
    }
}

static void send_by_stores(const transform *t, const sys_member *self)
{
    const worker *w = &t->workers[self->number];
    uint64_t count = part_elements(t);
    for (unsigned to = 0; to < t->cores; to++) {
        if (to == self->number)
            continue;
        chip_store_words(sys_at(self->team, to, w->inbox + self->number * count),
                         (const scr_word *)(w->data + to * count), count);
    }
    scr_release();
    for (unsigned to = 0; to < t->cores; to++)
        if (to != self->number)
            ni_counter_add(sys_at(self->team, to, w->arrivals), 1);
    ni_push();
}

/* Sends all others their parts, and waits for theirs. */
static void exchange(const transform *t, const sys_member *self)
{
    if (t->how == MECHANISM_DMA)
        send_by_copies(t, self);
    else
        send_by_stores(t, self);
    (void)ni_wait(t->workers[self->number].flag);
}

/* ---- Work of a core ---------------------------------------------------------------------- */

/* What has to arrive at a core, as its counter counts it. */
static int64_t arrivals(const transform *t)
{
    uint64_t others = t->cores - 1;
    if (t->how == MECHANISM_DMA)
        others *= part_elements(t) * sizeof(complex_number);
    return (int64_t)others;
}

/* Lines that are not data. */
enum { LINES_BESIDE_DATA = CHIP_BARRIER_LINES + MOST_CORES + 2 };

static void make(transform *t, sys_member *self)
{
    worker *w = &t->workers[self->number];
    uint64_t bytes = own_elements(t) * sizeof *w->data;
    for (unsigned i = 0; i < t->cores; i++)
        w->command[i] = scr_alloc_command(&self->pad);
    w->flag = scr_alloc(&self->pad, SCR_WORD_BYTES, SCR_WORD_BYTES);
    w->arrivals = scr_alloc_counter(&self->pad, -arrivals(t), w->flag);
    w->data = scr_alloc(&self->pad, bytes, SCR_LINE_BYTES);
    w->inbox = scr_alloc(&self->pad, bytes, SCR_LINE_BYTES);
}

static void load_input(const transform *t, unsigned self)
{
    unsigned first = reverse_bits(self, log2_of(t->cores));
    for (uint64_t i = 0; i < own_elements(t); i++)
        t->workers[self].data[i] = t->input[i * t->cores + first];
}

static void store_output(const transform *t, unsigned self, complex_number *const part[MOST_CORES])
{
    uint64_t count = part_elements(t);
    for (unsigned from = 0; from < t->cores; from++)
        memcpy(t->output + from * own_elements(t) + self * count, part[from],
               count * sizeof *t->output);
}

static void do_round(transform *t, const sys_member *self, complex_number *const part[MOST_CORES])
{
    const worker *w = &t->workers[self->number];
    round_times *times = &t->times[self->number];
    uint64_t communication = 0, begin = sys_cycles();
    reorder(w->data, t->reversed, own_elements(t));
    transform_own(t, w->data, own_elements(t));
    if (t->cores > 1) {
        uint64_t before = sys_cycles();
        exchange(t, self);
        communication = sys_cycles() - before;
        combine(t, self->number, part);
    }
    /* Only now: a store that misses would be waited for by the first signal. */
    *times = (round_times){begin, sys_cycles(), communication};
}

static void work(sys_member *self, void *argument)
{
    transform *t = argument;
    const worker *w = &t->workers[self->number];
    complex_number *part[MOST_CORES];
    sys_counter_barrier barrier = chip_barrier(self);
    make(t, self);
    for (unsigned from = 0; from < t->cores; from++)
        part[from] = (from == self->number ? w->data : w->inbox) + from * part_elements(t);
    for (uint64_t round = 0; round < t->warm_up + t->rounds; round++) {
        load_input(t, self->number);
        sys_counter_barrier_wait(barrier);
        do_round(t, self, part);
        sys_counter_barrier_wait(barrier);
        if (self->number == 0 && round >= t->warm_up)
            breakdown_add(&t->sum, t->times, (unsigned)t->cores);
    }
    store_output(t, self->number, part);
}

/* ---- Input and check --------------------------------------------------------------------- */

static bool make_tables(transform *t)
{
    uint64_t own = own_elements(t);
    t->input = malloc(t->n * sizeof *t->input);
    t->output = malloc(t->n * sizeof *t->output);
    t->roots = malloc(t->n / 2 * sizeof *t->roots);
    t->reversed = malloc(own * sizeof *t->reversed);
    if (!t->input || !t->output || !t->roots || !t->reversed)
        return false;
    uint64_t random = 1;
    for (uint64_t i = 0; i < t->n; i++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        t->input[i].re = (float)(random >> 48) / 65536 - 0.5f;
        t->input[i].im = (float)(random >> 32 & 0xffff) / 65536 - 0.5f;
    }
    for (uint64_t k = 0; k < t->n / 2; k++) {
        double angle = -2 * acos(-1) * (double)k / (double)t->n;
        t->roots[k].re = (float)cos(angle);
        t->roots[k].im = (float)sin(angle);
    }
    for (uint64_t i = 0; i < own; i++)
        t->reversed[i] = (uint16_t)reverse_bits((unsigned)i, log2_of(own));
    return true;
}

/* A root of unity, from the half of them that is known. */
static complex_number root_of(const transform *t, uint64_t k)
{
    complex_number root = t->roots[k % (t->n / 2)];
    if (k >= t->n / 2) {
        root.re = -root.re;
        root.im = -root.im;
    }
    return root;
}

/* How far an output is from the sum that defines it. */
static double error_at(const transform *t, uint64_t k)
{
    double re = 0, im = 0;
    for (uint64_t i = 0; i < t->n; i++) {
        complex_number root = root_of(t, i * k % t->n), x = t->input[i];
        re += (double)root.re * (double)x.re - (double)root.im * (double)x.im;
        im += (double)root.re * (double)x.im + (double)root.im * (double)x.re;
    }
    return fabs(re - (double)t->output[k].re) + fabs(im - (double)t->output[k].im);
}

/* Some outputs from all cores, or all if they are few. Outputs are about the root of n in size. */
static int check(const transform *t)
{
    uint64_t step = t->n > CHECKED ? t->n / CHECKED + 1 : 1;
    double most = 1e-5 * sqrt((double)t->n);
    for (uint64_t k = 0; k < t->n; k += step) {
        double error = error_at(t, k);
        if (!(error < most))
            return program_failed(NAME, "output %" PRIu64 " is wrong by %g", k, error);
    }
    return PROGRAM_OK;
}

/* ---- Command line ------------------------------------------------------------------------ */

static const char *complaint(const transform *t, const scr_pad *pad)
{
    uint64_t data = 2 * own_elements(t) * sizeof(complex_number);
    if (!is_power_of_two(t->cores))
        return "--cores: expected 1, 2 or 4";
    if (!is_power_of_two(t->n) || t->n < t->cores * t->cores)
        return "--n: expected a power of two, at least the square of --cores";
    if (data + LINES_BESIDE_DATA * SCR_LINE_BYTES > scr_left(pad))
        return "--n: so many do not fit in the scratchpads";
    return NULL;
}

int main(int argc, char **argv)
{
    static transform t = {.n = 256, .cores = 4, .rounds = 10, .warm_up = 2};
    const char *how = "dma";
    bool json = false;
    const option options[] = {
        {"n", OPTION_NUMBER, &t.n, "N", "elements, a power of two (256)", 2, MOST_N},
        {"cores", OPTION_NUMBER, &t.cores, "N", "1, 2 or 4 (4)", 1, MOST_CORES},
        {"mechanism", OPTION_TEXT, &how, MECHANISM_VALUE, MECHANISM_HELP, 0, 0},
        {"rounds", OPTION_NUMBER, &t.rounds, "N", "transforms that are measured (10)", 1, 1 << 20},
        {"warm-up", OPTION_NUMBER, &t.warm_up, "N", "transforms before that (2)", 0, 1 << 20},
        {"json", OPTION_FLAG, &json, NULL, "print one line of JSON", 0, 0},
        {0},
    };
    const command_line line = {NAME, "[OPTIONS]", about, options, NULL};
    int status = options_parse(&line, argc, argv);
    if (status == OPTIONS_GO_ON)
        status = mechanism_parse(&line, how, &t.how);
    if (status != OPTIONS_GO_ON)
        return status;
    const scr_pad *pad = chip_pad(NAME);
    if (!pad)
        return PROGRAM_FAILED;
    if (is_power_of_two(t.n) && is_power_of_two(t.cores) && t.n >= t.cores * t.cores) {
        t.log2_n = log2_of(t.n);
        t.log2_cores = log2_of(t.cores);
    }
    const char *wrong = complaint(&t, pad);
    if (wrong)
        return options_usage(&line, wrong);
    if (!make_tables(&t))
        return program_failed(NAME, "no memory for the tables");

    status = chip_run(NAME, (unsigned)t.cores, work, &t);
    if (status == 0)
        status = check(&t);
    if (status != 0)
        return status;
    breakdown_print(&t.sum, NAME, t.n, t.cores, t.how, t.rounds, json);
    return program_flush(NAME);
}
