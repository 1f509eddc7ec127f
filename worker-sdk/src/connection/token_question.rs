//! Requests for the upstream's access token, which are rare and need no session.

use crate::Error;
use async_nats::{Client, RequestErrorKind};
use rampmeter_protocol::name::Name;
use rampmeter_protocol::token::AccessToken;
use rampmeter_worker_session::Denial;
use std::time::Duration;

/// Timeout of a request; the scheduler may have to obtain a token first.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) async fn ask(client: &Client, subject: String, resource: &Name) -> Result<AccessToken, Error> {
    let asking = client.request(subject, "".into());
    let answer = match tokio::time::timeout(TOKEN_TIMEOUT, asking).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => {
            return Err(Error::no_token(resource, "no scheduler of it answers"));
        }
        Ok(Err(_)) | Err(_) => {
            let why = "no answer; this NATS user may not be allowed to ask on `rampmeter.token`";
            return Err(Error::no_token(resource, why));
        }
    };
    AccessToken::parse(&answer.payload).map_err(|refused| match refused {
        None => Error::no_token(resource, "the answer is not of the protocol"),
        Some(refused) => Error::denied(resource, Denial::Refused(refused.into_owned())),
    })
}
