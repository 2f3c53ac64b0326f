/* Misuses of a cache-integrated network interface: each ends the program in one line. */
#include "scr_test.h"

static void double_write(chip *c)
{
    c->command[0][NI_DESTINATION] = (uint64_t)(uintptr_t)c->target;
    c->command[0][NI_DESTINATION] = (uint64_t)(uintptr_t)c->target;
}

static void oversize(chip *c)
{
    ni_copy(c->command[0], (char *)(uintptr_t)SCR_DRAM, (char *)(uintptr_t)SCR_DRAM + (1 << 20),
            NI_MOST_COPY_BYTES + 1, NULL);
}

static void long_message(chip *c)
{
    c->command[0][NI_OPERATION] = ni_operation(NI_MESSAGE, 48);
}

static void no_opcode(chip *c)
{
    c->command[0][NI_OPERATION] = 9 | 64 << 8;
}

static void short_store(chip *c)
{
    *(volatile uint32_t *)(volatile void *)c->command[0] = NI_COPY;
}

static scr_word *cache_line(const chip *c)
{
    return scr_line(&c->self->pad, c->self->pad.ways - 1, 0);
}

static void not_scratchpad(chip *c)
{
    *cache_line(c) = 1;
}

static void load_not_scratchpad(chip *c)
{
    (void)*cache_line(c);
}

static void remote_not_scratchpad(chip *c)
{
    *word_at(c, c->next, cache_line(c)) = 1;
    ni_push();
}

static void copy_not_scratchpad(chip *c)
{
    ni_copy(c->command[0], cache_line(c), c->source, 8, NULL);
}

static void copy_memory(chip *c)
{
    static uint64_t memory[8];
    ni_copy(c->command[0], memory, c->source, 8, NULL);
}

static void outside(chip *c)
{
    *(scr_word *)(uintptr_t)(SCR_BASE + c->self->pad.cores * SCR_STRIDE) = 1;
}

static void unmapped(chip *c)
{
    scr_word *name = (scr_word *)(uintptr_t)SCR_NAMES;
    if (scr_map(name, SCR_LINE_BYTES, c->target) == 0)
        *name = 1;
    if (scr_map(name, 0, NULL) == 0)
        *name = 2;
}

/* More than the region has. */
static void copy_unmapped(chip *c)
{
    scr_word *name = (scr_word *)(uintptr_t)SCR_NAMES;
    if (scr_map(name, SCR_LINE_BYTES, c->target) == 0)
        ni_copy(c->command[0], name, c->source, 2 * SCR_LINE_BYTES, NULL);
}

static void sr_overflow(chip *c)
{
    for (int i = 0; i <= SR_ITEMS; i++)
        ni_sr_enqueue(c->sr_queue, 1);
}

static void mr_overflow(chip *c)
{
    for (int i = 0; i <= MR_ITEMS; i++)
        ni_mr_put(c->mr_queue, 1);
}

static void item_size(chip *c)
{
    const uint64_t data[2] = {1, 2};
    ni_message(c->command[0], c->sr_queue, data, 2, NULL);
}

static void head_past_tail(chip *c)
{
    c->sr_queue[NI_SR_HEAD] = 5;
}

static void body_size(chip *c)
{
    scr_mark((scr_word *)(void *)c->target, scr_queue_state(SCR_SR_QUEUE, 1, 192));
}

static void body_place(chip *c)
{
    scr_word *line = (scr_word *)(void *)c->target;
    if ((uintptr_t)(line + SCR_LINE_WORDS) % 256 == 0)
        line += SCR_LINE_WORDS;
    scr_mark(line, scr_queue_state(SCR_SR_QUEUE, 1, 256));
}

static void body_not_plain(chip *c)
{
    scr_word *body = (scr_word *)(void *)c->target;
    scr_mark_command(body + SCR_LINE_WORDS);
    scr_mark(body, scr_queue_state(SCR_SR_QUEUE, 1, 64));
}

static void item_words(chip *c)
{
    scr_mark((scr_word *)(void *)c->target, scr_queue_state(SCR_SR_QUEUE, 3, 64));
}

/* A command that waits behind others. */
static void in_use(chip *c)
{
    for (int i = 0; i < COMMANDS; i++)
        ni_copy(c->command[i], c->target, c->source, AREA_BYTES, NULL);
    *scr_tag(c->command[COMMANDS - 1]) = SCR_CACHE;
}

static void body_in_use(chip *c)
{
    *scr_tag(c->sr_queue + SCR_LINE_WORDS) = SCR_CACHE;
}

static void other_core(chip *c)
{
    *scr_tag(at(c, c->next, c->target)) = SCR_COMMAND;
}

static void last_way(chip *c)
{
    for (unsigned way = 0; way < c->self->pad.ways; way++)
        *scr_tag(scr_line(&c->self->pad, way, 0)) = SCR_PLAIN;
}

static void no_state(chip *c)
{
    scr_mark((scr_word *)(void *)c->target, 6);
}

static void atomic(chip *c)
{
    __atomic_fetch_add((uint64_t *)(void *)c->target, 1, __ATOMIC_RELAXED);
}

static void remote_atomic(chip *c)
{
    __atomic_fetch_add((uint64_t *)at(c, c->next, c->target), 1, __ATOMIC_RELAXED);
}

const test scr_mistakes[] = {
    {"double-write", double_write},
    {"oversize", oversize},
    {"long-message", long_message},
    {"opcode", no_opcode},
    {"short-store", short_store},
    {"not-scratchpad", not_scratchpad},
    {"load-not-scratchpad", load_not_scratchpad},
    {"remote-not-scratchpad", remote_not_scratchpad},
    {"copy-not-scratchpad", copy_not_scratchpad},
    {"copy-memory", copy_memory},
    {"outside", outside},
    {"unmapped", unmapped},
    {"copy-unmapped", copy_unmapped},
    {"overflow", sr_overflow},
    {"mr-overflow", mr_overflow},
    {"item-size", item_size},
    {"head-past-tail", head_past_tail},
    {"body-size", body_size},
    {"body-place", body_place},
    {"body-not-plain", body_not_plain},
    {"item-words", item_words},
    {"in-use", in_use},
    {"body-in-use", body_in_use},
    {"other-core", other_core},
    {"last-way", last_way},
    {"state", no_state},
    {"atomic", atomic},
    {"remote-atomic", remote_atomic},
    {NULL, NULL},
};
