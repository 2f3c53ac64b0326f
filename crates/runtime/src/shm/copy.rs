//! Copies to and from memory that other processes change at the same time.
//!
//! Such races are outside what Rust's `copy_nonoverlapping` may assume, so the copies are machine
//! code that the compiler cannot look into (x86-64) or relaxed atomic words (elsewhere). A
//! caller that needs a line to be whole holds a [`super::line_lock`] around them.
//!
//! # Decisions
//!
//! - *Words of a segment are moved whole*: [`copy_out_whole`] and [`copy_in`] load and store each aligned 8 bytes of it
//!   once, as atomics do not wait for readers, nor for writers that come after them. Vector moves take no aligned word
//!   apart; the string instruction by bytes might, so it moves words. Part of a word is changed by a compare-and-swap.

use std::sync::atomic::{AtomicU64, Ordering};

use rackmem_abi::LINE_BYTES;

/// Bytes that atomics change at once.
const WORD_BYTES: usize = 8;

/// From this size on, wide vector moves pay for looking whether there are any.
#[cfg(target_arch = "x86_64")]
const WIDE_BYTES: usize = 256;

/// From this size on, the string instruction is used, which need not read the lines that it overwrites. Below, its
/// start and the fence behind it cost more.
#[cfg(target_arch = "x86_64")]
const STRING_BYTES: usize = 32 * 1024;

/// Copies out of a segment: each aligned word is loaded at once. All loads are done before any later load.
///
/// # Safety
/// As [`copy_out`]; all bytes of the aligned words that `src` has a part of can be loaded.
#[inline(always)]
pub unsafe fn copy_out_whole(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's contract.
    unsafe {
        if (src.addr() | len) % WORD_BYTES == 0 {
            copy_out(dst, src, len);
        } else {
            copy_out_parts(dst, src, len);
        }
    }
}

/// # Safety
/// As [`copy_out_whole`].
#[cold]
#[inline(never)]
unsafe fn copy_out_parts(dst: *mut u8, src: *const u8, len: usize) {
    let (head, words) = parts(src.addr(), len);
    // SAFETY: the parts divide the range.
    unsafe {
        load_part(dst, src, head);
        copy_out(dst.add(head), src.add(head), words);
        let tail = head + words;
        load_part(dst.add(tail), src.add(tail), len - tail);
    }
}

/// Bytes of the `len` at an address that come before the first aligned word, and those in whole ones. The rest lies in
/// one word, too.
fn parts(address: usize, len: usize) -> (usize, usize) {
    let head = (address.wrapping_neg() % WORD_BYTES).min(len);
    (head, (len - head) & !(WORD_BYTES - 1))
}

/// The aligned word that `bytes` lies in, and its place there.
fn word_of(bytes: *const u8) -> (*mut u64, usize) {
    let at = bytes.addr() % WORD_BYTES;
    (bytes.wrapping_sub(at).cast_mut().cast(), at)
}

/// Copies part of one word, of which one load sees all.
///
/// # Safety
/// As [`copy_out_whole`].
unsafe fn load_part(dst: *mut u8, src: *const u8, len: usize) {
    if len == 0 {
        return;
    }
    let (word, at) = word_of(src);
    let mut bytes = [0; WORD_BYTES];
    // SAFETY: the caller's contract; the bytes are at `at` in the word.
    unsafe {
        imp::copy_word(bytes.as_mut_ptr(), word.cast());
        imp::copy_small(dst, bytes.as_ptr().add(at), len);
    }
}

/// Changes part of one word at once. It is tried anew after an atomic on the word that came first.
///
/// # Safety
/// As [`copy_in`].
unsafe fn store_part(dst: *mut u8, src: *const u8, len: usize) {
    if len == 0 {
        return;
    }
    let (word, at) = word_of(dst);
    let mut part = [0; WORD_BYTES];
    // SAFETY: the caller's contract; `part` has room for less than a word.
    let word = unsafe {
        imp::copy_small(part.as_mut_ptr(), src, len);
        AtomicU64::from_ptr(word)
    };
    let merged = |old: u64| {
        let mut bytes = old.to_ne_bytes();
        bytes[at..at + len].copy_from_slice(&part[..len]);
        Some(u64::from_ne_bytes(bytes))
    };
    let _ = word.fetch_update(Ordering::Release, Ordering::Relaxed, merged);
}

/// Copies out of shared memory. All loads are done before any later load.
///
/// # Safety
/// `src` is valid for `len` bytes of reads, `dst` of writes; they do not overlap.
#[inline(always)]
pub unsafe fn copy_out(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's contract.
    unsafe {
        match len {
            8 => imp::copy_word(dst, src),
            LINE_BYTES => imp::copy_line(dst, src),
            16..=32 => imp::copy_half_line(dst, src, len),
            _ => copy_out_any(dst, src, len),
        }
    }
}

