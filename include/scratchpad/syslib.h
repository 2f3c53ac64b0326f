/*
 * syslib: threads on cores, time, locks and barriers (CINI §5.1).
 *
 *   lock      made of                                     barrier   made of
 *   sys_mrq_  a multiple-reader queue with one token      sys_counter_  counters that notify
 *   sys_mcs_  coherent memory: MCS queue                  sys_tree_     coherent memory: MCS tree
 *   sys_box_  the prototype's lock box                    sys_mutex_    a lock of the lock box
 *
 * MCS: J. Mellor-Crummey, M. Scott: "Algorithms for Scalable Synchronization on Shared-Memory
 * Multiprocessors", 1991. The holder of a lock sees all writes before its last release, and a
 * thread that leaves a barrier sees all writes before the others came.
 *
 * Handles are passed by value, so that a critical path has them in registers. Functions of a
 * critical path are calls, and call those of nilib, where SCR_CALLS is defined.
 */
#ifndef SCRATCHPAD_SYSLIB_H
#define SCRATCHPAD_SYSLIB_H

#include <pthread.h>
#include <sched.h>

#include "nilib.h"

/* Cycles of the clock that all cores of a chip have in common. */
SCR_INLINE uint64_t sys_cycles(void)
{
#ifdef __riscv
    uint64_t cycles;
    __asm__ volatile("rdcycle %0" : "=r"(cycles) : : "memory");
    return cycles;
#else
    return 0;
#endif
}

/* ---- Threads ----------------------------------------------------------------------------- */

/* Most threads of a team. */
enum { SYS_MOST_MEMBERS = 128 };

/* Threads that work together: see below. */
typedef struct sys_team sys_team;

/* A thread, on a core of its own. */
typedef struct sys_member {
    sys_team *team;
    unsigned number;
    scr_pad pad;
    pthread_t thread;
} sys_member;

/* What each thread of a team runs. */
typedef void (*sys_work)(sys_member *self, void *argument);

/* A team's state, each hot word in a line of its own. */
struct sys_team {
    __attribute__((aligned(SCR_LINE_BYTES))) unsigned arrived;
    __attribute__((aligned(SCR_LINE_BYTES))) unsigned meetings;
    __attribute__((aligned(SCR_LINE_BYTES))) unsigned members;
    int error; /* of the first who could not open its scratchpad */
    sys_work work;
    void *argument;
    unsigned core[SYS_MOST_MEMBERS]; /* where each one is */
    sys_member member[SYS_MOST_MEMBERS];
};

/* Returns when all members have called it. For set-up: it takes misses of every core. */
static inline void sys_meet(sys_team *team)
{
    unsigned meeting = __atomic_load_n(&team->meetings, __ATOMIC_RELAXED);
    if (__atomic_add_fetch(&team->arrived, 1, __ATOMIC_ACQ_REL) == team->members) {
        __atomic_store_n(&team->arrived, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&team->meetings, meeting + 1, __ATOMIC_RELEASE);
    } else {
        while (__atomic_load_n(&team->meetings, __ATOMIC_ACQUIRE) == meeting)
            ;
    }
    scr_fence(); /* of scratchpads as well */
}

/* Main function of all members: opens the scratchpad, and works if every member has one. */
static inline void *sys_member_main_(void *argument)
{
    sys_member *self = (sys_member *)argument;
    sys_team *team = self->team;
    int error = scr_open(&self->pad);
    if (error != 0)
        __atomic_store_n(&team->error, error, __ATOMIC_RELAXED);
    team->core[self->number] = self->pad.core;
    sys_meet(team);
    if (__atomic_load_n(&team->error, __ATOMIC_RELAXED) == 0)
        team->work(self, team->argument);
    return NULL;
}

/*
 * Calls work(member, argument) on so many cores, the calling thread being number 0, and returns
 * when all have. Scratchpads are those of the threads' cores. Otherwise a negative errno, and no
 * member has worked: those of scr_open(), or -EAGAIN (-11), there are not so many cores. The team
 * is the caller's, in static memory as a rule.
 */
