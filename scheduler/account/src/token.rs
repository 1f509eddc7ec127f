//! An access token and its claims.

use super::error::{FailureKind, ProviderError, Question};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderValue;
use rampmeter_protocol::time::{Span, Time};
use secrecy::SecretString;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The scheme before a token in its header.
const SCHEME: &str = "Bearer ";
/// A token is replaced this long before its end or, if later, after 9/10 of its life, so that no question outlives it.
const BEFORE_END: Span = Span::from_secs(60);
/// The life of a token that does not state one.
const DEFAULT_LIFE: Span = Span::from_secs(60);
/// The longest life of a token, whatever it states: a revoked token is replaced within a day.
const MAX_LIFE: Span = Span::from_secs(86_400);

/// An access token. Its `Debug` output hides the token.
#[derive(Clone, Debug)]
pub struct AccessToken {
    pub(super) authorization: HeaderValue,
    /// The owner of the token, for the paths of the API.
    pub(super) subject: String,
    /// When to request another token.
    pub refresh_at: Time,
}

#[derive(Deserialize)]
struct TokenAnswer {
    access_token: String,
    expires_in: Option<f64>,
}

#[derive(Deserialize)]
struct Claims {
    sub: Option<String>,
    exp: Option<f64>,
}

impl AccessToken {
    /// Returns the token without the scheme of its header.
    #[must_use]
    pub fn secret(&self) -> SecretString {
        let text = self.authorization.to_str().unwrap_or_default();
        text.strip_prefix(SCHEME).unwrap_or_default().into()
    }

    /// Reads the answer to a request sent at `asked`, at wall time `unix_ms`. Fails without a token or its owner.
    pub(super) fn read(body: &[u8], asked: Time, unix_ms: u64) -> Result<Self, ProviderError> {
        let answer: TokenAnswer = parse(body).ok_or_else(|| malformed("it is not JSON with an `access_token`"))?;
        let claims = claims(&answer.access_token).ok_or_else(|| malformed("the token is not a JWT"))?;
        let subject = claims.sub.filter(|sub| !sub.is_empty());
        let life = answer.expires_in.or_else(|| claims.exp.map(|exp| exp - unix_ms as f64 / 1e3));
        let mut authorization = HeaderValue::try_from(format!("{SCHEME}{}", answer.access_token))
            .map_err(|_| malformed("the token does not fit into a header"))?;
        authorization.set_sensitive(true);
        Ok(AccessToken {
            authorization,
            subject: subject.ok_or_else(|| malformed("the token has no claim `sub`"))?,
            refresh_at: asked + useful_life(life),
        })
    }
}

/// Returns how long to use a token with a stated life of `secs` seconds.
fn useful_life(secs: Option<f64>) -> Span {
    let stated = secs.filter(|secs| secs.is_finite()).map(|secs| Span::from_millis((secs * 1e3).max(0.0) as u64));
    let life = stated.unwrap_or(DEFAULT_LIFE).min(MAX_LIFE);
    let tenth = Span::from_nanos(life.nanos() / 10);
    life.saturating_sub(tenth.min(BEFORE_END))
}

/// Reads the claims of a JWT without checking its signature: the token comes straight from its endpoint, whose
/// certificate was checked, and no claim permits anything. The API decides about requests to paths with `sub`.
fn claims(token: &str) -> Option<Claims> {
    let payload = token.split('.').nth(1)?;
    parse(&URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?)
}

/// Drops serde's errors, as they quote the text, which may be a secret here.
fn parse<T: DeserializeOwned>(text: &[u8]) -> Option<T> {
    serde_json::from_slice(text).ok()
}

fn malformed(reason: &str) -> ProviderError {
    ProviderError::new(Question::Token, FailureKind::Malformed, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.canary", URL_SAFE_NO_PAD.encode(claims))
    }

    fn read(body: &str) -> Result<AccessToken, ProviderError> {
        AccessToken::read(body.as_bytes(), Time::ORIGIN, 1_000_000)
    }

    /// Reaches `token::MAX_LIFE`.
    #[test]
    fn a_token_counts_until_shortly_before_its_end() {
        #[rustfmt::skip]
        let table = [
            // expires_in,           claim exp,     counts for ms
            ("",                     "",             54_000),
            (r#","expires_in":600"#, "",            540_000),
            (r#","expires_in":3600"#, "",         3_540_000),
            (r#","expires_in":10"#,  "",              9_000),
            (r#","expires_in":0"#,   "",                  0),
            (r#","expires_in":-5"#,  "",                  0),
            (r#","expires_in":1e18"#, "",        86_340_000),
            ("",                     r#","exp":1600"#, 540_000),
            ("",                     r#","exp":900"#,        0),
            (r#","expires_in":600"#, r#","exp":1010"#, 540_000),
        ];
        for (expires_in, exp, millis) in table {
            let token = token(&format!(r#"{{"sub":"me"{exp}}}"#));
            let read = read(&format!(r#"{{"access_token":"{token}"{expires_in}}}"#)).unwrap();
            assert_eq!(read.refresh_at, Time::ORIGIN + Span::from_millis(millis), "{expires_in} {exp}");
            assert_eq!(read.subject, "me");
            assert!(!format!("{read:?}").contains("canary"), "{read:?}");
        }
    }

    #[test]
    fn an_invalid_token_is_not_shown() {
        let bodies = [
            String::new(),
            "canary".to_owned(),
            r#"{"token":"canary"}"#.to_owned(),
            r#"{"access_token":["canary"]}"#.to_owned(),
            r#"{"access_token":"canary"}"#.to_owned(),
            r#"{"access_token":"canary.canary.canary"}"#.to_owned(),
            format!(r#"{{"access_token":"{}"}}"#, token(r#"{"sub":["canary"]}"#)),
            format!(r#"{{"access_token":"{}"}}"#, token(r#"{"aud":"canary"}"#)),
            format!(r#"{{"access_token":"{}"}}"#, token(r#"{"sub":""}"#)),
            format!(r#"{{"access_token":"{}\n"}}"#, token(r#"{"sub":"me"}"#)),
        ];
        for body in bodies {
            let error = read(&body).map(drop).expect_err(&body);
            assert_eq!((error.question, error.kind), (Question::Token, FailureKind::Malformed), "{body}");
            assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
        }
    }
}
