/*
 * fft: a fast Fourier transform whose data stay in scratchpads (CINI §5.3, Figure 10), after that of the
 * StreamIt benchmarks: reordering, which log2 n - 1 times puts elements of even numbers before
 * those of odd ones, and then log2 n times combining of two transforms to one of twice the length, whose
 * results are in an array of the filter until it pushes them.
 *
 * P cores have n / P elements each, in order, and have as many of the result in the end. What a core does
 * alone is as with one core. Between that, all send to all (CINI §5.3), three times:
 *
 *   - the first log2 P reorderings are of all elements: each element goes to the core that has the transform
 *     which it belongs to;
 *   - the last log2 P combinings are of all elements: the same part of all cores' transforms goes to one core;
 *   - and what it makes of them goes to the cores where it belongs in the result.
 *
 * With stores, an element is two words, and two stores wherever it belongs: which core that is, and
 * where there, is found out for each element. With dma, what a core sends to another one is one copy,
 * for which elements that are not side by side are put together before. A counter of the sender counts
 * the bytes of all its copies as they are acknowledged (CINI §3.4); then it tells the sender, that it may
 * use them again, and the receivers, whose counters tell when all have sent.
 *
 * Compiled with FFT_BY_ELEMENT it is fft_by_element: copies find the receiver of each element, too, and sort
 * all elements by receiver before they are sent. It is a program of its own because an option moves code and
 * stacks, and with them the misses of caches of 4 KB, by which times change by up to 3 %.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SCR_CALLS
#include "../program.h"
#include "chip.h"

#define NAME "fft"

static const char about[] =
    "Transforms n complex numbers of single precision on 1, 2 or 4 cores, and prints the cycles that\n"
    "it takes: in all, computing, and communicating.\n"
    "\n"
    "  rackmem sim exec cache-integrated -- fft.rv64 --n 256 --cores 4 --mechanism stores\n";

enum { MOST_CORES = 4, MOST_N = 1 << 16, CHECKED = 64 };

/* An element: two words of the prototype. */
typedef struct complex_number {
    float re, im;
} complex_number;
_Static_assert(sizeof(complex_number) == 2 * CHIP_WORD_BYTES, "its parts are words");

/* Times that all send to all. */
typedef enum phase { REORDER, COMBINE, RESULT, PHASES } phase;

