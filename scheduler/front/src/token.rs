//! Checks the tokens of clients of the front.

use super::access_log::{AccessLog, Lacks};
use super::places::Party;
use super::token_holder::TokenHolder;
use super::token_reader::{Holders, TokenReader};
use anyhow::Context;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use rampmeter_account::SecretSource;
pub(super) use rampmeter_config::PageRight;
use rampmeter_config::{HttpSettings, TokenSource};
use rampmeter_listener::Connection;
use rampmeter_listener::tls::Certificate;
use rampmeter_protocol::clock::Clock;
use rampmeter_serve::audit::Action;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::watch;

/// The valid tokens, one of which each client must show. `None` admits every client.
#[derive(Clone, Debug)]
pub(super) struct Guard(Option<watch::Receiver<Holders>>);

/// The client of a request. Without tokens every client may ask for everything.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    holder: Option<Arc<TokenHolder>>,
    address: IpAddr,
    access_log: AccessLog,
}

/// Checks that HTTP can be served by these settings, without environment variables, which the scheduler may have.
///
/// # Errors
/// If `listen` is no address, or a file with tokens or a certificate can't be used.
pub fn check(settings: &HttpSettings) -> anyhow::Result<()> {
    settings.check_address()?;
    if let Some(files) = settings.tls.clone().filter(|_| !settings.listen.is_empty()) {
        Certificate::read(files, &[], Clock::start()).context("`http.tls`")?;
    }
    match &settings.tokens {
        Some(TokenSource::One(SecretSource::Env(_))) | None => Ok(()),
        Some(_) if settings.listen.is_empty() || !settings.front => Ok(()),
        Some(source) => TokenReader::check(source),
    }
}

impl Guard {
    /// Reads the tokens, now and whenever their file changes. Fails if there are none; the error contains none.
    pub(super) fn new(source: Option<&TokenSource>) -> anyhow::Result<Self> {
        let reader = source.map(|source| TokenReader::start(source.clone())).transpose()?;
        Ok(Guard(reader))
    }

    /// Returns the holder of the token in these headers, if one is needed. Fails without a valid token.
    fn holder(&self, headers: &HeaderMap) -> Result<Option<Arc<TokenHolder>>, NoToken> {
        let Some(holders) = &self.0 else { return Ok(None) };
        let mut shown = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(authorization), None) = (shown.next(), shown.next()) else { return Err(NoToken) };
        let token = bearer(authorization.as_bytes()).ok_or(NoToken)?;
        let holders = holders.borrow().clone();
        // All tokens are compared, so that the time does not show which one matches.
        let matching =
            holders.iter().fold(None, |found, holder| if holder.shows(token) { Some(holder) } else { found });
        matching.cloned().map(Some).ok_or(NoToken)
    }
}

impl Caller {
    pub(super) fn holder(&self) -> Option<&TokenHolder> {
        self.holder.as_deref()
    }

    pub(super) fn audit(&self, what: &str, on: &str, order: &[u8]) {
        let who = self.holder().map_or("", |holder| holder.name());
        Action { who, what, on, from: &self.address.to_string(), order }.log();
    }

    pub(super) fn note_forbidden(&self) {
        self.access_log.note(Lacks::Right, self.address, self.holder().map(|holder| &**holder.name()));
    }

    /// Returns the party whose places the client's requests take.
    pub(super) fn party(&self) -> Party {
        self.holder().map_or_else(|| Party::at(self.address), |holder| Party::Token(holder.name().clone()))
    }

    /// Returns the client's right on the page, if any. Without tokens every client may look.
    pub(super) fn page(&self) -> Option<PageRight> {
        self.holder().map_or(Some(PageRight::View), TokenHolder::page)
    }

    /// Fails unless the client has `right` on the page. The error names what it needs.
    pub(super) fn check_page(&self, right: PageRight) -> Result<(), String> {
        let missing = |needs: &str| match self.holder() {
            Some(holder) => format!("token `{}` has no `page = \"{needs}\"`", holder.name()),
            None => format!("this needs a token with `page = \"{needs}\"`, in the `tokens_file` of [http]"),
        };
        match (self.page(), right) {
            (Some(PageRight::Operate), _) | (Some(PageRight::View), PageRight::View) => Ok(()),
            (Some(PageRight::View), PageRight::Operate) | (None, PageRight::Operate) => Err(missing("operate")),
            (None, PageRight::View) => Err(missing("view")),
        }
    }
}

struct NoToken;

/// Passes a request with a valid token on, with its holder.
pub(super) async fn guard(
    State((guard, access_log)): State<(Guard, AccessLog)>,
    mut request: Request,
    next: Next,
) -> Response {
    let address = request.extensions().get::<Connection>().expect("the limiter adds it to every request").address();
    match guard.holder(request.headers()) {
        Ok(holder) => {
            request.extensions_mut().insert(Caller { holder, address, access_log });
            next.run(request).await
        }
        Err(NoToken) => {
            access_log.note(Lacks::Token, address, None);
            let body = "the token is missing or wrong: Authorization: Bearer TOKEN\n";
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], body).into_response()
        }
    }
}

fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = authorization.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
}
