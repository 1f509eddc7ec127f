//! Reads the tokens of the front, at the start and whenever their file changes.

use super::token_holder::TokenHolder;
use anyhow::{anyhow, bail};
use rampmeter_account::SecretSource;
use rampmeter_config::{MIN_TOKEN, TokenSource, parse_tokens};
use secrecy::{ExposeSecret, SecretString};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How often the file is compared with its last content. A removed token ends within this time.
const READ_AGAIN: Duration = Duration::from_secs(1);

pub(super) type Holders = Arc<[Arc<TokenHolder>]>;

#[derive(Debug)]
pub(super) struct TokenReader {
    source: TokenSource,
    /// The last content, or why it could not be read.
    last: Result<SecretString, String>,
}

impl TokenReader {
    /// Reads the tokens, again if their file changes; an invalid one changes nothing. Fails if there are none now.
    pub(super) fn start(source: TokenSource) -> anyhow::Result<watch::Receiver<Holders>> {
        let secret_source = secret_source(&source);
        let reader = TokenReader::new(source);
        let (publisher, holders) = watch::channel(reader.holders()?);
        if secret_source.is_open_to_all() {
            tracing::warn!("every user of this machine may read {secret_source}; run `chmod o-r` on it");
        }
        if matches!(secret_source, SecretSource::File(_)) {
            tokio::spawn(reader.keep_reading(publisher));
        }
        Ok(holders)
    }

    /// Fails unless there are tokens now.
    pub(super) fn check(source: &TokenSource) -> anyhow::Result<()> {
        TokenReader::new(source.clone()).holders().map(drop)
    }

    fn new(source: TokenSource) -> Self {
        TokenReader { last: secret_source(&source).read(), source }
    }

    /// Watches the file until no further request can come.
    async fn keep_reading(mut self, publisher: watch::Sender<Holders>) {
        loop {
            tokio::select! {
                () = publisher.closed() => return,
                () = tokio::time::sleep(READ_AGAIN) => {}
            }
            let source = secret_source(&self.source);
            let Ok(read) = tokio::task::spawn_blocking(move || source.read()).await else { return };
            if is_same(&read, &self.last) {
                continue;
            }
            self.last = read;
            match self.holders() {
                Ok(holders) => {
                    tracing::info!(
                        tokens = holders.len(),
                        "{} has changed, and its tokens count",
                        secret_source(&self.source)
                    );
                    publisher.send_replace(holders);
                }
                Err(error) => tracing::warn!("{error:#}; the former tokens stay in force"),
            }
        }
    }

    fn holders(&self) -> anyhow::Result<Holders> {
        let field = match &self.source {
            TokenSource::One(SecretSource::Env(_)) => "http.token_env",
            TokenSource::One(SecretSource::File(_)) => "http.token_file",
            TokenSource::Several(_) => "http.tokens_file",
        };
        let text = self.last.as_ref().map_err(|reason| anyhow!("`{field}`: {reason}"))?;
        match &self.source {
            TokenSource::One(_) => {
                let bytes = text.expose_secret().len();
                if bytes < MIN_TOKEN {
                    bail!("`{field}`: the token has {bytes} bytes; one that nobody guesses has {MIN_TOKEN} or more");
                }
                Ok([Arc::new(TokenHolder::of_everything(text.clone()))].into())
            }
            TokenSource::Several(path) => {
                let tokens = parse_tokens(path, text.expose_secret());
                let tokens = tokens.map_err(|error| anyhow!("`{field}`: {error}"))?;
                Ok(tokens.into_iter().map(|token| Arc::new(TokenHolder::new(token))).collect())
            }
        }
    }
}

fn secret_source(source: &TokenSource) -> SecretSource {
    match source {
        TokenSource::One(source) => source.clone(),
        TokenSource::Several(path) => SecretSource::File(path.clone()),
    }
}

fn is_same(one: &Result<SecretString, String>, other: &Result<SecretString, String>) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => one.expose_secret() == other.expose_secret(),
        (Err(one), Err(other)) => one == other,
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
    }
}
