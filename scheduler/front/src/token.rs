//! The tokens that clients of the front show.

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
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::watch;

/// The tokens, one of which each client has to show. `None` lets every client through.
#[derive(Clone, Debug)]
pub(super) struct Guard(Option<watch::Receiver<Holders>>);

/// The client that a request comes from. Without tokens every client may ask for everything.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    holder: Option<Arc<TokenHolder>>,
    address: IpAddr,
}

/// Checks that HTTP can be served by these settings, before it is. Environment variables are
/// not read: those of the scheduler may differ.
///
/// # Errors
/// If `listen` is no address, or a file with tokens or a certificate can't be used.
pub fn check(settings: &HttpSettings) -> anyhow::Result<()> {
    settings.check_address()?;
    match &settings.tokens {
        Some(TokenSource::One(SecretSource::Env(_))) | None => Ok(()),
        Some(_) if settings.listen.is_empty() || !settings.front => Ok(()),
        Some(source) => TokenReader::check(source),
    }
    if let Some(files) = settings.tls.clone().filter(|_| !settings.listen.is_empty()) {
        Certificate::read(files, &[], Clock::start()).context("`http.tls`")?;
    }
}

impl Guard {
    /// Reads the tokens, and reads them again when their file changes.
    ///
    /// # Errors
    /// Why there are no tokens. The text contains none.
    pub(super) fn new(source: Option<&TokenSource>) -> anyhow::Result<Self> {
        let reader = source.map(|source| TokenReader::start(source.clone())).transpose()?;
        Ok(Guard(reader))
    }

    /// The client at `address` that has sent these headers; nothing if it shows no token that counts.
    fn caller(&self, headers: &HeaderMap, address: IpAddr) -> Option<Caller> {
        let Some(holders) = &self.0 else { return Some(Caller { holder: None, address }) };
        let mut shown = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(authorization), None) = (shown.next(), shown.next()) else { return None };
        let token = bearer(authorization.as_bytes())?;
        let holders = holders.borrow().clone();
        // All tokens are compared, so that the time does not show which one matches.
        let matching =
            holders.iter().fold(None, |found, holder| if holder.shows(token) { Some(holder) } else { found });
        matching.map(|holder| Caller { holder: Some(holder.clone()), address })
    }
}

impl Caller {
    /// The holder of the token, if one was shown.
    pub(super) fn holder(&self) -> Option<&TokenHolder> {
        self.holder.as_deref()
    }

    /// The party whose places its requests take.
    pub(super) fn party(&self) -> Party {
        self.holder().map_or_else(|| Party::at(self.address), |holder| Party::Token(holder.name().clone()))
    }

    /// What the client may do on the page; `None` means nothing. Without tokens every client may
    /// look.
    pub(super) fn page(&self) -> Option<PageRight> {
        self.holder().map_or(Some(PageRight::View), TokenHolder::page)
    }

    /// # Errors
    /// If the client may not do `right` on the page. The text says what it needs.
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

/// Lets a request with a token through, and notes its holder.
pub(super) async fn guard(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    let address = request.extensions().get::<Connection>().expect("the limiter adds it to every request").address();
    match guard.caller(request.headers(), address) {
        Some(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        None => {
            let body = "the token is missing or wrong: Authorization: Bearer TOKEN\n";
            (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")], body).into_response()
        }
    }
}

fn bearer(authorization: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = authorization.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token)
}
