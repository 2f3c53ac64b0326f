// A library with what has to work across libraries: constructors, exceptions, variables of threads; and a crash.
#include <cstdio>
#include <stdexcept>
#include <string>

static thread_local int calls;

struct Announced {
    Announced() { std::puts("loaded"); }
    ~Announced() { std::puts("unloaded"); }
} announced;

struct TooMuch : std::runtime_error {
    using std::runtime_error::runtime_error;
};

extern "C" int twice(int x)
{
    if (x > 3)
        throw TooMuch("too much: " + std::to_string(x));
    return 2 * x + 100 * calls++;
}

extern "C" void follow(volatile int *where) { *where = 1; }
