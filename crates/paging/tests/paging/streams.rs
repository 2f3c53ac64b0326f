//! Streams are fetched ahead of need; signals that are none of the pager's reach the program.

use std::sync::atomic::{AtomicUsize, Ordering};

use rackmem_paging::{Delivery, PAGE_BYTES};

use crate::support::{memory, modes};

#[test]
fn sequential_and_strided_reads_fault_for_few_of_their_pages() {
    for mode in modes().into_iter().filter(|mode| mode.prefetch_pages != 0) {
        for (stride, down) in [(1, false), (1, true), (3, false)] {
            let Some((pager, _)) = mode.start(2048, 2048) else { return };
            let pages = 1536;
            let memory = memory(&pager, pages);
            for page in memory.chunks_exact_mut(PAGE_BYTES) {
                page[0] = 1;
            }
            pager.evict_all().unwrap();
            let before = pager.statistics();
            let touched: Vec<usize> = (0..pages).step_by(stride).collect();
            let sum: usize = touched
                .iter()
                .map(|&page| if down { pages - 1 - page } else { page })
                .map(|page| usize::from(memory[page * PAGE_BYTES]))
                .sum();
            assert_eq!(sum, touched.len());
            let after = pager.statistics();
            let faults = after.faults - before.faults;
            assert!(
                faults < touched.len() as u64 / 3 && after.prefetch_hits > 0,
                "{mode:?}, stride {stride}: {faults} faults for {} pages, {after:?}",
                touched.len()
            );
        }
    }
}

static OTHERS: AtomicUsize = AtomicUsize::new(0);
/// The page that this test's handler is for; of others the process, or a child of another test, ends.
static EMPTY: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_sigbus(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    OTHERS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: puts a page where the file ended, so that the access can go on.
    unsafe {
        let page = (*info).si_addr() as usize & !(PAGE_BYTES - 1);
        if page != EMPTY.load(Ordering::Relaxed) {
            libc::signal(libc::SIGBUS, libc::SIG_DFL);
            return;
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        libc::mmap(page as *mut _, PAGE_BYTES, libc::PROT_READ, flags, -1, 0);
    }
}

#[test]
fn a_programs_own_handler_of_sigbus_gets_what_is_its_own() {
    for mode in modes().into_iter().filter(|mode| mode.delivery == Delivery::Inline) {
        let Some((pager, _)) = mode.start(32, 128) else { return };
        let memory = memory(&pager, 64);
        memory.fill(1);
        // SAFETY: plain calls; the file is empty, so its mapping means SIGBUS.
        let byte = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_sigbus as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert!(pager.chain_sigbus(&action, std::ptr::null_mut()));
            let file = libc::memfd_create(c"empty".as_ptr(), 0);
            let page = libc::mmap(
                std::ptr::null_mut(),
                PAGE_BYTES,
                libc::PROT_READ,
                libc::MAP_SHARED,
                file,
                0,
            );
            EMPTY.store(page as usize, Ordering::Relaxed);
            let before = OTHERS.load(Ordering::Relaxed);
            let byte = page.cast::<u8>().read_volatile();
            assert!(OTHERS.load(Ordering::Relaxed) > before, "{mode:?}");
            libc::close(file);
            byte
        };
        assert_eq!(byte, 0);
        assert!(memory.iter().all(|&byte| byte == 1), "{mode:?}");
    }
}
