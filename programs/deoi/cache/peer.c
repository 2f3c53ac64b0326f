#define _DEFAULT_SOURCE
#include "peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "../../program.h"

enum { READ_BYTES = 16 << 10, RETRY_NS = 50000, MILLISECOND = 1000000, SECOND = 1000000000 };

uint64_t peer_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

bool peer_failed(const cache_settings *set, const char *what)
{
    program_failed(CACHE_NAME, "the server at %s:%" PRIu64 ": %s", set->host, set->port, what);
    return false;
}

/* Why a call failed: one that was cut short has waited for the server. */
static const char *reason(int error)
{
    return error == EAGAIN || error == EINPROGRESS ? PEER_IS_SILENT : strerror(error);
}

static bool limit_waits(int fd, uint64_t ms)
{
    const struct timeval time = {.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
    return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0 &&
           setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time) == 0;
}

/* One try; errno says why it is in vain. */
static bool try_to_connect(cache_peer *p, const struct sockaddr_in *server)
{
    int one = 1;
    p->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (p->fd < 0)
        return false;
    if (limit_waits(p->fd, p->set->answer_ms) &&
        connect(p->fd, (const struct sockaddr *)server, sizeof *server) == 0)
        return setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0;
    int why = errno;
    close(p->fd);
    errno = why;
    return false;
}

bool peer_connect(cache_peer *p, const cache_settings *set)
{
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((uint16_t)set->port)};
    *p = (cache_peer){.set = set};
    if (inet_pton(AF_INET, set->host, &server.sin_addr) != 1) {
        program_failed(CACHE_NAME, "--host: expected an IPv4 address, found '%s'", set->host);
        return false;
    }
    const struct timespec pause = {.tv_nsec = RETRY_NS};
    uint64_t end_ns = peer_now_ns() + set->wait_ms * MILLISECOND;
    while (!try_to_connect(p, &server)) {
        if (errno != ECONNREFUSED || peer_now_ns() >= end_ns)
            return peer_failed(set, reason(errno));
        nanosleep(&pause, NULL);
    }
    return true;
}

bool peer_send(cache_peer *p)
{
    while (p->out.begin < p->out.end) {
        ssize_t sent = send(p->fd, p->out.at + p->out.begin, p->out.end - p->out.begin, MSG_NOSIGNAL);
        if (sent < 0)
            return peer_failed(p->set, reason(errno));
        p->out.begin += (size_t)sent;
    }
    return true;
}

bool peer_receive(cache_peer *p)
{
    if (!bytes_room(&p->in, READ_BYTES))
        return peer_failed(p->set, "no memory for its answer");
    ssize_t got = read(p->fd, p->in.at + p->in.end, p->in.room - p->in.end);
    if (got <= 0)
        return peer_failed(p->set, got == 0 ? "it has closed the connection" : reason(errno));
    p->in.end += (size_t)got;
    return true;
}

bool peer_take(cache_peer *p, resp_answer *a, bool *is_whole)
{
    char text[100];
    resp_state state = resp_take_answer(&p->in, a);
    *is_whole = state == RESP_WHOLE;
    if (state == RESP_WRONG)
        return peer_failed(p->set, "its answer is not of Redis' protocol");
    if (state == RESP_PARTIAL || a->kind != '-')
        return true;
    resp_printable(&a->text, text, sizeof text);
    return peer_failed(p->set, text);
}

bool peer_wait(cache_peer *p, resp_answer *a)
{
    bool is_whole;
    for (;;) {
        if (!peer_take(p, a, &is_whole))
            return false;
        if (is_whole)
            return true;
        if (!peer_receive(p))
            return false;
    }
}
