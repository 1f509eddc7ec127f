//! Tokens of language models: what a request may take, and what its answer says that it took.

use crate::amounts;
use rampmeter_worker_sdk::Cost;
use serde_json::Value;

/// Bytes of text for one token, as the upstreams themselves estimate.
const BYTES_PER_TOKEN: usize = 4;
/// A longer text without a space is a picture or another attachment in Base64.
const ATTACHMENT: usize = 2048;
/// What one attachment takes, about as much as a large picture.
const TOKENS_PER_ATTACHMENT: usize = 1600;
/// The keys by which requests bound their answers.
const OUTPUT_KEYS: [&str; 4] = ["max_completion_tokens", "max_output_tokens", "max_tokens", "max_tokens_to_sample"];
/// The longest line of a stream that is read, and the longest answer that is no stream. Usage in
/// longer ones is not found, and their estimate counts.
const MAX_TEXT: usize = 1 << 20;

/// The units in which limits count tokens. A unit without a name is not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenUnits {
    /// The unit of tokens in the request.
    pub input: Option<String>,
    /// The unit of tokens in the answer.
    pub output: Option<String>,
    /// The unit of both together.
    pub total: Option<String>,
    /// Whether calls are settled with what their answers say. Otherwise the estimate stays.
    pub settles: bool,
}

/// A number of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tokens {
    input: Option<u64>,
    output: Option<u64>,
}

/// Finds the usage in an answer while it passes.
#[derive(Debug)]
pub struct UsageReader {
    is_stream: bool,
    /// The line or the answer so far.
    text: Vec<u8>,
    /// Whether the text is too long to be read.
    is_lost: bool,
    found: Tokens,
}

impl TokenUnits {
    /// What a request with this body costs, beside the `cost` of its route if it has one.
    #[must_use]
    pub fn estimated(&self, cost: Option<Cost>, body: &[u8]) -> Option<Cost> {
        self.with(cost, Tokens::estimate(body))
    }

    /// What the answer says that the call took; `None` if it says nothing.
    #[must_use]
    pub fn used(&self, usage: UsageReader) -> Option<Cost> {
        let used = usage.end();
        if self.settles { self.with(None, used) } else { None }
    }

    /// The amounts of these tokens, beside `cost`. `None` if there is neither.
    fn with(&self, cost: Option<Cost>, tokens: Tokens) -> Option<Cost> {
        let amounts = self.amounts(tokens);
        amounts::with(cost, amounts.into_iter().map(|(unit, amount)| (unit, amount as f64)))
    }

    fn amounts(&self, tokens: Tokens) -> Vec<(&str, u64)> {
        let total = match (tokens.input, tokens.output) {
            (Some(input), Some(output)) => Some(input.saturating_add(output)),
            (Some(_), None) | (None, Some(_)) | (None, None) => None,
        };
        let units = [(&self.input, tokens.input), (&self.output, tokens.output), (&self.total, total)];
        units.into_iter().filter_map(|(unit, amount)| Some((unit.as_deref()?, amount?))).collect()
    }
}

impl Tokens {
    /// What a request with this body may take at most.
    fn estimate(body: &[u8]) -> Self {
        let Ok(request) = serde_json::from_slice::<Value>(body) else {
            return Tokens { input: Some(body.len().div_ceil(BYTES_PER_TOKEN) as u64), output: Some(0) };
        };
        let most = OUTPUT_KEYS.iter().find_map(|key| request.get(key)?.as_u64()).unwrap_or(0);
        let answers = request.get("n").and_then(Value::as_u64).unwrap_or(1).max(1);
        Tokens { input: Some(input(&request) as u64), output: Some(most.saturating_mul(answers)) }
    }

    /// Takes what `usage` says, in the words of OpenAI or of Anthropic.
    fn take(&mut self, usage: &Value) {
        let number = |keys: [&str; 2]| keys.iter().find_map(|key| usage.get(key)?.as_u64());
        self.input = number(["prompt_tokens", "input_tokens"]).or(self.input);
        self.output = number(["completion_tokens", "output_tokens"]).or(self.output);
    }
}

