#include "chip.h"

#include <inttypes.h>
#include <string.h>

#include "../program.h"

static const char *const names[] = {[MECHANISM_DMA] = "dma", [MECHANISM_STORES] = "stores"};

int mechanism_parse(const command_line *line, const char *text, mechanism *chosen)
{
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(text, names[i]) == 0) {
            *chosen = (mechanism)i;
            return OPTIONS_GO_ON;
        }
    char message[120];
    snprintf(message, sizeof message, "--mechanism: expected dma or stores, found '%.60s'", text);
    return options_usage(line, message);
}

const char *mechanism_name(mechanism m)
{
    return names[m];
}

static int no_scratchpad(const char *program)
{
    return program_failed(program, "the caches of this machine have no network interface: rackmem "
                                   "sim exec cache-integrated -- %s.rv64", program);
}

int chip_run(const char *program, unsigned cores, sys_work work, void *argument)
{
    static sys_team team;
    enum { EAGAIN_OF_LINUX = 11, ENODEV_OF_LINUX = 19, ENOSYS_OF_LINUX = 38 };
    int error = sys_team_run(&team, cores, work, argument);
    switch (-error) {
    case 0:
        return PROGRAM_OK;
    case ENODEV_OF_LINUX:
    case ENOSYS_OF_LINUX:
        return no_scratchpad(program);
    case EAGAIN_OF_LINUX:
        return program_failed(program, "this chip does not have %u cores", cores);
    default:
        return program_failed(program, "cannot start a thread: %s", strerror(-error));
    }
}

const scr_pad *chip_pad(const char *program)
{
    static scr_pad pad;
    if (scr_open(&pad) == 0)
        return &pad;
    no_scratchpad(program);
    return NULL;
}

sys_counter_barrier chip_barrier(sys_member *self)
{
    enum { FAN_IN = 4 }; /* and 128 members: a flag, 4 levels of arrivals, 3 of the way back */
    sys_counter_barrier barrier = {NULL, NULL};
    (void)sys_counter_barrier_make(&barrier, self, 0, FAN_IN);
    sys_meet(self->team);
    return barrier;
}

double chip_timer_cycles(void)
{
    enum { WARM_UP = 8, LOOKS = 64 };
    uint64_t sum = 0;
    for (int i = -WARM_UP; i < LOOKS; i++) {
        uint64_t begin = sys_cycles();
        uint64_t end = sys_cycles();
        sum += i < 0 ? 0 : end - begin;
    }
    return (double)sum / (double)LOOKS;
}

bool is_power_of_two(uint64_t number)
{
    return number != 0 && (number & (number - 1)) == 0;
}

unsigned log2_of(uint64_t power_of_two)
{
    return (unsigned)__builtin_ctzll(power_of_two);
}

void breakdown_add(breakdown *sum, const round_times *times, unsigned members)
{
    uint64_t begin = times[0].begin, end = times[0].end;
    uint64_t communication = 0, busy = 0;
    for (unsigned i = 0; i < members; i++) {
        begin = times[i].begin < begin ? times[i].begin : begin;
        end = times[i].end > end ? times[i].end : end;
        communication += times[i].communication;
        busy += times[i].end - times[i].begin;
    }
    sum->total += (double)(end - begin);
    sum->communication += (double)communication / members;
    sum->computation += (double)(busy - communication) / members;
}

void breakdown_print(const breakdown *sum, const char *program, uint64_t n, uint64_t cores,
                     mechanism how, uint64_t rounds, bool json)
{
    double count = (double)rounds;
    double total = sum->total / count, computation = sum->computation / count;
    double communication = sum->communication / count;
    if (json)
        printf("{\"program\":\"%s\",\"n\":%" PRIu64 ",\"cores\":%" PRIu64 ",\"mechanism\":\"%s\""
               ",\"rounds\":%" PRIu64 ",\"total_cycles\":%.2f,\"computation_cycles\":%.2f"
               ",\"communication_cycles\":%.2f}\n",
               program, n, cores, mechanism_name(how), rounds, total, computation, communication);
    else
        printf("n %" PRIu64 ", %" PRIu64 " cores, %s: total %.1f cycles, of each core's "
               "computation %.1f and communication %.1f\n",
               n, cores, mechanism_name(how), total, computation, communication);
}
