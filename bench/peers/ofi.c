/* libfabric's shm provider: one-sided operations and messages between two processes.
 * The provider makes progress only inside calls, so the passive side polls its completion queues. */
#include "bench.h"
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

/* Memory by which the two processes find each other; the traffic itself goes through libfabric only. */
struct rendezvous {
    _Atomic int arrived[2];
    char name[2][256];
    uint64_t key[2], address[2];
};

static struct rendezvous *meet;
static int rank, peer;
static struct fid_cq *sends, *receives;
static struct fid_ep *endpoint;
static fi_addr_t to;
static uint64_t remote, key;
static char *exposed, *local;
static void *exposed_desc, *local_desc;
static uint64_t sent, received; /* completions seen */

static void must(int result, const char *what) {
    if (result >= 0) return;
    fprintf(stderr, "%s: %s\n", what, fi_strerror(-result));
    exit(1);
}

static void drain(struct fid_cq *queue, uint64_t *count) {
    struct fi_cq_entry entries[16];
    ssize_t n = fi_cq_read(queue, entries, 16);
    if (n > 0)
        *count += (uint64_t)n;
    else if (n != -FI_EAGAIN)
        must((int)n, "fi_cq_read");
}

static void progress(void) {
    drain(sends, &sent);
    drain(receives, &received);
}

