//! The defaults of a proxy in front of a language model: what it counts if its file does not say
//! it.

use rampmeter_config::{Configured, ProxySettings};
use rampmeter_dialects::Dialect;
use rampmeter_proxy::tokens::TokenUnits;

/// The label by which limits tell models apart, and its key in the body of a request.
const MODEL: &str = "model";

/// Has `proxy` count the tokens that the limits of `resource` count, and tell models apart if they
/// do. What the file says stays.
pub(super) fn complete(proxy: &mut ProxySettings, resource: &Configured) {
    let dialect = resource.reader.dialect();
    if !matches!(dialect, Dialect::Openai | Dialect::Anthropic) {
        return;
    }
    proxy.tokens = proxy.tokens.take().or_else(|| tokens(dialect, resource));
    let has_model = proxy.origin.labels.iter().any(|(label, _)| label == MODEL)
        || proxy.body_labels.iter().any(|(label, _)| label == MODEL);
    if tells_models_apart(resource) && !has_model {
        proxy.body_labels.push((MODEL.to_owned(), MODEL.to_owned()));
    }
}

fn tokens(dialect: Dialect, resource: &Configured) -> Option<TokenUnits> {
    let counted = |unit: &str| resource.spec.limits.iter().any(|limit| *limit.unit == *unit).then(|| unit.to_owned());
    let (input, output, total) = (counted("input-tokens"), counted("output-tokens"), counted("tokens"));
    // OpenAI charges what a request allows, not what it took.
    let settles = dialect != Dialect::Openai;
    let counts = input.is_some() || output.is_some() || total.is_some();
    counts.then_some(TokenUnits { input, output, total, settles })
}

fn tells_models_apart(resource: &Configured) -> bool {
    let applies = resource.spec.limits.iter().map(|limit| &limit.applies);
    applies
        .into_iter()
        .any(|applies| applies.key.iter().any(|key| key == MODEL) || applies.matching.contains_key(MODEL))
}
