/*
 * Set-up of a program on the rack: contexts, segments, queue pairs, local buffers
 * (the device driver's part in soNUMA §5.1). These functions live in librackmem.
 *
 * After fork() a context belongs to the parent. The child must not call these functions or use
 * queue pairs, not even to close them: it would act in the parent's name. It may exec, join a
 * context of its own after that, or _exit. While it runs on without exec it holds the parent's
 * connection open, so that the death of the parent goes unnoticed.
 */
#ifndef RACKMEM_RUNTIME_H
#define RACKMEM_RUNTIME_H

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A context that this process has joined; rackmem_close ends it. */
typedef struct rackmem_context rackmem_context;

/* Version of the library, to be compared with RACKMEM_VERSION of the headers. */
int rackmem_version(void);

/* The thread or daemon by which the operations of a queue pair progress. */
enum rackmem_progress {
    RACKMEM_PROGRESS_DEFAULT = 0, /* $RACKMEM_PROGRESS, else inline */
    RACKMEM_PROGRESS_INLINE = 1,  /* the calling thread, on mapped segments */
    RACKMEM_PROGRESS_DAEMON = 2,  /* the node's daemon, on mapped segments */
    RACKMEM_PROGRESS_PACKET = 3   /* the daemons of both nodes, by request and reply packets */
};

/* Arguments of rackmem_open; zero means the default of each member. */
typedef struct rackmem_open_args {
    const char *rack;     /* name of the rack; default $RACKMEM_RACK, else "default" */
    int nid;              /* node to be, from 0; -1: $RACKMEM_NODE or the launcher's, else 0 */
    int ctx_id;           /* -1: $RACKMEM_CONTEXT, else 0 */
    int read_only;        /* open the context for remote reads only */
    size_t segment_bytes; /* size of this node's segment; rounded up to pages */
    int progress;         /* enum rackmem_progress */
    int shared;           /* other processes may be this node, too, if they say the same */
} rackmem_open_args;

/* rackmem_init and rackmem_open for callers without these headers, which pass the RACKMEM_VERSION
 * that they were written for. */
int rackmem_init_version(rackmem_context **ctx, size_t segment_bytes, int version);
int rackmem_open_version(rackmem_context **ctx, const rackmem_open_args *args, int version);

/*
 * Joins the context that the environment names ($RACKMEM_RACK, _NODE, _NODES, _CONTEXT: set by
 * `rackmem run`) and waits until all $RACKMEM_NODES nodes have joined. A segment_bytes of 0
 * takes $RACKMEM_CONTEXT_SIZE. Without $RACKMEM_NODE and _NODES, node and count are those that Open
 * MPI, PMI, PMIx or Slurm give the process.
 *
 * -ENOENT no such rack or context, -EACCES no permission, -ENOMEM the segment does not fit the
 * machine, -EBUSY another process is this node, -EHOSTDOWN a node joined and died, or a daemon is
 * gone, -EHOSTUNREACH there is no link to a node's host, -ETIMEDOUT a node did not join within a
 * minute, or a daemon is stopped; -EMFILE too many open files; -ELIBBAD the library is of another
 * version than these headers. rackmem_last_error() says more.
 */
static inline int rackmem_init(rackmem_context **ctx, size_t segment_bytes)
{
    return rackmem_init_version(ctx, segment_bytes, RACKMEM_VERSION);
}

/* Joins a context without waiting for others. Errors as rackmem_init. */
static inline int rackmem_open(rackmem_context **ctx, const rackmem_open_args *args)
{
    return rackmem_open_version(ctx, args, RACKMEM_VERSION);
}


/* Leaves the context and frees its queue pairs and buffers. Peers' operations on this node then
 * complete with RACKMEM_NO_CONTEXT. A NULL is ignored. */
void rackmem_close(rackmem_context *ctx);

/* This node's number, and the number of nodes that take part. */
int rackmem_nid(const rackmem_context *ctx);
int rackmem_nodes(const rackmem_context *ctx);

/* How often a process of the context has died without rackmem_close, as far as this node's daemon
 * has learnt: to tell that one was lost even if another has come in its place. One may be counted
 * twice; of another host, those that were the last of their node are counted. */
