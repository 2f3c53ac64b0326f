/*
 * scrlib: scratchpad memory in the L2 of a core (CINI §3.1, §5.1).
 *
 * Every core has a window of addresses, as many as its L2 has bytes: way by way, set by set. A line
 * can be used there once its core has turned it into scratchpad; until then it is a line of the
 * cache. A thread opens the scratchpad of the core that it runs on, and allocates from it. Cores
 * that allocate the same in the same order find it at the same place of their windows, so that
 * scr_remote() gives the address at another core.
 */
#ifndef SCRATCHPAD_SCRLIB_H
#define SCRATCHPAD_SCRLIB_H

#include <stddef.h>
#include <stdint.h>

/* Functions that are inlined, also where the compiler would not. */
#define SCR_INLINE static inline __attribute__((always_inline))

/* Functions of nilib and syslib on a critical path: inline, or, where SCR_CALLS is defined, calls,
 * as in a program that is linked with libraries (CINI §5.1). */
#ifdef SCR_CALLS
#define SCR_FUNCTION static __attribute__((noinline, unused))
#else
#define SCR_FUNCTION SCR_INLINE
#endif

/* Sizes of a word and of a line. */
#define SCR_WORD_BYTES 8
#define SCR_LINE_BYTES 64
#define SCR_LINE_WORDS 8

/* Start of core 0's window, and distance from one core's window to the next, in bytes. */
#define SCR_BASE UINT64_C(0x2000000000)
#define SCR_STRIDE UINT64_C(0x100000)
/* State and tag bits of scratchpad lines, as far from here as the lines are from SCR_BASE. */
#define SCR_TAGS UINT64_C(0x3000000000)
/* Memory that no cache holds: the other end of copies to and from off-chip memory. */
#define SCR_DRAM UINT64_C(0x4000000000)

/* Addresses that programs give to places: see scr_map(). */
#define SCR_NAMES UINT64_C(0x7000000000)
#define SCR_MOST_REGIONS 16

/* A word that software and network interface share, or cores: nothing of it may be kept in a
 * register, and it may hold anything. */
typedef volatile uint64_t __attribute__((may_alias)) scr_word;

/* State of a line (CINI Fig. 2): bits 0 to 7 of its tag. */
enum scr_state {
    SCR_CACHE = 0,
    SCR_PLAIN = 1,
    SCR_COMMAND = 2,  /* starts a transfer when its last word is written */
    SCR_COUNTER = 3,  /* adds what is stored; notifies at zero */
    SCR_SR_QUEUE = 4, /* many producers, one consumer */
    SCR_MR_QUEUE = 5  /* matches data with requests */
};

/* Bit of a line's first tag word: a command of which not all has left, or notifications of a
 * counter. */
#define SCR_UNDER_WAY (UINT64_C(1) << 63)

/* Words of a line that is a counter (CINI §3.3). */
enum {
    SCR_COUNTER_VALUE = 0, /* a load reads it, a store adds to it */
    SCR_COUNTER_RESET = 1,
    SCR_COUNTER_WORD = 2, /* which is sent when the value becomes 0 ... */
    SCR_COUNTER_NOTIFY = 4, /* ... to each of these addresses that is not 0 */
    SCR_COUNTER_TARGETS = 4
};

/* An mr-queue's items lie so far apart, whatever their size: a request has to fit as well. */
#define SCR_MR_SLOT_BYTES 32

/* The driver's description of the calling thread's core. */
struct scr_info {
    uint64_t core;
    uint64_t cores;
    uint64_t ways;
    uint64_t way_bytes;
    uint64_t dram_bytes;
    uint64_t features;
};

/* A core's scratchpad, for the thread that runs there. */
typedef struct scr_pad {
    unsigned core;
    unsigned cores; /* of the chip */
    unsigned ways;
    uint64_t way_bytes;
    uint64_t dram_bytes; /* at SCR_DRAM */
    uint64_t used;       /* what scr_alloc has given out, from the window's beginning */
} scr_pad;

/* ---- Order ------------------------------------------------------------------------------- */

/* Fences of compilers order more than they have to, and take longer. */
#ifdef __riscv
#define SCR_FENCE_(what, otherwise) __asm__ volatile("fence " what : : : "memory")
#else
#define SCR_FENCE_(what, otherwise) __atomic_thread_fence(otherwise)
#endif

/* Loads before it come before everything after it. */
SCR_INLINE void scr_acquire(void)
{
    SCR_FENCE_("r,rw", __ATOMIC_ACQUIRE);
}

/* Everything before it comes before stores after it: data before the flag that announces them,
 * arguments before the command. */
