/*
 * Counter with notification (CINI §3.3): a line of a node's segment to which any node adds. When it
 * becomes zero, it is loaded anew and sends a word to up to four addresses.
 *
 *     rackmem_notification told = {RACKMEM_NOTIFY_FLAG, {0, flag_offset}};
 *     rackmem_counter_config config = {-3, -3, 1, &told, 1};            // three arrivals
 *     int err = rackmem_counter_open(ctx, offset, &config);             // its node, once
 *     err = rackmem_counter_add(qp, rackmem_at(0, offset), 1);          // any node
 *     err = rackmem_flag_wait(ctx, qp, flag_offset, -1, NULL);          // node 0, once all have
 * come
 *
 * An episode ends when the additions since its beginning bring the counter from its reset value to
 * exactly zero: then it fires, once. Later additions count for the next one.
 *
 * Adding, finding zero and loading anew are one step in the paper's hardware, and two here: a
 * fetch-and-add of the amount, and, by the adder that made it zero, one of the reset value -N. In
 * between the counter shows the additions for the next episode, from zero up instead of from -N.
 * Any number of episodes may end before a reload takes place, so it may show any multiple of N too
 * much. Each adder gets the old value from its fetch-and-add, and so, modulo N, the value that the
 * hardware would have shown: it fires if that and its amount add up to zero. No adder waits for
 * another. An adder that dies before it reloads takes the notifications of its episode with it and
 * nothing else.
 */
#ifndef RACKMEM_COUNTER_H
#define RACKMEM_COUNTER_H

#include "queue.h"
#include "wait.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most addresses that a counter notifies. */
#define RACKMEM_COUNTER_NOTIFICATIONS 4
/* Counters that may notify each other in a row: deeper than any tree over all nodes. */
#define RACKMEM_COUNTER_DEPTH 16

/* The target at a notification's address. */
enum rackmem_notify_kind {
    RACKMEM_NOTIFY_NONE = 0,
    RACKMEM_NOTIFY_FLAG = 1,    /* a word: it is written */
    RACKMEM_NOTIFY_COUNTER = 2, /* another counter: the word is added */
    RACKMEM_NOTIFY_QUEUE = 3    /* a queue of words (queue.h): the word is enqueued */
};

/* Where a counter sends its word when it becomes zero. */
typedef struct rackmem_notification {
    int kind; /* enum rackmem_notify_kind */
    rackmem_address at;
} rackmem_notification;

/* Parameters of rackmem_counter_open. */
typedef struct rackmem_counter_config {
    int64_t value; /* to begin with; Q-05: the reset value is the usual choice */
    int64_t
        reset; /* loaded after zero: 0 or below; 0: nothing is loaded, and adders may subtract */
    uint64_t word; /* what is sent */
    const rackmem_notification *notifications;
    int count; /* of these */
} rackmem_counter_config;

/* The line in memory. Notifications: kind 2 bits at 62, address as in wait.h. */
typedef struct rackmem_counter_line_ {
    int64_t value;
    int64_t reset;
    uint64_t word;
    uint64_t unused;
    uint64_t notifications[RACKMEM_COUNTER_NOTIFICATIONS];
} rackmem_counter_line_;

RACKMEM_STATIC_ASSERT(sizeof(rackmem_counter_line_) == RACKMEM_LINE_BYTES, "one line");

static inline int rackmem_check_notification_(const rackmem_notification *n)
{
    uint64_t unit = n->kind == RACKMEM_NOTIFY_FLAG ? 8 : RACKMEM_LINE_BYTES;
    if (n->kind < RACKMEM_NOTIFY_FLAG || n->kind > RACKMEM_NOTIFY_QUEUE)
        return rackmem_set_last_error(-22, "a notification goes to a flag, a counter or a queue");
    if (!rackmem_is_packable_(n->at) || n->at.offset % unit)
        return rackmem_set_last_error(
            -22, "a notification's address is no node's, or not aligned: flags 8 bytes, others 64");
    return 0;
}

static inline int rackmem_check_counter_(const rackmem_context *ctx, uint64_t offset,
                                         const rackmem_counter_config *config)
{
    if (offset % RACKMEM_LINE_BYTES)
        return rackmem_set_last_error(-22, "a counter's offset is a multiple of 64");
    if (!rackmem_is_in_segment_(ctx, offset, RACKMEM_LINE_BYTES))
        return rackmem_set_last_error(-34, "the counter leaves the segment"); /* ERANGE */
    if (config->count < 0 || config->count > RACKMEM_COUNTER_NOTIFICATIONS)
        return rackmem_set_last_error(-22, "a counter notifies at most 4 addresses");
    if (config->reset > 0)
        return rackmem_set_last_error(-22, "a counter's reset value is not above zero");
    for (int i = 0; i < config->count; i++) {
        int error = rackmem_check_notification_(&config->notifications[i]);
        if (error != 0)
            return error;
    }
    return 0;
}