/// # Safety
/// As [`copy_out`].
#[inline(never)]
unsafe fn copy_out_any(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's contract.
    unsafe { imp::copy_out(dst, src, len) }
}

/// Copies into a segment, line by line; each aligned word is stored at once. The first 8 bytes of every whole line are
/// stored after the rest of that line, so that a poller that sees them sees the line complete.
///
/// # Safety
/// As [`copy_out`]; all bytes of the aligned words that `dst` has a part of are shared memory, too.
#[inline(always)]
pub unsafe fn copy_in(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's contract.
    unsafe {
        match len {
            8 if dst.addr() % WORD_BYTES == 0 => imp::copy_word(dst, src),
            LINE_BYTES if dst.addr() % LINE_BYTES == 0 => imp::copy_line_head_last(dst, src),
            _ => copy_in_any(dst, src, len),
        }
    }
}

/// # Safety
/// As [`copy_out`].
#[inline(never)]
unsafe fn copy_in_any(dst: *mut u8, src: *const u8, len: usize) {
    let (part, words) = parts(dst.addr(), len);
    // SAFETY: the parts divide the range.
    unsafe {
        store_part(dst, src, part);
        // Before the words: the last line may begin with one.
        let tail = part + words;
        store_part(dst.add(tail), src.add(tail), len - tail);
        copy_words_in(dst.add(part), src.add(part), words);
    }
}

