/* An application: sorts records of 64 bytes by their keys, as a sort of files larger than memory does. Parts that fit
 * into a cache are sorted by their keys alone and written in order as runs; all runs are merged at once. */
#include "../node.h"
#include "real.h"

enum { RUN_RECORDS = 512, INSERT_BELOW = 12 };

typedef struct record {
    uint64_t key;
    uint64_t number; /* before sorting */
    uint64_t data[6];
} record;

/* A key, and the place of its record. */
typedef struct entry {
    uint64_t key;
    uint32_t at, end;
} entry;

static struct {
    record *input, *runs; /* the input has the result in the end */
    entry *heads;         /* of runs, the least first: a heap */
    uint64_t count;
    uint64_t sum;
} s;

/* ---- Runs ----------------------------------------------------------------------------------- */

static void insert_in_order(entry *e, uint64_t count)
{
    for (uint64_t i = 1; i < count; i++) {
        entry moved = e[i];
        uint64_t to = i;
        for (; to > 0 && e[to - 1].key > moved.key; to--)
            e[to] = e[to - 1];
        e[to] = moved;
    }
}

static uint64_t middle_of(uint64_t a, uint64_t b, uint64_t c)
{
    if (a > b) {
        uint64_t least = b;
        b = a;
        a = least;
    }
    return c < a ? a : c < b ? c : b;
}

static void quicksort(entry *e, uint64_t count)
{
    while (count > INSERT_BELOW) {
        uint64_t pivot = middle_of(e[0].key, e[count / 2].key, e[count - 1].key);
        uint64_t low = 0, high = count - 1;
        for (;; low++, high--) {
            while (e[low].key < pivot)
                low++;
            while (e[high].key > pivot)
                high--;
            if (low >= high)
                break;
            entry other = e[low];
            e[low] = e[high];
            e[high] = other;
        }
        quicksort(e, low);
        e += low;
        count -= low;
    }
    insert_in_order(e, count);
}

static void write_run(uint64_t begin, uint64_t end)
{
    entry keys[RUN_RECORDS];
    for (uint64_t i = begin; i < end; i++)
        keys[i - begin] = (entry){s.input[i].key, (uint32_t)i, 0};
    quicksort(keys, end - begin);
    for (uint64_t i = begin; i < end; i++)
        s.runs[i] = s.input[keys[i - begin].at];
}

/* ---- Merging -------------------------------------------------------------------------------- */

static void sift_down(uint64_t at, uint64_t count)
{
    entry moved = s.heads[at];
    for (uint64_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && s.heads[child + 1].key < s.heads[child].key)
            child++;
        if (s.heads[child].key >= moved.key)
            break;
        s.heads[at] = s.heads[child];
    }
    s.heads[at] = moved;
}

static void merge(uint64_t runs)
{
    for (uint64_t i = runs / 2; i-- > 0;)
        sift_down(i, runs);
    for (record *to = s.input; runs; to++) {
        entry *least = &s.heads[0];
        *to = s.runs[least->at++];
        if (least->at == least->end)
            *least = s.heads[--runs];
        else
            least->key = s.runs[least->at].key;
        sift_down(0, runs);
    }
}

static void work(void)
{
    uint64_t runs = 0;
    for (uint64_t begin = 0; begin < s.count; begin += RUN_RECORDS) {
        uint64_t end = begin + RUN_RECORDS < s.count ? begin + RUN_RECORDS : s.count;
        write_run(begin, end);
        s.heads[runs++] = (entry){s.runs[begin].key, (uint32_t)begin, (uint32_t)end};
    }
    merge(runs);
}

/* ---- Input and check ------------------------------------------------------------------------ */

static uint64_t records_in(uint64_t bytes)
{
    return bytes / sizeof(record);
}

static uint64_t heads_for(uint64_t records)
{
    return (records / RUN_RECORDS + 1) * sizeof(entry);
}

static uint64_t memory(uint64_t bytes)
{
    return 2 * bytes + heads_for(records_in(bytes)) + 3 * ARENA_LINE;
}

/* What data a record has. */
static uint64_t word_of(const record *r, uint64_t word)
{
    return (r->key ^ r->number) * 0x9e3779b97f4a7c15u + word;
}

static uint64_t sum_of(const record *r)
{
    return (r->key ^ r->number << 32) * 0xbf58476d1ce4e5b9u;
}

static bool prepare(arena *a, uint64_t bytes)
{
    uint64_t state = 88172645463325252u;
    s.count = records_in(bytes);
    s.sum = 0;
    s.input = arena_take(a, s.count * sizeof *s.input);
    s.runs = arena_take(a, s.count * sizeof *s.runs);
    s.heads = arena_take(a, heads_for(s.count));
    if (!s.heads)
        return false;
    for (uint64_t i = 0; i < s.count; i++) {
        record *r = &s.input[i];
        r->key = node_random(&state) >> 24;
        r->number = i;
        for (unsigned word = 0; word < 6; word++)
            r->data[word] = word_of(r, word);
        s.sum += sum_of(r);
    }
    return true;
}

static bool is_right(result *found)
{
    uint64_t sum = 0, last = 0;
    bool right = true;
    found->number = s.count;
    found->check = HASH_BEGIN;
    for (const record *r = s.input; r < s.input + s.count; r++) {
        right &= r->key >= last;
        for (unsigned word = 0; word < 6; word++)
            right &= r->data[word] == word_of(r, word);
        last = r->key;
        sum += sum_of(r);
        found->check = hash_bytes(found->check, &r->key, sizeof r->key);
    }
    return right && sum == s.sum;
}

const application sorter = {"sort", memory, prepare, work, is_right};
