//! Responses that object to a call, and their meaning.

use rampmeter_protocol::name::Name;
use rampmeter_protocol::settle::Response;
use rampmeter_protocol::time::Span;
use serde::Deserialize;
use std::borrow::Cow;

/// The header with the code of an error at AWS. Other upstreams put it into the body.
const CODE: &str = "x-amzn-errortype";

/// A kind of responses, and what it says about limits. An absent part matches every response.
///
/// ```
/// use rampmeter_dialects::{Dialect, Means, Objection, Reader, Statuses};
/// let busy = Objection { statuses: Statuses::One(200), body: Some("try again".into()), ..Objection::new(Means::Pause) };
/// let reader = Reader::of(Dialect::Plain).with_objections(vec![busy]);
/// assert_eq!(reader.code_in(200, "{\"note\": \"Try again later\"}"), Some("try again"));
/// assert_eq!(reader.code_in(500, "{\"note\": \"Try again later\"}"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// The statuses.
    pub statuses: Statuses,
    /// A header and its value; any value if absent. A value may end with `*`.
    pub header: Option<(Cow<'static, str>, Option<Cow<'static, str>>)>,
    /// The code of the error. Only letters and digits are compared, ignoring case.
    pub code: Option<Cow<'static, str>>,
    /// A text in the body, in any case. Whoever has the body passes on [`code`](Objection::code), or else this text.
    pub body: Option<Cow<'static, str>>,
    /// What the response means.
    pub means: Means,
    /// How long calls pause if the response does not say.
    pub pause: Option<Span>,
    /// The limit that objected; if absent, the one that the response names, if it does.
    pub limit: Option<Name>,
    /// What else the response needs.
    pub when: When,
}

/// The HTTP statuses that match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statuses {
    /// All of them.
    Any,
    /// This one.
    One(u16),
    /// Those that begin with this digit.
    Class(u16),
}

/// What a response means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Means {
    /// A limit objected: the call came too early.
    Limit,
    /// The upstream wants a pause, which says nothing about limits.
    Pause,
    /// A quota is spent.
    Quota,
    /// The response is not about limits.
    Ignore,
    /// The upstream has no room for the call, and says nothing more.
    #[serde(skip)]
    Busy,
}

/// What else a response needs to be an objection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Nothing.
    Always,
    /// An error's code.
    HasCode,
    /// Neither a pause nor an empty bucket.
    NamesNoTime,
    /// A pause.
    HasPause,
    /// A pause, or an empty bucket.
    HasPauseOrEmptyBucket,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) has_pause: bool,
    pub(crate) has_empty_bucket: bool,
}

impl Objection {
    /// Creates an objection of every response; its fields restrict it.
    #[must_use]
    pub fn new(means: Means) -> Self {
        Objection {
            statuses: Statuses::Any,
            header: None,
            code: None,
            body: None,
            means,
            pause: None,
            limit: None,
            when: When::Always,
        }
    }

    pub(crate) fn status(statuses: Statuses, when: When, means: Means) -> Self {
        Objection { statuses, when, ..Objection::new(means) }
    }

    pub(crate) fn coded(code: &'static str, means: Means) -> Self {
        Objection { code: Some(Cow::Borrowed(code)), ..Objection::new(means) }
    }

    /// The code that reports that the text was found in the body.
    fn code_of_body(&self) -> Option<&str> {
        self.code.as_deref().or(self.body.as_deref())
    }

    pub(crate) fn fits(&self, response: &Response<'_>, times: Times) -> bool {
        let code = response.code.as_deref().or(response.headers.get(CODE));
        let needed = self.code_of_body();
        self.statuses.contain(response.status)
            && needed.is_none_or(|needed| code.is_some_and(|code| is_same_code(code, needed)))
            && self.header.as_ref().is_none_or(|(name, value)| {
                response.headers.get(name).is_some_and(|found| is_same_value(found, value.as_deref()))
            })
            && match self.when {
                When::Always => true,
                When::HasCode => code.is_some(),
                When::NamesNoTime => !times.has_pause && !times.has_empty_bucket,
                When::HasPause => times.has_pause,
                When::HasPauseOrEmptyBucket => times.has_pause || times.has_empty_bucket,
            }
    }

    /// The code to pass on for a response with this body, which is in lower case.
    pub(crate) fn code_in(&self, status: u16, lower_body: &str) -> Option<&str> {
        let text = self.body.as_ref().filter(|_| self.statuses.contain(status))?;
        lower_body.contains(&text.to_ascii_lowercase()).then(|| self.code_of_body())?
    }

    /// Whether this is about responses with this status and code.
    pub(crate) fn knows(&self, status: u16, code: &str) -> bool {
        self.statuses.contain(status) && self.code_of_body().is_some_and(|known| is_same_code(code, known))
    }
}

impl Statuses {
    fn contain(self, status: u16) -> bool {
        match self {
            Statuses::Any => true,
            Statuses::One(one) => status == one,
            Statuses::Class(digit) => status / 100 == digit,
        }
    }
}

/// Compares codes by letters and digits, as one vendor's `RATE_LIMITED` is another's `rateLimited`.
/// AWS writes a namespace before `#`, and an address behind `:`.
fn is_same_code(code: &str, known: &str) -> bool {
    let code = code.rsplit('#').next().unwrap_or(code);
    let code = code.split(':').next().unwrap_or(code);
    let plain = |text: &'_ str| -> String {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    plain(code) == plain(known)
}

fn is_same_value(found: &str, wanted: Option<&str>) -> bool {
    let found = found.trim();
    wanted.is_none_or(|wanted| match wanted.strip_suffix('*') {
        Some(prefix) => found.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix)),
        None => found.eq_ignore_ascii_case(wanted),
    })
}
