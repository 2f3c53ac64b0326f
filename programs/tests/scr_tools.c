/* Functions that the tests of scr_test share. */
#include "scr_test.h"

void meet(const chip *c)
{
    sys_meet(c->self->team);
}

void set_counter(scr_word *counter, int64_t reset, uint64_t word, scr_word *first,
                        scr_word *second, scr_word *third, scr_word *fourth)
{
    scr_word *const targets[] = {first, second, third, fourth};
    scr_mark_counter(counter, reset, word, targets);
}

bool stays_zero(const scr_word *word)
{
    uint64_t begin = sys_cycles();
    do {
        if (*word != 0)
            return false;
    } while (sys_cycles() - begin < LONGEST);
    return true;
}

bool comes_to(const scr_word *counter, int64_t value)
{
    uint64_t begin = sys_cycles();
    do {
        if (ni_counter_value(counter) == value)
            return true;
    } while (sys_cycles() - begin < LONGEST);
    return false;
}

unsigned char pattern(unsigned member, uint64_t at)
{
    return (unsigned char)(member * 37 + at * 11 + (at >> 8) * 5 + 1);
}

bool matches(const unsigned char *bytes, uint64_t first, uint64_t length, unsigned member)
{
    for (uint64_t i = 0; i < length; i++)
        if (bytes[i] != pattern(member, first + i))
            return false;
    return true;
}

bool holds_only(const unsigned char *bytes, uint64_t length, unsigned char byte)
{
    for (uint64_t i = 0; i < length; i++)
        if (bytes[i] != byte)
            return false;
    return true;
}

void copy(const chip *c, void *to, const void *from, uint64_t bytes)
{
    set_counter(c->counter[0], -(int64_t)bytes, 1, c->flag[0], NULL, NULL, NULL);
    scr_release();
    ni_copy(c->command[0], to, from, bytes, c->counter[0]);
    (void)ni_wait(c->flag[0]);
}
