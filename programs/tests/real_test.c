/* The applications of tsm_real: compression and back, order, and a Lisp whose cells are collected. */
#include <stdlib.h>
#include <string.h>

#include "../tsm/real/deflate.h"
#include "../tsm/real/lisp.h"
#include "../tsm/real/real.h"
#include "check.h"

enum { MOST_BYTES = 200000, ROOM = 2 * MOST_BYTES };

static unsigned char text[MOST_BYTES], packed[ROOM], again[MOST_BYTES];
static deflate_memory memory;

/* ---- Compression ---------------------------------------------------------------------------- */

/* Bytes below `most`, in stretches that repeat. */
static void fill(uint64_t bytes, unsigned most, unsigned stretch)
{
    for (uint64_t i = 0; i < bytes; i++)
        text[i] = (unsigned char)((unsigned)rand() % most);
    for (uint64_t i = stretch; stretch && i < bytes; i++)
        text[i] = text[i - stretch];
}

static uint64_t round_trip(uint64_t bytes)
{
    uint64_t length = deflate_compress(&memory, text, bytes, packed, ROOM);
    CHECK(length > 0);
    memset(again, 0xaa, sizeof again);
    CHECK(deflate_expand(packed, length, again, bytes) == bytes);
    CHECK(memcmp(text, again, bytes) == 0);
    return length;
}

static void test_what_was_compressed_comes_back(void)
{
    static const uint64_t sizes[] = {0, 1, 2, 3, 4, 257, 258, 259, 8192, 32767, 32768, 32769, MOST_BYTES};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (unsigned stretch = 0; stretch < 40000; stretch = stretch * 5 + 1) {
            fill(sizes[i], 256, stretch);
            round_trip(sizes[i]);
            fill(sizes[i], 3, stretch);
            round_trip(sizes[i]);
        }
    }
    fill(MOST_BYTES, 256, 0);
    CHECK(round_trip(MOST_BYTES) < MOST_BYTES + MOST_BYTES / 8);
    fill(MOST_BYTES, 256, 30000); /* found in the window only */
    CHECK(round_trip(MOST_BYTES) < MOST_BYTES / 3);
    fill(MOST_BYTES, 1, 0);
    CHECK(round_trip(MOST_BYTES) < MOST_BYTES / 50);
}

