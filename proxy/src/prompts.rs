//! What vendors cache of prompts, so that reading it again costs nothing.

use rampmeter_protocol::time::{Span, Time};
use std::collections::BTreeMap;

/// Most prompts remembered. Beyond it, the least recently used one is forgotten.
const MAX_PROMPTS: usize = 512;
/// How long a vendor caches a prompt after its last use.
const KEPT: Span = Span::from_secs(300);

/// The beginning of a prompt, by hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// The hash of the model, its instructions and its tools.
    pub(crate) instructions: u64,
    /// The hash of these and the first message, which distinguishes conversations.
    pub(crate) conversation: u64,
    pub(crate) tokens: u64,
}

/// The tokens that vendors cache of prompts, by their last responses.
#[derive(Debug, Default)]
pub(crate) struct Prompts(BTreeMap<u64, (Time, u64)>);

impl Prompts {
    /// Notes that the vendor caches so many tokens of `prompt`.
    pub(crate) fn note(&mut self, prompt: Prompt, kept: u64, now: Time) {
        self.insert(prompt.conversation, kept, now);
        self.insert(prompt.instructions, kept.min(prompt.tokens), now);
    }

    /// The tokens of `prompt` that cost nothing now.
    pub(crate) fn kept(&self, prompt: Prompt, now: Time) -> u64 {
        let of = |key| self.0.get(&key).filter(|(at, _)| now.since(*at) < KEPT).map(|(_, tokens)| *tokens);
        of(prompt.conversation).or_else(|| of(prompt.instructions)).unwrap_or(0)
    }

    fn insert(&mut self, key: u64, tokens: u64, now: Time) {
        self.0.insert(key, (now, tokens));
        if self.0.len() > MAX_PROMPTS
            && let Some(oldest) = self.0.iter().min_by_key(|(_, (at, _))| *at).map(|(key, _)| *key)
        {
            self.0.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_keeps_what_it_had_and_another_one_the_instructions() {
        let at = |secs| Time::ORIGIN + Span::from_secs(secs);
        let mut prompts = Prompts::default();
        let one = Prompt { instructions: 1, conversation: 11, tokens: 500 };
        let other = Prompt { conversation: 12, ..one };
        prompts.note(one, 9000, at(0));
        let stranger = Prompt { instructions: 2, conversation: 21, tokens: 500 };
        let table = [(one, 299, 9000), (other, 299, 500), (stranger, 0, 0), (one, 300, 0)];
        for (prompt, secs, expected) in table {
            assert_eq!(prompts.kept(prompt, at(secs)), expected, "{prompt:?} after {secs} s");
        }
        prompts.note(one, 100, at(10));
        assert_eq!(prompts.kept(other, at(10)), 100, "no more than there was");
        for number in 0..10_000 {
            prompts.note(Prompt { instructions: 3, conversation: number, tokens: 1 }, 1, at(20 + number));
        }
        assert_eq!(prompts.0.len(), MAX_PROMPTS);
    }
}