uint64_t rackmem_losses(const rackmem_context *ctx);

/* This node's segment: zeroed memory that all members can reach. A member that joined with
 * read_only must not write it: the pages are mapped for reading. */
void *rackmem_segment(const rackmem_context *ctx);
size_t rackmem_segment_bytes(const rackmem_context *ctx);

/* A node's segment in this process's own memory, for loads, stores and atomic instructions. */
typedef struct rackmem_mapping {
    void *memory;
    size_t size_bytes;
    const uint32_t *state; /* RACKMEM_MAPPING_LIVE as long as the node is there */
} rackmem_mapping;

/* rackmem_mapping.state of a live node. */
#define RACKMEM_MAPPING_LIVE 1u

/*
 * Finds node nid's segment in this process's memory: its own always, those of nodes on the same
 * host with inline progress. Aligned 8-byte accesses there are atomic against remote operations,
 * but wake no sleeper. The memory stays until rackmem_close, also when the node is lost: look at
 * `state` before, because a lost node's segment is not served any more.
 *
 * -EOPNOTSUPP the segment cannot be reached that way, or not be written: use a queue pair.
 * -ENXIO no such node, -ENOENT it has not joined or has left, -EHOSTDOWN it is lost.
 */
int rackmem_map(rackmem_context *ctx, int nid, rackmem_mapping *mapping);

/* Waits until node nid has joined. A timeout below 0 waits for ever. -ETIMEDOUT, -ENXIO. At once
 * -EHOSTDOWN if a process joined as it and died (a new one may join later: ask again), and within
 * two seconds -EHOSTDOWN or -ETIMEDOUT if its daemon has ended or is stopped, -EHOSTUNREACH if
 * there is no link to its host. */
int rackmem_wait_joined(rackmem_context *ctx, int nid, int timeout_ms);

/* Makes a queue pair of `entries` (a power of two, 2 to MAX_WQ_SIZE). -EINVAL, -ENOSPC. */
int rackmem_qp_create(rackmem_context *ctx, unsigned entries, QP **qp);
void rackmem_qp_destroy(QP *qp);

/* Page-aligned zeroed memory that every progress mode can use as local buffer at full speed, or
 * NULL. It lives until rackmem_close. */
void *rackmem_alloc(rackmem_context *ctx, size_t size_bytes);

/* Makes the pages of [buffer, buffer + size_bytes) such memory, keeping their contents: for
 * arrays that exist already. No other thread may use them meanwhile. */
int rackmem_register(rackmem_context *ctx, void *buffer, size_t size_bytes);

/*
 * Sleeps until `ready(arg)` is not zero, being woken by remote writes to this node's segment.
 * -EHOSTDOWN once node `watch_nid` (-1: none) is lost or has left, -ETIMEDOUT. Spin first:
 * falling asleep and waking costs microseconds.
 */
int rackmem_sleep_until(rackmem_context *ctx, int (*ready)(void *arg), void *arg, int watch_nid,
                        int timeout_ms);

/* Sleeps until this node's count of notifications (rmc_notify) differs from *seen, and stores
 * the new count there. -ETIMEDOUT. */
int rackmem_wait_notify(rackmem_context *ctx, uint64_t *seen, int timeout_ms);

/* Text for the calling thread's last failed call: the failure, its place, and a remedy. Every
 * function that joins, opens or creates something sets it when it fails. Each thread has a text of
 * its own, which is valid until the next failing call of this thread. */
const char *rackmem_last_error(void);

/* Keeps `text` for rackmem_last_error and returns `error`: the inline functions of other headers
 * report wrong arguments by it. */
int rackmem_set_last_error(int error, const char *text);

/* Sets the text to "WHAT: " and rackmem_strerror(error), unless error is 0; returns `error`. */
int rackmem_explain(int error, const char *what);

/* Explains in general a value that a function of rackmem returned: a negative errno or 0. The text
 * is constant. rackmem_last_error says what was wrong with a call. */
const char *rackmem_strerror(int error);

#ifdef __cplusplus
}
#endif
#endif
