//! Programs of `programs/` that are ready for the model.

macro_rules! prebuilt {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_bytes!(concat!("../programs/prebuilt/", $name, ".rv64"))),)*]
    };
}

/// Names, and the bytes of static RV64GC programs.
pub const PROGRAMS: [(&str, &[u8]); 24] = prebuilt![
    "bitonic",
    "deoi_cache",
    "deoi_nic",
    "fft",
    "fft_by_element",
    "hello",
    "kvstore",
    "many_reads",
    "netpipe",
    "overtake",
    "pagerank",
    "rack_test",
    "remote_read",
    "scr_test",
    "state_test",
    "stream",
    "sync_bench",
    "tsm_arenas",
    "tsm_kernels",
    "tsm_qpair",
    "tsm_rdma",
    "tsm_real",
    "tsm_share",
    "tsm_transfer",
];

/// PageRank, which measurements and demonstrations execute.
pub fn pagerank() -> &'static [u8] {
    find("pagerank").unwrap_or_default()
}

/// The program of this name, if there is one.
pub fn find(name: &str) -> Option<&'static [u8]> {
    PROGRAMS.iter().find(|&&(known, _)| known == name).map(|&(_, bytes)| bytes)
}
