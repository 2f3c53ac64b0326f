/* sync_bench, of a program that is linked with the libraries: functions of syslib call those of nilib. */
#define SCR_CALLS
#include "sync_bench.h"

sums time_called(kind what, const primitive *p, uint64_t episodes)
{
    return time_of(what, p, episodes);
}
