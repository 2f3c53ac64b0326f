/* Locks and barriers of syslib. */
#include "scr_test.h"

typedef struct lock_state {
    uint64_t counter; /* which only whoever has the lock adds to */
    sys_mcs_lock mcs;
    sys_mcs_node node[SYS_MOST_MEMBERS];
} lock_state;

static void test_locks(chip *c)
{
    enum { TURNS = 25, KINDS = 4 };
    static lock_state state;
    scr_word *mrq = word_at(c, 0, c->mr_queue), *box = sys_box_lock_of(0);
    sys_mcs_node *node = &state.node[c->number];
    if (c->number == 0) {
        state.counter = 0;
        ni_mr_put(mrq, 1);
    }
    meet(c);
    for (int i = 0; i < TURNS * KINDS; i++) {
        switch (i % KINDS) {
        case 0:
            sys_mrq_lock(mrq);
            break;
        case 1:
            sys_mrq_lock_request(mrq, c->command[0], c->flag[0]);
            break;
        default:
            sys_mcs_acquire(&state.mcs, node);
            break;
        }
        /* Different locks do not exclude each other, so those of a turn are the same. */
        uint64_t counter = __atomic_load_n(&state.counter, __ATOMIC_RELAXED);
        __atomic_store_n(&state.counter, counter + 1, __ATOMIC_RELAXED);
        if (i % KINDS < 2)
            sys_mrq_unlock(mrq);
        else
            sys_mcs_release(&state.mcs, node);
        if (i % 2 == 1)
            meet(c);
    }
    meet(c);
    CHECK(state.counter == (uint64_t)TURNS * KINDS * c->members);
    if (c->number == 0)
        (void)ni_mr_get(mrq);
    meet(c);
    for (int i = 0; i < TURNS; i++) {
        sys_box_lock(box);
        uint64_t counter = __atomic_load_n(&state.counter, __ATOMIC_RELAXED);
        __atomic_store_n(&state.counter, counter + 1, __ATOMIC_RELAXED);
        sys_box_unlock(box);
    }
    meet(c);
    CHECK(state.counter == (uint64_t)TURNS * (KINDS + 1) * c->members);
}

typedef struct barriers {
    sys_counter_barrier small, tree, moved;
    sys_mutex_barrier mutex;
    sys_tree_node *nodes;
} barriers;

static void wait_at(const chip *c, const barriers *b, int which)
{
    switch (which) {
    case 0:
        sys_counter_barrier_wait(b->small);
        break;
    case 1:
        sys_counter_barrier_wait(b->tree);
        break;
    case 2:
        sys_counter_barrier_wait(b->moved);
        break;
    case 3:
        sys_mutex_barrier_wait(b->mutex);
        break;
    default:
        sys_tree_barrier_wait(&b->nodes[c->number]);
        break;
    }
}

/* After each barrier all have come as far, and nobody further than the next one. */
static void test_barriers(chip *c)
{
    enum { EPISODES = 10, KINDS = 5 };
    static uint64_t come[SYS_MOST_MEMBERS];
    static sys_tree_node nodes[SYS_MOST_MEMBERS];
    barriers b = {.nodes = nodes};
    sys_member *self = c->self;
    CHECK(sys_counter_barrier_make(&b.small, self, 0, SYS_MOST_MEMBERS) == 0);
    CHECK(sys_counter_barrier_make(&b.tree, self, 0, 2) == 0);
    CHECK(sys_counter_barrier_make(&b.moved, self, c->members - 1, 3) == 0);
    CHECK(sys_mutex_barrier_make(&b.mutex, self, c->members / 2, 1) == 0);
    sys_tree_barrier_make(nodes, c->number, c->members);
    __atomic_store_n(&come[c->number], 0, __ATOMIC_RELAXED);
    meet(c);
    for (uint64_t episode = 1; episode <= EPISODES * KINDS; episode++) {
        __atomic_store_n(&come[c->number], episode, __ATOMIC_RELAXED);
        wait_at(c, &b, (int)(episode % KINDS));
        for (unsigned m = 0; m < c->members; m++) {
            uint64_t its = __atomic_load_n(&come[m], __ATOMIC_RELAXED);
            CHECK(its == episode || its == episode + 1);
        }
    }
    meet(c);
}

const test scr_syslib[] = {
    {"locks", test_locks},
    {"barriers", test_barriers},
    {NULL, NULL},
};
