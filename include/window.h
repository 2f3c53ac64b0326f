/*
 * Borrowed memory on the model (TSM §2.1): memory of another node at addresses of this one.
 * Machines with ni.placement = "window" or "bridge" have it; programs are executed there by
 * `rackmem sim exec`.
 *
 * Each node lends the end of its memory (window.lent_bytes), in pieces of which each has one
 * borrower. A borrower asks while it runs: the operating systems exchange messages, and the call
 * returns when the memory is there. What was borrowed stays so to the end of the run. With
 * window.heap node n has all that node n + 1 lends before programs begin, the last node that of
 * the first. Programs use borrowed memory by loads and stores. Caches of borrower and lender are
 * not kept coherent: data in the borrower's caches may differ from the lender's memory. So system
 * calls other than these functions refuse its addresses (EFAULT), unless the operating system has
 * borrowed it for itself (window.heap, window.plug_bytes): then it has no other user.
 *
 * Functions return 0 or more, or a negative errno of Linux; -38 (ENOSYS): there is no such device.
 */
#ifndef RACKMEM_WINDOW_H
#define RACKMEM_WINDOW_H

#include <stdint.h>

/* Numbers of the system calls behind these functions. */
enum {
    WINDOW_CALL_BORROW = 0x52414320,
    WINDOW_CALL_LENT = 0x52414321,
    WINDOW_CALL_ENGINE = 0x52414322,
    WINDOW_CALL_COPY = 0x52414323,
    WINDOW_CALL_CARD = 0x52414324,
    WINDOW_CALL_PAIR = 0x52414325,
    WINDOW_CALL_ASK = 0x52414326,
    WINDOW_CALL_RDMA = 0x52414327,
    WINDOW_CALL_WAIT = 0x52414307
};

/* As a lender: whichever other node has enough; the next one is asked first. */
#define WINDOW_ANY UINT32_MAX

/* Memory of another node, or for one. */
typedef struct window_memory {
    uint64_t address;
    uint64_t bytes;
    uint64_t node; /* whose it is */
} window_memory;

/* The DMA engine. */
typedef struct window_engine {
    uint64_t done;        /* address of a word: descriptors that have been carried out so far */
    uint64_t descriptors; /* for which its ring has room */
} window_engine;

/* A network interface card of another node (DEOI, section III): card.h is a driver for it. */
typedef struct window_card {
    uint64_t registers;    /* their address: accesses are uncached, and cross the link */
    uint64_t memory;       /* for rings and buffers: address of this process, */
    uint64_t memory_bytes; /* its length, */
    uint64_t seen_at;      /* and address for the card */
    uint64_t interrupts;   /* address of two words: interrupts of each line so far */
    uint64_t node;         /* whose it is */
} window_card;

/* A connection by queue pairs in hardware (TSM, section 4.2): pair.h is a library for it. */
typedef struct window_pair {
    uint64_t registers;   /* address of its page of registers */
    uint64_t sends;       /* addresses of its rings */
    uint64_t receives;
    uint64_t completions; /* twice as many entries as the others */
    uint64_t entries;
    uint64_t number; /* of the connection at this node */
} window_pair;

static inline int64_t window_call_(uint64_t number, uint64_t first, uint64_t second, uint64_t third,
                                   uint64_t fourth)
{
#ifdef __riscv
    register uint64_t a0 __asm__("a0") = first;
    register uint64_t a1 __asm__("a1") = second;
    register uint64_t a2 __asm__("a2") = third;
    register uint64_t a3 __asm__("a3") = fourth;
    register uint64_t a7 __asm__("a7") = number;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a3), "r"(a7) : "memory");
    return (int64_t)a0;
#else
    (void)number, (void)first, (void)second, (void)third, (void)fourth;
    return -38;
#endif
}

/*
 * Borrows so many bytes of a node, rounded up to pages, and maps them (DEOI, section III).
 * -12 (ENOMEM): nobody that was asked has as much left, or this node's window has not; so always
 * with window.heap. -28 (ENOSPC): no slot is left in the address mapping table. -6 (ENXIO): there
 * is no such other node. -14 (EFAULT), -22 (EINVAL).
 */
static inline int64_t window_ask(uint64_t bytes, uint32_t lender, window_memory *out)
{
    return window_call_(WINDOW_CALL_ASK, bytes, lender, (uint64_t)(uintptr_t)out, 0);
}

/*
 * Borrows all that node n + 1 lends, and maps it; the same again if it is asked once more, when the
 * first call has returned. -12 (ENOMEM): others have a part of it, or this node has borrowed
 * something else. -28 (ENOSPC), -14 (EFAULT). -22 (EINVAL): it is the heap (window.heap).
 */
