//! What calls of language models cost, in the unit in which limits count money.

use crate::models::models;
use crate::prices::{Demand, ModelPrice, PaidTokens, Prices};
use crate::tokens::UsageReader;
use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::name::Name;
use std::sync::Arc;

/// The statuses of requests that a vendor has refused without reading their prompts.
const UNREAD: [u16; 8] = [401, 403, 404, 405, 413, 415, 422, 429];

/// How calls are charged for what they cost.
#[derive(Clone, Debug)]
pub struct Money {
    /// The unit of limits in money.
    pub unit: Name,
    /// The prices.
    pub prices: Arc<Prices>,
}

/// The price of one call's model.
#[derive(Clone, Debug)]
pub(crate) struct CallPrice {
    unit: Name,
    price: ModelPrice,
    demand: Demand,
}

impl Money {
    /// Finds the price of a call to `model`, or says why there is none.
    pub(crate) fn of(&self, model: Option<&str>, demand: Demand) -> Result<CallPrice, String> {
        let model = model.ok_or("it names no model, which tells the price")?;
        let (_, price) = self.prices.of(model).ok_or_else(|| {
            let model: String = model.chars().take(100).collect();
            format!("there is no price of `{model}`; add it to the file of `prices`")
        })?;
        Ok(CallPrice { unit: self.unit.clone(), price: price.clone(), demand })
    }
}

impl CallPrice {
    /// The most that the call may cost.
    pub(crate) fn most(&self) -> Amount {
        self.price.most(&self.demand)
    }

    /// What the call has cost by its response. `None` if that is uncertain: the most stays charged.
    pub(crate) fn paid(&self, status: u16, usage: &UsageReader, is_whole: bool) -> Option<(&str, f64)> {
        let tokens = match status {
            status if UNREAD.contains(&status) => PaidTokens::default(),
            // Some vendors bill prompts that they refuse.
            400..500 => PaidTokens { input: self.demand.input, ..PaidTokens::default() },
            _ => paid_tokens(usage, self.price.most > 0).filter(|_| is_whole)?,
        };
        Some((&self.unit, self.price.paid(&tokens).units()))
    }
}

/// Returns the tokens that a response reports, by what they cost; `None` unless it reports all.
pub(crate) fn paid_tokens(usage: &UsageReader, has_output: bool) -> Option<PaidTokens> {
    let forms = models().usage.forms.iter();
    let form = { forms }.find(|form| usage.is_reported() && usage.sum(&form.input).is_some())?;
    let of = |names: &[String]| usage.sum(names).unwrap_or(0);
    let (input, within, written) = (of(&form.input), of(&form.cached_within), of(&form.written));
    let (hour, output) = (of(&form.written_hour), usage.sum(&form.output).or((!has_output).then_some(0))?);
    Some(PaidTokens {
        // The fields of input include what is written.
        input: input.saturating_sub(within).saturating_sub(written),
        cached: within.saturating_add(of(&form.cached_beside)),
        kept: written.saturating_sub(hour),
        kept_hour: hour,
        // The totals of some vendors have tokens of reasoning that their outputs lack.
        output: output.max(of(&form.total).saturating_sub(input)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::RequestReader;
    use http::Method;

    fn demand(path: &str, body: &str) -> Demand {
        let mut reader = RequestReader::new(&Method::POST, path, true, &[]);
        reader.read(body.as_bytes());
        reader.end(true).demand
    }

    /// Whatever the tokenizer, no request takes more than this.
    #[test]
    fn a_request_takes_a_token_for_each_byte_at_most() {
        let of = |body: &str| demand("/v1/chat/completions", body);
        let picture = format!("data:image/png;base64,{}", "QUJD".repeat(5000));
        let attached = of(&format!(r#"{{"messages":[{{"content":[{{"image_url":{{"url":"{picture}"}}}}]}}],"n":2}}"#));
        assert!((1600..1700).contains(&attached.input) && attached.answers == 2 && attached.output.is_none());
        let prompt = of(&format!(r#"{{"messages":[{{"content":"{picture}"}}],"max_tokens":7}}"#));
        assert!(prompt.input > 20_000 && prompt.output == Some(7), "a prompt that begins as a picture");
        assert_eq!(of(r#"{"tools":[{"name":"a"}]}"#).input, 24 + 1024, "and what explains its tools");
        assert_eq!(demand("/v1/embeddings", r#"{"input":"a"}"#).output, Some(0));
    }
}