/// # Safety
/// As [`copy_in`], for whole aligned words.
unsafe fn copy_words_in(dst: *mut u8, src: *const u8, len: usize) {
    let (mut dst, mut src, mut len) = (dst, src, len);
    let head = dst.align_offset(LINE_BYTES).min(len);
    // SAFETY: the caller's contract; every step stays within `len`.
    unsafe {
        if head != 0 {
            imp::copy_small(dst, src, head);
            (dst, src, len) = (dst.add(head), src.add(head), len - head);
        }
        let lines = len & !(LINE_BYTES - 1);
        if lines != 0 {
            imp::copy_lines_head_last(dst, src, lines);
            (dst, src, len) = (dst.add(lines), src.add(lines), len - lines);
        }
        if len != 0 {
            imp::copy_tail_head_last(dst, src, len);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod imp {
    use core::arch::asm;

    #[inline(always)]
    pub unsafe fn copy_out(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the caller's contract.
        unsafe {
            match len {
                0..super::WIDE_BYTES => copy_small(dst, src, len),
                super::STRING_BYTES..
                    if (dst.addr() | src.addr() | len) % super::WORD_BYTES == 0 =>
                {
                    copy_string(dst, src, len);
                }
                _ => copy_wide(dst, src, len),
            }
        }
    }

    /// 8 bytes by one move each way, so whole if aligned.
    #[inline(always)]
    pub unsafe fn copy_word(dst: *mut u8, src: *const u8) {
        // SAFETY: 8 bytes are valid on both sides.
        unsafe {
            asm!("mov {w}, [{s}]", "mov [{t}], {w}",
                s = in(reg) src, t = in(reg) dst, w = out(reg) _,
                options(nostack, preserves_flags));
        }
    }

    /// 16 to 32 bytes by two moves each way, which may overlap.
    #[inline(always)]
    pub unsafe fn copy_half_line(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: `len` bytes are valid on both sides.
        unsafe {
            asm!(
                "movups {a}, [{s}]",
                "movups {b}, [{s} + {n} - 16]",
                "movups [{t}], {a}",
                "movups [{t} + {n} - 16], {b}",
                s = in(reg) src, t = in(reg) dst, n = in(reg) len,
                a = out(xmm_reg) _, b = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// 64 bytes out of shared memory, where the order of stores does not matter.
    #[inline(always)]
    pub unsafe fn copy_line(dst: *mut u8, src: *const u8) {
        // SAFETY: 64 bytes are valid on both sides.
        unsafe { copy_line_head_last(dst, src) }
    }

    /// A whole line of shared memory, its first 16 bytes last: stores of x86 become visible in
    /// program order, and an aligned 16-byte one at once (guaranteed where there is AVX).
    #[inline(always)]
    pub unsafe fn copy_line_head_last(dst: *mut u8, src: *const u8) {
        // SAFETY: 64 bytes are valid on both sides.
        unsafe {
            asm!(
                "movups {a}, [{s}]",
                "movups {b}, [{s} + 16]",
                "movups {c}, [{s} + 32]",
                "movups {d}, [{s} + 48]",
                "movups [{t} + 48], {d}",
                "movups [{t} + 32], {c}",
                "movups [{t} + 16], {b}",
                "movups [{t}], {a}",
                s = in(reg) src, t = in(reg) dst,
                a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Copies whole lines, at least one, each as by [`copy_line_head_last`].
    #[inline(always)]
    pub unsafe fn copy_lines_head_last(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: `len` bytes, a multiple of a line, are valid on both sides.
        unsafe {
            if std::arch::is_x86_feature_detected!("avx") {
                return copy_lines_avx(dst, src, len);
            }
            for at in (0..len).step_by(super::LINE_BYTES) {
                copy_line_head_last(dst.add(at), src.add(at));
            }
        }
    }

    /// Three stores a line instead of four: the store port is what bounds a copy of hot memory.
    #[target_feature(enable = "avx")]
    unsafe fn copy_lines_avx(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: `len` bytes, a multiple of a line, are valid on both sides.
        unsafe {
            asm!(
                "2:",
                "vmovdqu {a:y}, [{s}]",
                "vmovdqu {b:y}, [{s} + 32]",
                "vextractf128 {c:x}, {a:y}, 1",
                "vmovdqu [{t} + 32], {b:y}",
                "vmovdqu [{t} + 16], {c:x}",
                "vmovdqu [{t}], {a:x}",
                "add {s}, 64",
                "add {t}, 64",
                "sub {n}, 64",
                "jnz 2b",
                "vzeroupper",
                s = inout(reg) src => _, t = inout(reg) dst => _, n = inout(reg) len => _,
                a = out(ymm_reg) _, b = out(ymm_reg) _, c = out(ymm_reg) _,
                options(nostack),
            );
        }
    }

    /// Any length below a few lines; words are moved by single instructions.
    #[inline(always)]
    pub unsafe fn copy_small(dst: *mut u8, src: *const u8, len: usize) {
        let mut at = 0;
        // SAFETY: `at` never passes `len`.
        unsafe {
            while len - at >= 64 {
                copy_line(dst.add(at), src.add(at));
                at += 64;
            }
            while len - at >= 8 {
                asm!("mov {w}, [{s} + {i}]", "mov [{t} + {i}], {w}",
                    s = in(reg) src, t = in(reg) dst, i = in(reg) at, w = out(reg) _,
                    options(nostack, preserves_flags));
                at += 8;
            }
            if len - at >= 4 {
                asm!("mov {w:e}, [{s} + {i}]", "mov [{t} + {i}], {w:e}",
                    s = in(reg) src, t = in(reg) dst, i = in(reg) at, w = out(reg) _,
                    options(nostack, preserves_flags));
                at += 4;
            }
            while at < len {
                asm!("mov {w:l}, byte ptr [{s} + {i}]", "mov byte ptr [{t} + {i}], {w:l}",
                    s = in(reg) src, t = in(reg) dst, i = in(reg) at, w = out(reg_abcd) _,
                    options(nostack, preserves_flags));
                at += 1;
            }
        }
    }

    /// Part of a line that starts at the line's begin: its first word is stored last.
    #[inline(always)]
    pub unsafe fn copy_tail_head_last(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: both parts lie within `len`.
        unsafe {
            if len > 8 {
                copy_small(dst.add(8), src.add(8), len - 8);
            }
            copy_small(dst, src, len.min(8));
        }
    }

    unsafe fn copy_wide(dst: *mut u8, src: *const u8, len: usize) {
        let lines = len & !(super::LINE_BYTES - 1);
        // SAFETY: both parts lie within `len`.
        unsafe {
            if !std::arch::is_x86_feature_detected!("avx") {
                return copy_small(dst, src, len);
            }
            copy_wide_avx(dst, src, lines);
            copy_small(dst.add(lines), src.add(lines), len - lines);
        }
    }

    #[target_feature(enable = "avx")]
    unsafe fn copy_wide_avx(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: `len` bytes, a multiple of a line and not 0, are valid on both sides.
        unsafe {
            asm!(
                "2:",
                "vmovdqu {a:y}, [{s}]",
                "vmovdqu {b:y}, [{s} + 32]",
                "vmovdqu [{t}], {a:y}",
                "vmovdqu [{t} + 32], {b:y}",
                "add {s}, 64",
                "add {t}, 64",
                "sub {n}, 64",
                "jnz 2b",
                "vzeroupper",
                s = inout(reg) src => _, t = inout(reg) dst => _, n = inout(reg) len => _,
                a = out(ymm_reg) _, b = out(ymm_reg) _,
                options(nostack),
            );
        }
    }

    /// The string instruction; its stores may be seen in any order, so it only serves copies out. Of words.
    unsafe fn copy_string(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: `len` bytes are valid on both sides; the direction flag is clear by the ABI.
        unsafe {
            asm!("rep movsq", "lfence",
                inout("rcx") len / super::WORD_BYTES => _, inout("rsi") src => _, inout("rdi") dst => _,
                options(nostack, preserves_flags));
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod imp {
    use core::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

    pub unsafe fn copy_out(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the caller's contract.
        unsafe { copy_small(dst, src, len) };
        fence(Ordering::Acquire);
    }

    /// Words are moved whole on the side on which they are aligned.
    pub unsafe fn copy_small(dst: *mut u8, src: *const u8, len: usize) {
        let words = len & !(super::WORD_BYTES - 1);
        // SAFETY: neither loop passes `len`.
        unsafe {
            for at in (0..words).step_by(super::WORD_BYTES) {
                store(dst.add(at), load(src.add(at)));
            }
            for at in words..len {
                let byte = (*src.add(at).cast::<AtomicU8>()).load(Ordering::Relaxed);
                (*dst.add(at).cast::<AtomicU8>()).store(byte, Ordering::Relaxed);
            }
        }
    }

    unsafe fn load(src: *const u8) -> u64 {
        // SAFETY: 8 bytes are valid.
        unsafe {
            if src.addr() % super::WORD_BYTES == 0 {
                return (*src.cast::<AtomicU64>()).load(Ordering::Relaxed);
            }
            let byte = |at| (*src.add(at).cast::<AtomicU8>()).load(Ordering::Relaxed);
            u64::from_ne_bytes(std::array::from_fn(byte))
        }
    }

    unsafe fn store(dst: *mut u8, word: u64) {
        // SAFETY: 8 bytes are valid.
        unsafe {
            if dst.addr() % super::WORD_BYTES == 0 {
                return (*dst.cast::<AtomicU64>()).store(word, Ordering::Relaxed);
            }
            for (at, byte) in word.to_ne_bytes().into_iter().enumerate() {
                (*dst.add(at).cast::<AtomicU8>()).store(byte, Ordering::Relaxed);
            }
        }
    }

    pub unsafe fn copy_word(dst: *mut u8, src: *const u8) {
        // SAFETY: 8 bytes are valid on both sides.
        unsafe { copy_out(dst, src, 8) }
    }

    pub unsafe fn copy_half_line(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the caller's contract.
        unsafe { copy_out(dst, src, len) }
    }

    pub unsafe fn copy_line(dst: *mut u8, src: *const u8) {
        // SAFETY: 64 bytes are valid on both sides.
        unsafe { copy_out(dst, src, super::LINE_BYTES) }
    }

    pub unsafe fn copy_line_head_last(dst: *mut u8, src: *const u8) {
        // SAFETY: 64 bytes are valid on both sides.
        unsafe { copy_tail_head_last(dst, src, super::LINE_BYTES) }
    }

    pub unsafe fn copy_lines_head_last(dst: *mut u8, src: *const u8, len: usize) {
        for at in (0..len).step_by(super::LINE_BYTES) {
            // SAFETY: `len` bytes, a multiple of a line, are valid on both sides.
            unsafe { copy_line_head_last(dst.add(at), src.add(at)) };
        }
    }

    pub unsafe fn copy_tail_head_last(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: both parts lie within `len`.
        unsafe {
            if len > 8 {
                copy_small(dst.add(8), src.add(8), len - 8);
            }
            fence(Ordering::Release);
            copy_small(dst, src, len.min(8));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_alignment_arrives() {
        let src: Vec<u8> = (0..34_000u32).map(|i| (i * 7 + 3) as u8).collect();
        for len in (0..400).chain([1023, 1024, 1025, 2048, 16383, 16384, 16385, 32768, 32800]) {
            for (s, d) in [(0, 0), (1, 0), (0, 1), (3, 5), (8, 56), (63, 1)] {
                for copy in [copy_in, copy_out, copy_out_whole] {
                    let mut dst = vec![0xEE_u8; 34_000];
                    // SAFETY: both vectors are longer than offset plus length.
                    unsafe { copy(dst.as_mut_ptr().add(64 + d), src.as_ptr().add(s), len) };
                    assert_eq!(dst[64 + d..64 + d + len], src[s..s + len], "{len} {s} {d}");
                    assert!(dst[..64 + d].iter().chain(&dst[64 + d + len..]).all(|b| *b == 0xEE));
                }
            }
        }
    }
}