static inline int sys_team_run(sys_team *team, unsigned members, sys_work work, void *argument)
{
    scr_pad pad;
    int error = scr_open(&pad);
    if (error != 0)
        return error;
    if (members > pad.cores || members > SYS_MOST_MEMBERS)
        return -11; /* EAGAIN */
    team->arrived = team->meetings = 0;
    team->members = members;
    team->error = 0;
    team->work = work;
    team->argument = argument;
    for (unsigned i = 0; i < members; i++) {
        team->member[i].team = team;
        team->member[i].number = i;
    }
    for (unsigned i = 1; i < members; i++) {
        error = pthread_create(&team->member[i].thread, NULL, sys_member_main_, &team->member[i]);
        if (error != 0)
            return -error; /* those before wait for ever, but the process is about to end */
    }
    sys_member_main_(&team->member[0]);
    for (unsigned i = 1; i < members; i++)
        pthread_join(team->member[i].thread, NULL);
    return team->error;
}

/* A member's scratchpad at the place of one's own. */
SCR_INLINE void *sys_at(const sys_team *team, unsigned member, const volatile void *address)
{
    return scr_remote(address, team->core[member]);
}

/* ---- Locks ------------------------------------------------------------------------------- */

/* A lock whose queue is in this core's scratchpad, for so many cores that want it at once. NULL if
 * there is no room. */
static inline scr_word *sys_mrq_lock_make(scr_pad *pad, unsigned cores)
{
    scr_word *lock = scr_alloc_mr_queue(pad, cores, 1);
    if (lock)
        ni_mr_put(lock, 1);
    return lock;
}

/* Reads the queue: the answer is the token, when it is this core's turn. */
SCR_FUNCTION void sys_mrq_lock(scr_word *lock)
{
    (void)ni_mr_get(lock);
}

/* The same with a request that is answered in this core's scratchpad, at `token`, where the core
 * polls for it; it could do something else instead. */
SCR_FUNCTION void sys_mrq_lock_request(scr_word *lock, scr_word *command, scr_word *token)
{
    ni_mr_request(command, token, lock, SCR_WORD_BYTES, NULL);
    (void)ni_wait(token);
}

/* Gives the token back: it goes to the oldest request. */
SCR_FUNCTION void sys_mrq_unlock(scr_word *lock)
{
    ni_signal(lock, 1);
}

/* A waiting thread's place in the queue of a lock. */
typedef struct sys_mcs_node {
    __attribute__((aligned(SCR_LINE_BYTES))) struct sys_mcs_node *next;
    unsigned has_to_wait;
} sys_mcs_node;

/* All zero: free. */
typedef struct sys_mcs_lock {
    __attribute__((aligned(SCR_LINE_BYTES))) sys_mcs_node *tail;
} sys_mcs_lock;

/* Takes the lock; `self` stays in use until it is released. */
SCR_FUNCTION void sys_mcs_acquire(sys_mcs_lock *lock, sys_mcs_node *self)
{
    __atomic_store_n(&self->next, (sys_mcs_node *)NULL, __ATOMIC_RELAXED);
    sys_mcs_node *before = __atomic_exchange_n(&lock->tail, self, __ATOMIC_ACQ_REL);
    if (before) {
        __atomic_store_n(&self->has_to_wait, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&before->next, self, __ATOMIC_RELEASE);
        while (__atomic_load_n(&self->has_to_wait, __ATOMIC_ACQUIRE))
            ;
    }
}

