//! The file of the tokens that clients of the HTTP front show.

use crate::reading::source::{ConfigError, Source};
use crate::reading::value::name;
use rampmeter_protocol::bounds::MAX_LABEL_VALUE;
use rampmeter_protocol::name::Name;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use std::path::Path;
use toml::Spanned;

/// The fewest bytes of a token, so that it cannot be guessed even by unbounded attempts.
pub const MIN_TOKEN: usize = 16;
/// The most tokens in one file. Each request is compared with all of them.
const MAX_TOKENS: usize = 256;
/// The message for every text that is no file of tokens. The parser's own may quote a secret.
const FORM: &str = "a [[token]] has `name` and `secret`, and perhaps `resources`, `classes` (lists of names), \
                    `client` (a text) and `page` (\"view\" or \"operate\")";

/// A token, and what its holder may ask for.
#[derive(Clone, Debug)]
pub struct TokenSettings {
    /// The name in refusals and in the log.
    pub name: Name,
    /// The text that clients show.
    pub secret: SecretString,
    /// The resources that the holder may ask for; all if there is no list.
    pub resources: Option<Vec<Name>>,
    /// The classes that the holder may name, the first of them by default; all if there is no list.
    pub classes: Option<Vec<Name>>,
    /// The value of the label `client`, if the holder may name no other.
    pub client: Option<String>,
    /// What the holder may do on the web page, if anything.
    pub page: Option<PageRight>,
}

