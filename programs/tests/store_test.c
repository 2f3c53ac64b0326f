/* The items of deoi_cache: what is kept, what is dropped, and how its requests are read. */
#include <stdlib.h>
#include <string.h>

#include "../deoi/cache/resp.h"
#include "../deoi/cache/store.h"
#include "check.h"

enum { VALUE_BYTES = 500, MOST_BYTES = 950, SLOT_BYTES = 640 };

static char value[MOST_BYTES];

static size_t name(char *text, unsigned key)
{
    return (size_t)snprintf(text, 16, "key:%u", key);
}

static bool set(store *s, unsigned key, size_t length)
{
    char text[16];
    size_t count = name(text, key);
    memset(value, (int)key & 0xff, length);
    return store_set(s, text, count, value, length) == STORE_DONE;
}

static bool has(store *s, unsigned key, size_t length)
{
    char text[16];
    size_t count = name(text, key);
    const item *i = store_get(s, text, count);
    if (i == NULL)
        return false;
    CHECK(i->key_bytes == count && i->value_bytes == length);
    for (size_t at = 0; at < length; at++)
        CHECK(i->bytes[count + at] == (char)(key & 0xff));
    return true;
}

static void test_the_oldest_go_first(void)
{
    store s;
    CHECK(store_make(&s));
    store_limit(&s, 10 * SLOT_BYTES + 16 * sizeof(item *));
    for (unsigned key = 0; key < 10; key++)
        CHECK(set(&s, key, VALUE_BYTES));
    CHECK(s.items == 10 && s.evicted == 0 && s.used_bytes == s.most_bytes);
    CHECK(has(&s, 0, VALUE_BYTES)); /* so 1 is the oldest */
    CHECK(set(&s, 10, VALUE_BYTES) && s.items == 10 && s.evicted == 1);
    CHECK(!has(&s, 1, VALUE_BYTES) && has(&s, 0, VALUE_BYTES) && has(&s, 2, VALUE_BYTES));
    store_limit(&s, s.most_bytes - 3 * SLOT_BYTES);
    CHECK(s.items == 7 && s.evicted == 4); /* 3, 4 and 5 */
    CHECK(!has(&s, 5, VALUE_BYTES) && has(&s, 6, VALUE_BYTES) && has(&s, 10, VALUE_BYTES));
    free(s.buckets);
}

static void test_replaced_and_deleted_items_leave_nothing(void)
{
    store s;
    CHECK(store_make(&s));
    CHECK(set(&s, 1, 100) && set(&s, 2, 10));
    uint64_t two = s.used_bytes;
    CHECK(set(&s, 1, VALUE_BYTES) && has(&s, 1, VALUE_BYTES) && s.items == 2);
    CHECK(set(&s, 1, 100) && has(&s, 1, 100) && s.used_bytes == two);
    CHECK(store_delete(&s, "key:1", 5) && !store_delete(&s, "key:1", 5) && !has(&s, 1, 100));
    CHECK(store_delete(&s, "key:2", 5) && s.items == 0 && s.newest == NULL && s.oldest == NULL);
    CHECK(s.used_bytes == s.bucket_count * sizeof(item *));
    free(s.buckets);
}

static void test_too_large_items_change_nothing(void)
{
    store s;
    char *large = calloc(1, STORE_MOST_BYTES + 1);
    CHECK(large && store_make(&s));
    CHECK(store_set(&s, "a", 1, large, STORE_MOST_BYTES) == STORE_TOO_LARGE);
    CHECK(store_set(&s, "a", 1, large, STORE_MOST_BYTES - 1) == STORE_DONE);
    store_limit(&s, 4096);
    CHECK(s.items == 0 && s.evicted == 1);
    CHECK(set(&s, 1, VALUE_BYTES) && store_set(&s, "key:1", 5, large, 4096) == STORE_TOO_LARGE);
    CHECK(has(&s, 1, VALUE_BYTES));
    free(large);
    free(s.buckets);
}

/* Against an array of the times of use, through growth of the table. */
static void test_many(void)
{
    enum { KEYS = 3000, STEPS = 60000 };
    static unsigned used[KEYS]; /* 0: not there */
    store s;
    unsigned random = 1, there = 0;
    CHECK(store_make(&s));
    store_limit(&s, 1000 * 64 + 2048 * sizeof(item *)); /* keys and values take 64 bytes */
    for (unsigned step = 1; step <= STEPS; step++) {
        random = random * 1103515245u + 12345;
        unsigned key = random / 65536 % KEYS;
        bool is_there = has(&s, key, 10);
        CHECK(is_there == (used[key] != 0));
        if (!is_there) {
            uint64_t evicted = s.evicted;
            CHECK(set(&s, key, 10));
            there++;
            for (; evicted < s.evicted; evicted++, there--) {
                unsigned oldest = KEYS;
                for (unsigned i = 0; i < KEYS; i++)
                    if (used[i] != 0 && (oldest == KEYS || used[i] < used[oldest]))
                        oldest = i;
                used[oldest] = 0;
            }
        }
        used[key] = step;
        CHECK(s.items == there && s.used_bytes <= s.most_bytes);
    }
    CHECK(s.evicted > 1000 && s.bucket_count == 2048 && there == 1000);
    free(s.buckets);
}