SCR_INLINE void scr_release(void)
{
    SCR_FENCE_("rw,w", __ATOMIC_RELEASE);
}

/* Everything before it comes before everything after it. */
SCR_INLINE void scr_fence(void)
{
    SCR_FENCE_("rw,rw", __ATOMIC_SEQ_CST);
}

/* Waits until a word of this core's scratchpad is not zero, and returns it. Leaves zero for the
 * next time, before the waiter signals that the next word may come. */
SCR_INLINE uint64_t scr_wait(scr_word *flag)
{
    uint64_t word;
    while ((word = *flag) == 0)
        ;
    *flag = 0;
    scr_acquire();
    return word;
}

/* ---- Addresses --------------------------------------------------------------------------- */

/* The same place of another core's window: of a local address, the remote one. */
SCR_INLINE void *scr_remote(const volatile void *address, unsigned core)
{
    uint64_t place = (uint64_t)(uintptr_t)address & (SCR_STRIDE - 1);
    return (void *)(uintptr_t)(SCR_BASE + core * SCR_STRIDE + place);
}

/* Number of the core in whose window an address is; if in none, a number that no core has. */
SCR_INLINE uint64_t scr_core_of(const volatile void *address)
{
    return ((uint64_t)(uintptr_t)address - SCR_BASE) / SCR_STRIDE;
}

/* Whether an address is in some core's window. */
SCR_INLINE int scr_is_scratchpad(const scr_pad *pad, const volatile void *address)
{
    return scr_core_of(address) < pad->cores;
}

/* Whether an address is in the window of this core. */
SCR_INLINE int scr_is_local(const scr_pad *pad, const volatile void *address)
{
    return scr_core_of(address) == pad->core;
}

/* A line of this core, by its place in the L2. */
SCR_INLINE scr_word *scr_line(const scr_pad *pad, unsigned way, uint64_t set)
{
    uint64_t place = way * pad->way_bytes + set * SCR_LINE_BYTES;
    return (scr_word *)scr_remote((void *)(uintptr_t)place, pad->core);
}

/* The words of a line's tag: state, then the metadata of that state. */
SCR_INLINE scr_word *scr_tag(const volatile void *line)
{
    uint64_t place = (uint64_t)(uintptr_t)line - SCR_BASE;
    return (scr_word *)(uintptr_t)(SCR_TAGS + place / SCR_LINE_BYTES * SCR_LINE_BYTES);
}

/* Whether a line has something that has not left: a command, or notifications of a counter. */
SCR_INLINE int scr_is_under_way(const volatile void *line)
{
    return (*scr_tag(line) & SCR_UNDER_WAY) != 0;
}

/* ---- Set-up ------------------------------------------------------------------------------ */

SCR_INLINE int64_t scr_driver_call_(struct scr_info *info)
{
#ifdef __riscv
    register uint64_t a0 __asm__("a0") = (uint64_t)(uintptr_t)info;
    register uint64_t a7 __asm__("a7") = 0x52414308; /* with those of guest/driver.h */
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7) : "memory");
    return (int64_t)a0;
#else
    (void)info;
    return -19; /* ENODEV */
#endif
}

/* Opens the scratchpad of this thread's core. -ENODEV or -ENOSYS: caches have none here. */
SCR_INLINE int scr_open(scr_pad *pad)
{
    struct scr_info info = {0, 0, 0, 0, 0, 0};
    int64_t error = scr_driver_call_(&info);
    pad->core = (unsigned)info.core;
    pad->cores = (unsigned)info.cores;
    pad->ways = (unsigned)info.ways;
    pad->way_bytes = info.way_bytes;
    pad->dram_bytes = info.dram_bytes;
    pad->used = 0;
    return (int)error;
}

/*
 * Gives a place another address, on this core (CINI §3.1: address region tables). `bytes` from
 * `name` on, whole lines between SCR_NAMES and 1 << 39, stand for those from `place` on, of any
 * core's window or of SCR_DRAM, in loads, stores, commands, and notifications of counters. A name
 * that has a place moves to this one; with 0 bytes it stands for nothing any more. Tags are found
 * by the place alone.
 *
 * -EINVAL (-22): no whole lines, names of another region, or no such place. -ENOSPC (-28):
 * SCR_MOST_REGIONS.
 */
