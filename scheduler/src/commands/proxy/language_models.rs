//! The defaults of a proxy in front of a language model: what it counts unless its file states it.

use crate::commands::price;
use rampmeter_config::{Configured, MONEY, ProxySettings};
use rampmeter_dialects::Dialect;
use rampmeter_protocol::name::Name;
use rampmeter_proxy::money::Money;
use rampmeter_proxy::tokens::{BodyLabel, TokenUnits};
use std::path::Path;
use std::sync::Arc;

/// The label of the model, and its key in the body of a request.
const MODEL: &str = "model";

/// The label of calls without a model, such as a list of models, which have limits of their own.
const NO_MODEL: &str = "none";

/// Has `proxy` count the tokens and money that limits of `resource` count, and tell models apart, unless the file does.
pub(super) fn complete(proxy: &mut ProxySettings, resource: &Configured) -> anyhow::Result<()> {
    let money = resource.counts_money(proxy).then(|| money(proxy.prices.as_deref())).transpose()?;
    let ProxySettings { asking, origin, .. } = proxy;
    asking.tokens = asking.tokens.take().or_else(|| tokens(resource));
    asking.money = money;
    let has_model = origin.labels.iter().any(|(label, _)| label == MODEL)
        || asking.body_labels.iter().any(|wanted| wanted.label == MODEL);
    let is_model = asking.tokens.is_some() || matches!(resource.reader.dialect(), Dialect::Openai | Dialect::Anthropic);
    if is_model && tells_models_apart(resource) && !has_model {
        let otherwise = Some(NO_MODEL.to_owned());
        asking.body_labels.push(BodyLabel { label: MODEL.to_owned(), key: MODEL.to_owned(), otherwise });
    }
    Ok(())
}

fn money(prices: Option<&Path>) -> anyhow::Result<Money> {
    let prices = Arc::new(price::prices(prices)?);
    Ok(Money { unit: Name::new(MONEY).expect("a valid name"), prices })
}

fn tokens(resource: &Configured) -> Option<TokenUnits> {
    let units = || resource.spec.limits.iter().map(|limit| &limit.unit);
    let counted = |name: &str| units().find(|unit| ***unit == *name).cloned();
    let (input, output, total) = (counted("input-tokens"), counted("output-tokens"), counted("tokens"));
    // OpenAI charges what a request allows, not what it took.
    let settles = resource.reader.dialect() != Dialect::Openai;
    let counts = input.is_some() || output.is_some() || total.is_some();
    counts.then_some(TokenUnits { input, output, total, settles })
}

fn tells_models_apart(resource: &Configured) -> bool {
    let applies = resource.spec.limits.iter().map(|limit| &limit.applies);
    applies
        .into_iter()
        .any(|applies| applies.key.iter().any(|key| key == MODEL) || applies.matching.contains_key(MODEL))
}
