//! Large texts of revisions: compressed before they are sealed, so that a hundred revisions of a large stack
//! do not fill the disk, and writing one does not delay a turn.
//!
//! Absent: the seal, and which columns have one (`sealed.rs`).

/// Texts of this size or more are compressed.
const PACKED_FROM: usize = 256 * 1024;
/// The largest unpacked size of a blob, more than the API accepts. A damaged size must not ask for
/// all memory.
const UNPACKED_MAX: usize = 1 << 30;

/// The first byte of a packed text: as it is, or LZ4's block format behind its size in four bytes,
/// least first.
const PLAIN: u8 = 0;
const LZ4: u8 = 1;

/// A text as it is sealed.
pub(super) fn pack(text: &str) -> Vec<u8> {
    if text.len() < PACKED_FROM {
        return [&[PLAIN], text.as_bytes()].concat();
    }
    [&[LZ4], &*lz4_flex::block::compress_prepend_size(text.as_bytes())].concat()
}

/// The inverse of [`pack`], or the error.
pub(super) fn unpack(packed: &[u8]) -> Result<String, String> {
    let bytes = match packed.split_first() {
        Some((&PLAIN, bytes)) => bytes.to_vec(),
        Some((&LZ4, bytes)) => unfold(bytes)?,
        _ => return Err("a text of an unknown form".to_owned()),
    };
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

fn unfold(packed: &[u8]) -> Result<Vec<u8>, String> {
    let size = packed.first_chunk().map(|size| u32::from_le_bytes(*size) as usize);
    if size.is_none_or(|size| size > UNPACKED_MAX) {
        return Err("a text of an impossible size".to_owned());
    }
    lz4_flex::block::decompress_size_prepended(packed).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_and_small_texts_come_back_and_damage_is_an_error() {
        for (length, is_small) in
            [(0, false), (PACKED_FROM - 1, false), (PACKED_FROM, true), (9_000_000, true)]
        {
            let text: String = ('a'..='z').cycle().take(length).collect();
            let packed = pack(&text);
            assert_eq!((packed.len() < length, unpack(&packed).as_ref()), (is_small, Ok(&text)), "{length}");
        }
        for damaged in
            [&[][..], &[0, 255], &[1], &[1, 2], &[1, 255, 255, 255, 255, 9], &[1, 9, 0, 0, 0, 1, 2], &[2]]
        {
            assert!(unpack(damaged).is_err(), "{damaged:?}");
        }
    }
}
