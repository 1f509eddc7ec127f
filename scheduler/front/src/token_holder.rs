//! The holder of a token, and its rights.

use rampmeter_config::{PageRight, TokenSettings};
use rampmeter_protocol::labels::Labels;
use rampmeter_protocol::name::Name;
use rampmeter_protocol::request::PermitRequest;
use rampmeter_protocol::settle::Settle;
use rampmeter_protocol::text::Text;
use secrecy::{ExposeSecret, SecretString};
use subtle::ConstantTimeEq;

/// The label with the client of a request.
const CLIENT: &str = "client";

/// A token with its holder's rights. A request without a restricted class or client gets a permitted one.
#[derive(Clone, Debug)]
pub(super) struct TokenHolder(TokenSettings);

impl TokenHolder {
    pub(super) fn new(settings: TokenSettings) -> Self {
        TokenHolder(settings)
    }

    /// Returns the holder of a token that allows everything.
    pub(super) fn of_everything(secret: SecretString) -> Self {
        let name = Name::new("token").expect("a valid name");
        let page = Some(PageRight::View);
        TokenHolder(TokenSettings { name, secret, resources: None, classes: None, client: None, page })
    }

    /// Compares a token. The time taken reveals only the length of a wrong one.
    pub(super) fn shows(&self, token: &[u8]) -> bool {
        token.ct_eq(self.0.secret.expose_secret().as_bytes()).into()
    }

    pub(super) fn name(&self) -> &Name {
        &self.0.name
    }

    pub(super) fn page(&self) -> Option<PageRight> {
        self.0.page
    }

    pub(super) fn is_bound_to_resources(&self) -> bool {
        self.0.resources.is_some()
    }

    /// Fails unless the holder may ask for `resource`.
    pub(super) fn check_resource(&self, resource: &Name) -> Result<(), String> {
        match &self.0.resources {
            Some(allowed) if !allowed.contains(resource) => {
                Err(self.forbidden_message("ask for resource", resource, "ask for", allowed))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Restricts a request to the holder's rights. Fails if it has another class or client than allowed.
    pub(super) fn permit<'a>(&self, request: PermitRequest<'a>) -> Result<PermitRequest<'a>, String> {
        Ok(PermitRequest { class: self.class(request.class)?, labels: self.labels(request.labels)?, ..request })
    }

    /// Restricts a settle, by whose labels a call may be counted. Fails if it has another client than allowed.
    pub(super) fn settle<'a>(&self, mut settle: Settle<'a>) -> Result<Settle<'a>, String> {
        if let Some(asked) = &mut settle.asked {
            asked.labels = self.labels(std::mem::take(&mut asked.labels))?;
        }
        Ok(settle)
    }

    fn class<'a>(&self, named: Option<Text<'a>>) -> Result<Option<Text<'a>>, String> {
        let Some(allowed) = &self.0.classes else { return Ok(named) };
        match named {
            None => Ok(allowed.first().map(|class| Text::from(class.to_string()))),
            Some(named) if allowed.iter().any(|class| **class == *named) => Ok(Some(named)),
            Some(named) => Err(self.forbidden_message("name class", &named, "name", allowed)),
        }
    }

    fn labels<'a>(&self, mut labels: Labels<'a>) -> Result<Labels<'a>, String> {
        let Some(client) = &self.0.client else { return Ok(labels) };
        match labels.get(CLIENT) {
            Some(named) if named == client => Ok(labels),
            Some(named) => Err(self.forbidden_message("name client", named, "name", &[client])),
            None => match labels.set(CLIENT, client.clone()) {
                Ok(()) => Ok(labels),
                Err(full) => Err(format!("token `{}` sets the label `{CLIENT}`: {full}", self.0.name)),
            },
        }
    }

    fn forbidden_message(&self, what: &str, named: &str, may: &str, allowed: &[impl std::fmt::Display]) -> String {
        let allowed: Vec<String> = allowed.iter().map(|name| format!("`{name}`")).collect();
        format!("token `{}` may not {what} `{named}`; it may {may} {}", self.0.name, allowed.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder() -> TokenHolder {
        let named = |names: &[&str]| Some(names.iter().map(|name| Name::new(name).unwrap()).collect());
        TokenHolder(TokenSettings {
            name: Name::new("team-a").unwrap(),
            secret: "canary-canary-canary".into(),
            resources: named(&["hub"]),
            classes: named(&["bulk", "standard"]),
            client: Some("a".to_owned()),
            page: None,
        })
    }

    #[test]
    fn a_holder_names_what_its_token_allows() {
        #[rustfmt::skip]
        let table = [
            // the request, and what is asked
            (r#"{}"#,                                           Ok(r#"{"class":"bulk","labels":{"client":"a"},"mode":"reserve"}"#)),
            (r#"{"class": "standard"}"#,                        Ok(r#"{"class":"standard","labels":{"client":"a"},"mode":"reserve"}"#)),
            (r#"{"labels": {"client": "a", "route": "/"}}"#,    Ok(r#"{"class":"bulk","labels":{"client":"a","route":"/"},"mode":"reserve"}"#)),
            (r#"{"class": "urgent"}"#,                          Err("token `team-a` may not name class `urgent`; it may name `bulk`, `standard`")),
            (r#"{"labels": {"client": "b"}}"#,                  Err("token `team-a` may not name client `b`; it may name `a`")),
            (r#"{"labels": {"client": ""}}"#,                   Err("token `team-a` may not name client ``; it may name `a`")),
        ];
        for (request, expected) in table {
            let asked = holder().permit(serde_json::from_str(request).unwrap());
            let asked = asked.map(|asked| serde_json::to_string(&asked).unwrap()).map_err(|error| error.to_string());
            assert_eq!(asked.as_deref().map_err(|error| error.as_str()), expected, "{request}");
        }
    }

    #[test]
    fn a_full_list_of_labels_has_no_room_for_the_client() {
        let labels: Vec<String> = (0..16).map(|number| format!("\"label-{number}\": \"x\"")).collect();
        let request = format!("{{\"labels\": {{{}}}}}", labels.join(","));
        let refused = holder().permit(serde_json::from_str(&request).unwrap()).unwrap_err();
        assert_eq!(refused.to_string(), "token `team-a` sets the label `client`: at most 16 labels");
    }

    #[test]
    fn an_extension_counts_for_the_holders_client() {
        let settle = |labels: &str| format!(r#"{{"id": "x", "extend": true, "asked": {{"labels": {labels}}}}}"#);
        let (other, none) = (settle(r#"{"client": "b"}"#), settle("{}"));
        assert!(holder().settle(serde_json::from_str(&other).unwrap()).is_err());
        let settle = holder().settle(serde_json::from_str(&none).unwrap()).unwrap();
        let asked = settle.asked.unwrap();
        assert_eq!(asked.labels.get("client"), Some("a"));
    }

    #[test]
    fn other_resources_are_not_asked_for() {
        assert_eq!(holder().check_resource(&Name::new("hub").unwrap()), Ok(()));
        let refused = holder().check_resource(&Name::new("other").unwrap()).unwrap_err();
        assert_eq!(refused.to_string(), "token `team-a` may not ask for resource `other`; it may ask for `hub`");
    }
}