static inline int scr_map(volatile void *name, uint64_t bytes, volatile void *place)
{
    scr_fence(); /* what has begun goes where it was */
#ifdef __riscv
    register uint64_t a0 __asm__("a0") = (uint64_t)(uintptr_t)name;
    register uint64_t a1 __asm__("a1") = bytes;
    register uint64_t a2 __asm__("a2") = (uint64_t)(uintptr_t)place;
    register uint64_t a7 __asm__("a7") = 0x52414309;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
    return (int)a0;
#else
    (void)name;
    (void)bytes;
    (void)place;
    return -19; /* ENODEV */
#endif
}

/* Turns lines of a way, from a set on, into scratchpad, all zero. Data cached there goes back to
 * memory. Every set has to keep a way that is a cache. */
SCR_INLINE void *scr_make_plain(const scr_pad *pad, unsigned way, uint64_t set, uint64_t lines)
{
    scr_word *first = scr_line(pad, way, set);
    for (uint64_t i = 0; i < lines; i++)
        *scr_tag(first + i * SCR_LINE_WORDS) = SCR_PLAIN;
    scr_fence();
    for (uint64_t i = 0; i < lines * SCR_LINE_WORDS; i++)
        first[i] = 0;
    return (void *)(uintptr_t)first;
}

/* Gives `lines` lines from `first` on back to the cache, in any state. */
SCR_INLINE void scr_make_cache(void *first, uint64_t lines)
{
    for (uint64_t i = 0; i < lines; i++)
        *scr_tag((char *)first + i * SCR_LINE_BYTES) = SCR_CACHE;
    scr_fence();
}

/* Bytes that are left for scr_alloc: the last way of every set stays a cache. */
SCR_INLINE uint64_t scr_left(const scr_pad *pad)
{
    return (pad->ways - 1) * pad->way_bytes - pad->used;
}

/* `bytes` of zeroed scratchpad at a multiple of `alignment`, a power of two, or of a line if that
 * is more. NULL if there is no room. */
static inline void *scr_alloc(scr_pad *pad, uint64_t bytes, uint64_t alignment)
{
    uint64_t multiple = alignment > SCR_LINE_BYTES ? alignment : SCR_LINE_BYTES;
    uint64_t skipped = (multiple - pad->used % multiple) % multiple;
    uint64_t lines = (bytes + SCR_LINE_BYTES - 1) / SCR_LINE_BYTES;
    uint64_t left = scr_left(pad);
    if (lines > left / SCR_LINE_BYTES || skipped > left - lines * SCR_LINE_BYTES)
        return NULL;
    uint64_t first = pad->used + skipped;
    pad->used = first + lines * SCR_LINE_BYTES;
    /* Ways are side by side in the window. */
    return scr_make_plain(pad, 0, first / SCR_LINE_BYTES, lines);
}

/* ---- Marking lines ----------------------------------------------------------------------- */

/* Changes the state of a scratchpad line of this core. */
SCR_INLINE void scr_mark(scr_word *line, uint64_t state)
{
    scr_fence(); /* what the line holds for its new state */
    *scr_tag(line) = state;
    scr_fence();
}

/* Makes a line a command buffer. */
SCR_INLINE void scr_mark_command(scr_word *line)
{
    scr_mark(line, SCR_COMMAND);
}

/* Begins at `reset`, usually minus the sum that has to arrive. Whenever it becomes zero, it sends
 * `word` to those of the targets that are not NULL and begins again. */
static inline void scr_mark_counter(scr_word *line, int64_t reset, uint64_t word,
                                    scr_word *const targets[SCR_COUNTER_TARGETS])
{
    scr_mark(line, SCR_PLAIN); /* stores are stores, and a counter begins anew */
    line[SCR_COUNTER_RESET] = (uint64_t)reset;
    line[SCR_COUNTER_WORD] = word;
    for (int i = 0; i < SCR_COUNTER_TARGETS; i++)
        line[SCR_COUNTER_NOTIFY + i] = (uint64_t)(uintptr_t)targets[i];
    scr_mark(line, SCR_COUNTER);
}

/* The state word of a queue. */
SCR_INLINE uint64_t scr_queue_state(enum scr_state state, unsigned item_words, uint64_t body_bytes)
{
    return (uint64_t)state | (uint64_t)item_words << 8 | body_bytes << 16;
}

/* Bytes of a queue's body for so many items that lie `item_bytes` apart, a power of two. */
SCR_INLINE uint64_t scr_body_bytes(uint64_t items, uint64_t item_bytes)
{
    uint64_t bytes = SCR_LINE_BYTES;
    while (bytes < items * item_bytes)
        bytes *= 2;
    return bytes;
}

/* A line with a body of `bytes` right behind it, which lies at a multiple of its size. NULL if
 * there is no room. */