/// A right on the web page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PageRight {
    /// To look.
    View,
    /// To look, and to give an operator's orders.
    Operate,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokensTable {
    #[serde(default)]
    token: Vec<TokenTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenTable {
    name: Spanned<String>,
    secret: Spanned<String>,
    resources: Option<Spanned<Vec<Spanned<String>>>>,
    classes: Option<Spanned<Vec<Spanned<String>>>>,
    client: Option<Spanned<String>>,
    page: Option<PageRight>,
}

/// Parses and checks tokens. Faults name `path` as their file, and contain no part of a secret.
///
/// # Errors
/// The first fault.
pub fn parse_tokens(path: &Path, text: &str) -> Result<Vec<TokenSettings>, ConfigError> {
    let source = Source::new(path, text);
    let table: TokensTable = toml::from_str(text).map_err(|error| source.fault(&error.span().unwrap_or(0..0), FORM))?;
    if !(1..=MAX_TOKENS).contains(&table.token.len()) {
        let count = table.token.len();
        return Err(source.fault(&(0..0), format!("a file of tokens has 1 to {MAX_TOKENS} [[token]], not {count}")));
    }
    let mut tokens: Vec<TokenSettings> = Vec::new();
    for table in &table.token {
        let token = token(&source, table)?;
        if tokens.iter().any(|other| other.name == token.name) {
            return Err(source.fault(&table.name.span(), format!("there are two tokens `{}`", token.name)));
        }
        if let Some(other) = tokens.iter().find(|other| has_same_secret(other, &token)) {
            let reason = format!("tokens `{}` and `{}` have one `secret`; give each its own", other.name, token.name);
            return Err(source.fault(&table.secret.span(), reason));
        }
        tokens.push(token);
    }
    Ok(tokens)
}

fn has_same_secret(one: &TokenSettings, other: &TokenSettings) -> bool {
    one.secret.expose_secret() == other.secret.expose_secret()
}

fn token(source: &Source, table: &TokenTable) -> Result<TokenSettings, ConfigError> {
    let bytes = table.secret.get_ref().len();
    if bytes < MIN_TOKEN {
        let reason = format!("a `secret` has {MIN_TOKEN} bytes or more, not {bytes}: otherwise it can be guessed");
        return Err(source.fault(&table.secret.span(), reason));
    }
    Ok(TokenSettings {
        name: name(source, &table.name)?,
        secret: SecretString::from(table.secret.get_ref().as_str()),
        resources: names(source, "resources", table.resources.as_ref())?,
        classes: names(source, "classes", table.classes.as_ref())?,
        client: table.client.as_ref().map(|client| client_value(source, client)).transpose()?,
        page: table.page,
    })
}

/// Reads a list of names. An empty one is refused: a token that allows nothing is better left out.
fn names(
    source: &Source,
    field: &str,
    list: Option<&Spanned<Vec<Spanned<String>>>>,
) -> Result<Option<Vec<Name>>, ConfigError> {
    match list {
        Some(list) if list.get_ref().is_empty() => {
            let reason = format!("`{field}` has one name or more; leave it out to allow all");
            Err(source.fault(&list.span(), reason))
        }
        list => list.map(|list| list.get_ref().iter().map(|text| name(source, text)).collect()).transpose(),
    }
}

fn client_value(source: &Source, client: &Spanned<String>) -> Result<String, ConfigError> {
    match (1..=MAX_LABEL_VALUE).contains(&client.get_ref().chars().count()) {
        true => Ok(client.get_ref().clone()),
        false => Err(source.fault(&client.span(), format!("a `client` has 1 to {MAX_LABEL_VALUE} characters"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<TokenSettings>, String> {
        parse_tokens(Path::new("tokens.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_token_has_a_name_a_secret_and_what_it_may_name() {
        let text = "[[token]]\nname = \"bulk\"\nsecret = \"canary-of-bulk-workers\"\nresources = [\"hub\"]\n\
                    classes = [\"bulk\", \"standard\"]\nclient = \"team a\"\npage = \"operate\"\n\
                    [[token]]\nname = \"all\"\nsecret = \"canary-of-everything\"\n";
        let tokens = parse(text).unwrap();
        let shown = format!("{tokens:?}");
        assert!(!shown.contains("canary") && shown.contains("team a"), "{shown}");
        assert_eq!((tokens[0].client.as_deref(), &tokens[1].client), (Some("team a"), &None));
        assert_eq!((tokens[0].page, tokens[1].page), (Some(PageRight::Operate), None));
        assert_eq!(&*tokens[0].classes.as_ref().unwrap()[0], "bulk");
        assert!(tokens[1].resources.is_none() && tokens[1].classes.is_none());
    }

    /// Reaches `token_file::MAX_TOKENS`.
    #[test]
    fn faults_name_the_field_and_no_secret() {
        let token = |more: &str| format!("[[token]]\nname = \"a\"\nsecret = \"canary-canary-canary\"\n{more}");
        let many: String = (0..257)
            .map(|number| format!("[[token]]\nname = \"a{number}\"\nsecret = \"canary-canary-{number:05}\"\n"))
            .collect();
        #[rustfmt::skip]
        let table = [
            (String::new(),                                         "1:1: a file of tokens has 1 to 256 [[token]], not 0".to_owned()),
            (many,                                                  "1:1: a file of tokens has 1 to 256 [[token]], not 257".to_owned()),
            ("canary-canary-canary\n".to_owned(),                   format!("1:21: {FORM}")),
            ("token = \"canary-canary-canary\"\n".to_owned(),       format!("1:9: {FORM}")),
            ("[[token]]\nsecret = \"canary-canary-canary\"\n".to_owned(), format!("1:1: {FORM}")),
            (token("clases = [\"bulk\"]\n"),                        format!("4:1: {FORM}")),
            (token("classes = \"canary\"\n"),                       format!("4:11: {FORM}")),
            (token("page = \"canary\"\n"),                          format!("4:8: {FORM}")),
            (token("classes = []\n"),                               "4:11: `classes` has one name or more; leave it out to allow all".to_owned()),
            (token("resources = []\n"),                             "4:13: `resources` has one name or more; leave it out to allow all".to_owned()),
            (token("resources = [\"a.b\"]\n"),                      "4:14: a name is 1 to 64 characters of [A-Za-z0-9_-]".to_owned()),
            (token("client = \"\"\n"),                              "4:10: a `client` has 1 to 256 characters".to_owned()),
            (token("[[token]]\nname = \"b\"\nsecret = \"canary\"\n"), "6:10: a `secret` has 16 bytes or more, not 6: otherwise it can be guessed".to_owned()),
            (token(&token("")),                                     "5:8: there are two tokens `a`".to_owned()),
            (token(&token("").replace("\"a\"", "\"b\"")),           "6:10: tokens `a` and `b` have one `secret`; give each its own".to_owned()),
        ];
        for (text, expected) in table {
            let error = parse(&text).unwrap_err();
            assert!(error.starts_with(&format!("tokens.toml:{expected}")), "{error}\n{text}");
            assert!(!error.contains("canary"), "{error}");
        }
    }
}
