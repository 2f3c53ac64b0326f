//! Copies to and from memory that other processes change at the same time.
//!
//! Such races are outside what Rust's `copy_nonoverlapping` may assume, so the copies are machine
//! code that the compiler cannot look into (x86-64) or relaxed atomic words (elsewhere). A
//! caller that needs a line to be whole holds a [`super::line_lock`] around them.

use rackmem_abi::LINE_BYTES;

/// From this size on, wide vector moves pay for looking whether there are any.
#[cfg(target_arch = "x86_64")]
const WIDE_BYTES: usize = 256;

/// From this size on, the string instruction beats any loop of moves, as it need not read the
/// lines that it overwrites.
#[cfg(target_arch = "x86_64")]
const STRING_BYTES: usize = 8 * 1024;

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

/// Copies into shared memory, line by line of `dst`; the first 8 bytes of every whole line are stored after the rest of
/// that line, so that a poller that sees them sees the line complete.
///
/// # Safety
/// As [`copy_out`].
#[inline(always)]
pub unsafe fn copy_in(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's contract.
    unsafe {
        match len {
            8 => imp::copy_word(dst, src),
            LINE_BYTES if dst.addr() % LINE_BYTES == 0 => imp::copy_line_head_last(dst, src),
            _ => copy_in_any(dst, src, len),
        }
    }
}

/// # Safety
/// As [`copy_out`].
#[inline(never)]
unsafe fn copy_in_any(dst: *mut u8, src: *const u8, len: usize) {
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
                super::WIDE_BYTES..super::STRING_BYTES => copy_wide(dst, src, len),
                _ => copy_string(dst, src, len),
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

    /// The string instruction; its stores may be seen in any order, so it only serves copies out.
    unsafe fn copy_string(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: `len` bytes are valid on both sides; the direction flag is clear by the ABI.
        unsafe {
            asm!("rep movsb", "lfence",
                inout("rcx") len => _, inout("rsi") src => _, inout("rdi") dst => _,
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

    pub unsafe fn copy_small(dst: *mut u8, src: *const u8, len: usize) {
        let mut at = 0;
        // SAFETY: `at` never passes `len`; words are only used where both sides are aligned.
        unsafe {
            while at < len {
                let (d, s) = (dst.add(at), src.add(at));
                if len - at >= 8 && d.align_offset(8) == 0 && s.align_offset(8) == 0 {
                    let word = (*s.cast::<AtomicU64>()).load(Ordering::Relaxed);
                    (*d.cast::<AtomicU64>()).store(word, Ordering::Relaxed);
                    at += 8;
                } else {
                    let byte = (*s.cast::<AtomicU8>()).load(Ordering::Relaxed);
                    (*d.cast::<AtomicU8>()).store(byte, Ordering::Relaxed);
                    at += 1;
                }
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
        let src: Vec<u8> = (0..17_000u32).map(|i| (i * 7 + 3) as u8).collect();
        for len in (0..400).chain([1023, 1024, 1025, 2048, 16383, 16384, 16385]) {
            for (s, d) in [(0, 0), (1, 0), (0, 1), (3, 5), (8, 56), (63, 1)] {
                for copy in [copy_in, copy_out] {
                    let mut dst = vec![0xEE_u8; 17_000];
                    // SAFETY: both vectors are longer than offset plus length.
                    unsafe { copy(dst.as_mut_ptr().add(64 + d), src.as_ptr().add(s), len) };
                    assert_eq!(dst[64 + d..64 + d + len], src[s..s + len], "{len} {s} {d}");
                    assert!(dst[..64 + d].iter().chain(&dst[64 + d + len..]).all(|b| *b == 0xEE));
                }
            }
        }
    }
}
