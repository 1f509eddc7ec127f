//! Routes: kinds of requests by method, host and path.

use crate::amounts;
use http::Method;
use http::request::Parts;
use rampmeter_listener::stated::{Stated, Unclear, UnitCost};
use rampmeter_protocol::bounds::MAX_LABEL_VALUE;
use rampmeter_worker_sdk::Cost;
use std::sync::Arc;

/// The routes, of which the first that matches a request applies.
#[derive(Clone, Debug, Default)]
pub struct Routes(Arc<[Route]>);

/// One kind of requests.
#[derive(Clone, Debug)]
pub struct Route {
    /// The methods; empty for all.
    pub methods: Vec<Method>,
    /// The host that clients address, without a port; any if absent.
    pub host: Option<String>,
    /// The path.
    pub path: PathTemplate,
    /// The class of these requests, if they have their own.
    pub class: Option<String>,
    /// Labels of these requests besides those of the path.
    pub labels: Vec<(String, RouteLabel)>,
    /// The cost of each request by unit, if the route states it.
    pub cost: Vec<(String, UnitCost)>,
}

/// The value of a label.
#[derive(Clone, Debug)]
pub enum RouteLabel {
    /// This text.
    Text(String),
    /// What the request states. Without it, the label is left out.
    Stated(Stated),
}

/// A path such as `/guilds/{guild}/*`. `{name}` stands for one segment, whose value is the label
/// `name`; a suffix as in `{model}:predict` has to follow it. A final `*` stands for any rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathTemplate {
    text: Arc<str>,
    segments: Vec<Segment>,
    has_rest: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Text(String),
    /// A label, and the suffix of its value.
    Label(String, String),
}

/// The text is not a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a path is written like \"/guilds/{{guild}}/*\": it begins with a slash, and `*` stands at its end")]
pub struct TemplateError;

impl Routes {
    /// Creates routes in this order.
    #[must_use]
    pub fn new(routes: Vec<Route>) -> Self {
        Routes(routes.into())
    }

    /// Iterates over the units in which a route has a cost.
    pub fn units(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|route| &route.cost).map(|(unit, _)| unit.as_str())
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|route| route.host.as_deref())
    }

    /// The first route that matches, with the labels of the path.
    pub(crate) fn find(
        &self,
        method: &Method,
        host: Option<&str>,
        path: &str,
    ) -> Option<(&Route, Vec<(&str, String)>)> {
        self.0.iter().find_map(|route| Some((route, route.fits(method, host, path)?)))
    }
}

impl Route {
    /// The cost of the request with this head; `None` if the route does not state it.
    pub(crate) fn cost(&self, head: &Parts) -> Result<Option<Cost>, Unclear> {
        let amounts = self.cost.iter().map(|(unit, cost)| {
            let amount = cost.read(&head.headers, head.uri.query())?;
            Ok((unit.as_str(), amount.units()))
        });
        let amounts: Result<Vec<(&str, f64)>, Unclear> = amounts.collect();
        Ok(amounts::with(None, amounts?))
    }

    /// The labels of the request with this head, without those of its path.
    pub(crate) fn labels(&self, head: &Parts) -> Result<Vec<(&str, String)>, Unclear> {
        let mut labels = Vec::new();
        for (name, label) in &self.labels {
            let value = match label {
                RouteLabel::Text(text) => Some(text.clone()),
                RouteLabel::Stated(stated) => stated
                    .text(&head.headers, head.uri.query())?
                    .map(|text| text.chars().take(MAX_LABEL_VALUE).collect()),
            };
            labels.extend(value.map(|value| (name.as_str(), value)));
        }
        Ok(labels)
    }

    fn fits(&self, method: &Method, host: Option<&str>, path: &str) -> Option<Vec<(&str, String)>> {
        let fits_method = self.methods.is_empty() || self.methods.contains(method);
        let fits_host = self.host.as_deref().is_none_or(|wanted| host.is_some_and(|host| is_host(host, wanted)));
        (fits_method && fits_host).then(|| self.path.labels_of(path)).flatten()
    }
}

