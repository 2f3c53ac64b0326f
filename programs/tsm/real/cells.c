/* Cells, and the collector of those that are not used any more. */
#include <string.h>

#include "lisp.h"

void lisp_begin(lisp *l, cell *cells, uint8_t *marks, uint64_t count)
{
    memset(l, 0, sizeof *l);
    *l = (lisp){.cells = cells, .marks = marks, .count = count};
    memset(marks, 0, count);
    for (uint64_t i = 0; i < count; i++)
        cells[i] = (cell){NIL, i + 1 < count ? (value)(uintptr_t)&cells[i + 1] : NIL};
    l->free = (value)(uintptr_t)cells;
}

value lisp_fail(lisp *l, const char *failure)
{
    if (!l->failure)
        l->failure = failure;
    return NIL;
}

void lisp_protect(lisp *l, value v)
{
    if (l->depth < MOST_PROTECTED)
        l->protected[l->depth++] = v;
    else
        lisp_fail(l, "the program calls too deep");
}

/* Marks what a value leads to; lists may be of any length. */
static void mark(lisp *l, value v)
{
    for (; is_cell(v); v = rest_of(v)) {
        uint8_t *is_marked = &l->marks[(const cell *)(uintptr_t)v - l->cells];
        if (*is_marked)
            return;
        *is_marked = 1;
        mark(l, first_of(v));
    }
}

/* From the last cell to the first, so that the free ones are in the order of addresses. */
static void sweep(lisp *l)
{
    l->free = NIL;
    for (uint64_t i = l->count; i-- > 0;) {
        if (!l->marks[i]) {
            l->cells[i] = (cell){NIL, l->free};
            l->free = (value)(uintptr_t)&l->cells[i];
        }
        l->marks[i] = 0;
    }
}

static void collect(lisp *l)
{
    l->collections++;
    for (unsigned i = 0; i < l->depth; i++)
        mark(l, l->protected[i]);
    for (unsigned i = 0; i < l->symbols; i++)
        mark(l, l->globals[i]);
    sweep(l);
}

value lisp_cons(lisp *l, value first, value rest)
{
    if (l->free == NIL) {
        lisp_protect(l, first);
        lisp_protect(l, rest);
        if (l->failure)
            return NIL;
        collect(l);
        l->depth -= 2;
    }
    if (l->free == NIL)
        return lisp_fail(l, "all cells are in use");
    value made = l->free;
    l->free = rest_of(made);
    l->taken++;
    *(cell *)(uintptr_t)made = (cell){first, rest};
    return made;
}
