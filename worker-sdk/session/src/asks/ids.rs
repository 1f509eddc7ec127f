//! Ids of permits.

use super::secret_key::SecretKey;
use crate::numbers::AskNumber;
use rampmeter_protocol::id::{PermitId, SECRET_LENGTH};
use std::collections::BTreeMap;

/// Renamings are rare, and the oldest asks have ended. Above this the oldest renaming is forgotten,
/// and its ask has its first id again.
const MAX_RENAMED: usize = 16_384;

/// Ids of the form `<secret of the ask>-<number of the ask>`. The secret is the number under a key
/// of 128 random bits: one id does not reveal the next. Making one needs no randomness, and reading
/// one needs no table. Only renamed asks are remembered: `.<renamings>` follows their number.
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
        let (secret, number) = (self.secret(ask), ask.0);
        let text = match self.renamings(ask) {
            0 => format!("{secret}-{number}"),
            renamings => format!("{secret}-{number}.{renamings}"),
        };
        PermitId::new(&text).expect("letters, dashes, digits and a dot")
    }

    /// The ask with this current id, if it belongs to this session.
    pub(crate) fn ask(&self, id: &str) -> Option<AskNumber> {
        let (secret, number) = id.split_at_checked(SECRET_LENGTH)?;
        let number = number.strip_prefix('-')?;
        let (number, renamings) = number.split_once('.').unwrap_or((number, "0"));
        let ask = AskNumber(number.parse().ok()?);
        let is_current = renamings.parse() == Ok(self.renamings(ask)) && secret == self.secret(ask).as_str();
        is_current.then_some(ask)
    }

    /// Gives `ask` an id that it never had.
    pub(crate) fn rename(&mut self, ask: AskNumber) {
        *self.renamed.entry(ask).or_default() += 1;
        if self.renamed.len() > MAX_RENAMED {
            self.renamed.pop_first();
        }
    }

    fn secret(&self, ask: AskNumber) -> PermitId {
        PermitId::secret(self.key.hash(ask.0))
    }

    /// How often `ask` was renamed.
    pub(crate) fn renamings(&self, ask: AskNumber) -> u32 {
        self.renamed.get(&ask).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_of_the_ask_that_has_it_now() {
        let mut ids = Ids::new(SecretKey::new(1));
        let first = ids.id(AskNumber(7));
        ids.rename(AskNumber(7));
        let second = ids.id(AskNumber(7));
        assert_eq!(second.as_str(), format!("{}.1", first.as_str()));
        assert_eq!((ids.ask(first.as_str()), ids.ask(second.as_str())), (None, Some(AskNumber(7))));
        assert_eq!((ids.ask("of-another"), ids.ask("")), (None, None));
    }

    /// An id has 128 bits that no other id of the session reveals.
    #[test]
    fn a_neighbouring_number_without_its_secret_is_no_id() {
        let ids = Ids::new(SecretKey::new(1));
        let [own, next] = [7, 8].map(|number| ids.id(AskNumber(number)));
        let [(own, _), (next, _)] = [&own, &next].map(|id| id.as_str().split_at(SECRET_LENGTH));
        let alike = own.bytes().zip(next.bytes()).filter(|(one, other)| one == other).count();
        assert!(alike < 6, "{own} and {next}");
        assert_eq!(ids.ask(&format!("{own}-8")), None);
        let of_another = Ids::new(SecretKey::new(2)).id(AskNumber(7));
        assert_eq!(ids.ask(of_another.as_str()), None);
    }

    #[test]
    fn the_oldest_renaming_is_forgotten() {
        let mut ids = Ids::new(SecretKey::new(1));
        (0..=MAX_RENAMED as u64).for_each(|ask| ids.rename(AskNumber(ask)));
        assert_eq!((ids.renamed.len(), ids.renamings(AskNumber(0))), (MAX_RENAMED, 0));
    }
}
