/*
 * Calls of programs on the model to the device driver of their node's remote memory controller:
 * `ecall` with one of the numbers below in a7 and arguments from a0 on. The result is in a0: 0 or
 * more, or a negative errno of Linux. Pointers are addresses of the process; structures have the
 * layout of C. librackmem (rackmem.c) makes these calls, and the model answers them; programs use
 * neither, but rackmem/runtime.h.
 *
 * A node of the model's rack runs one process. It finds RACKMEM_NODE and RACKMEM_NODES in its
 * environment, as `rackmem run` sets them: programs size their segments by them before the first
 * of these calls. Other variables that `rackmem run` sets may be there and mean the same.
 *
 * All memory of a process is pinned: any of it may be a local buffer. Operations on the node itself
 * are operations like any other. A process that ends leaves
 * its contexts and queue pairs, as if it had closed them. Its peers' operations on it then
 * complete with RACKMEM_NO_CONTEXT or RACKMEM_NODE_LOST, but those who poll their memory do not
 * notice: so the failure of one process has to end the run, as with `rackmem run`.
 */
#ifndef RACKMEM_DRIVER_H
#define RACKMEM_DRIVER_H

#include <stdint.h>

enum rackmem_driver_number {
    /*
     * () -> nodes of the rack << 16 | this node
     *
     * -ENOSYS: there is no such device; the program is alone. (What any system without it says.)
     */
    RACKMEM_DRIVER_RACK = 0x52414300, /* "RAC" */

    /*
     * (ctx_id, segment_bytes, flags, rackmem_driver_segment *out) -> 0
     *
     * Joins a context: maps a segment of zeroed whole pages, for reading only if flags say so,
     * and enters it in the controller's context table.
     *
     * -EINVAL no such context or flag, or no bytes, -EEXIST the process has joined it already,
     * -ENOMEM, -EFAULT.
     */
    RACKMEM_DRIVER_OPEN = 0x52414301,

    /*
     * (ctx_id) -> 0
     *
     * Leaves a context: destroys its queue pairs and unmaps the segment. -ENOENT it has not joined.
     */
    RACKMEM_DRIVER_CLOSE = 0x52414302,

    /*
     * (ctx_id, entries, flags, rackmem_driver_qp *out) -> 0
     *
     * Makes a queue pair of `entries` (a power of two from 2 to MAX_WQ_SIZE) and maps its queues:
     * `entries` of rackmem/abi.h each, zeroed, each queue on pages of its own. The controller
     * polls the work queue from then on; the phase of both queues begins with 1.
     *
     * -EINVAL entries or flags, -ENOENT the context has not been joined, -ENOSPC the controller
     * has no room for more, -ENOMEM, -EFAULT.
     */
    RACKMEM_DRIVER_QP_CREATE = 0x52414303,

    /*
     * (handle) -> 0
     *
     * Operations posted and not completed are given up: they may still take place. -ENOENT.
     */
    RACKMEM_DRIVER_QP_DESTROY = 0x52414304,

    /*
     * (ctx_id, nid) -> 1 the node has joined the context (and may have left it since), 0 not yet
     *
     * -ENXIO no such node, -EPIPE its process has ended, whether or not it had ever joined.
     */
    RACKMEM_DRIVER_JOINED = 0x52414305,

    /*
     * (ctx_id) -> how many notifications have arrived at this node in this context so far
     *
     * -ENOENT it has not been joined.
     */
    RACKMEM_DRIVER_NOTIFIED = 0x52414306,

    /*
     * (address, value, timeout_ns) -> 0
     *
     * Sleeps until the 8 bytes at `address` differ from `value`, whoever writes them: threads of
     * the process or remote operations. UINT64_MAX: no timeout.
     *
     * -ETIMEDOUT, -EINVAL the address is no multiple of 8, -EFAULT.
     */
    RACKMEM_DRIVER_WAIT = 0x52414307
};

/* Flag of OPEN and QP_CREATE: for remote reads only; other operations of the queue pair complete
 * with RACKMEM_NO_PERMISSION. */
enum { RACKMEM_DRIVER_READ_ONLY = 1 };

/* A segment, as OPEN has mapped it. */
typedef struct rackmem_driver_segment {
    uint64_t address;
    uint64_t bytes; /* those asked for, rounded up to pages */
} rackmem_driver_segment;

/* A queue pair, as QP_CREATE has mapped it. */
typedef struct rackmem_driver_qp {
    uint64_t wq; /* address of rackmem_wq_entry[entries] */
    uint64_t cq; /* address of rackmem_cq_entry[entries] */
    uint64_t handle;
} rackmem_driver_qp;

#ifdef __riscv
static inline int64_t rackmem_driver_call(enum rackmem_driver_number number, uint64_t first,
                                          uint64_t second, uint64_t third, uint64_t fourth)
{
    register uint64_t a0 __asm__("a0") = first;
    register uint64_t a1 __asm__("a1") = second;
    register uint64_t a2 __asm__("a2") = third;
    register uint64_t a3 __asm__("a3") = fourth;
    register uint64_t a7 __asm__("a7") = number;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a3), "r"(a7) : "memory");
    return (int64_t)a0;
}
#else
/* Elsewhere, tests play the driver. */
int64_t rackmem_driver_call(enum rackmem_driver_number number, uint64_t first, uint64_t second,
                            uint64_t third, uint64_t fourth);
#endif

#endif