/* Hands the lock to the next in the queue, or frees it. */
SCR_FUNCTION void sys_mcs_release(sys_mcs_lock *lock, sys_mcs_node *self)
{
    sys_mcs_node *next = __atomic_load_n(&self->next, __ATOMIC_ACQUIRE);
    if (!next) {
        sys_mcs_node *last = self;
        if (__atomic_compare_exchange_n(&lock->tail, &last, (sys_mcs_node *)NULL, 0,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            return;
        while (!(next = __atomic_load_n(&self->next, __ATOMIC_ACQUIRE)))
            ;
    }
    __atomic_store_n(&next->has_to_wait, 0, __ATOMIC_RELEASE);
}

/* Hardware locks on a bus of their own (CINI §4): a load takes one, and waits in the box while
 * another core has it; a store frees it. */
#define SYS_LOCK_BOX UINT64_C(0x5000000000)

/* The lock of the box with this number. */
SCR_INLINE scr_word *sys_box_lock_of(unsigned number)
{
    return (scr_word *)(uintptr_t)(SYS_LOCK_BOX + number * SCR_WORD_BYTES);
}

/* Takes a lock of the box; the core waits for the answer. */
SCR_FUNCTION void sys_box_lock(scr_word *lock)
{
    uint64_t answer = *lock;
    __asm__ volatile("" : : "r"(answer)); /* a load of nothing into no register waits for nothing */
    scr_acquire();
}

/* Frees a lock of the box, after the stores before it. */
SCR_FUNCTION void sys_box_unlock(scr_word *lock)
{
    scr_release();
    *lock = 0;
}

/* ---- Barrier of counters ----------------------------------------------------------------- */

/*
 * Members add 1 to a counter and wait for a flag in their own scratchpad. Up to four members share
 * one counter that sets all flags. Otherwise counters form a tree: each notifies its parent when
 * all of its children have come, and from the root on, counters that wait for one arrival notify up
 * to four others, the last of them flags (CINI §5.3).
 *
 * Counters begin again by themselves. A member clears its flag as it leaves: it cannot be set again
 * before that member has come again.
 */
typedef struct sys_counter_barrier {
    scr_word *counter;
    scr_word *flag;
} sys_counter_barrier;

/* Layout of the lines of such a barrier in every member's scratchpad: the flag, counters that
 * arrivals climb, one for each level, and counters of the way back. Places count from the member
 * that is the root. */
typedef struct sys_counter_tree_ {
    const sys_team *team;
    scr_word *lines;
    unsigned root;
    unsigned fan_in;
    unsigned up, down; /* levels */
} sys_counter_tree_;

/* Groups of so many at a level above so many. */
SCR_INLINE unsigned sys_groups_(unsigned things, unsigned group)
{
    return (things + group - 1) / group;
}

/* A line of the member at a place. */
static inline scr_word *sys_tree_line_(const sys_counter_tree_ *t, unsigned place, unsigned line)
{
    unsigned member = (place + t->root) % t->team->members;
    return (scr_word *)sys_at(t->team, member, t->lines + line * SCR_LINE_WORDS);
}

/* Targets of a counter on the way back: the same line of up to four members, every `step` from
 * `place`. */
static inline void sys_tree_targets_(const sys_counter_tree_ *t, unsigned place, unsigned line,
                                     unsigned step, scr_word *targets[SCR_COUNTER_TARGETS])
{
    for (unsigned i = 0; i < SCR_COUNTER_TARGETS; i++) {
        unsigned target = place + i * step;
        targets[i] = target < t->team->members ? sys_tree_line_(t, target, line) : NULL;
    }
}

/* A counter is at the first of the members below it: sets up those of the member at `place`. */
static inline void sys_tree_configure_(const sys_counter_tree_ *t, unsigned place)
{
    scr_word *targets[SCR_COUNTER_TARGETS];
    unsigned members = t->team->members, below = members, span = t->fan_in;
    /* Lines are numbered: 0 the flag, 1 .. up, up + 1 .. up + down. */
    for (unsigned level = 1; level <= t->up && place % (span / t->fan_in) == 0; level++) {
        unsigned child = span / t->fan_in;
        if (place % span == 0) {
            unsigned first = place / child;
            unsigned children = below - first < t->fan_in ? below - first : t->fan_in;
            targets[0] = targets[1] = targets[2] = targets[3] = NULL;
            if (level < t->up) {
                unsigned parent = place / (span * t->fan_in) * (span * t->fan_in);
                targets[0] = sys_tree_line_(t, parent, level + 1);
            } else {
                unsigned step = 1u << (2 * t->down);
                sys_tree_targets_(t, 0, t->down ? t->up + t->down : 0, step, targets);
            }
            scr_mark_counter(sys_tree_line_(t, place, level), -(int64_t)children, 1, targets);
        }
        below = sys_groups_(below, t->fan_in);
        span *= t->fan_in;
    }
    for (unsigned level = 1, step = 1; level <= t->down; level++, step *= SCR_COUNTER_TARGETS) {
        if (place % (step * SCR_COUNTER_TARGETS) != 0)
            break;
        sys_tree_targets_(t, place, level == 1 ? 0 : t->up + level - 1, step, targets);
        scr_mark_counter(sys_tree_line_(t, place, t->up + level), -1, 1, targets);
    }
}

/* Every member calls it at the same point of its allocations, and sys_meet() before the first use.
 * `root` is the member whose scratchpad has the last counter, `fan_in` (2 or more) the number of
 * arrivals that one counts. -ENOMEM (-12). */
static inline int sys_counter_barrier_make(sys_counter_barrier *barrier, sys_member *self,
                                           unsigned root, unsigned fan_in)
{
    const sys_team *team = self->team;
    sys_counter_tree_ t = {team, NULL, root, fan_in, 1, 0};
    for (unsigned groups = sys_groups_(team->members, fan_in); groups > 1;
         groups = sys_groups_(groups, fan_in))
        t.up++;
    for (unsigned groups = team->members; groups > SCR_COUNTER_TARGETS;
         groups = sys_groups_(groups, SCR_COUNTER_TARGETS))
        t.down++;
    t.lines = (scr_word *)scr_alloc(&self->pad, (1 + t.up + t.down) * SCR_LINE_BYTES,
                                    SCR_LINE_BYTES);
    if (!t.lines)
        return -12;
    unsigned place = (self->number + team->members - root) % team->members;
    sys_tree_configure_(&t, place);
    barrier->counter = sys_tree_line_(&t, place / fan_in * fan_in, 1);
    barrier->flag = t.lines;
    return 0;
}

/* Returns when all members of the team have called it. */
SCR_FUNCTION void sys_counter_barrier_wait(sys_counter_barrier barrier)
{
    ni_signal(barrier.counter, 1);
    (void)ni_wait(barrier.flag);
}

/* ---- Barrier of a mutex ------------------------------------------------------------------ */

/* The prototype's barrier, which has no counters: a number in one member's scratchpad that the lock
 * box guards, and flags that the last one to arrive sets. */
typedef struct sys_mutex_barrier {
    const sys_team *team;
    scr_word *lock;
    scr_word *arrived;
    scr_word *flag;
    unsigned self;
} sys_mutex_barrier;

/* As sys_counter_barrier_make(); `root` has the number of arrivals. */
static inline int sys_mutex_barrier_make(sys_mutex_barrier *barrier, sys_member *self,
                                         unsigned root, unsigned lock)
{
    scr_word *lines = (scr_word *)scr_alloc(&self->pad, 2 * SCR_LINE_BYTES, SCR_LINE_BYTES);
    if (!lines)
        return -12;
    barrier->team = self->team;
    barrier->lock = sys_box_lock_of(lock);
    barrier->arrived = (scr_word *)sys_at(self->team, root, lines);
    barrier->flag = lines + SCR_LINE_WORDS;
    barrier->self = self->number;
    return 0;
}

/* Returns when all members of the team have called it. */
SCR_FUNCTION void sys_mutex_barrier_wait(sys_mutex_barrier barrier)
{
    unsigned members = barrier.team->members;
    scr_release();
    sys_box_lock(barrier.lock);
    uint64_t arrived = *barrier.arrived + 1;
    *barrier.arrived = arrived == members ? 0 : arrived;
    /* A remote store is on its way until a load from there has come back. */
    scr_fence();
    (void)*barrier.arrived;
    sys_box_unlock(barrier.lock);
    if (arrived != members) {
        (void)ni_wait(barrier.flag);
        return;
    }
    for (unsigned i = 0; i < members; i++)
        if (i != barrier.self)
            *(scr_word *)sys_at(barrier.team, i, barrier.flag) = 1;
    ni_push();
    scr_acquire();
}

/* ---- Barrier of coherent memory ---------------------------------------------------------- */

/* A thread's node (Mellor-Crummey & Scott 1991, Algorithm 11): arrivals climb a tree in which up to
 * four children each clear a byte of their parent's, wake-ups go down a binary one. Each writer has
 * lines of its own. */
typedef struct sys_tree_node {
    __attribute__((aligned(SCR_LINE_BYTES))) uint8_t child_missing[4]; /* children */
    __attribute__((aligned(SCR_LINE_BYTES))) unsigned woken; /* the parent: latest episode */
    __attribute__((aligned(SCR_LINE_BYTES))) unsigned episode; /* this thread */
    uint8_t has_child[4];
    uint8_t *at_parent; /* this one's byte there */
    struct sys_tree_node *child[2];
} sys_tree_node;

/* Children of a node in the tree of arrivals, and in that of wake-ups. */
enum { SYS_TREE_ARRIVALS = 4, SYS_TREE_WAKE_UPS = 2 };

/* Sets up the node of a thread in an array that has one for each. */
static inline void sys_tree_barrier_make(sys_tree_node *nodes, unsigned self, unsigned threads)
{
    sys_tree_node *node = &nodes[self];
    for (unsigned i = 0; i < SYS_TREE_ARRIVALS; i++) {
        node->has_child[i] = SYS_TREE_ARRIVALS * self + i + 1 < threads;
        node->child_missing[i] = node->has_child[i];
    }
    node->at_parent = NULL;
    if (self > 0) {
        unsigned rank = self - 1;
        node->at_parent =
            &nodes[rank / SYS_TREE_ARRIVALS].child_missing[rank % SYS_TREE_ARRIVALS];
    }
    for (unsigned i = 0; i < SYS_TREE_WAKE_UPS; i++) {
        unsigned child = SYS_TREE_WAKE_UPS * self + i + 1;
        node->child[i] = child < threads ? &nodes[child] : NULL;
    }
    node->woken = node->episode = 0;
}

/* Four bytes at once. */
SCR_INLINE uint32_t sys_four_bytes_(const uint8_t bytes[4])
{
    typedef uint32_t __attribute__((may_alias)) word;
    return __atomic_load_n((const word *)(const void *)bytes, __ATOMIC_ACQUIRE);
}

/* Returns when all threads of the tree have called it. */
SCR_FUNCTION void sys_tree_barrier_wait(sys_tree_node *self)
{
    typedef uint32_t __attribute__((may_alias)) word;
    unsigned episode = self->episode + 1;
    self->episode = episode;
    while (sys_four_bytes_(self->child_missing) != 0)
        ;
    *(word *)(void *)self->child_missing = *(const word *)(const void *)self->has_child;
    if (self->at_parent) {
        __atomic_store_n(self->at_parent, 0, __ATOMIC_RELEASE);
        while (__atomic_load_n(&self->woken, __ATOMIC_ACQUIRE) != episode)
            ;
    }
    for (unsigned i = 0; i < SYS_TREE_WAKE_UPS; i++)
        if (self->child[i])
            __atomic_store_n(&self->child[i]->woken, episode, __ATOMIC_RELEASE);
}

#endif