static void test_nonsense_is_refused(void)
{
    fill(4000, 20, 900);
    uint64_t length = round_trip(4000);
    for (uint64_t cut = 1; cut < length; cut++)
        CHECK(deflate_expand(packed, length - cut, again, 4000) == 0);
    CHECK(deflate_expand(packed, length, again, 3999) == 0);
    CHECK(deflate_compress(&memory, text, 4000, packed, length - 1) == 0);
    /* The sanitizer sees what is read or written outside of it. */
    unsigned char *alone = malloc(4000);
    CHECK(alone);
    for (unsigned round = 0; round < 5000; round++) {
        uint64_t bit = (uint64_t)rand() % (8 * length);
        packed[bit / 8] ^= (unsigned char)(1 << bit % 8);
        CHECK(deflate_expand(packed, length, alone, 4000) <= 4000);
        packed[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    free(alone);
}

/* Counts that grow like Fibonacci's numbers make the deepest tree. */
static void test_codes_have_at_most_15_bits(void)
{
    enum { SYMBOLS = 40 };
    uint32_t counts[SYMBOLS] = {1, 1}, room = 0;
    uint8_t lengths[SYMBOLS];
    huffman_reader reader;
    for (unsigned i = 2; i < SYMBOLS; i++)
        counts[i] = counts[i - 1] + counts[i - 2];
    huffman_lengths(counts, SYMBOLS, lengths);
    for (unsigned i = 0; i < SYMBOLS; i++) {
        CHECK(lengths[i] > 0 && lengths[i] <= MOST_BITS);
        CHECK(i == 0 || lengths[i] <= lengths[i - 1]);
        room += 1u << (MOST_BITS - lengths[i]);
    }
    CHECK(room == 1u << MOST_BITS);
    CHECK(huffman_prepare(&reader, lengths, SYMBOLS));
    lengths[0]--;
    CHECK(!huffman_prepare(&reader, lengths, SYMBOLS));
}

/* ---- Whole applications --------------------------------------------------------------------- */

static result run(const application *a, uint64_t bytes)
{
    result found;
    uint64_t needed = a->memory(bytes);
    unsigned char *taken = aligned_alloc(ARENA_LINE, (needed + ARENA_LINE - 1) / ARENA_LINE * ARENA_LINE);
    arena all = {taken, needed};
    CHECK(taken && a->prepare(&all, bytes));
    a->work();
    CHECK(a->is_right(&found));
    free(taken);
    return found;
}

static void test_applications_check_themselves(void)
{
    CHECK(run(&sorter, 1 << 14).number == 256);
    for (uint64_t records = 510; records < 515; records++)
        CHECK(run(&sorter, records * 64).number == records);
    CHECK(run(&sorter, 1 << 18).check == 0xef1b3f69);
    result packed_text = run(&compressor, 1 << 15);
    CHECK(packed_text.number == 12536 && packed_text.check == 0x492032c3);
    result queens = run(&interpreter, 1 << 17);
    CHECK(queens.number == 30 && queens.check == 0xf072b80f);
}

static void test_too_little_memory_is_refused(void)
{
    const application *const all[] = {&compressor, &sorter, &interpreter};
    for (unsigned i = 0; i < 3; i++) {
        arena small = {text, all[i]->memory(1 << 14) / 2};
        CHECK(!all[i]->prepare(&small, 1 << 14));
    }
}

/* ---- Lisp ----------------------------------------------------------------------------------- */

enum { CELLS = 2000 };

static lisp l;
static cell cells[CELLS];
static uint8_t marks[CELLS];

/* The value of the last of these expressions. */
static value evaluate(const char *program)
{
    value found = NIL;
    lisp_begin(&l, cells, marks, CELLS);
    while (*program && !l.failure)
        found = lisp_eval(&l, lisp_read(&l, &program), NIL);
    return found;
}

static void test_expressions_have_their_values(void)
{
    CHECK(evaluate("(- (+ 40 5) 3)") == number_of(42));
    CHECK(evaluate("(- 3 5)") == number_of(-2));
    CHECK(evaluate("(if (< 1 2) 7 8)") == number_of(7) && evaluate("(if (< 2 2) 7 8)") == number_of(8));
    CHECK(evaluate("(first (rest (quote (1 2 3))))") == number_of(2));
    CHECK(evaluate("(= (quote a) (quote a))") == symbol_of(TRUE) && evaluate("(nil? (cons 1 nil))") == NIL);
    /* A function keeps the variables that it was made with. */
    CHECK(evaluate("(define add (lambda (n) (lambda (m) (+ n m))))(define n 100)((add 2) 3)") == number_of(5));
}

static void test_cells_that_are_used_are_kept(void)
{
    /* Takes more cells than there are, while a list that was made before lives on. */
    static const char program[] =
        "(define range (lambda (from to) (if (< from to) (cons from (range (+ from 1) to)) nil)))"
        "(define total (lambda (list) (if (nil? list) 0 (+ (first list) (total (rest list))))))"
        "(define old (range 0 50))"
        "(define repeat (lambda (times sum) (if (= times 0) sum (repeat (- times 1) (+ sum (total (range 0 20)))))))"
        "(+ (repeat 100 0) (total old))";
    CHECK(evaluate(program) == number_of(100 * 190 + 1225));
    CHECK(!l.failure && l.collections > 2 && l.taken > 3 * CELLS && l.depth == 0);
}

static void test_wrong_programs_fail(void)
{
    static const char *const wrong[][2] = {
        {"(+ 1 b)", "a name has no value"},
        {"(1 2)", "this is no function"},
        {"(cons 1", "a parenthesis is missing"},
        {"(define 1 2)", "what is defined has a name"},
        {"(define abcdefghijklmnop 2)", "a name is too long"},
        {"(define f (lambda (n) (+ 1 (f n)))) (f 1)", "the program calls too deep"},
        {"(define f (lambda (list) (f (cons 1 list)))) (f nil)", "all cells are in use"},
    };
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK(evaluate(wrong[i][0]) == NIL);
        CHECK(l.failure && strcmp(l.failure, wrong[i][1]) == 0);
    }
}

int main(void)
{
    test_what_was_compressed_comes_back();
    test_nonsense_is_refused();
    test_codes_have_at_most_15_bits();
    test_applications_check_themselves();
    test_too_little_memory_is_refused();
    test_expressions_have_their_values();
    test_cells_that_are_used_are_kept();
    test_wrong_programs_fail();
    puts("real: ok");
    return 0;
}
