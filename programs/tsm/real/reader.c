/* From text to lists. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "lisp.h"

static const char *const language[SYMBOLS_OF_THE_LANGUAGE] = {
    "quote", "if", "define", "lambda", "t", "+", "-", "<", "=", "cons", "first", "rest", "nil?",
};

static void begin_symbols(lisp *l)
{
    for (; l->symbols < SYMBOLS_OF_THE_LANGUAGE; l->symbols++) {
        strcpy(l->names[l->symbols], language[l->symbols]);
        /* A primitive is the value of its own name, and so is truth. */
        l->globals[l->symbols] = symbol_of(l->symbols);
        l->is_bound[l->symbols] = true;
    }
}

static value find_symbol(lisp *l, const char *name, size_t letters)
{
    if (letters > MOST_LETTERS_OF_SYMBOL)
        return lisp_fail(l, "a name is too long");
    for (unsigned i = 0; i < l->symbols; i++)
        if (strncmp(l->names[i], name, letters) == 0 && l->names[i][letters] == 0)
            return symbol_of(i);
    if (l->symbols == MOST_SYMBOLS)
        return lisp_fail(l, "there are too many names");
    memcpy(l->names[l->symbols], name, letters);
    return symbol_of(l->symbols++);
}

static void skip_spaces(const char **text)
{
    while (isspace((unsigned char)**text))
        ++*text;
}

/* The rest of a list, to its parenthesis. */
static value read_list(lisp *l, const char **text)
{
    skip_spaces(text);
    if (**text == 0)
        return lisp_fail(l, "a parenthesis is missing");
    if (**text == ')') {
        ++*text;
        return NIL;
    }
    value first = lisp_read(l, text);
    lisp_protect(l, first);
    value rest = l->failure ? NIL : read_list(l, text);
    value list = lisp_cons(l, first, rest);
    if (!l->failure)
        l->depth--;
    return list;
}

value lisp_read(lisp *l, const char **text)
{
    begin_symbols(l);
    skip_spaces(text);
    if (**text == '(') {
        ++*text;
        return read_list(l, text);
    }
    size_t letters = strcspn(*text, " \n()");
    const char *name = *text;
    *text += letters;
    if (isdigit((unsigned char)*name))
        return number_of(strtol(name, NULL, 10));
    if (letters == 0)
        return lisp_fail(l, "an expression is missing");
    return letters == 3 && strncmp(name, "nil", letters) == 0 ? NIL : find_symbol(l, name, letters);
}