/* Post, and make progress as long as the provider's queues are full. */
#define POST(call)                                                  \
    do {                                                            \
        ssize_t r_;                                                 \
        while ((r_ = (call)) == -FI_EAGAIN) progress();             \
        must((int)r_, #call);                                       \
    } while (0)
#define UNTIL(condition) \
    while (!(condition)) progress()

static void meet_again(void) {
    int turn = ++meet->arrived[rank];
    UNTIL(meet->arrived[peer] >= turn);
}

static void get(size_t size) {
    uint64_t until = sent + 1;
    POST(fi_read(endpoint, local, size, local_desc, to, remote, key, NULL));
    UNTIL(sent >= until);
}

static void one_sided(struct bench b) {
    FOR_EACH(size, LATENCY_SIZES)
        row_us("get_latency", size, "rma", MEDIAN_NS(b.samples, ops_for(size), get(size)));
    uint64_t *operand = (uint64_t *)local, *old = operand + 8;
    *operand = 1;
    double fetch_add = MEDIAN_NS(b.samples, ops_for(8), {
        uint64_t until = sent + 1;
        POST(fi_fetch_atomic(endpoint, operand, 1, local_desc, old, local_desc, to, remote, key, FI_UINT64, FI_SUM, NULL));
        UNTIL(sent >= until);
    });
    row_us("fetch_add_latency", 8, "rma", fetch_add);
    FOR_EACH(size, RATE_SIZES) {
        double ns = MEDIAN_NS(b.samples, 4, {
            uint64_t until = sent + WINDOW;
            for (int i = 0; i < WINDOW; i++)
                POST(fi_read(endpoint, local + 64 * i, size, local_desc, to, remote + 64 * (uint64_t)i, key, NULL));
            UNTIL(sent >= until);
        });
        row_mops("op_rate", size, "get", ns / WINDOW);
        ns = MEDIAN_NS(b.samples, 4, {
            uint64_t until = sent + WINDOW;
            for (int i = 0; i < WINDOW; i++)
                POST(fi_write(endpoint, local + 64 * i, size, local_desc, to, remote + 64 * (uint64_t)i, key, NULL));
            UNTIL(sent >= until);
        });
        row_mops("op_rate", size, "put", ns / WINDOW);
    }
    FOR_EACH(stride, BULK_STRIDES) {
        double ns = MEDIAN_NS(b.samples, 1, {
            uint64_t until = sent + WINDOW;
            for (size_t i = 0; i < WINDOW; i++)
                POST(fi_read(endpoint, local + stride * i, 8 * KB, local_desc, to, remote + stride * i, key, NULL));
            UNTIL(sent >= until);
        });
        row_gb_per_s(BULK_METRIC(stride), 8 * KB, "get", ns / WINDOW);
    }
}

static double put_ping_pong(struct bench b) {
    volatile uint64_t *flag = (volatile uint64_t *)exposed;
    uint64_t *turn = (uint64_t *)local;
    *turn = 0;
    return MEDIAN_NS(b.samples, ops_for(8), {
        ++*turn;
        for (int half = 0; half < 2; half++) {
            uint64_t until = sent + 1;
            if (half == rank) {
                POST(fi_write(endpoint, turn, 8, local_desc, to, remote, key, NULL));
                UNTIL(sent >= until);
            } else {
                UNTIL(*flag == *turn);
            }
        }
    });
}

static void send_one(size_t size) {
    POST(fi_send(endpoint, local, size, local_desc, to, NULL));
}
static void receive_one(size_t size) {
    POST(fi_recv(endpoint, exposed, size, exposed_desc, FI_ADDR_UNSPEC, NULL));
}

static void ping_pong(size_t size) {
    uint64_t in = received + 1, out = sent + 1;
    receive_one(size);
    if (rank == 0) send_one(size);
    UNTIL(received >= in);
    if (rank == 1) send_one(size);
    UNTIL(sent >= out);
}

static int stream_window(size_t size) { return size >= MB ? WINDOW / 4 : WINDOW; }

/* A window of messages from one buffer into one buffer, answered by one of eight bytes. */
static void stream(size_t size) {
    int window = stream_window(size);
    uint64_t in = received, out = sent;
    if (rank == 1)
        for (int i = 0; i < window; i++) receive_one(size);
    else
        receive_one(8);
    if (rank == 0) {
        for (int i = 0; i < window; i++) send_one(size);
        UNTIL(sent >= out + (uint64_t)window && received >= in + 1);
    } else {
        UNTIL(received >= in + (uint64_t)window);
        send_one(8);
        UNTIL(sent >= out + 1);
    }
}

static void open_endpoint(void) {
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *addresses;
    struct fid_mr *mr;
    hints->fabric_attr->prov_name = strdup("shm");
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_RMA | FI_ATOMIC;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL;
    must(fi_getinfo(FI_VERSION(1, 14), NULL, NULL, 0, hints, &info), "fi_getinfo (shm)");
    must(fi_fabric(info->fabric_attr, &fabric, NULL), "fi_fabric");
    must(fi_domain(fabric, info, &domain, NULL), "fi_domain");
    struct fi_cq_attr cq = {.size = 1024, .format = FI_CQ_FORMAT_CONTEXT};
    must(fi_cq_open(domain, &cq, &sends, NULL), "fi_cq_open");
    must(fi_cq_open(domain, &cq, &receives, NULL), "fi_cq_open");
    struct fi_av_attr av = {.type = FI_AV_TABLE, .count = 2};
    must(fi_av_open(domain, &av, &addresses, NULL), "fi_av_open");
    must(fi_endpoint(domain, info, &endpoint, NULL), "fi_endpoint");
    must(fi_ep_bind(endpoint, &sends->fid, FI_TRANSMIT), "fi_ep_bind");
    must(fi_ep_bind(endpoint, &receives->fid, FI_RECV), "fi_ep_bind");
    must(fi_ep_bind(endpoint, &addresses->fid, 0), "fi_ep_bind");
    must(fi_enable(endpoint), "fi_enable");

    exposed = aligned_alloc(4 * KB, MB);
    local = aligned_alloc(4 * KB, MB);
    memset(exposed, 0, MB);
    memset(local, 1, MB);
    uint64_t all = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    must(fi_mr_reg(domain, local, MB, all, 0, 1, 0, &mr, NULL), "fi_mr_reg");
    local_desc = fi_mr_desc(mr);
    must(fi_mr_reg(domain, exposed, MB, all, 0, 2, 0, &mr, NULL), "fi_mr_reg");
    exposed_desc = fi_mr_desc(mr);

    size_t length = sizeof meet->name[rank];
    must(fi_getname(&endpoint->fid, meet->name[rank], &length), "fi_getname");
    meet->key[rank] = fi_mr_key(mr);
    meet->address[rank] = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)exposed : 0;
    meet_again();
    if (fi_av_insert(addresses, meet->name[peer], 1, &to, 0, NULL) != 1) must(-FI_EINVAL, "fi_av_insert");
    key = meet->key[peer];
    remote = meet->address[peer];
    meet_again();
}

int main(int argc, char **argv) {
    struct bench b = bench_args(argc, argv);
    meet = mmap(NULL, sizeof *meet, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (meet == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        return 1;
    }
    rank = child == 0;
    peer = 1 - rank;
    pin(b.core[rank]);
    open_endpoint();

    double ns = put_ping_pong(b);
    if (rank == 0) {
        row_us("put_half_rtt", 8, "rma", ns / 2);
        one_sided(b);
    }
    meet_again();
    FOR_EACH(size, MESSAGE_SIZES) {
        ns = MEDIAN_NS(b.samples, ops_for(size), ping_pong(size));
        if (rank == 0) row_us("message_half_rtt", size, "msg", ns / 2);
    }
    FOR_EACH(size, STREAM_SIZES) {
        ns = MEDIAN_NS(b.samples, size > 4 * KB ? 1 : 4, stream(size));
        if (rank == 0) row_gb_per_s("message_bandwidth", size, "msg", ns / stream_window(size));
    }
    meet_again();
    fi_close(&endpoint->fid); /* also unlinks the shared-memory file */
    if (rank == 0) {
        int status;
        waitpid(child, &status, 0);
        return status != 0;
    }
    return 0;
}
