/* A small Lisp: cells in memory that it is given, a collector that marks and sweeps, and an evaluator. */
#ifndef TSM_LISP_H
#define TSM_LISP_H

#include <stdbool.h>
#include <stdint.h>

/* Nil, a number, a symbol, or the address of a cell; the two lowest bits tell. */
typedef uint64_t value;
enum { NIL = 0, NUMBER = 1, SYMBOL = 2, KIND = 3 };

typedef struct cell {
    value first, rest;
} cell;

/* Symbols with a meaning of their own come first. */
enum {
    QUOTE, IF, DEFINE, LAMBDA, TRUE,
    PLUS, MINUS, LESS, EQUAL, CONS, FIRST, REST, IS_NIL,
    SYMBOLS_OF_THE_LANGUAGE,
    MOST_SYMBOLS = 64
};

enum { MOST_LETTERS_OF_SYMBOL = 15, MOST_PROTECTED = 4096 };

typedef struct lisp {
    cell *cells;
    uint8_t *marks; /* of each cell */
    uint64_t count;
    value free;                      /* cells without a use, linked by their rest */
    uint64_t taken, collections;     /* so far */
    value protected[MOST_PROTECTED]; /* what the evaluator has in hand */
    unsigned depth;
    char names[MOST_SYMBOLS][MOST_LETTERS_OF_SYMBOL + 1];
    value globals[MOST_SYMBOLS];
    bool is_bound[MOST_SYMBOLS];
    unsigned symbols;
    const char *failure; /* the first one */
} lisp;

/* ---- Cells ---------------------------------------------------------------------------------- */

static inline bool is_cell(value v)
{
    return v != NIL && (v & KIND) == 0;
}

static inline value number_of(int64_t number)
{
    return (uint64_t)number << 2 | NUMBER;
}

static inline int64_t to_number(value v)
{
    return (int64_t)v >> 2;
}

static inline value symbol_of(unsigned symbol)
{
    return (value)symbol << 2 | SYMBOL;
}

static inline unsigned to_symbol(value v)
{
    return (unsigned)(v >> 2);
}

/* Of what is no cell: nil. */
static inline value first_of(value v)
{
    return is_cell(v) ? ((const cell *)(uintptr_t)v)->first : NIL;
}

static inline value rest_of(value v)
{
    return is_cell(v) ? ((const cell *)(uintptr_t)v)->rest : NIL;
}

/* Puts all cells on the list of free ones, in the order of addresses. */
void lisp_begin(lisp *l, cell *cells, uint8_t *marks, uint64_t count);

/* A new cell. If none is free, those that nothing leads to are collected: not from globals, nor from what is
 * protected, nor from `first` and `rest`. */
value lisp_cons(lisp *l, value first, value rest);

void lisp_protect(lisp *l, value v);

/* Returns nil, and keeps the text if it is the first. */
value lisp_fail(lisp *l, const char *failure);

/* ---- Programs ------------------------------------------------------------------------------- */

/* Reads one expression and moves `*text` behind it; the cells of expressions that were read before and not yet
 * evaluated are protected by the caller. */
value lisp_read(lisp *l, const char **text);

/* The value of an expression with local variables: a list of pairs of symbol and value. */
value lisp_eval(lisp *l, value expression, value locals);

#endif
