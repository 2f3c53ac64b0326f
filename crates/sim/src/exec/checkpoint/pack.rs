//! Pages of memory as files have them: the bytes that are not zero.
//!
//! A page is its number of bytes in the file, as 16 bits, and so many bytes. If these are as many as a page has, they
//! are the page. Otherwise each word of the page is a byte with a bit for each byte of the word that is not zero, and
//! then these bytes.

use rackmem_riscv::space::PAGE;

pub const PAGE_BYTES: usize = PAGE as usize;
const WORD: usize = 8;

/// Appends a page.
pub fn pack(page: &[u8], packed: &mut Vec<u8>) {
    let begin = packed.len();
    packed.extend([0; 2]);
    for word in page.chunks_exact(WORD) {
        let mask_at = packed.len();
        packed.push(0);
        for (bit, &byte) in word.iter().enumerate() {
            if byte != 0 {
                packed[mask_at] |= 1 << bit;
                packed.push(byte);
            }
        }
    }
    if packed.len() - begin - 2 >= PAGE_BYTES {
        packed.truncate(begin + 2);
        packed.extend(page);
    }
    let length = (packed.len() - begin - 2) as u16;
    packed[begin..begin + 2].copy_from_slice(&length.to_le_bytes());
}

/// The bytes of each page that is whole, in turn.
pub fn pages(packed: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = packed;
    std::iter::from_fn(move || {
        let (length, behind) = rest.split_first_chunk()?;
        let (page, behind) = behind.split_at_checked(u16::from_le_bytes(*length).into())?;
        rest = behind;
        Some(page)
    })
}

/// Whether the bytes of a page are those of one.
pub fn is_page(packed: &[u8]) -> bool {
    let mut rest = packed;
    let mut words = 0;
    while let Some((mask, behind)) = rest.split_first() {
        let Some(behind) = behind.get(mask.count_ones() as usize..) else { break };
        rest = behind;
        words += 1;
    }
    packed.len() == PAGE_BYTES || rest.is_empty() && words == PAGE_BYTES / WORD
}

/// The page of these bytes, which are those of one.
pub fn unpack(packed: &[u8]) -> [u8; PAGE_BYTES] {
    if let Ok(page) = packed.try_into() {
        return page;
    }
    let mut page = [0; PAGE_BYTES];
    let mut bytes = packed.iter().copied();
    for word in page.chunks_exact_mut(WORD) {
        let mask = bytes.next().unwrap_or(0);
        for (bit, byte) in word.iter_mut().enumerate() {
            if mask >> bit & 1 == 1 {
                *byte = bytes.next().unwrap_or(0);
            }
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(page: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        pack(page, &mut packed);
        packed
    }

    #[test]
    fn pages_are_the_same_afterwards() {
        let sparse: Vec<u8> = (0..PAGE_BYTES).map(|at| u8::from(at % 3 == 0)).collect();
        let full: Vec<u8> = (0..PAGE_BYTES).map(|at| (at % 255) as u8 + 1).collect();
        for (page, length) in [(vec![0; PAGE_BYTES], 512), (sparse, 1878), (full, PAGE_BYTES)] {
            let two = [packed(&page), packed(&page)].concat();
            assert_eq!(two.len(), 2 * (2 + length));
            let found: Vec<&[u8]> = pages(&two).collect();
            assert_eq!(found.len(), 2);
            assert!(found.iter().all(|bytes| is_page(bytes) && unpack(bytes)[..] == page));
        }
    }

    #[test]
    fn bytes_of_no_page_are_known() {
        let zeros = packed(&[0; PAGE_BYTES]);
        for wrong in [&[][..], &[0; 511], &[0; 513], &[&[1][..], &[0; 511]].concat()] {
            assert!(!is_page(wrong), "{} bytes", wrong.len());
        }
        for cut in [1, 2, 3, zeros.len() - 1] {
            assert_eq!(pages(&zeros[..cut]).count(), 0);
        }
    }
}
