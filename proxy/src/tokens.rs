//! Tokens of language models: what a request may take, and what it took by its response.

use crate::amounts;
use crate::json::{Scanner, Seen, Text, Value, hashed};
use crate::models::{Counts, models};
use crate::prices::Demand;
use crate::prompts::Prompt;
use http::Method;
use rampmeter_protocol::name::Name;
use rampmeter_worker_sdk::Cost;
use serde::Deserialize;
use std::collections::BTreeMap;

const TWELFTHS: u64 = 12;
/// Bytes per token of a body that is not JSON.
const BYTES_PER_TOKEN: u64 = 4;
/// The most tokens that a vendor adds to a prompt to explain its tools to the model.
const TOKENS_OF_TOOLS: u64 = 1024;

/// The units in which limits count tokens. A unit without a name is not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenUnits {
    /// The unit of tokens in the request.
    pub input: Option<Name>,
    /// The unit of tokens in the response.
    pub output: Option<Name>,
    /// The unit of both together.
    pub total: Option<Name>,
    /// Whether calls are settled with what their responses say. Otherwise the estimate stays.
    #[serde(rename = "settle", default = "yes")]
    pub settles: bool,
}

fn yes() -> bool {
    true
}

/// A label that is read from the JSON of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyLabel {
    /// The label.
    pub label: String,
    /// The keys that lead to its value, joined by dots.
    pub key: String,
    /// The value for requests without one in body or path; otherwise they lack the label.
    pub otherwise: Option<String>,
}

/// A number of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    input: Option<u64>,
    output: Option<u64>,
}

/// Reads a request as it passes: its labels, and the tokens that it may take.
#[derive(Debug, Default)]
pub struct RequestReader {
    scanner: Scanner,
    counts: Counts,
    /// The wanted labels, each with its path in the body and its value once found.
    labels: Vec<(String, String, Option<String>)>,
    twelfths: u64,
    attached: u64,
    most: Option<u64>,
    answers: u64,
    prompts: u64,
    bytes: u64,
    attached_bytes: u64,
    has_tools: bool,
    model: Option<String>,
    /// Hashes of the instructions and of the first message, and twelfths of the instructions.
    instructions: u64,
    first_message: Option<u64>,
    instructed: u64,
}

/// What a body says about the request.
#[derive(Debug)]
pub struct RequestReading {
    /// The labels found.
    pub labels: Vec<(String, String)>,
    /// The tokens that the request may take; `None` if the call takes none.
    pub tokens: Option<Tokens>,
    /// Whether the body was understood.
    pub is_understood: bool,
    /// The beginning of the prompt.
    pub prompt: Prompt,
    /// The model that it names.
    pub model: Option<String>,
    /// The most that it may take, whatever the tokenizer.
    pub demand: Demand,
}

/// Finds the usage in a response as it passes.
#[derive(Debug, Default)]
pub struct UsageReader {
    estimate: Tokens,
    fields: BTreeMap<String, u64>,
    /// The tokens of the texts in a stream, in twelfths.
    streamed: u64,
    /// Those since the last report.
    unreported: u64,
}

impl TokenUnits {
    /// Returns the amounts of these tokens beside a route's `cost`; `None` without either.
    #[must_use]
    pub fn cost(&self, cost: Option<Cost>, tokens: Tokens) -> Option<Cost> {
        let amounts = self.amounts(tokens);
        amounts::with(cost, amounts.into_iter().map(|(unit, amount)| (unit, amount as f64)))
    }

