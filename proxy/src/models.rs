//! What is known of language models: `models.json`, of which the Python package has a copy.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

#[derive(Debug, Deserialize)]
pub(crate) struct Models {
    paths: Paths,
    pub(crate) output: Output,
    twelfths: Twelfths,
    kinds: BTreeMap<String, Kind>,
    attachments: BTreeMap<String, String>,
    links: Vec<String>,
    /// Positions of instructions and tools.
    pub(crate) instructions: Vec<String>,
    /// Position of the texts of messages.
    pub(crate) messages: String,
    pub(crate) usage: Usage,
}

/// The ends of paths. A `*` in one stands for anything.
#[derive(Debug, Deserialize)]
struct Paths {
    free: Vec<String>,
    embeds: Vec<String>,
    generates: Vec<String>,
    model_behind: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Counts {
    /// None: the call only reads, or its tokens count elsewhere.
    #[default]
    Nothing,
    Input,
    /// Those of its request and of its response.
    Both,
    /// Both if the request bounds its response, and otherwise none.
    Bounded,
}

/// How requests bound their responses, by path in the body.
#[derive(Debug, Deserialize)]
pub(crate) struct Output {
    /// The tokens of a response without a bound.
    pub(crate) default: u64,
    pub(crate) most: Vec<String>,
    /// How many responses there are to each prompt.
    pub(crate) answers: Vec<String>,
    pub(crate) prompts: String,
}

#[derive(Debug, Deserialize)]
struct Twelfths {
    letter: u8,
    digit: u8,
    punctuation: u8,
    two_bytes: u8,
    three_bytes: u8,
    four_bytes: u8,
}

/// What attachments of a kind take.
#[derive(Debug, Deserialize)]
struct Kind {
    /// Media types, and the beginnings of files in Base64.
    signs: Vec<String>,
    bytes_per_token: u64,
    least: u64,
    most: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Usage {
    places: Vec<String>,
    pub(crate) forms: Vec<Form>,
}

/// The fields that count towards a limit, as one vendor names them.
#[derive(Debug, Deserialize)]
pub(crate) struct Form {
    pub(crate) input: Vec<String>,
    pub(crate) output: Vec<String>,
    /// The fields of what the vendor caches of the prompt and charges once.
    #[serde(default)]
    pub(crate) kept: Vec<String>,
    /// The fields of tokens that were read from a cache, which those of `input` include.
    #[serde(default)]
    pub(crate) cached_within: Vec<String>,
    /// The same, for vendors whose `input` does not include them.
    #[serde(default)]
    pub(crate) cached_beside: Vec<String>,
    /// The fields of tokens that were written into a cache.
    #[serde(default)]
    pub(crate) written: Vec<String>,
    /// The fields of input and output together.
    #[serde(default)]
    pub(crate) total: Vec<String>,
    /// Those of them that were written for an hour.
    #[serde(default)]
    pub(crate) written_hour: Vec<String>,
}

static MODELS: LazyLock<Models> =
    LazyLock::new(|| serde_json::from_str(include_str!("../models.json")).expect("the table is part of this program"));

pub(crate) fn models() -> &'static Models {
    &MODELS
}

impl Models {
    /// Which tokens a POST to `path` takes.
    pub(crate) fn counts(&self, path: &str) -> Counts {
        let is_in = |ends: &[String]| ends.iter().any(|end| ends_with(path, end));
        let Paths { free, embeds, generates, .. } = &self.paths;
        match path {
            _ if is_in(free) => Counts::Nothing,
            _ if is_in(embeds) => Counts::Input,
            _ if is_in(generates) => Counts::Both,
            _ => Counts::Bounded,
        }
    }

    /// Whether a POST to `path` takes no tokens, such as one that counts them.
    pub(crate) fn is_free(&self, path: &str) -> bool {
        self.counts(path) == Counts::Nothing
    }