/* A core's scratchpad, the same layout for all. */
typedef struct worker {
    __attribute__((aligned(SCR_LINE_BYTES))) complex_number *data; /* n / P */
    complex_number *other;  /* likewise: reordering is from one to the other */
    complex_number *packed; /* likewise: what is to be sent, side by side */
    complex_number *parts;  /* likewise: a part of each core's transform */
    scr_word *command[MOST_CORES]; /* one for each receiver */
    scr_word *under_way[PHASES]; /* counters of bytes, and what they set */
    scr_word *sent[PHASES];
    scr_word *arrived[PHASES]; /* a line of flags, one for each sender */
    /* This core's part in every core's buffer, and its flag there: the partners are known before. */
    complex_number *there[PHASES][MOST_CORES];
    scr_word *announced[PHASES][MOST_CORES];
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
    complex_number *roots; /* of each filter that combines, the smallest first: see roots_of() */
    unsigned reversed[MOST_CORES]; /* numbers of cores, their bits in reverse order */
    worker workers[MOST_CORES];
    round_times *times; /* of each round, those of all cores */
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

/* The results of one butterfly: low + root * high, and low - root * high. */
static inline void butterfly(complex_number *sum, complex_number *difference, const complex_number *low,
                             const complex_number *high, const complex_number *root)
{
    float re = root->re * high->re - root->im * high->im;
    float im = root->re * high->im + root->im * high->re;
    sum->re = low->re + re;
    sum->im = low->im + im;
    difference->re = low->re - re;
    difference->im = low->im - im;
}

/* What a filter makes is in an array of its own until it has all; then it pushes that. */
static void push_results(complex_number *to, const complex_number *results, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        to[i] = results[i];
}

/* Of each `length` elements, those of even numbers before those of odd ones. */
static void reorder_simple(complex_number *to, const complex_number *from, uint64_t count,
                           uint64_t length)
{
    for (uint64_t first = 0; first < count; first += length)
        for (uint64_t odd = 0; odd < 2; odd++)
            for (uint64_t i = odd; i < length; i += 2)
                *to++ = from[first + i];
}

/* Until pairs are side by side; returns where they are then, `data` or `other`. */
static complex_number *reorder(complex_number *data, complex_number *other, uint64_t count)
{
    for (uint64_t length = count; length > 2; length /= 2) {
        reorder_simple(other, data, count, length);
        complex_number *before = data;
        data = other;
        other = before;
    }
    return data;
}

/* The roots of a filter that combines transforms of `half` elements: exp(-pi i k / half), k < half. */
static const complex_number *roots_of(const transform *t, uint64_t half)
{
    return t->roots + half - 1;
}

/* Transforms of 2, 4, ... elements, to one of `count`. */
static void transform_own(const transform *t, complex_number *data, complex_number *results,
                          uint64_t count)
{
    for (uint64_t half = 1; half < count; half *= 2) {
        const complex_number *roots = roots_of(t, half);
        for (complex_number *low = data; low < data + count; low += 2 * half) {
            for (uint64_t i = 0; i < half; i++)
                butterfly(&results[i], &results[half + i], &low[i], &low[half + i], &roots[i]);
            push_results(low, results, 2 * half);
        }
    }
}

/* The same part of the transforms of all cores becomes that of the whole. */
static void combine(const transform *t, unsigned self, complex_number *parts, complex_number *results)
{
    uint64_t own = own_elements(t), count = part_elements(t);
    for (unsigned half = 1; half < t->cores; half *= 2) {
        for (unsigned low = 0; low < t->cores; low++) {
            if (low & half)
                continue;
            const complex_number *roots =
                roots_of(t, half * own) + (low & (half - 1)) * own + self * count;
            uint64_t here = low * count, there = here + half * count;
            for (uint64_t i = here; i < here + count; i++, there++, roots++)
                butterfly(&results[i], &results[there], &parts[i], &parts[there], roots);
        }
        push_results(parts, results, own);
    }
}

/* ---- Communication ----------------------------------------------------------------------- */

/* Waits until all others have sent. */
SCR_INLINE void wait_for_all(const transform *t, const worker *w, unsigned self, phase p)
{
    for (unsigned from = 0; from < t->cores; from++) {
        if (from == self)
            continue;
        if (t->how == MECHANISM_STORES)
            (void)scr_wait(w->arrived[p] + from);
        else
            (void)ni_wait(w->arrived[p] + from);
    }
}

/* Each element is stored wherever it belongs: parts that come to one core are in its buffer in the order of
 * their senders. */
SCR_INLINE void send_by_stores(const transform *t, const worker *w, unsigned self, phase p,
                               const complex_number *from)
{
    unsigned log2_cores = t->log2_cores, log2_part = t->log2_n - 2 * log2_cores;
    uint64_t own = own_elements(t), mask = (UINT64_C(1) << (p == REORDER ? log2_cores : log2_part)) - 1;
    for (uint64_t i = 0; i < own; i++) {
        uint64_t to = p == REORDER ? t->reversed[i & mask] : i >> log2_part;
        uint64_t place = p == REORDER ? i >> log2_cores : i & mask;
        w->there[p][to][place] = from[i];
    }
    scr_release();
    for (unsigned to = 0; to < t->cores; to++)
        if (to != self)
            *w->announced[p][to] = 1;
}

#ifdef FFT_BY_ELEMENT
/* Puts each element where its receiver's copy comes from, as send_by_stores() finds it. */
static void pack_by_element(const transform *t, const worker *w, phase p, const complex_number *from)
{
    unsigned log2_cores = t->log2_cores, log2_part = t->log2_n - 2 * log2_cores;
    uint64_t own = own_elements(t), mask = (UINT64_C(1) << (p == REORDER ? log2_cores : log2_part)) - 1;
    for (uint64_t i = 0; i < own; i++) {
        uint64_t to = p == REORDER ? t->reversed[i & mask] : i >> log2_part;
        uint64_t place = p == REORDER ? i >> log2_cores : i & mask;
        w->packed[(to << log2_part) + place] = from[i];
    }
}

#else
/* Packs the elements for one core side by side. */
static const complex_number *pack(const transform *t, const worker *w, const complex_number *from,
                                  unsigned to)
{
    uint64_t count = part_elements(t);
    complex_number *packed = w->packed + to * count;
    from += t->reversed[to];
    for (uint64_t i = 0; i < count; i++, from += t->cores)
        packed[i] = *from;
    return packed;
}
#endif

SCR_INLINE void send_by_copies(const transform *t, const worker *w, phase p,
                               const complex_number *from)
{
    uint64_t count = part_elements(t), bytes = count * sizeof *from;
    ni_counter_add(w->under_way[p], -(int64_t)(t->cores * bytes));
#ifdef FFT_BY_ELEMENT
    pack_by_element(t, w, p, from);
#endif
    for (unsigned to = 0; to < t->cores; to++) {
#ifdef FFT_BY_ELEMENT
        const complex_number *source = w->packed + to * count;
#else
        const complex_number *source = p == REORDER ? pack(t, w, from, to) : from + to * count;
#endif
        scr_release();
        ni_copy(w->command[to], w->there[p][to], source, bytes, w->under_way[p]);
    }
    (void)ni_wait(w->sent[p]);
}

/* Sends all cores what they need of `from`, and waits until all have sent. */
SCR_INLINE uint64_t exchange(const transform *t, unsigned self, phase p, const complex_number *from)
{
    const worker *w = &t->workers[self];
    uint64_t begin = sys_cycles();
    if (t->how == MECHANISM_DMA)
        send_by_copies(t, w, p, from);
    else
        send_by_stores(t, w, self, p, from);
    wait_for_all(t, w, self, p);
    return sys_cycles() - begin;
}

/* ---- Work of a core ---------------------------------------------------------------------- */

/* Lines that are not data. */
enum { LINES_BESIDE_DATA = CHIP_BARRIER_LINES + MOST_CORES + 3 * PHASES };
_Static_assert((int)MOST_CORES <= SCR_LINE_WORDS, "a line has a flag for each sender");
_Static_assert((int)MOST_CORES <= (int)SCR_COUNTER_TARGETS, "a counter tells its core and all others");

/* The buffer for arrivals. Reordering begins in `other` and changes sides log2 (n / P) - 1 times; the
 * result comes to the side that it does not end on. */
static complex_number *inbox(const transform *t, const worker *w, phase p)
{
    bool ends_in_data = (t->log2_n - t->log2_cores) % 2 == 0;
    if (p == COMBINE)
        return w->parts;
    return p == RESULT && !ends_in_data ? w->data : w->other;
}

static void make_phase(transform *t, sys_member *self, phase p)
{
    worker *w = &t->workers[self->number];
    complex_number *part = inbox(t, w, p) + self->number * part_elements(t);
    scr_word *told[SCR_COUNTER_TARGETS] = {w->sent[p], NULL, NULL, NULL};
    for (unsigned to = 0, i = 1; to < t->cores; to++) {
        w->there[p][to] = sys_at(self->team, to, part);
        w->announced[p][to] = sys_at(self->team, to, w->arrived[p] + self->number);
        if (to != self->number)
            told[i++] = w->announced[p][to];
    }
    scr_mark_counter(w->under_way[p], 0, 1, told);
}

static void make(transform *t, sys_member *self)
{
    worker *w = &t->workers[self->number];
    uint64_t bytes = own_elements(t) * sizeof *w->data;
    w->data = scr_alloc(&self->pad, bytes, SCR_LINE_BYTES);
    w->other = scr_alloc(&self->pad, bytes, SCR_LINE_BYTES);
    if (t->cores == 1)
        return;
    w->packed = scr_alloc(&self->pad, bytes, SCR_LINE_BYTES);
    w->parts = scr_alloc(&self->pad, bytes, SCR_LINE_BYTES);
    for (unsigned i = 0; i < t->cores; i++)
        w->command[i] = scr_alloc_command(&self->pad);
    for (phase p = REORDER; p < PHASES; p++) {
        w->arrived[p] = scr_alloc(&self->pad, SCR_LINE_BYTES, SCR_LINE_BYTES);
        w->sent[p] = scr_alloc(&self->pad, SCR_WORD_BYTES, SCR_WORD_BYTES);
        w->under_way[p] = scr_alloc(&self->pad, SCR_LINE_BYTES, SCR_LINE_BYTES);
        make_phase(t, self, p);
    }
}

/* Of the two buffers that reordering is between, the one that its elements are not in. */
static complex_number *other_side(const worker *w, const complex_number *ordered)
{
    return ordered == w->data ? w->other : w->data;
}

/* The transform, of which this core does its part; where its elements of the result are. */
static const complex_number *transform_all(const transform *t, unsigned self, uint64_t *communication)
{
    const worker *w = &t->workers[self];
    uint64_t own = own_elements(t);
    if (t->cores == 1) {
        complex_number *ordered = reorder(w->data, w->other, own);
        transform_own(t, ordered, other_side(w, ordered), own);
        return ordered;
    }
    *communication += exchange(t, self, REORDER, w->data);
    complex_number *ordered = reorder(w->other, w->data, own);
    transform_own(t, ordered, other_side(w, ordered), own);
    *communication += exchange(t, self, COMBINE, ordered);
    combine(t, self, w->parts, w->packed);
    *communication += exchange(t, self, RESULT, w->parts);
    return inbox(t, w, RESULT);
}

static void work(sys_member *self, void *argument)
{
    transform *t = argument;
    uint64_t own = own_elements(t), first = self->number * own;
    const complex_number *result = NULL;
    sys_counter_barrier barrier = chip_barrier(self);
    make(t, self);
    for (uint64_t round = 0; round < t->warm_up + t->rounds; round++) {
        memcpy(t->workers[self->number].data, t->input + first, own * sizeof *t->input);
        sys_counter_barrier_wait(barrier);
        uint64_t communication = 0, begin = sys_cycles();
        result = transform_all(t, self->number, &communication);
        uint64_t end = sys_cycles();
        /* Only now: a store that misses would be waited for by the first signal. */
        if (round >= t->warm_up)
            t->times[(round - t->warm_up) * t->cores + self->number] =
                (round_times){begin, end, communication};
        sys_counter_barrier_wait(barrier);
    }
    memcpy(t->output + first, result, own * sizeof *t->output);
}

/* ---- Input and check --------------------------------------------------------------------- */

static bool make_tables(transform *t)
{
    t->input = malloc(t->n * sizeof *t->input);
    t->output = malloc(t->n * sizeof *t->output);
    t->times = aligned_alloc(SCR_LINE_BYTES, t->rounds * t->cores * sizeof *t->times);
    t->roots = malloc((t->n - 1) * sizeof *t->roots);
    if (!t->input || !t->output || !t->times || !t->roots)
        return false;
    uint64_t random = 1;
    for (uint64_t i = 0; i < t->n; i++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        t->input[i].re = (float)(random >> 48) / 65536 - 0.5f;
        t->input[i].im = (float)(random >> 32 & 0xffff) / 65536 - 0.5f;
    }
    for (uint64_t half = 1; half < t->n; half *= 2)
        for (uint64_t k = 0; k < half; k++) {
            double angle = -acos(-1) * (double)k / (double)half;
            t->roots[half - 1 + k] = (complex_number){(float)cos(angle), (float)sin(angle)};
        }
    return true;
}

/* A root of unity, from the half of them that is known. */
static complex_number root_of(const transform *t, uint64_t k)
{
    complex_number root = roots_of(t, t->n / 2)[k % (t->n / 2)];
    if (k >= t->n / 2) {
        root.re = -root.re;
        root.im = -root.im;
    }
    return root;
}

/* Distance of an output from the sum that defines it. */
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
    uint64_t buffers = t->cores == 1 ? 2 : 4;
    uint64_t data = buffers * own_elements(t) * sizeof(complex_number);
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
        {"rounds", OPTION_NUMBER, &t.rounds, "N", "transforms that are measured (10)", 1, 1 << 16},
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
        for (unsigned i = 0; i < t.cores; i++)
            t.reversed[i] = reverse_bits(i, t.log2_cores);
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
    for (uint64_t round = 0; round < t.rounds; round++)
        breakdown_add(&t.sum, t.times + round * t.cores, (unsigned)t.cores);
    breakdown_print(&t.sum, NAME, t.n, t.cores, t.how, t.rounds, json);
    return program_flush(NAME);
}
