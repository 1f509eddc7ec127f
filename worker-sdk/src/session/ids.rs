//! Names of permits.

use super::dice::Dice;
use super::vocabulary::AskNumber;
use rampmeter_protocol::id::PermitId;
use std::fmt::Write;

const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// As many names as a seed of 64 bits tells apart.
const NAME_LENGTH: usize = 12;

/// Ids of the form `<name of the session>-<number of the ask>`: to make one takes no chance, to read
/// one no table.
#[derive(Debug)]
pub(super) struct Ids {
    /// The session's name and `-`, then whatever number was written last.
    text: String,
}

impl Ids {
    pub(super) fn new(dice: &mut Dice) -> Self {
        let mut letter = || char::from(ALPHABET[dice.up_to(ALPHABET.len() as u64 - 1) as usize]);
        let mut text: String = (0..NAME_LENGTH).map(|_| letter()).collect();
        text.push('-');
        Ids { text }
    }

    pub(super) fn id(&mut self, ask: AskNumber) -> PermitId {
        self.text.truncate(NAME_LENGTH + 1);
        write!(self.text, "{}", ask.0).expect("a string takes any text");
        PermitId::new(&self.text).expect("letters, a dash and digits")
    }

    /// The ask of an id, if this session made it.
    pub(super) fn ask(&self, id: &str) -> Option<AskNumber> {
        let number = id.strip_prefix(&self.text[..=NAME_LENGTH])?;
        number.parse().ok().map(AskNumber)
    }
}
