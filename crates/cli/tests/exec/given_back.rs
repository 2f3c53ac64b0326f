//! Programs that give back memory which a device or another node has, too.

use super::{compiled, rackmem, text};

/// Gives back a page of all memory that a driver has mapped for it, and has another one there.
const GIVES_BACK: &[u8] = br#"
#include <pair.h>
#include <rackmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static char buffers[8192] __attribute__((aligned(4096)));
static void replace(const char *what, uint64_t address)
{
    char *at = (char *)(address & ~UINT64_C(4095)), *page;
    (void)madvise(at, 4096, MADV_DONTNEED);
    if (mprotect(at, 4096, PROT_READ) != 0 || munmap(at, 4096) != 0)
        exit(1);
    page = mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (page != at || page[0] != 0)
        exit(2);
    memset(page, 7, 4096);
    printf("%s %d\n", what, page[4095]);
}
static int lender(const window_memory *memory)
{
    volatile uint64_t *lent = (void *)memory->address;
    while (lent[512] != 5)
        ;
    printf("lent %d\n", (int)lent[0]);
    return 0;
}
static void own_devices(void)
{
    window_engine engine;
    window_card card;
    window_pair pair;
    if (window_open_engine(&engine) == 0)
        replace("engine", engine.done);
    if (window_open_card(20000, &card) == 0) {
        replace("card", card.memory);
        replace("interrupts", card.interrupts);
        replace("registers", card.registers);
    }
    if (window_open_pair(1, 0, buffers, sizeof buffers, &pair) == 0) {
        replace("sends", pair.sends);
        replace("completions", pair.completions);
        replace("pair", pair.registers);
    }
}
/* Another queue pair does not get the addresses of one that is gone, once they are the program's. */
static void again(rackmem_context *ctx, QP **qp, int first)
{
    char *at = (char *)((uint64_t)(*qp)->wq & ~UINT64_C(4095)), *before = NULL, *page;
    rackmem_qp_destroy(*qp);
    if (munmap(at, 4096) != 0)
        exit(5);
    if (first)
        before = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (rackmem_qp_create(ctx, 64, qp) != 0)
        exit(6);
    page = first ? before
                 : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mprotect(page, 4096, PROT_READ | PROT_WRITE) != 0)
        exit(7);
    printf("apart %d\n", page != (char *)((uint64_t)(*qp)->wq & ~UINT64_C(4095)) && page[0] == 0);
    memset(page, 7, 4096);
}
int main(void)
{
    int node = atoi(getenv("RACKMEM_NODE"));
    window_memory borrowed, lent;
    rackmem_context *ctx;
    QP *qp;
    if (window_lent(&lent) == 0) {
        if (node == 1)
            return getenv("LENDER") ? lender(&lent) : 0;
        if (window_borrow(&borrowed) != 0)
            return 3;
        volatile uint64_t *words = (void *)borrowed.address;
        words[0] = 42;
        window_fence();
        replace("borrowed", borrowed.address);
        words[512] = 5;
        window_fence();
        replace("own", lent.address);
        own_devices();
    } else if (rackmem_init(&ctx, 1 << 20) == 0 && rackmem_qp_create(ctx, 64, &qp) == 0) {
        uint64_t word = 0;
        replace("queue", (uint64_t)qp->wq);
        rackmem_qp_destroy(qp);
        if (rackmem_qp_create(ctx, 64, &qp) != 0)
            return 4;
        again(ctx, &qp, 0);
        again(ctx, &qp, 1);
        printf("read %d\n", rmc_read(qp, 1 - node, 0, &word, sizeof word));
        rackmem_close(ctx);
    }
    return 0;
}
"#;

#[test]
fn what_devices_and_other_nodes_have_stays_as_it_is() {
    let Some(dir) = compiled("back", GIVES_BACK) else { return };
    let said = |machine: &[&str], env: &[&str]| {
        let args = [&["sim", "exec"], machine, &["-n", "2"], env, &["--", "back.rv64"]].concat();
        let done = rackmem(dir.path(), &args);
        assert_eq!(done.status.code(), Some(0), "{machine:?}: {}", text(&done.stderr));
        let mut lines: Vec<String> = text(&done.stdout).lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines.join(", ")
    };
    let window = "[0] borrowed 7, [0] engine 7, [0] own 7";
    let bridge = "[0] borrowed 7, [0] card 7, [0] completions 7, [0] interrupts 7, [0] own 7, [0] pair 7, \
                  [0] registers 7, [0] sends 7";
    let queues = ["[0]", "[1]"]
        .map(|node| format!("{node} apart 1, {node} apart 1, {node} queue 7, {node} read 0"));
    let queues = queues.join(", ");
    let lender = ["--env", "LENDER=1"];
    assert_eq!(said(&["pcie-ntb"], &lender), format!("{window}, [1] lent 42"));
    assert_eq!(said(&["tsm-sim"], &[]), window);
    assert_eq!(said(&["deoi-cores"], &[]), bridge);
    assert_eq!(said(&["thunder-cores"], &[]), bridge);
    assert_eq!(said(&["sonuma"], &[]), queues);
    for placement in ["per-tile", "edge"] {
        let placement = format!("ni.placement={placement}");
        let settings = ["network.remote=nodes", "ni.completion=acknowledged", &placement];
        let settings = settings.into_iter().flat_map(|setting| ["--set", setting]);
        let machine: Vec<&str> = ["manycore-ni"].into_iter().chain(settings).collect();
        assert_eq!(said(&machine, &[]), queues);
    }
}
