/* The evaluator. What it has in hand while others are evaluated is protected from the collector. */
#include "lisp.h"

/* Places of an evaluation among what is protected, from where it begins. */
enum { EXPRESSION, LOCALS, FUNCTION, BOUND };

static value second_of(value v)
{
    return first_of(rest_of(v));
}

static value third_of(value v)
{
    return second_of(rest_of(v));
}

static value look_up(lisp *l, value name, value locals)
{
    for (; is_cell(locals); locals = rest_of(locals))
        if (first_of(first_of(locals)) == name)
            return rest_of(first_of(locals));
    unsigned symbol = to_symbol(name);
    return l->is_bound[symbol] ? l->globals[symbol] : lisp_fail(l, "a name has no value");
}

static value truth(bool is_so)
{
    return is_so ? symbol_of(TRUE) : NIL;
}

static value call_primitive(lisp *l, unsigned primitive, value a, value b)
{
    switch (primitive) {
    case PLUS:
        return number_of(to_number(a) + to_number(b));
    case MINUS:
        return number_of(to_number(a) - to_number(b));
    case LESS:
        return truth(to_number(a) < to_number(b));
    case EQUAL:
        return truth(a == b);
    case CONS:
        return lisp_cons(l, a, b);
    case FIRST:
        return first_of(a);
    case REST:
        return rest_of(a);
    case IS_NIL:
        return truth(a == NIL);
    default:
        return lisp_fail(l, "this is no function");
    }
}

/* A primitive has one argument or two. */
static value apply_primitive(lisp *l, value function, value arguments, value locals)
{
    value a = lisp_eval(l, first_of(arguments), locals), b = NIL;
    if (is_cell(rest_of(arguments))) {
        lisp_protect(l, a);
        b = lisp_eval(l, second_of(arguments), locals);
        if (!l->failure)
            l->depth--;
    }
    return call_primitive(l, to_symbol(function), a, b);
}

/* The locals of a function that is called: its parameters before what it was made with. A function is the symbol
 * `lambda`, a list of parameters and body, and locals. */
static void bind(lisp *l, unsigned base)
{
    value names = first_of(first_of(rest_of(l->protected[base + FUNCTION])));
    value arguments = rest_of(l->protected[base + EXPRESSION]);
    l->protected[base + BOUND] = rest_of(rest_of(l->protected[base + FUNCTION]));
    for (; is_cell(names); names = rest_of(names), arguments = rest_of(arguments)) {
        value argument = lisp_eval(l, first_of(arguments), l->protected[base + LOCALS]);
        value pair = lisp_cons(l, first_of(names), argument);
        l->protected[base + BOUND] = lisp_cons(l, pair, l->protected[base + BOUND]);
    }
}

static value define(lisp *l, value expression, value locals)
{
    value name = second_of(expression);
    if ((name & KIND) != SYMBOL)
        return lisp_fail(l, "what is defined has a name");
    value defined = lisp_eval(l, third_of(expression), locals);
    l->globals[to_symbol(name)] = defined;
    l->is_bound[to_symbol(name)] = true;
    return name;
}

/* A step of the expression at `base`. True: `*result` is its value. False: another expression has taken its place. */
static bool step(lisp *l, unsigned base, value *result)
{
    value expression = l->protected[base + EXPRESSION], locals = l->protected[base + LOCALS];
    if (!is_cell(expression)) {
        *result = (expression & KIND) == SYMBOL ? look_up(l, expression, locals) : expression;
        return true;
    }
    value head = first_of(expression);
    if (head == symbol_of(QUOTE)) {
        *result = second_of(expression);
    } else if (head == symbol_of(DEFINE)) {
        *result = define(l, expression, locals);
    } else if (head == symbol_of(LAMBDA)) {
        *result = lisp_cons(l, head, lisp_cons(l, rest_of(expression), locals));
    } else if (head == symbol_of(IF)) {
        bool is_so = lisp_eval(l, second_of(expression), locals) != NIL;
        l->protected[base + EXPRESSION] = is_so ? third_of(expression) : third_of(rest_of(expression));
        return false;
    } else {
        value function = lisp_eval(l, head, locals);
        l->protected[base + FUNCTION] = function;
        if (first_of(function) == symbol_of(LAMBDA)) {
            bind(l, base);
            l->protected[base + EXPRESSION] = second_of(first_of(rest_of(function)));
            l->protected[base + LOCALS] = l->protected[base + BOUND];
            return false;
        }
        *result = apply_primitive(l, function, rest_of(expression), locals);
    }
    return true;
}

value lisp_eval(lisp *l, value expression, value locals)
{
    unsigned base = l->depth;
    value result = NIL;
    lisp_protect(l, expression);
    lisp_protect(l, locals);
    lisp_protect(l, NIL);
    lisp_protect(l, NIL);
    while (!l->failure && !step(l, base, &result))
        ;
    if (!l->failure)
        l->depth = base;
    return l->failure ? NIL : result;
}
