//! Reading of responses as they pass: the tokens used, and the code of an error.

use crate::amounts;
use crate::json::{Scanner, Seen};
use crate::money::{CallPrice, paid_tokens};
use crate::objection::{ErrorReader, MAX_READ};
use crate::prices::{ModelPrice, PaidTokens};
use crate::settings::CodeFn;
use crate::tokens::{TokenUnits, Tokens, UsageReader};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderName};
use rampmeter_worker_sdk::Cost;

/// The header in which AWS states the kind of an error.
const ERROR_TYPE: HeaderName = HeaderName::from_static("x-amzn-errortype");

/// Reads a response of JSON or a stream of events with JSON. Nothing is read from a compressed one.
#[derive(Debug)]
pub struct AnswerReader {
    scanner: Scanner,
    usage: Option<(TokenUnits, UsageReader)>,
    price: Option<CallPrice>,
    error: ErrorReader,
    /// What finds codes, and in which text: the beginning of a body, or a stream's last line.
    codes: Option<(CodeFn, Vec<u8>)>,
    status: u16,
    is_plain: bool,
    is_readable: bool,
    is_stream: bool,
    bytes: usize,
}

impl AnswerReader {
    /// Creates a reader for the response to a call with this estimate, if tokens count.
    #[must_use]
    pub fn new(status: u16, headers: &HeaderMap, estimate: Option<(TokenUnits, Tokens)>) -> Self {
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let kind = text(&CONTENT_TYPE).unwrap_or("json");
        let is_stream = kind.starts_with("text/event-stream");
        let is_plain = text(&CONTENT_ENCODING).is_none_or(|encoding| encoding == "identity");
        AnswerReader {
            scanner: Scanner::default(),
            usage: estimate.map(|(units, tokens)| (units, UsageReader::new(tokens))),
            price: None,
            error: ErrorReader::new(status, text(&ERROR_TYPE)),
            codes: None,
            status,
            is_plain,
            is_readable: is_plain && (is_stream || kind.contains("json")),
            is_stream,
            bytes: 0,
        }
    }

    /// Also looks for texts that stand for codes.
    #[must_use]
    pub fn with_codes(self, codes: Option<CodeFn>) -> Self {
        let codes = codes.filter(|_| self.is_plain).map(|codes| (codes, Vec::new()));
        AnswerReader { codes, ..self }
    }

    /// Also computes what the call costs.
    pub(crate) fn with_price(self, price: Option<CallPrice>) -> Self {
        AnswerReader { price, ..self }
    }

    /// Reads the next piece.
    pub fn read(&mut self, piece: &[u8]) {
        self.keep(piece);
        let looked_at = if self.is_stream { piece.len() } else { MAX_READ.saturating_sub(self.bytes) };
        self.bytes = self.bytes.saturating_add(piece.len());
        let (first, rest) = piece.split_at(looked_at.min(piece.len()));
        self.scan(first, true);
        if self.usage.is_some() {
            self.scan(rest, false);
        }
    }

    fn keep(&mut self, piece: &[u8]) {
        let Some((_, kept)) = &mut self.codes else { return };
        for line in piece.split_inclusive(|byte| self.is_stream && *byte == b'\n') {
            if self.is_stream && kept.ends_with(b"\n") && !line.trim_ascii().is_empty() {
                kept.clear();
            }
            let room = MAX_READ.saturating_sub(kept.len());
            kept.extend_from_slice(&line[..line.len().min(room)]);
        }
    }

    pub(crate) fn code(&self) -> Option<String> {
        let find = |(codes, text): &(CodeFn, Vec<u8>)| (codes.0)(self.status, &String::from_utf8_lossy(text));
        let in_text = self.codes.as_ref().and_then(find);
        in_text.or_else(|| self.error.code().map(str::to_owned))
    }

    fn scan(&mut self, piece: &[u8], sees_errors: bool) {
        let AnswerReader { scanner, usage, error, is_readable, is_stream, .. } = self;
        let see = &mut |seen: &Seen<'_>| {
            if let Some((_, usage)) = usage {
                usage.see(seen);
            }
            if sees_errors {
                error.see(seen);
            }
        };
        for line in piece.split_inclusive(|byte| *is_stream && *byte == b'\n').filter(|_| *is_readable) {
            scanner.read(line, see);
            if *is_stream && line.ends_with(b"\n") {
                scanner.reset();
            }
        }
    }

    /// Returns what the call took, if its response says; one that breaks off is not whole.
    #[must_use]
    pub fn used(&self, is_whole: bool) -> Option<Cost> {
        let (units, usage) = self.usage.as_ref()?;
        let paid = self.price.as_ref().and_then(|price| price.paid(self.status, usage, is_whole));
        amounts::with(units.used(usage, is_whole), paid)
    }

    /// Returns what the whole response says that the call took.
    #[must_use]
    pub fn paid(&self, price: &ModelPrice) -> Option<PaidTokens> {
        self.usage.as_ref().and_then(|(_, usage)| paid_tokens(usage, price.most > 0))
    }

    /// The tokens of the prompt that the vendor has now cached, if the response says.
    pub(crate) fn kept(&self) -> Option<u64> {
        self.usage.as_ref().and_then(|(_, usage)| usage.kept())
    }

    pub(crate) fn error(&self) -> &ErrorReader {
        &self.error
    }
}