/// The tokens of all texts in a request.
fn input(request: &Value) -> usize {
    match request {
        Value::String(text) if text.len() > ATTACHMENT && !text.contains(char::is_whitespace) => TOKENS_PER_ATTACHMENT,
        Value::String(text) => text.len().div_ceil(BYTES_PER_TOKEN),
        Value::Array(values) => values.iter().map(input).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| key.len().div_ceil(BYTES_PER_TOKEN) + input(value)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

impl UsageReader {
    /// A reader of an answer with this content type.
    #[must_use]
    pub fn new(content_type: &[u8]) -> Self {
        let is_stream = content_type.starts_with(b"text/event-stream");
        UsageReader { is_stream, text: Vec::new(), is_lost: false, found: Tokens::default() }
    }

    /// Takes the next piece of the answer.
    pub fn read(&mut self, piece: &[u8]) {
        if !self.is_stream {
            return self.add(piece);
        }
        for line in piece.split_inclusive(|byte| *byte == b'\n') {
            self.add(line);
            if line.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end(mut self) -> Tokens {
        match self.is_stream {
            true => self.end_line(),
            false => {
                let text = std::mem::take(&mut self.text);
                self.find_usage(&text);
            }
        }
        self.found
    }

    fn add(&mut self, piece: &[u8]) {
        self.is_lost |= self.text.len() + piece.len() > MAX_TEXT;
        if !self.is_lost {
            self.text.extend_from_slice(piece);
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.text);
        if !std::mem::take(&mut self.is_lost)
            && let Some(data) = line.strip_prefix(b"data:")
        {
            self.find_usage(data);
        }
    }

    /// Usage is in the object itself, or in the answer or message in an event.
    fn find_usage(&mut self, json: &[u8]) {
        // Most events tell of text alone.
        if self.is_lost || !json.windows(7).any(|word| word == b"\"usage\"") {
            return;
        }
        let Ok(body) = serde_json::from_slice::<Value>(json) else { return };
        for place in [Some(&body), body.get("message"), body.get("response")].into_iter().flatten() {
            if let Some(usage) = place.get("usage") {
                self.found.take(usage);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units() -> TokenUnits {
        let unit = |name: &str| Some(name.to_owned());
        TokenUnits { input: unit("in"), output: unit("out"), total: unit("all"), settles: true }
    }

    #[test]
    fn a_request_may_take_its_text_and_the_most_that_it_allows() {
        let picture = "A".repeat(100_000);
        #[rustfmt::skip]
        let table = [
            (r#"{"max_tokens":100}"#.to_owned(),                            "4 in, 100 out, 104 all"),
            (r#"{"max_completion_tokens":7,"n":3}"#.to_owned(),             "9 in, 21 out, 30 all"),
            (r#"{"a":"twelve bytes"}"#.to_owned(),                          "4 in, 0 out, 4 all"),
            (format!(r#"{{"a":"data:image/png;base64,{picture}"}}"#),       "1601 in, 0 out, 1601 all"),
            ("no JSON at all".to_owned(),                                   "4 in, 0 out, 4 all"),
        ];
        for (body, expected) in table {
            assert_eq!(units().estimated(None, body.as_bytes()).unwrap().to_string(), expected, "{body}");
        }
    }

    #[test]
    fn the_cost_of_a_route_stays() {
        let cost = units().estimated(Some(Cost::requests(2)), b"{\"max_tokens\":1}");
        assert_eq!(cost.unwrap().to_string(), "2 requests, 4 in, 1 out, 5 all");
        assert_eq!(TokenUnits::default().estimated(None, b""), None);
    }

    /// The usage in an answer that comes in pieces of any length.
    fn used(content_type: &str, answer: &str) -> Option<String> {
        let of = |length: usize| {
            let mut reader = UsageReader::new(content_type.as_bytes());
            answer.as_bytes().chunks(length).for_each(|piece| reader.read(piece));
            units().used(reader).map(|cost| cost.to_string())
        };
        let whole = of(answer.len().max(1));
        assert_eq!([1, 2, 7].map(of), [whole.clone(), whole.clone(), whole.clone()]);
        whole
    }

    #[test]
    fn an_answer_says_what_it_took() {
        let json = "application/json";
        let stream = "text/event-stream; charset=utf-8";
        #[rustfmt::skip]
        let table = [
            (json,   r#"{"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}}"#,        Some("5 in, 7 out, 12 all")),
            (json,   r#"{"usage":{"input_tokens":5,"output_tokens":7}}"#,                               Some("5 in, 7 out, 12 all")),
            (json,   r#"{"choices":[]}"#,                                                               None),
            (json,   r#"{"usage":null}"#,                                                               None),
            (stream, "data: {\"usage\":null}\n\ndata: {\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":7}}\n\ndata: [DONE]\n\n", Some("5 in, 7 out, 12 all")),
            (stream, "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":5,\"output_tokens\":1}}}\n\ndata: {\"usage\":{\"output_tokens\":7}}\n\n", Some("5 in, 7 out, 12 all")),
            (stream, "data: {\"response\":{\"usage\":{\"input_tokens\":5,\"output_tokens\":7}}}",        Some("5 in, 7 out, 12 all")),
            (stream, "data: no JSON, but \"usage\"\n",                                                  None),
        ];
        for (content_type, answer, expected) in table {
            assert_eq!(used(content_type, answer).as_deref(), expected, "{answer}");
        }
    }

    #[test]
    fn what_is_too_long_is_not_kept() {
        let mut reader = UsageReader::new(b"text/event-stream");
        for _ in 0..100 {
            reader.read(&vec![b'a'; MAX_TEXT / 10]);
            assert!(reader.text.len() <= MAX_TEXT);
        }
        reader.read(b"\ndata: {\"usage\":{\"input_tokens\":5}}\n");
        assert_eq!(reader.end().input, Some(5));
        let mut reader = UsageReader::new(b"application/json");
        reader.read(&vec![b' '; MAX_TEXT]);
        reader.read(b"{\"usage\":{\"input_tokens\":5}}");
        assert_eq!(reader.end(), Tokens::default());
    }
}