/*
 * Makes the line at `offset` of this node's segment a counter. No node may add before this returns
 * (a rackmem_barrier after it sees to that), nor while it is made anew.
 *
 * -EINVAL offset, reset value, or a notification, -ERANGE the counter leaves the segment.
 */
static inline int rackmem_counter_open(rackmem_context *ctx, uint64_t offset,
                                       const rackmem_counter_config *config)
{
    int error = rackmem_check_counter_(ctx, offset, config);
    if (error != 0)
        return error;
    uint64_t *line = rackmem_own_word_(ctx, offset);
    for (int i = 0; i < RACKMEM_COUNTER_NOTIFICATIONS; i++) {
        const rackmem_notification *n = i < config->count ? &config->notifications[i] : 0;
        line[4 + i] = n ? (uint64_t)n->kind << 62 | rackmem_pack_(n->at) : 0;
    }
    line[1] = (uint64_t)config->reset;
    line[2] = config->word;
    __atomic_store_n(&line[0], (uint64_t)config->value, __ATOMIC_RELEASE);
    return 0;
}

/* Effect of adding `amount` to a counter that showed `old` on its episode: 1 it ends, 0 it goes on,
 * -1 it has been overshot and never ends. */
static inline int rackmem_counter_verdict_(int64_t old, int64_t amount, int64_t reset)
{
    if (reset == 0)
        return old + amount == 0;
    if (amount <= 0)
        return 0;
    int64_t shown = old < 0 ? old : old % -reset + reset; /* by the paper's hardware */
    return shown + amount == 0 ? 1 : shown + amount > 0 ? -1 : 0;
}

static inline int rackmem_counter_add_(QP *qp, rackmem_address at, int64_t amount, int depth);

static inline int rackmem_counter_notify_(QP *qp, uint64_t notification, uint64_t word, int depth)
{
    rackmem_address at = rackmem_unpack_(notification);
    switch (notification >> 62) {
    case RACKMEM_NOTIFY_FLAG:
        return rackmem_put_word_(qp, at, word);
    case RACKMEM_NOTIFY_COUNTER:
        return rackmem_counter_add_(qp, at, (int64_t)word, depth + 1);
    case RACKMEM_NOTIFY_QUEUE:
        return rackmem_queue_put_word_(qp, at, word);
    default:
        return 0;
    }
}

/* Reloads and notifies after an addition that left the counter at zero or above, if it has to. */
static inline int rackmem_counter_settle_(QP *qp, rackmem_address at, int64_t old, int64_t amount,
                                          int depth)
{
    rackmem_counter_line_ line;
    int first_error = rmc_read(qp, at.nid, at.offset, &line, sizeof line);
    if (first_error != 0)
        return first_error;
    int verdict = rackmem_counter_verdict_(old, amount, line.reset);
    if (verdict < 0)
        return rackmem_set_last_error(
            -75, "more was added to a counter than was missing to zero"); /* EOVERFLOW */
    if (verdict == 0)
        return 0;
    if (line.reset != 0)
        first_error = rmc_fetch_and_add(qp, at.nid, at.offset, (uint64_t)line.reset, 0);
    for (int i = 0; i < RACKMEM_COUNTER_NOTIFICATIONS; i++) { /* all, even if one is lost */
        int error = rackmem_counter_notify_(qp, line.notifications[i], line.word, depth);
        if (first_error == 0)
            first_error = error;
    }
    return first_error;
}

static inline int rackmem_counter_add_(QP *qp, rackmem_address at, int64_t amount, int depth)
{
    uint64_t old;
    if (depth > RACKMEM_COUNTER_DEPTH)
        return rackmem_set_last_error(-40, "counters notify each other in a circle"); /* ELOOP */
    int error = rmc_fetch_and_add(qp, at.nid, at.offset, (uint64_t)amount, &old);
    if (error != 0 || (int64_t)(old + (uint64_t)amount) < 0)
        return error;
    return rackmem_counter_settle_(qp, at, (int64_t)old, amount, depth);
}

/*
 * Adds to a counter; if that ends an episode, loads it anew and sends its notifications, also those
 * that follow from them. Amounts are above zero, unless the counter's reset value is zero: then a
 * waiter may subtract the amount for which it will wait, even if a part has come already.
 *
 * -EOVERFLOW the amount was more than was missing to zero: the episode never ends (CINI: only exact
 * zero fires). -ELOOP counters notify each other in a circle. Else the error of the operation on
 * the counter, or of the first notification that failed; the others have been sent.
 */
static inline int rackmem_counter_add(QP *qp, rackmem_address at, int64_t amount)
{
    return rackmem_counter_add_(qp, at, amount, 0);
}

#ifdef __cplusplus
}
#endif
#endif