static inline int64_t window_borrow(window_memory *out)
{
    return window_call_(WINDOW_CALL_BORROW, (uint64_t)(uintptr_t)out, 0, 0, 0);
}

/* Maps the memory that the node lends; `node` is not set. -16 (EBUSY): an operating system has
 * borrowed a part of it for itself. After this call none does. */
static inline int64_t window_lent(window_memory *out)
{
    return window_call_(WINDOW_CALL_LENT, (uint64_t)(uintptr_t)out, 0, 0, 0);
}

/* Gives the DMA engine a ring of descriptors. -19 (ENODEV): the machine has no engine. */
static inline int64_t window_open_engine(window_engine *out)
{
    return window_call_(WINDOW_CALL_ENGINE, (uint64_t)(uintptr_t)out, 0, 0, 0);
}

/*
 * Posts a copy: a descriptor for each block, and for each further piece of one where physical pages
 * do not follow each other. All four are multiples of 64. Returns the number of descriptors posted
 * so far: the copy is complete when the engine has done as many. Copies do not wait for each other:
 * post one that reads the result of another when that is complete. Nor does the engine see a core's
 * stores to borrowed memory while they are in caches only.
 *
 * -11 (EAGAIN): the ring has no room for all of it. -22 (EINVAL), -14 (EFAULT).
 */
static inline int64_t window_copy(void *to, const void *from, uint64_t bytes, uint64_t block_bytes)
{
    return window_call_(WINDOW_CALL_COPY, (uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes,
                        block_bytes);
}

/*
 * Copies so many bytes between borrowed memory and the node's own, of which either may be the
 * source, by the RDMA channel (TSM, section 4.2). Returns 0 when all of them are there; other
 * threads go on meanwhile. All three are multiples of 64. A copy from borrowed memory sees what
 * this node has stored there, and after one to borrowed memory this node reads what was copied. No
 * thread may unmap a buffer meanwhile. Copies are made one after the other.
 *
 * -22 (EINVAL): no bytes, no multiple of 64, or not exactly one of both is borrowed memory.
 * -14 (EFAULT): a buffer is not mapped, ends outside of memory or may not be read, the target may
 * not be written, or the borrowed memory is not in one piece.
 * -5 (EIO): the lender is lost. -19 (ENODEV): the machine has no such channel.
 */
static inline int64_t window_rdma(void *to, const void *from, uint64_t bytes)
{
    return window_call_(WINDOW_CALL_RDMA, (uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes,
                        0);
}

/*
 * Borrows the card of node n + 1: maps its registers, memory of so many bytes that it reaches, and
 * words that count its interrupts. -19 (ENODEV): the machine has no such cards. -16 (EBUSY): it is
 * borrowed already. -12 (ENOMEM), -14 (EFAULT), -22 (EINVAL).
 */
static inline int64_t window_open_card(uint64_t bytes, window_card *out)
{
    return window_call_(WINDOW_CALL_CARD, bytes, (uint64_t)(uintptr_t)out, 0, 0);
}

/*
 * Opens a connection with number `peer` of a node, for buffers in so many bytes of memory that is
 * mapped and may be written. -19 (ENODEV): the machine has no channel for them. -28 (ENOSPC): no
 * connection is left. -95 (EOPNOTSUPP): the channel does not reach borrowed memory. -12 (ENOMEM),
 * -14 (EFAULT), -22 (EINVAL).
 */
static inline int64_t window_open_pair(uint32_t node, uint32_t peer, const void *memory,
                                       uint64_t bytes, window_pair *out)
{
    return window_call_(WINDOW_CALL_PAIR, (uint64_t)node << 16 | peer, (uint64_t)(uintptr_t)memory,
                        bytes, (uint64_t)(uintptr_t)out);
}

/* Orders accesses to memory and to registers: before a device is told of something, and after it
 * has told. */
static inline void window_fence(void)
{
#ifdef __riscv
    __asm__ volatile("fence iorw, iorw" ::: "memory");
#endif
}

/* Sleeps until the word at an address differs from `value`: an interrupt has been counted.
 * -110 (ETIMEDOUT): it has not within `timeout_ns`. */
static inline int64_t window_wait_for(uint64_t address, uint64_t value, uint64_t timeout_ns)
{
    return window_call_(WINDOW_CALL_WAIT, address, value, timeout_ns, 0);
}

/* The same, however long it takes. */
static inline int64_t window_wait(uint64_t address, uint64_t value)
{
    return window_wait_for(address, value, UINT64_MAX);
}

/* Number of descriptors that the engine has carried out so far. */
static inline uint64_t window_done(const window_engine *engine)
{
    return __atomic_load_n((const uint64_t *)(uintptr_t)engine->done, __ATOMIC_ACQUIRE);
}

#endif
