//! The permit that a request needs.

use crate::amounts;
use crate::models::models;
use crate::settings::Asking;
use crate::tokens::{BodyLabel, TokenUnits, Tokens};
use http::header::HOST;
use http::request::Parts;
use rampmeter_protocol::bounds::MAX_LABEL_VALUE;
use rampmeter_protocol::cost::Cost as WireCost;
use rampmeter_protocol::labels::{ACCOUNT, Labels};
use rampmeter_protocol::time::Span;
use rampmeter_worker_sdk::call::Acquire;
use rampmeter_worker_sdk::{Cost, Resource};
use std::net::IpAddr;
use std::sync::Arc;

const NO_ROUTE: &str = "-";

#[derive(Clone, Debug)]
pub(crate) struct RequestedPermit {
    pub(crate) class: Option<String>,
    labels: Labels<'static>,
    /// Without a stated cost, limits of `requests` count the request, if there are any.
    cost: Option<Cost>,
    /// The template of its path, the only part of it in logs and metrics.
    pub(crate) route: Arc<str>,
}

impl RequestedPermit {
    /// Determines the permit for a head from `address`. Fails if it contains something twice, or an invalid label.
    pub(crate) fn of(head: &Parts, address: IpAddr, asking: &Asking) -> Result<Self, String> {
        let labels = asking.labels.as_ref().map(|labels| (labels.0)(head, address));
        let mut labels = labels.transpose()?.unwrap_or_default();
        let mut permit =
            RequestedPermit { class: asking.class.clone(), labels: Labels::new(), cost: None, route: NO_ROUTE.into() };
        let path = asking.path(head.uri.path()).map_err(|error| error.to_string())?;
        if let Some((route, of_path)) = asking.routes.find(&head.method, host(head), &path) {
            let own = route.labels(head).map_err(|unclear| unclear.to_string())?;
            for (name, value) in own.into_iter().chain(of_path) {
                labels.set(name.to_owned(), value).map_err(|error| format!("label `{name}`: {error}"))?;
            }
            let cost = route.cost(head).map_err(|unclear| unclear.to_string())?;
            permit = RequestedPermit { cost, route: route.path.text(), ..permit };
            permit.class = route.class.clone().or(permit.class);
        }
        let class = asking.class_header.as_ref().and_then(|name| head.headers.get(name));
        if let Some(class) = class {
            permit.class = Some(class.to_str().map_err(|_| "the class is not ASCII")?.to_owned());
        }
        let cost = amounts::with(permit.cost, stated(head, asking)?);
        Ok(RequestedPermit { labels, cost, ..permit })
    }

    /// Adds the labels from its body, or else from its path. Fails if there are too many.
    pub(crate) fn with_labels(
        mut self,
        wanted: &[BodyLabel],
        told: &[(String, String)],
        path: &str,
    ) -> Result<Self, String> {
        for BodyLabel { label, otherwise, .. } in wanted {
            let told = told.iter().find(|(known, _)| known == label).map(|(_, value)| value.as_str());
            let is_open = otherwise.is_some() && self.labels.get(label).is_none();
            let value = told.or_else(|| is_open.then(|| models().model_in(path).or(otherwise.as_deref())).flatten());
            if let Some(value) = value {
                let value: String = value.chars().take(MAX_LABEL_VALUE).collect();
                self.labels.set(label.clone(), value).map_err(|error| format!("label `{label}`: {error}"))?;
            }
        }
        Ok(self)
    }

    pub(crate) fn with_tokens(self, units: &TokenUnits, tokens: Tokens) -> Self {
        RequestedPermit { cost: units.cost(self.cost, tokens), ..self }
    }

    pub(crate) fn has_cost(&self) -> bool {
        self.cost.is_some()
    }

    /// Whether its route or its client states an amount of this unit.
    pub(crate) fn states(&self, unit: &str) -> bool {
        let cost = self.cost.clone().and_then(|cost| cost.into_wire().ok());
        cost.is_some_and(|cost| cost.iter().any(|(known, _)| known == unit))
    }

    /// Adds these amounts, computed from its body.
    pub(crate) fn with_price(self, price: &[(String, f64)]) -> Self {
        let amounts = price.iter().map(|(unit, amount)| (unit.as_str(), *amount));
        RequestedPermit { cost: amounts::with(self.cost, amounts), ..self }
    }

    pub(crate) fn names_account(&self) -> bool {
        self.labels.get(ACCOUNT).is_some()
    }

    /// Requests a permit that starts within `longest_wait`, for a client that has `waited`.
    pub(crate) fn acquire(&self, resource: &Resource, waited: Span, longest_wait: Span) -> Acquire {
        let acquire = resource
            .acquire(self.cost.clone().unwrap_or_else(|| WireCost::new().into()))
            .age(waited.duration())
            .deadline(longest_wait.duration());
        let acquire = self.labels.iter().fold(acquire, |acquire, (key, value)| acquire.label(key, value));
        match &self.class {
            Some(class) => acquire.class(class),
            None => acquire,
        }
    }
}

/// The amounts that the client states in headers.
fn stated<'a>(head: &Parts, asking: &'a Asking) -> Result<Vec<(&'a str, f64)>, String> {
    let mut found = Vec::new();
    for (unit, name) in &asking.cost_headers {
        let mut values = head.headers.get_all(name).iter();
        let Some(value) = values.next() else { continue };
        let amount = value.to_str().ok().filter(|_| values.next().is_none()).and_then(|text| text.trim().parse().ok());
        found.push((unit.as_str(), amount.ok_or_else(|| format!("`{name}` is not one number"))?));
    }
    Ok(found)
}

/// The host in the target or in the header.
fn host(head: &Parts) -> Option<&str> {
    head.uri.host().or_else(|| head.headers.get(HOST)?.to_str().ok())
}
