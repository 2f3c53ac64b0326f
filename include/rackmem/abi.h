/* Layouts and codes that software and remote memory controller share (soNUMA §4.1). */
#ifndef RACKMEM_ABI_H
#define RACKMEM_ABI_H

#include <stddef.h>
#include <stdint.h>

/* A check at compile time, under its name in C or in C++. */
#ifdef __cplusplus
#define RACKMEM_STATIC_ASSERT(condition, text) static_assert(condition, text)
extern "C" {
#else
#define RACKMEM_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif

/* Version of these headers. A library of another minor version refuses programs that were compiled
 * with them. */
#define RACKMEM_VERSION_MAJOR 0
#define RACKMEM_VERSION_MINOR 2
#define RACKMEM_VERSION_PATCH 0
#define RACKMEM_VERSION \
    (RACKMEM_VERSION_MAJOR << 16 | RACKMEM_VERSION_MINOR << 8 | RACKMEM_VERSION_PATCH)

/* Unit of transfer and of atomicity, in bytes. */
#define RACKMEM_LINE_BYTES 64
/* Most entries of a work queue; slots are 0 .. MAX_WQ_SIZE - 1. */
#define MAX_WQ_SIZE 128
/* Most nodes of a rack. */
#define RACKMEM_MAX_NODES 4096
/* Longest transfer of one work queue entry, in bytes. */
#define RACKMEM_MAX_LENGTH ((1u << 24) - 1)
/* Largest offset in a segment, and largest address of a local buffer. */
#define RACKMEM_MAX_OFFSET ((UINT64_C(1) << 40) - 1)
#define RACKMEM_MAX_ADDRESS ((UINT64_C(1) << 48) - 1)
/* Sizes of queue entries, in bytes. */
#define RACKMEM_WQ_ENTRY_BYTES 16
#define RACKMEM_CQ_ENTRY_BYTES 4

/* Operations of a work queue entry. */
enum rackmem_op {
    RACKMEM_OP_NOP = 0,
    RACKMEM_OP_READ = 1,
    RACKMEM_OP_WRITE = 2,
    RACKMEM_OP_FETCH_ADD = 3,    /* local buffer {addend -> old} */
    RACKMEM_OP_COMPARE_SWAP = 4, /* local buffer {expected, desired -> old} */
    RACKMEM_OP_NOTIFY = 5
};

/* Outcome of an operation. */
enum rackmem_status {
    RACKMEM_OK = 0,
    RACKMEM_OUT_OF_SEGMENT = 1,
    RACKMEM_NO_CONTEXT = 2,
    RACKMEM_NO_PERMISSION = 3,
    RACKMEM_NO_NODE = 4,
    RACKMEM_NODE_LOST = 5,
    RACKMEM_BAD_LOCAL_BUFFER = 6,
    RACKMEM_MISALIGNED_ATOMIC = 7,
    RACKMEM_BAD_OPERATION = 8,
    RACKMEM_STATUS_COUNT = 9
};

/* No status: what engine->start returns for an operation whose completion will be on the CQ. */
#define RACKMEM_POSTED 255u

/* The negative errno (Linux numbers, so that no libc is needed) of a status. */
static inline int rackmem_status_errno(uint32_t status)
{
    static const int errno_of[RACKMEM_STATUS_COUNT] = {
        0,    /* ok */
        -34,  /* ERANGE: out of segment */
        -2,   /* ENOENT: no such context at the node */
        -13,  /* EACCES: no permission */
        -6,   /* ENXIO: no such node */
        -112, /* EHOSTDOWN: node lost */
        -14,  /* EFAULT: bad local buffer */
        -22,  /* EINVAL: misaligned atomic */
        -95   /* EOPNOTSUPP: bad operation */
    };
    return status < RACKMEM_STATUS_COUNT ? errno_of[status] : -95;
}

/*
 * Work queue entry, two words:
 *   word 0: phase 1 bit | op 3 | dst_nid 12 | offset 40 | length 23..16
 *   word 1: address of the local buffer 48 | length 15..0
 * Word 1 is stored first, word 0 last with release order.
 */
typedef struct rackmem_wq_entry {
    uint64_t word[2];
} rackmem_wq_entry;

/* Completion queue entry: slot 16 bits | status 8 | zero 7 | phase 1. */
typedef uint32_t rackmem_cq_entry;

/* The word of a work queue entry that publishes it. No field may be wider than its bits. */
static inline uint64_t rackmem_wq_word0(uint64_t phase, uint64_t op, uint64_t dst_nid,
                                        uint64_t offset, uint64_t length)
{
    return phase | op << 1 | dst_nid << 4 | offset << 16 | (length >> 16) << 56;
}

/* The other word: address of the local buffer, and the low 16 bits of the length. */
static inline uint64_t rackmem_wq_word1(uint64_t address, uint64_t length)
{
    return address | (length & 0xffff) << 48;
}

/* Slot of the operation that completed. */
static inline uint32_t rackmem_cq_slot(rackmem_cq_entry entry)
{
    return entry & 0xffff;
}

/* Its enum rackmem_status. */
static inline uint32_t rackmem_cq_status(rackmem_cq_entry entry)
{
    return entry >> 16 & 0xff;
}

/* Flips each time the queue wraps around, so that software sees which entries are new. */
static inline uint32_t rackmem_cq_phase(rackmem_cq_entry entry)
{
    return entry >> 31;
}

/* One end of a queue pair: see below. */
typedef struct rackmem_qp rackmem_qp;

/*
 * The functions by which operations progress without hardware. They stay NULL where the remote
 * memory controller is a device of the machine. An engine has both of execute and start, or
 * neither: without them, software posts entries to the WQ itself.
 */
typedef struct rackmem_engine {
    /* Performs an operation for the calling thread, which leaves the queues alone; returns its
     * status. It may block, and put completions of other operations on the CQ meanwhile. */
    uint32_t (*execute)(rackmem_qp *qp, uint32_t op, uint32_t nid, uint64_t offset,
                        uint64_t buffer, uint64_t length);
    /* Completes posted entries in the calling thread, without waiting. */
    void (*progress)(rackmem_qp *qp);
    /* Wakes a sleeping controller. */
    void (*wake)(rackmem_qp *qp);
    /* Blocks until a completion may have come, or the controller has died. */
    void (*sleep)(rackmem_qp *qp);
    /* Starts the operation of the next slot. Returns its status, or RACKMEM_POSTED: then the slot
     * is busy until its completion comes on the CQ. */
    uint32_t (*start)(rackmem_qp *qp, uint32_t op, uint32_t nid, uint64_t offset, uint64_t buffer,
                      uint64_t length);
    /* Not 0: start returns RACKMEM_POSTED for every operation; 0: for none. Each completion on the
     * CQ has its position, so none may pass the CQ by. */
    uint32_t posts;
} rackmem_engine;

/* The controller of the model's programs is a device, which makes all checks. Elsewhere access.h
 * performs short operations on mapped segments without a call. */
#ifdef __riscv
#define RACKMEM_HAS_WINDOWS 0
#else
#define RACKMEM_HAS_WINDOWS 1
#endif

/* A segment in shared memory: its head, the line locks, the data. */
#define RACKMEM_SEGMENT_LOCKS 4096
#define RACKMEM_SEGMENT_DATA 20480
/* Bytes of data under one line lock, and number of locks, which blocks share. */
#define RACKMEM_BLOCK_BYTES 4096
#define RACKMEM_LOCK_COUNT 1024
/* rackmem_segment_head.state while operations are served. */
#define RACKMEM_SEGMENT_LIVE 1

/* The first bytes of a segment. */
typedef struct rackmem_segment_head {
    uint32_t state;
    uint32_t owner_nid;
    uint64_t size_bytes;
    uint32_t sleepers;            /* not zero: they wait to be woken after a write */
} rackmem_segment_head;

/* A lock is held unless `done` is the ticket in `taken`. */
typedef struct rackmem_line_lock {
    uint64_t taken;               /* ticket of the last hold 40 bits | its owner 24 */
    uint64_t done;                /* ticket of the hold that was released last */
} rackmem_line_lock;

/* Fields of rackmem_line_lock.taken. */
#define RACKMEM_TICKET_SHIFT 24
#define RACKMEM_OWNER_MASK ((UINT64_C(1) << RACKMEM_TICKET_SHIFT) - 1)
/* Memory below this address is never a buffer. */
#define RACKMEM_LOWEST_ADDRESS 4096

/* A node's segment, if it is mapped into this process. */
typedef struct rackmem_window {
    unsigned char *segment;
    uint64_t readable_bytes;      /* of the data; 0: not mapped */
    uint64_t writable_bytes;      /* 0 without the right to write */
} rackmem_window;

/* State of a slot, in rackmem_qp.slot_state. */
enum { RACKMEM_SLOT_FREE = 0, RACKMEM_SLOT_BUSY = 1, RACKMEM_SLOT_DONE = 2 };

/*
 * One end of a queue pair, used by one thread at a time. Programs read `size` and set
 * `callback_arg`; the rest belongs to access.h.
 */
struct rackmem_qp {
    rackmem_wq_entry *wq;         /* `size` entries */
    rackmem_cq_entry *cq;         /* `size` entries */
    uint64_t *operands;           /* two words per slot, usable as local buffer */
    const uint32_t *rmc_asleep;   /* not zero: the controller waits for engine->wake */
    const rackmem_engine *engine;
    void *engine_state;
    void *callback_arg;           /* second argument of callbacks */
    uint32_t size;                /* a power of two */
    uint32_t posted;              /* entries ever posted; the next slot is posted % size */
    uint32_t reaped;              /* completions ever consumed */
    uint32_t done;                /* slots in RACKMEM_SLOT_DONE */
    int32_t first_error;          /* since the last rmc_drain_cq */
    uint32_t spin_limit;          /* polls before sleeping */
    uint8_t slot_state[MAX_WQ_SIZE];
    uint8_t slot_status[MAX_WQ_SIZE];
#if RACKMEM_HAS_WINDOWS
    const rackmem_window *windows; /* by node */
    const uint32_t *own_state;    /* of the own segment; operations fail unless it is live */
    uint64_t *counters;           /* operations, and bytes, done by the calling thread */
    /* Wakes the sleepers of a mapped segment. */
    void (*rouse)(rackmem_qp *qp, uint32_t nid);
    uint32_t window_count;        /* 0: all operations go through the engine or the WQ */
    uint32_t owner;               /* of the line locks that this process holds */
    void *connection;             /* for send and receive; NULL without one */
#endif
};

/* Its name in Scale-Out NUMA (§5.2). */
typedef rackmem_qp QP;

RACKMEM_STATIC_ASSERT(sizeof(rackmem_wq_entry) == RACKMEM_WQ_ENTRY_BYTES, "two words");
RACKMEM_STATIC_ASSERT(sizeof(rackmem_cq_entry) == RACKMEM_CQ_ENTRY_BYTES, "one word");
RACKMEM_STATIC_ASSERT(RACKMEM_LINE_BYTES % sizeof(rackmem_wq_entry) == 0,
                      "no entry straddles two lines");
RACKMEM_STATIC_ASSERT(sizeof(void *) != 8 || offsetof(rackmem_qp, slot_state) == 80,
                      "layout of librackmem");

#ifdef __cplusplus
}
#endif
#endif