fn is_host(found: &str, wanted: &str) -> bool {
    let name = found.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    name.map_or(found, |(name, _)| name).eq_ignore_ascii_case(wanted)
}

impl PathTemplate {
    /// Creates the template of all paths.
    #[must_use]
    pub fn any() -> Self {
        PathTemplate { text: "/*".into(), segments: Vec::new(), has_rest: true }
    }

    /// Returns the template as written.
    #[must_use]
    pub fn text(&self) -> Arc<str> {
        self.text.clone()
    }

    /// The labels in `path`, if it matches. Values beyond the protocol's length are cut.
    fn labels_of(&self, path: &str) -> Option<Vec<(&str, String)>> {
        let mut found = Vec::new();
        let mut rest = path.strip_prefix('/')?.split('/');
        for segment in &self.segments {
            match (segment, rest.next()?) {
                (Segment::Text(text), part) if text == part => {}
                (Segment::Label(name, end), part) => {
                    let value = part.strip_suffix(end.as_str()).filter(|value| !value.is_empty())?;
                    found.push((name.as_str(), value.chars().take(MAX_LABEL_VALUE).collect()));
                }
                (Segment::Text(_), _) => return None,
            }
        }
        (self.has_rest || rest.next().is_none()).then_some(found)
    }
}

impl std::str::FromStr for PathTemplate {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        let mut parts: Vec<&str> = text.strip_prefix('/').ok_or(TemplateError)?.split('/').collect();
        let has_rest = parts.pop_if(|last| *last == "*").is_some();
        let segments = parts.into_iter().map(segment).collect::<Result<_, _>>()?;
        Ok(PathTemplate { text: text.into(), segments, has_rest })
    }
}

fn segment(text: &str) -> Result<Segment, TemplateError> {
    let label = text.strip_prefix('{').and_then(|text| text.split_once('}'));
    match label {
        Some((name, end)) if !name.is_empty() && ![name, end].iter().any(|text| text.contains(['{', '}', '*'])) => {
            Ok(Segment::Label(name.to_owned(), end.to_owned()))
        }
        None if !text.contains(['{', '}', '*']) => Ok(Segment::Text(text.to_owned())),
        Some(_) | None => Err(TemplateError),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_takes_labels_from_a_path() {
        #[rustfmt::skip]
        let table = [
            ("/guilds/{guild}/*",   "/guilds/7/members",    Some("guild=7")),
            ("/guilds/{guild}/*",   "/guilds/7/",           Some("guild=7")),
            ("/guilds/{guild}/*",   "/guilds/7",            Some("guild=7")),
            ("/guilds/{guild}",     "/guilds/7/members",    None),
            ("/guilds/{guild}",     "/guilds/",             None),
            ("/{a}/{b}",            "/x/y",                 Some("a=x b=y")),
            ("/models/{model}:run", "/models/a:b:run",      Some("model=a:b")),
            ("/models/{model}:run", "/models/a:runs",       None),
            ("/models/{model}:run", "/models/:run",         None),
            ("/*",                  "/",                    Some("")),
            ("/*",                  "/x/y",                 Some("")),
            ("/",                   "/",                    Some("")),
            ("/",                   "/x",                   None),
            ("/v1/chat",            "/v1/chat",             Some("")),
            ("/v1/chat",            "/V1/chat",             None),
        ];
        for (template, path, expected) in table {
            let template: PathTemplate = template.parse().unwrap();
            let labels = template.labels_of(path).map(|labels| {
                labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
            });
            assert_eq!(labels.as_deref(), expected, "{template:?} {path}");
        }
        for wrong in ["", "a", "/a*", "/*/a", "/{}", "/a{b}", "/{a{b}}"] {
            assert_eq!(wrong.parse::<PathTemplate>(), Err(TemplateError), "{wrong}");
        }
    }

    #[test]
    fn a_host_has_no_port() {
        assert!(is_host("A.example:80", "a.example") && is_host("a.example", "a.example"));
        assert!(!is_host("b.example", "a.example") && !is_host("a.example.evil", "a.example"));
    }
}