/* Where there is room for a larger table or the item, it is the item that is kept. */
static void test_the_table_keeps_within_the_limit(void)
{
    store s;
    CHECK(store_make(&s));
    store_limit(&s, 16 * 64 + 16 * sizeof(item *));
    for (unsigned key = 0; key < 16; key++)
        CHECK(set(&s, key, 10));
    CHECK(s.items == 16 && s.used_bytes == s.most_bytes);
    CHECK(set(&s, 16, MOST_BYTES) && has(&s, 16, MOST_BYTES) && s.used_bytes <= s.most_bytes && s.bucket_count == 16);
    free(s.buckets);
}

static void test_slots_are_used_again(void)
{
    enum { SLOTS = 5 };
    slots s = {0};
    char *taken[SLOTS], *again[SLOTS];
    CHECK(slots_size(1) == 64 && slots_size(64) == 64 && slots_size(65) == 80 && slots_size(128) == 128);
    CHECK(slots_size(129) == 160 && slots_size(560) == 640 && slots_size(SLOTS_MOST_BYTES) == SLOTS_MOST_BYTES);
    for (size_t i = 0; i < SLOTS; i++)
        CHECK((taken[i] = slots_take(&s, 560)) != NULL && (i == 0 || taken[i] == taken[i - 1] + 640));
    for (size_t i = 0; i < SLOTS; i++)
        slots_give(&s, taken[i], 600);
    CHECK(slots_take(&s, 64) != taken[SLOTS - 1]);
    for (size_t i = 0; i < SLOTS; i++)
        CHECK((again[i] = slots_take(&s, 640)) == taken[SLOTS - 1 - i]);
}

static void feed(resp_bytes *b, const char *text)
{
    CHECK(bytes_add(b, text, strlen(text)));
}

static void test_requests(void)
{
    resp_bytes b = {0};
    resp_word words[RESP_MOST_WORDS];
    size_t count;
    const char *wrong;
    const char *whole = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n";
    for (const char *at = whole; *at; at++) {
        CHECK(resp_take_request(&b, words, &count, &wrong) == RESP_PARTIAL);
        CHECK(bytes_add(&b, at, 1));
    }
    feed(&b, "  GET  key:1 \r\n\r\n");
    CHECK(resp_take_request(&b, words, &count, &wrong) == RESP_WHOLE && count == 3);
    CHECK(words[2].bytes == 4 && memcmp(words[2].at, "a\r\nb", 4) == 0);
    CHECK(resp_take_request(&b, words, &count, &wrong) == RESP_WHOLE && count == 2);
    CHECK(words[1].bytes == 5 && memcmp(words[1].at, "key:1", 5) == 0);
    CHECK(resp_take_request(&b, words, &count, &wrong) == RESP_WHOLE && count == 0 && b.begin == b.end);
    const char *const wrong_ones[][2] = {
        {"*x\r\n", "invalid multibulk length"}, {"*17\r\n", "invalid multibulk length"},
        {"*1\r\n:3\r\n", "expected '$'"},       {"*1\r\n$1048577\r\n", "invalid bulk length"},
        {"*1\r\n$-1\r\n", "invalid bulk length"}, {"*1\r\n$4\r\nPING\n\n", "invalid bulk length"},
        {"1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\r\n", "too big request"},
    };
    for (size_t i = 0; i < sizeof wrong_ones / sizeof *wrong_ones; i++) {
        b.begin = b.end = 0;
        feed(&b, wrong_ones[i][0]);
        CHECK(resp_take_request(&b, words, &count, &wrong) == RESP_WRONG);
        CHECK(strcmp(wrong, wrong_ones[i][1]) == 0);
    }
    free(b.at);
}

static void test_answers(void)
{
    resp_bytes b = {0};
    resp_answer a;
    feed(&b, "+OK\r\n:12\r\n$-1\r\n$5\r\na\r\nbc\r\n-ERR no\r\n$3\r\nab");
    CHECK(resp_take_answer(&b, &a) == RESP_WHOLE && a.kind == '+' && a.text.bytes == 2);
    CHECK(resp_take_answer(&b, &a) == RESP_WHOLE && a.kind == ':' && memcmp(a.text.at, "12", 2) == 0);
    CHECK(resp_take_answer(&b, &a) == RESP_WHOLE && a.kind == '$' && a.is_none);
    CHECK(resp_take_answer(&b, &a) == RESP_WHOLE && !a.is_none && a.text.bytes == 5);
    CHECK(resp_take_answer(&b, &a) == RESP_WHOLE && a.kind == '-' && memcmp(a.text.at, "ERR no", 6) == 0);
    CHECK(resp_take_answer(&b, &a) == RESP_PARTIAL);
    b.begin = b.end = 0;
    feed(&b, "hello\r\n");
    CHECK(resp_take_answer(&b, &a) == RESP_WRONG);
    b.begin = b.end = 0;
    CHECK(bytes_add(&b, "\0OK\r\n", 5) && resp_take_answer(&b, &a) == RESP_WRONG);
    b.begin = b.end = 0;
    feed(&b, "$1\r\nabc");
    CHECK(resp_take_answer(&b, &a) == RESP_WRONG);
    free(b.at);
}

int main(void)
{
    test_the_oldest_go_first();
    test_replaced_and_deleted_items_leave_nothing();
    test_too_large_items_change_nothing();
    test_many();
    test_the_table_keeps_within_the_limit();
    test_slots_are_used_again();
    test_requests();
    test_answers();
    puts("store: ok");
    return 0;
}
