#include <errno.h>
#include <stdio.h>

// Prints the outcome of a call: a number, or that of the error.
#define SHOW(call)                                                                                 \
    do {                                                                                           \
        long shown_ = (long)(call);                                                                \
        if (shown_ < 0)                                                                            \
            printf("%s: error %d\n", #call, errno);                                                \
        else                                                                                       \
            printf("%s: %ld\n", #call, shown_);                                                    \
    } while (0)
