//! Priorities for treaps.

/// Spreads serial numbers evenly (`SplitMix64`; Steele, Lea and Flood, 2014): a treap's priorities must not
/// follow the order of its keys, and the same inputs must give the same tree.
pub(crate) fn scatter(serial: u64) -> u64 {
    let mut z = serial.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
