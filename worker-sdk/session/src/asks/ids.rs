//! Ids of permits and the secret that they are made from.

#![expect(deprecated, reason = "the only hash of the standard library that takes a key, SipHash-2-4")]

use crate::event::AskNumber;
use rampmeter_protocol::id::PermitId;
use std::collections::BTreeMap;
use std::hash::{Hasher, SipHasher};
use uuid::{Builder, Uuid, Variant, Version};

/// Bound on renamings, which are rare. Beyond it the oldest is forgotten: its ask, if not yet ended, has its first id.
const MAX_RENAMED: usize = 16_384;

/// The bits of a half of an id. Six bits of a UUID state its kind.
const HALF: u64 = (1 << 61) - 1;
/// The free bits of a UUID's last two fields, the clock sequence and the node.
const LAST: u128 = (1 << 62) - 1;

/// Ids that look like random UUIDs to everybody else: the number of the ask and of its renamings,
/// encrypted under a random 128-bit key. One id reveals no other, making one needs no randomness,
/// and reading one needs no table: foreign ids decrypt to no ask. Only renamed asks are remembered.
#[derive(Debug)]
pub(crate) struct Ids {
    key: SecretKey,
    renamed: BTreeMap<AskNumber, u32>,
}

impl Ids {
    pub(crate) fn new(key: SecretKey) -> Self {
        Ids { key, renamed: BTreeMap::new() }
    }

    pub(crate) fn id(&self, ask: AskNumber) -> PermitId {
        let [high, low] = self.key.encrypt([self.renamings(ask).into(), ask.0], HALF);
        let bits = u128::from(high) << 61 | u128::from(low);
        let bits = (bits >> 74 << 80) | ((bits >> 62 & 0xfff) << 64) | (bits & LAST);
        let id = Builder::from_u128(bits).with_variant(Variant::RFC4122);
        id.with_version(Version::Random).into_uuid().into()
    }

    /// Returns the ask with this current id, if it belongs to this session.
    pub(crate) fn ask(&self, id: &str) -> Option<AskNumber> {
        let bits = Uuid::try_parse(id).ok().filter(|id| id.get_version_num() == 4)?.as_u128();
        let bits = (bits >> 80 << 74) | ((bits >> 64 & 0xfff) << 62) | (bits & LAST);
        let [renamings, number] = self.key.decrypt([(bits >> 61) as u64, bits as u64 & HALF], HALF);
        let ask = AskNumber(number);
        (renamings == u64::from(self.renamings(ask))).then_some(ask)
    }

    /// Gives `ask` an id that it never had.
    pub(crate) fn rename(&mut self, ask: AskNumber) {
        *self.renamed.entry(ask).or_default() += 1;
        if self.renamed.len() > MAX_RENAMED {
            self.renamed.pop_first();
        }
    }

    pub(crate) fn renamings(&self, ask: AskNumber) -> u32 {
        self.renamed.get(&ask).copied().unwrap_or(0)
    }
}

/// The purposes of hashes: the rounds of a permutation, and a seed.
const ROUNDS: [u8; 4] = [0, 1, 3, 4];
const SEED: u8 = 2;

/// A key of 128 bits. Its hashes reveal neither the key nor each other.
#[derive(Clone)]
pub(crate) struct SecretKey(u128);

impl SecretKey {
    pub(crate) fn new(bits: u128) -> Self {
        SecretKey(bits)
    }

    /// Encrypts a block of two halves of as many bits as `mask` has, in four rounds of a Feistel
    /// network with this key's hashes, a strong pseudo-random permutation (Luby and Rackoff, 1988).
    pub(crate) fn encrypt(&self, block: [u64; 2], mask: u64) -> [u64; 2] {
        ROUNDS.iter().fold(block, |[left, right], round| [right, left ^ self.hash(*round, right) & mask])
    }

    pub(crate) fn decrypt(&self, block: [u64; 2], mask: u64) -> [u64; 2] {
        ROUNDS.iter().rev().fold(block, |[left, right], round| [right ^ self.hash(*round, left) & mask, left])
    }

    /// Returns a seed for what need not be secret, such as jitter.
    pub(crate) fn seed(&self) -> u64 {
        self.hash(SEED, 0)
    }

    /// Returns equal bits for equal arguments, and unrelated ones for another purpose.
    fn hash(&self, purpose: u8, number: u64) -> u64 {
        let mut hasher = SipHasher::new_with_keys(self.0 as u64, (self.0 >> 64) as u64);
        hasher.write(&[purpose]);
        hasher.write(&number.to_le_bytes());
        hasher.finish()
    }
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_of_the_ask_that_has_it_now() {
        for number in [0, 7, 1 << 20, HALF] {
            let (mut ids, ask) = (Ids::new(SecretKey::new(1)), AskNumber(number));
            let first = ids.id(ask);
            ids.rename(ask);
            let second = ids.id(ask);
            assert_eq!((ids.ask(first.as_str()), ids.ask(second.as_str())), (None, Some(ask)));
        }
    }

    #[test]
    fn an_id_is_a_random_uuid() {
        let ids = Ids::new(SecretKey::new(1));
        let made: Vec<Uuid> = (0..1000).map(|ask| ids.id(AskNumber(ask)).as_str().parse().unwrap()).collect();
        assert!(made.iter().all(|id| id.get_version() == Some(Version::Random)));
        assert!(made.iter().all(|id| id.get_variant() == Variant::RFC4122));
        // Each of the 122 bits is set in about half of them.
        for bit in (0..128).filter(|bit| !(76..80).contains(bit) && ![62, 63].contains(bit)) {
            let set = made.iter().filter(|id| id.as_u128() >> bit & 1 == 1).count();
            assert!((400..600).contains(&set), "bit {bit} is set in {set}");
        }
    }

    #[test]
    fn what_was_not_made_here_is_no_id() {
        let ids = Ids::new(SecretKey::new(1));
        let of_another = Ids::new(SecretKey::new(2)).id(AskNumber(7));
        let [own, next] = [7, 8].map(|number| ids.id(AskNumber(number)).as_str().to_owned());
        let mixed = format!("{}{}", &own[..18], &next[18..]);
        for strange in [of_another.as_str(), "of-another", "", &mixed, &own[1..]] {
            assert_eq!(ids.ask(strange), None, "{strange}");
        }
    }

    #[test]
    fn the_oldest_renaming_is_forgotten() {
        let mut ids = Ids::new(SecretKey::new(1));
        (0..=MAX_RENAMED as u64).for_each(|ask| ids.rename(AskNumber(ask)));
        assert_eq!((ids.renamed.len(), ids.renamings(AskNumber(0))), (MAX_RENAMED, 0));
    }
}
