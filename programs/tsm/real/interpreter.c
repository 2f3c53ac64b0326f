/* An application: a Lisp program that places queens on a board, again and again until its cells have been collected. */
#include "lisp.h"
#include "real.h"

/* A board is a list of columns, one for each row so far. */
static const char program[] =
    "(define range (lambda (from to) (if (< from to) (cons from (range (+ from 1) to)) nil)))\n"
    "(define keep (lambda (is-kept list)\n"
    "  (if (nil? list) nil\n"
    "    (if (is-kept (first list)) (cons (first list) (keep is-kept (rest list))) (keep is-kept (rest list))))))\n"
    "(define sum (lambda (of list) (if (nil? list) 0 (+ (of (first list)) (sum of (rest list))))))\n"
    "(define is-safe (lambda (column away board)\n"
    "  (if (nil? board) t\n"
    "    (if (= column (first board)) nil\n"
    "      (if (= column (+ (first board) away)) nil\n"
    "        (if (= column (- (first board) away)) nil (is-safe column (+ away 1) (rest board))))))))\n"
    "(define place (lambda (rows columns board)\n"
    "  (if (= rows 0) 1\n"
    "    (sum (lambda (column) (place (- rows 1) columns (cons column board)))\n"
    "         (keep (lambda (column) (is-safe column 1 board)) columns)))))\n"
    "(define queens (lambda (size) (place size (range 0 size) nil)))\n";
static const char expression[] = "(queens 5)";
enum { SOLUTIONS = 10 };

static struct {
    lisp lisp;
    value expression;
    uint64_t solutions, rounds;
} i;

static uint64_t cells_in(uint64_t bytes)
{
    return bytes / sizeof(cell);
}

static uint64_t memory(uint64_t bytes)
{
    return bytes + cells_in(bytes) + 2 * ARENA_LINE;
}

/* Reads and carries out the definitions; what they are is kept by the names. */
static bool prepare(arena *a, uint64_t bytes)
{
    cell *cells = arena_take(a, bytes);
    uint8_t *marks = arena_take(a, cells_in(bytes));
    if (!marks)
        return false;
    lisp_begin(&i.lisp, cells, marks, cells_in(bytes));
    i.solutions = i.rounds = 0;
    for (const char *text = program; *text && !i.lisp.failure; text++)
        lisp_eval(&i.lisp, lisp_read(&i.lisp, &text), NIL);
    const char *text = expression;
    i.expression = lisp_read(&i.lisp, &text);
    lisp_protect(&i.lisp, i.expression);
    return true;
}

/* So often that each cell is taken once and half of them twice. */
static void work(void)
{
    while (!i.lisp.failure && i.lisp.taken < i.lisp.count + i.lisp.count / 2) {
        i.solutions += (uint64_t)to_number(lisp_eval(&i.lisp, i.expression, NIL));
        i.rounds++;
    }
}

static bool is_right(result *found)
{
    uint64_t figures[] = {i.lisp.taken, i.lisp.collections, i.rounds};
    found->number = i.solutions;
    found->check = hash_bytes(HASH_BEGIN, figures, sizeof figures);
    return !i.lisp.failure && i.lisp.collections > 0 && i.solutions == SOLUTIONS * i.rounds;
}

const application interpreter = {"lisp", memory, prepare, work, is_right};