    /// Returns what the call took, if its response says; one that breaks off is not whole.
    #[must_use]
    pub fn used(&self, usage: &UsageReader, is_whole: bool) -> Option<Cost> {
        if self.settles { self.cost(None, usage.used(is_whole)) } else { None }
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

impl RequestReader {
    /// Creates a reader for the body of a request, which may have these labels.
    #[must_use]
    pub fn new(method: &Method, path: &str, counts_tokens: bool, labels: &[BodyLabel]) -> Self {
        let counts = if counts_tokens && method == Method::POST { models().counts(path) } else { Counts::Nothing };
        let labels = labels.iter().map(|wanted| (wanted.label.clone(), wanted.key.clone(), None)).collect();
        RequestReader { counts, labels, answers: 1, ..RequestReader::default() }
    }

    /// Reads the next piece of the body.
    pub fn read(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        let mut scanner = std::mem::take(&mut self.scanner);
        scanner.read(piece, &mut |seen| self.see(seen));
        self.scanner = scanner;
    }

    /// Returns what the body has said. `is_whole` is false if more would follow.
    #[must_use]
    pub fn end(self, is_whole: bool) -> RequestReading {
        let is_json = self.scanner.is_whole();
        let input = match is_json || !is_whole {
            true => self.twelfths.div_ceil(TWELFTHS).saturating_add(self.attached),
            false => self.bytes.div_ceil(BYTES_PER_TOKEN),
        };
        let each = self.most.unwrap_or(models().output.default);
        let most = each.saturating_mul(self.answers).saturating_mul(self.prompts.max(1));
        let output = match self.counts {
            Counts::Nothing => None,
            Counts::Bounded if self.most.is_none() => None,
            Counts::Input => Some(0),
            Counts::Both | Counts::Bounded => Some(most),
        };
        let tokens = output.map(|_| Tokens { input: Some(input), output });
        let labels = self.labels.into_iter().filter_map(|(label, _, value)| Some((label, value?))).collect();
        let conversation = hashed(self.instructions, self.first_message.unwrap_or(0));
        let prompt = Prompt { instructions: self.instructions, conversation, tokens: self.instructed / TWELFTHS };
        // A token is a byte or more, and those of an attachment are known.
        let written = self.bytes.saturating_sub(self.attached_bytes).saturating_add(self.attached);
        let demand = Demand {
            input: written.saturating_add(if self.has_tools { TOKENS_OF_TOOLS } else { 0 }),
            output: if self.counts == Counts::Input { Some(0) } else { self.most },
            answers: self.answers.saturating_mul(self.prompts.max(1)),
        };
        let is_understood = tokens.is_none() || (is_json && is_whole);
        RequestReading { labels, is_understood, tokens, prompt, model: self.model, demand }
    }

    /// Parameters of the request are not text, but its tools and formats are.
    fn see(&mut self, seen: &Seen<'_>) {
        match seen.value {
            Value::Text(text) => {
                self.note(seen.path, text);
                self.text(seen, text);
            }
            Value::Key(_) | Value::Number(_) | Value::Word if seen.depth <= 1 && !seen.in_array => {}
            Value::Key(key) => self.twelfths += key.twelfths + TWELFTHS,
            Value::Number(_) | Value::Word => self.twelfths += TWELFTHS,
        }
        match seen.value {
            Value::Number(number) if number >= 0.0 => self.number(seen.path, number as u64),
            Value::Key(_) | Value::Text(_) | Value::Number(_) | Value::Word => {}
        }
    }

    fn note(&mut self, path: &str, text: &Text) {
        let models = models();
        let first = path.split('.').next().unwrap_or_default();
        self.has_tools |= matches!(first, "tools" | "toolConfig");
        if models.instructions.iter().any(|known| known == first) || path == "model" {
            self.instructions = hashed(self.instructions, text.hash);
            self.instructed += text.twelfths;
        } else if path.starts_with(&models.messages) {
            self.first_message.get_or_insert(text.hash);
        }
    }

    fn text(&mut self, seen: &Seen<'_>, text: &Text) {
        for (_, _, value) in self.labels.iter_mut().filter(|(_, wanted, _)| wanted == seen.path) {
            value.get_or_insert_with(|| text.start().into_owned());
        }
        if seen.path == "model" {
            self.model = Some(text.start().into_owned());
        }
        self.prompts += u64::from(seen.in_array && seen.path == models().output.prompts);
        match models().attached(seen.path, &text.start(), text.is_base64(), text.bytes) {
            Some(tokens) => {
                self.attached += tokens;
                // A prompt that only begins as an attachment is none.
                self.attached_bytes += text.bytes as u64 * u64::from(models().is_attachment(seen.path));
            }
            None => self.twelfths += text.twelfths,
        }
    }

    fn number(&mut self, path: &str, number: u64) {
        let output = &models().output;
        if output.most.iter().any(|known| known == path) {
            self.most = self.most.max(Some(number));
        } else if output.answers.iter().any(|known| known == path) {
            self.answers = self.answers.max(number);
        }
    }
}

impl Tokens {
    /// Subtracts input that the vendor caches.
    pub(crate) fn without_kept(self, kept: u64) -> Self {
        Tokens { input: self.input.map(|input| input.saturating_sub(kept)), ..self }
    }
}

impl UsageReader {
    /// The tokens of the prompt that the vendor has now cached, if the response says.
    pub(crate) fn kept(&self) -> Option<u64> {
        models().usage.forms.iter().find_map(|form| self.sum(&form.kept)).filter(|kept| *kept > 0)
    }

    /// Creates a reader for the response to a request with this estimate.
    #[must_use]
    pub fn new(estimate: Tokens) -> Self {
        UsageReader { estimate, ..UsageReader::default() }
    }

    /// The tokens that the response reports, or else those that a stream has brought.
    fn used(&self, is_whole: bool) -> Tokens {
        let forms = models().usage.forms.iter();
        let mut told = forms.map(|form| (self.sum(&form.input), self.sum(&form.output)));
        let told = told.find(|told| *told != (None, None));
        let brought = Some(self.streamed.div_ceil(TWELFTHS)).filter(|tokens| *tokens > 0);
        let (input, output) = match told {
            None if brought.is_none() => return Tokens::default(),
            None => (None, brought),
            Some((input, output)) if is_whole => (input, output.or(brought)),
            Some((input, output)) => (input, output.max(brought)),
        };
        Tokens { input: input.or(self.estimate.input), output: output.or(Some(0)) }
    }

    /// Whether nothing came after the last report, as it does when a stream fails.
    pub(crate) fn is_reported(&self) -> bool {
        self.unreported == 0
    }

    pub(crate) fn sum(&self, names: &[String]) -> Option<u64> {
        let all = names.iter().filter_map(|name| self.fields.get(name));
        all.copied().reduce(u64::saturating_add)
    }

    pub(crate) fn see(&mut self, seen: &Seen<'_>) {
        match seen.value {
            Value::Number(number) => {
                if let Some(name) = models().usage.field(seen.path) {
                    self.fields.insert(name.to_owned(), number as u64);
                    self.unreported = 0;
                }
            }
            Value::Text(text) if seen.path.contains("delta") || seen.path.contains("content.parts") => {
                self.streamed += text.twelfths;
                self.unreported += text.twelfths;
            }
            Value::Key(_) | Value::Text(_) | Value::Word => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::AnswerReader;
    use http::header::CONTENT_TYPE;

    fn units() -> TokenUnits {
        let unit = |name: &str| Name::new(name).ok();
        TokenUnits { input: unit("in"), output: unit("out"), total: unit("all"), settles: true }
    }

    /// The tokens of a request to `path`, however its body is cut into pieces.
    fn reading(path: &str, body: &str) -> RequestReading {
        let of = |length: usize| {
            let mut reader = RequestReader::new(&Method::POST, path, true, &[]);
            body.as_bytes().chunks(length).for_each(|piece| reader.read(piece));
            reader.end(true)
        };
        let whole = of(body.len().max(1));
        assert!([1, 7].map(of).iter().all(|cut| cut.tokens == whole.tokens), "{path} {body:.80}");
        whole
    }

    fn tokens(path: &str, body: &str) -> Option<(u64, u64)> {
        reading(path, body).tokens.map(|tokens| (tokens.input.unwrap(), tokens.output.unwrap()))
    }

    const CHAT: &str = "/v1/chat/completions";

    #[test]
    fn a_request_may_take_the_most_that_it_allows() {
        #[rustfmt::skip]
        let table = [
            (CHAT,                      r#"{"max_tokens":100}"#,                                    Some((0, 100))),
            (CHAT,                      r#"{"max_completion_tokens":7,"n":3}"#,                     Some((0, 21))),
            (CHAT,                      r#"{"max_tokens":-1}"#,                                     Some((0, 1024))),
            (CHAT,                      r#"{"model":"m"}"#,                                         Some((1, 1024))),
            ("/v1/completions",         r#"{"prompt":["four","more"],"n":2,"best_of":3,"max_tokens":10}"#, Some((2, 60))),
            ("/m:generateContent",      r#"{"generationConfig":{"maxOutputTokens":9}}"#,            Some((6, 9))),
            ("/model/m/converse",       r#"{"inferenceConfig":{"maxTokens":8}}"#,                   Some((5, 8))),
            ("/v1/embeddings",          r#"{"input":[[1,2,3],[4,5]]}"#,                             Some((5, 0))),
            ("/v1/embeddings",          r#"{"input":["four","more"]}"#,                             Some((2, 0))),
            ("/v1/batches",             r#"{"input_file_id":"f"}"#,                                 None),
            ("/v1/audio/speech",        r#"{"model":"tts","input":"some text"}"#,                   None),
            ("/v1/moderations",         r#"{"input":"some text"}"#,                                 None),
            ("/v1/messages/count_tokens", r#"{"messages":[],"max_tokens":5}"#,                      None),
            ("/v1/threads/t/runs",      r#"{"assistant_id":"a","max_completion_tokens":50}"#,       Some((1, 50))),
            (CHAT,                      "no JSON at all",                                           Some((4, 1024))),
        ];
        for (path, body, expected) in table {
            assert_eq!(tokens(path, body), expected, "{path} {body}");
        }
        assert!(!reading(CHAT, "no JSON").is_understood && reading("/v1/files", "no JSON").is_understood);
    }

    /// The tokens of a text, with bounds as tokenizers of several vendors have them.
    #[test]
    fn a_text_takes_tokens_by_its_script() {
        let prose = "Describe the river, the mountain and the town beside them. ";
        let minified = r#"{\"id\":123,\"name\":\"foo\",\"tags\":[\"a\",\"b\"]},"#;
        #[rustfmt::skip]
        let table = [
            (prose,                             1000,   13_000..=16_000),
            (minified,                          1000,   15_000..=25_000),
            ("漢",                              40_000, 40_000..=60_000),
            ("\\u6f22",                         40_000, 40_000..=60_000),
            ("ひらがなと漢字。",                    5000,   40_000..=60_000),
            ("ไทย",                             1000,   3000..=4500),
            ("Привет, мир. ",                   1000,   3500..=9000),
            ("Grüße aus Köln ",                 1000,   4000..=8000),
            ("word",                            10_000, 10_000..=13_400),
            ("😀",                              1000,   2000..=3000),
        ];
        for (text, times, range) in table {
            let body = format!(r#"{{"messages":[{{"role":"user","content":"{}"}}]}}"#, text.repeat(times));
            let (input, _) = tokens(CHAT, &body).unwrap();
            assert!(range.contains(&input), "{text}: {input}");
        }
    }

    #[test]
    fn attachments_take_tokens_by_their_kind_and_size() {
        let data = "QUJD".repeat(50_000);
        let long = "text of a document, ".repeat(500);
        #[rustfmt::skip]
        let table = [
            (format!(r#"{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{data}"}}}}"#),             1600),
            (r#"{"type":"image_url","image_url":{"url":"https://a.example/picture"}}"#.to_owned(),                  1600),
            (format!(r#"{{"type":"input_image","image_url":"data:image/jpeg;base64,{data}"}}"#),                    1600),
            (format!(r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}"#), 1600),
            (format!(r#"{{"inlineData":{{"mimeType":"image/png","data":"iVBORw0KGgo{data}"}}}}"#),                  1600),
            (format!(r#"{{"image":{{"format":"png","source":{{"bytes":"{data}"}}}}}}"#),                            1600),
            (format!(r#"{{"type":"document","source":{{"data":"JVBERi0{data}"}}}}"#),                               6000),
            (format!(r#"{{"type":"file","file":{{"file_data":"data:application/pdf;base64,{data}"}}}}"#),           6000),
            (format!(r#"{{"type":"input_audio","input_audio":{{"data":"{data}","format":"wav"}}}}"#),               600),
            (format!(r#"{{"type":"document","source":{{"type":"text","data":"{long}"}}}}"#),                        2625),
            (format!(r#"{{"type":"text","text":"{}"}}"#, "A".repeat(20_000)),                                       5000),
        ];
        for (part, expected) in table {
            let body = format!(r#"{{"messages":[{{"role":"user","content":[{part}]}}]}}"#);
            let (input, _) = tokens(CHAT, &body).unwrap();
            assert!((expected..=expected + 30).contains(&input), "{part:.80}: {input}");
        }
    }

    #[test]
    fn tools_are_text() {
        let tool = r#"{"name":"weather","description":"d","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}"#;
        let body = format!(r#"{{"messages":[],"tools":[{}]}}"#, vec![tool; 50].join(","));
        let (input, _) = tokens("/v1/messages", &body).unwrap();
        assert!((1200..=2400).contains(&input), "{input}");
    }

    #[test]
    fn a_body_of_20_mib_tells_its_model_behind_its_pictures() {
        let label = BodyLabel { label: "model".to_owned(), key: "model".to_owned(), otherwise: None };
        let mut reader = RequestReader::new(&Method::POST, CHAT, true, &[label]);
        for part in 0..10 {
            let before = if part == 0 { r#"{"messages":[{"role":"user","content":["# } else { "," };
            reader.read(
                format!(r#"{before}{{"type":"image_url","image_url":{{"url":"data:image/png;base64,"#).as_bytes(),
            );
            (0..32).for_each(|_| reader.read(&[b'A'; 65_536]));
            reader.read(br#""}}"#);
        }
        reader.read(br#"]}],"max_tokens":50,"model":"late"}"#);
        let reading = reader.end(true);
        assert_eq!(reading.labels, [("model".to_owned(), "late".to_owned())]);
        let Tokens { input, output } = reading.tokens.unwrap();
        assert!(reading.is_understood && output == Some(50) && (16_000..16_300).contains(&input.unwrap()), "{input:?}");
    }

    #[test]
    fn the_cost_of_a_route_stays() {
        let estimate = Tokens { input: Some(4), output: Some(1) };
        let cost = units().cost(Some(Cost::requests(2)), estimate);
        assert_eq!(cost.unwrap().to_string(), "2 requests, 4 in, 1 out, 5 all");
        assert_eq!(TokenUnits::default().cost(None, estimate), None);
    }

    /// The usage in an answer that comes in pieces of any length.
    fn used(content_type: &'static str, answer: &str, is_whole: bool) -> Option<String> {
        let of = |length: usize| {
            let headers = [(CONTENT_TYPE, http::HeaderValue::from_static(content_type))].into_iter().collect();
            let estimate = Tokens { input: Some(70), output: Some(900) };
            let mut reader = AnswerReader::new(200, &headers, Some((units(), estimate)));
            answer.as_bytes().chunks(length).for_each(|piece| reader.read(piece));
            reader.used(is_whole).map(|cost| cost.to_string())
        };
        let whole = of(answer.len().max(1));
        assert_eq!([1, 2, 7].map(of), [whole.clone(), whole.clone(), whole.clone()], "{answer:.80}");
        whole
    }

    const JSON: &str = "application/json";
    const STREAM: &str = "text/event-stream; charset=utf-8";

    #[test]
    fn an_answer_says_what_it_took() {
        let picture = format!(
            r#"{{"data":[{{"b64_json":"{}"}}],"usage":{{"input_tokens":5,"output_tokens":4165}}}}"#,
            "A".repeat(300_000)
        );
        #[rustfmt::skip]
        let table = [
            (JSON,   r#"{"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}}"#,                    Some("5 in, 7 out, 12 all")),
            (JSON,   r#"{"usage":{"prompt_tokens":2006,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":1920}}}"#, Some("2006 in, 7 out, 2013 all")),
            (JSON,   r#"{"usage":{"input_tokens":5,"cache_creation_input_tokens":20000,"cache_read_input_tokens":900,"output_tokens":7}}"#, Some("20005 in, 7 out, 20012 all")),
            (JSON,   r#"{"usage":{"prompt_tokens":25,"cache_creation_input_tokens":20,"completion_tokens":7}}"#,    Some("25 in, 7 out, 32 all")),
            (JSON,   r#"{"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":7,"thoughtsTokenCount":30}}"#, Some("5 in, 37 out, 42 all")),
            (JSON,   r#"[{"usageMetadata":{"promptTokenCount":5}},{"usageMetadata":{"promptTokenCount":5,"candidatesTokenCount":7}}]"#, Some("5 in, 7 out, 12 all")),
            (JSON,   r#"{"usage":{"inputTokens":5,"cacheWriteInputTokens":40,"cacheReadInputTokens":9,"outputTokens":7}}"#, Some("45 in, 7 out, 52 all")),
            (JSON,   r#"{"usage":{"prompt_tokens":5,"total_tokens":5}}"#,                                           Some("5 in, 0 out, 5 all")),
            (JSON,   "\n\n  {\n \"usage\" : {\"input_tokens\": 5, \"output_tokens\": 7}}",                          Some("5 in, 7 out, 12 all")),
            (JSON,   &picture,                                                                                      Some("5 in, 4165 out, 4170 all")),
            (JSON,   r#"{"content":[{"input":{"usage":{"input_tokens":9}}}],"usage":{"input_tokens":5,"output_tokens":7}}"#, Some("5 in, 7 out, 12 all")),
            (JSON,   r#"{"choices":[]}"#,                                                                           None),
            (JSON,   r#"{"usage":null}"#,                                                                           None),
            (STREAM, "data: {\"usage\":null}\n\ndata: {\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":7}}\n\ndata: [DONE]\n\n", Some("5 in, 7 out, 12 all")),
            (STREAM, "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":5,\"cache_creation_input_tokens\":60,\"output_tokens\":1}}}\n\ndata: {\"usage\":{\"output_tokens\":7}}\n\n", Some("65 in, 7 out, 72 all")),
            (STREAM, "data: {\"response\":{\"usage\":{\"input_tokens\":5,\"output_tokens\":7}}}",                    Some("5 in, 7 out, 12 all")),
            (STREAM, "data: {\"choices\":[{\"delta\":{\"content\":\"four and more \"}}]}\n\ndata: [DONE]\n\n",       Some("70 in, 4 out, 74 all")),
            (STREAM, "data: no JSON, but \"usage\"\n",                                                              None),
        ];
        for (content_type, answer, expected) in table {
            assert_eq!(used(content_type, answer, true).as_deref(), expected, "{answer:.120}");
        }
        let broken = "data: {\"message\":{\"usage\":{\"input_tokens\":5,\"output_tokens\":1}}}\n\n\
                      data: {\"delta\":{\"text\":\"twelve bytes twelve bytes\"}}\n\n";
        assert_eq!(used(STREAM, broken, false).as_deref(), Some("5 in, 7 out, 12 all"));
        assert_eq!(used(JSON, r#"{"choices":[{"#, false), None, "the estimate stays");
    }
}