static inline scr_word *scr_alloc_queue_(scr_pad *pad, uint64_t bytes)
{
    uint64_t used = pad->used;
    uint64_t body = (used + SCR_LINE_BYTES + bytes - 1) / bytes * bytes;
    uint64_t left = scr_left(pad);
    if (body - used > left || bytes > left - (body - used))
        return NULL;
    pad->used = body - SCR_LINE_BYTES;
    return (scr_word *)scr_alloc(pad, SCR_LINE_BYTES + bytes, SCR_LINE_BYTES);
}

/* A single-reader queue of this core for `items` items (or the next power of two) of 1, 2, 4 or 8
 * words. Nothing stops senders that send more. NULL if there is no room. */
static inline scr_word *scr_alloc_sr_queue(scr_pad *pad, uint64_t items, unsigned item_words)
{
    uint64_t bytes = scr_body_bytes(items, (uint64_t)item_words * SCR_WORD_BYTES);
    scr_word *queue = scr_alloc_queue_(pad, bytes);
    if (queue)
        scr_mark(queue, scr_queue_state(SCR_SR_QUEUE, item_words, bytes));
    return queue;
}

/* A multiple-reader queue of this core, for `items` data or requests at a time; data have 1 to 4
 * words. NULL if there is no room. */
static inline scr_word *scr_alloc_mr_queue(scr_pad *pad, uint64_t items, unsigned item_words)
{
    uint64_t bytes = scr_body_bytes(items, SCR_MR_SLOT_BYTES);
    scr_word *queue = scr_alloc_queue_(pad, bytes);
    if (queue)
        scr_mark(queue, scr_queue_state(SCR_MR_QUEUE, item_words, bytes));
    return queue;
}

/* A command buffer of this core; NULL if there is no room. */
static inline scr_word *scr_alloc_command(scr_pad *pad)
{
    scr_word *line = (scr_word *)scr_alloc(pad, SCR_LINE_BYTES, SCR_LINE_BYTES);
    if (line)
        scr_mark_command(line);
    return line;
}

/* A counter of this core that notifies one word, or none; NULL if there is no room. */
static inline scr_word *scr_alloc_counter(scr_pad *pad, int64_t reset, scr_word *target)
{
    scr_word *const targets[SCR_COUNTER_TARGETS] = {target, NULL, NULL, NULL};
    scr_word *line = (scr_word *)scr_alloc(pad, SCR_LINE_BYTES, SCR_LINE_BYTES);
    if (line)
        scr_mark_counter(line, reset, 1, targets);
    return line;
}

/* ---- Taking lines away and bringing them back --------------------------------------------- */

/* A saved line: an operating system keeps these of a scratchpad that it swaps out (CINI §3.1). */
typedef struct scr_saved {
    uint64_t state;
    uint64_t metadata;
    uint64_t words[SCR_LINE_WORDS];
} scr_saved;

/* Saves lines of this core, in any state, and gives them to the cache. Commands that have begun and
 * notifications leave before; requests and items that wait in queues are saved. No other core may
 * send anything to these lines meanwhile, nor may acknowledgements come back to them. */
static inline void scr_save(volatile void *first, uint64_t lines, scr_saved *saved)
{
    for (uint64_t i = 0; i < lines; i++) {
        scr_word *line = (scr_word *)first + i * SCR_LINE_WORDS;
        scr_word *tag = scr_tag(line);
        while (((saved[i].state = tag[0]) & SCR_UNDER_WAY) != 0)
            ;
        saved[i].metadata = tag[1];
        tag[1] = 0; /* nothing is under way in it any more */
        scr_mark(line, SCR_PLAIN);
        for (uint64_t w = 0; w < SCR_LINE_WORDS; w++)
            saved[i].words[w] = line[w];
    }
    scr_make_cache((void *)(uintptr_t)first, lines);
}

/* Brings them back, to the same place or to another one. */
static inline void scr_restore(volatile void *first, uint64_t lines, const scr_saved *saved)
{
    for (uint64_t i = 0; i < lines; i++) {
        scr_word *line = (scr_word *)first + i * SCR_LINE_WORDS;
        scr_mark(line, SCR_PLAIN);
        for (uint64_t w = 0; w < SCR_LINE_WORDS; w++)
            line[w] = saved[i].words[w];
    }
    scr_fence();
    /* A queue's body has to be there before its descriptor. */
    for (uint64_t i = 0; i < lines; i++) {
        scr_word *line = (scr_word *)first + i * SCR_LINE_WORDS;
        if (saved[i].state == SCR_PLAIN)
            continue;
        scr_mark(line, saved[i].state);
        scr_tag(line)[1] = saved[i].metadata;
    }
    scr_fence();
}

#endif
