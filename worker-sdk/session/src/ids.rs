//! Ids of permits.

use super::dice::Dice;
use super::vocabulary::AskNumber;
use rampmeter_protocol::id::PermitId;
use std::collections::BTreeMap;
use std::fmt::Write;

const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// Long enough for a seed of 64 bits.
const NAME_LENGTH: usize = 12;
/// Renamings are rare, and the oldest asks have ended. Above this the oldest renaming is forgotten,
/// and its ask has its first id again.
const MOST_RENAMED: usize = 16_384;

/// Ids of the form `<name of the session>-<number of the ask>`. Making one needs no randomness, and
/// reading one needs no table. Only renamed asks are remembered: `.<renamings>` follows their
/// number.
#[derive(Debug)]
pub(super) struct Ids {
    /// The session's name and `-`, then the number that was written last.
    text: String,
    renamed: BTreeMap<AskNumber, u32>,
}

impl Ids {
    pub(super) fn new(dice: &mut Dice) -> Self {
        let mut letter = || char::from(ALPHABET[dice.up_to(ALPHABET.len() as u64 - 1) as usize]);
        let mut text: String = (0..NAME_LENGTH).map(|_| letter()).collect();
        text.push('-');
        Ids { text, renamed: BTreeMap::new() }
    }

    pub(super) fn id(&mut self, ask: AskNumber) -> PermitId {
        self.text.truncate(NAME_LENGTH + 1);
        match self.renamings(ask) {
            0 => write!(self.text, "{}", ask.0),
            renamings => write!(self.text, "{}.{renamings}", ask.0),
        }
        .expect("a string takes any text");
        PermitId::new(&self.text).expect("letters, a dash, digits and a dot")
    }

    /// The ask with this current id, if it belongs to this session.
    pub(super) fn ask(&self, id: &str) -> Option<AskNumber> {
        let number = id.strip_prefix(&self.text[..=NAME_LENGTH])?;
        let (number, renamings) = number.split_once('.').unwrap_or((number, "0"));
        let ask = AskNumber(number.parse().ok()?);
        (renamings.parse() == Ok(self.renamings(ask))).then_some(ask)
    }

    /// Gives `ask` an id that it never had.
    pub(super) fn rename(&mut self, ask: AskNumber) {
        *self.renamed.entry(ask).or_default() += 1;
        if self.renamed.len() > MOST_RENAMED {
            self.renamed.pop_first();
        }
    }

    fn renamings(&self, ask: AskNumber) -> u32 {
        self.renamed.get(&ask).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_of_the_ask_that_has_it_now() {
        let mut ids = Ids::new(&mut Dice::new(1));
        let first = ids.id(AskNumber(7));
        ids.rename(AskNumber(7));
        let second = ids.id(AskNumber(7));
        assert_eq!(second.as_str(), format!("{}.1", first.as_str()));
        assert_eq!((ids.ask(first.as_str()), ids.ask(second.as_str())), (None, Some(AskNumber(7))));
        assert_eq!((ids.ask("of-another"), ids.ask("")), (None, None));
    }

    #[test]
    fn the_oldest_renaming_is_forgotten() {
        let mut ids = Ids::new(&mut Dice::new(1));
        (0..=MOST_RENAMED as u64).for_each(|ask| ids.rename(AskNumber(ask)));
        assert_eq!((ids.renamed.len(), ids.renamings(AskNumber(0))), (MOST_RENAMED, 0));
    }
}