    pub(crate) fn model_in<'a>(&self, path: &'a str) -> Option<&'a str> {
        let behind = self.paths.model_behind.iter().find_map(|before| path.split_once(before.as_str()));
        behind?.1.split(['/', ':']).next().filter(|name| !name.is_empty())
    }

    /// Twelfths of a token for a character that begins with this byte; none for its other bytes.
    pub(crate) fn twelfths_of(&self, byte: u8) -> u8 {
        match byte {
            b'0'..=b'9' => self.twelfths.digit,
            b'a'..=b'z' | b'A'..=b'Z' | b'\0'..=b' ' => self.twelfths.letter,
            0..0x80 => self.twelfths.punctuation,
            0x80..0xc0 => 0,
            0xc0..0xe0 => self.twelfths.two_bytes,
            0xe0..0xf0 => self.twelfths.three_bytes,
            0xf0.. => self.twelfths.four_bytes,
        }
    }

    /// Whether a text at this path is an attachment, or a link to one.
    pub(crate) fn is_attachment(&self, path: &str) -> bool {
        self.attachments.keys().chain(&self.links).any(|end| is_at(path, end))
    }

    /// Returns the tokens of the attachment in this text; `None` for any other text.
    pub(crate) fn attached(&self, path: &str, start: &str, is_base64: bool, bytes: usize) -> Option<u64> {
        let url = start.strip_prefix("data:").and_then(|url| url.split_once(";base64,"));
        let at = self.attachments.iter().find(|(end, _)| is_base64 && is_at(path, end));
        let (start, otherwise) = match (url, at) {
            (Some((media, _)), _) => (media, "picture"),
            (None, Some((_, kind))) => (start, kind.as_str()),
            (None, None) if self.links.iter().any(|end| is_at(path, end)) => ("image/", "picture"),
            (None, None) => return None,
        };
        let told = self.kinds.values().find(|kind| kind.signs.iter().any(|sign| start.starts_with(sign.as_str())));
        let kind = told.or_else(|| self.kinds.get(otherwise))?;
        Some((bytes as u64 * 3 / 4 / kind.bytes_per_token).clamp(kind.least, kind.most))
    }
}

impl Form {
    fn fields(&self) -> impl Iterator<Item = &String> {
        let Form { input, output, kept, cached_within, cached_beside, written, total, written_hour } = self;
        [input, output, kept, cached_within, cached_beside, written, total, written_hour].into_iter().flatten()
    }
}

impl Usage {
    /// Returns the name of the field at this path, if it reports tokens.
    pub(crate) fn field<'a>(&self, path: &'a str) -> Option<&'a str> {
        let within = |place: &String| path.strip_prefix(place.as_str())?.strip_prefix('.');
        let name = self.places.iter().find_map(within)?;
        self.forms.iter().flat_map(Form::fields).any(|known| known == name).then_some(name)
    }
}

fn ends_with(path: &str, end: &str) -> bool {
    match end.split_once('*') {
        Some((before, behind)) => path.split_once(before).is_some_and(|(_, rest)| rest.ends_with(behind)),
        None => path.trim_end_matches('/').ends_with(end),
    }
}

/// Whether the last keys of `path` are those of `end`.
fn is_at(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_which_tokens_count() {
        #[rustfmt::skip]
        let table = [
            ("/v1/chat/completions",                                Counts::Both,       None),
            ("/v1/responses/",                                      Counts::Both,       None),
            ("/v1/embeddings",                                      Counts::Input,      None),
            ("/v1/messages",                                        Counts::Both,       None),
            ("/v1/messages/count_tokens",                           Counts::Nothing,    None),
            ("/v1/threads/thread_1/messages",                       Counts::Nothing,    None),
            ("/v1/messages/batches",                                Counts::Bounded,    None),
            ("/v1/audio/speech",                                    Counts::Bounded,    None),
            ("/v1beta/models/gemini-2.5-pro:generateContent",       Counts::Both,       Some("gemini-2.5-pro")),
            ("/v1beta/models/gemini-2.5-pro:countTokens",           Counts::Nothing,    Some("gemini-2.5-pro")),
            ("/model/amazon.nova-pro-v1/converse",                  Counts::Both,       Some("amazon.nova-pro-v1")),
            ("/openai/deployments/mine/chat/completions",           Counts::Both,       Some("mine")),
            ("/",                                                   Counts::Bounded,    None),
        ];
        for (path, counts, model) in table {
            assert_eq!((models().counts(path), models().model_in(path)), (counts, model), "{path}");
        }
    }
}
