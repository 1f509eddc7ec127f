//! What tokens of language models cost: `prices.json`, the vendors' list prices.

use rampmeter_protocol::amount::Amount;
use rampmeter_protocol::bounds::MAX_AMOUNT;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A price in millionths of a dollar per million tokens is one in millionths of a millionth of a
/// dollar per token. So many of these are a millionth of a dollar.
const PICOS: u128 = 1_000_000;

/// The keys of a price.
const KEYS: [&str; 8] = ["input", "cached", "kept", "kept_hour", "output", "most", "above", "input_tokens"];

/// Prices of models, in USD.
///
/// ```
/// use rampmeter_proxy::prices::{Demand, Prices};
/// let prices = Prices::listed();
/// let (name, price) = prices.of("openai/gpt-4o-2024-08-06").unwrap();
/// let most = price.most(&Demand { input: 1000, output: Some(500), answers: 1 });
/// assert_eq!((name, most.units()), ("gpt-4o", 0.0075));
/// assert!(prices.of("unknown").is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// The day on which they were read.
    pub date: String,
    /// Where they were read.
    #[serde(default)]
    pub sources: Vec<String>,
    /// The prices by model.
    pub models: BTreeMap<String, ModelPrice>,
}

/// What a model's tokens cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelPrice {
    /// The prices of its tokens.
    #[serde(flatten)]
    pub rates: Rates,
    /// The most tokens of one response, which a request without a bound may take.
    pub most: u64,
    /// The prices of calls with long prompts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above: Option<LongPrompt>,
}

/// Prices by the kind of token, in USD per million.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Of the prompt.
    pub input: Amount,
    /// Of the prompt, read from a cache; without it, as `input`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached: Option<Amount>,
    /// Of the prompt, written into a cache; without it, as `input`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<Amount>,
    /// Of the prompt, written into a cache for an hour; without it, as `kept`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_hour: Option<Amount>,
    /// Of the response, reasoning included.
    pub output: Amount,
}

/// The prices of a call whose prompt has more tokens than this.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LongPrompt {
    /// The most tokens of a prompt at the usual prices.
    pub input_tokens: u64,
    /// The prices beyond.
    #[serde(flatten)]
    pub rates: Rates,
}

/// The most that a request may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// The tokens of the prompt: an upper bound, not an estimate.
    pub input: u64,
    /// The most tokens of a response; `None` if the request sets no bound.
    pub output: Option<u64>,
    /// The number of responses.
    pub answers: u64,
}

/// The tokens of a call, by what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PaidTokens {
    /// Of the prompt, neither read from a cache nor written into one.
    pub input: u64,
    /// Read from a cache.
    pub cached: u64,
    /// Written into a cache.
    pub kept: u64,
    /// Written into a cache for an hour.
    pub kept_hour: u64,
    /// Of the response.
    pub output: u64,
}

/// Why a file of prices cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the prices: {0}; write `models` as `rampmeter price --list --json` prints them")]
pub struct PricesError(#[from] serde_json::Error);

impl Prices {
    /// Returns the list of this release.
    ///
    /// # Panics
    /// Never: the list is part of the program.
    #[must_use]
    pub fn listed() -> Self {
        serde_json::from_str(include_str!("../prices.json")).expect("the list is part of this program")
    }

    /// Reads prices in the form of the list.
    ///
    /// # Errors
    /// If the text is not such a list, or a price is negative or finer than six decimals.
    pub fn parse(json: &str) -> Result<Self, PricesError> {
        check_keys(&serde_json::from_str(json)?)?;
        let mut prices: Prices = serde_json::from_str(json)?;
        prices.models = prices.models.into_iter().map(|(name, price)| (name.to_ascii_lowercase(), price)).collect();
        Ok(prices)
    }

    /// Returns these prices, with those of `own` in their place.
    #[must_use]
    pub fn replaced_by(mut self, own: Prices) -> Self {
        self.models.extend(own.models);
        self
    }

    /// Finds the price of a model, and the name under which it is listed: the name itself, or else
    /// without a vendor in front and without a date or version at the end.
    #[must_use]
    pub fn of(&self, model: &str) -> Option<(&str, &ModelPrice)> {
        let model = model.to_ascii_lowercase();
        let listed = |name: &str| self.models.get_key_value(name).map(|(name, price)| (name.as_str(), price));
        candidates(&model).find_map(listed)
    }
}

/// Fails if a price has an unknown key, which may be the misspelling of a dear one.
fn check_keys(list: &Value) -> Result<(), serde_json::Error> {
    let models = list["models"].as_object().into_iter().flatten();
    let parts = models.flat_map(|(model, price)| [(model, price), (model, &price["above"])]);
    let keys = parts.flat_map(|(model, part)| part.as_object().into_iter().flatten().map(move |(key, _)| (model, key)));
    match { keys }.find(|(_, key)| !KEYS.contains(&key.as_str())) {
        Some((model, key)) => Err(serde::de::Error::custom(format!("`{model}`: unknown key `{key}`"))),
        None => Ok(()),
    }
}

/// The names under which a model may be listed, the most exact first.
fn candidates(model: &str) -> impl Iterator<Item = &str> {
    let starts = [model].into_iter().chain(model.match_indices(['/', '.']).map(|(at, _)| &model[at + 1..]));
    starts.flat_map(|name| std::iter::successors(Some(name), |name| without_version(name)))
}

/// Takes the last part off a name if it is a date, a version or a stage.
fn without_version(name: &str) -> Option<&str> {
    let (before, last) = name.rsplit_once(['-', '@', ':'])?;
    let is_version = match last.strip_prefix('v') {
        Some(version) => version.bytes().all(|byte| byte.is_ascii_digit()),
        None => matches!(last, "latest" | "preview" | "exp") || is_number(last),
    };
    is_version.then_some(before)
}

/// Whether a part of a name is one of a date (`08`, `20250929`), or a revision (`001`, `0`).
fn is_number(part: &str) -> bool {
    part.bytes().all(|byte| byte.is_ascii_digit()) && (matches!(part.len(), 2..=4 | 8) || part == "0")
}

/// Tokens of a call at one price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PricedPart {
    /// What they are.
    pub part: &'static str,
    /// How many.
    pub tokens: u64,
    /// What a million of them costs.
    pub usd_per_million: Amount,
}

impl ModelPrice {
    /// Computes the most that a request can cost.
    #[must_use]
    pub fn most(&self, demand: &Demand) -> Amount {
        sum(&self.parts_of_most(demand)).0
    }

    /// Computes what a call has cost.
    #[must_use]
    pub fn paid(&self, tokens: &PaidTokens) -> Amount {
        sum(&self.parts(tokens)).0
    }

    /// Returns what makes up the most that a request can cost: as if no token were read from a cache,
    /// and each were written into the dearest one.
    #[must_use]
    pub fn parts_of_most(&self, demand: &Demand) -> [PricedPart; 2] {
        let Demand { input, output, answers } = *demand;
        let output = output.unwrap_or(self.most).saturating_mul(answers.max(1));
        let parts = |rates: &Rates| {
            let dearest = rates.of_input().into_iter().max().unwrap_or_default();
            [part("input, at most", input, dearest), part("output, at most", output, rates.output)]
        };
        let long = self.above.filter(|above| input > above.input_tokens).map(|above| parts(&above.rates));
        long.into_iter()
            .chain([parts(&self.rates)])
            .max_by_key(|parts| sum(parts).0)
            .unwrap_or_else(|| parts(&self.rates))
    }

    /// Returns what makes up the cost of a call.
    #[must_use]
    pub fn parts(&self, tokens: &PaidTokens) -> [PricedPart; 5] {
        let PaidTokens { input, cached, kept, kept_hour, output } = *tokens;
        let long = [input, cached, kept, kept_hour].into_iter().fold(0, u64::saturating_add);
        let rates = match self.above {
            Some(above) if long > above.input_tokens => above.rates,
            Some(_) | None => self.rates,
        };
        let [fresh, from_cache, to_cache, for_an_hour] = rates.of_input();
        [
            part("input", input, fresh),
            part("input from the cache", cached, from_cache),
            part("input into the cache", kept, to_cache),
            part("input into the cache for an hour", kept_hour, for_an_hour),
            part("output", output, rates.output),
        ]
    }
}

fn part(part: &'static str, tokens: u64, usd_per_million: Amount) -> PricedPart {
    PricedPart { part, tokens, usd_per_million }
}

impl Rates {
    /// The prices of tokens of a prompt: fresh, read from a cache, written into one, and for an hour.
    fn of_input(&self) -> [Amount; 4] {
        let kept = self.kept.unwrap_or(self.input);
        [self.input, self.cached.unwrap_or(self.input), kept, self.kept_hour.unwrap_or(kept)]
    }
}

/// Adds up tokens at their prices. The sum is rounded up to a millionth of a dollar; returns it, and
/// by how many dollars it is above the exact one.
#[must_use]
pub fn sum(parts: &[PricedPart]) -> (Amount, f64) {
    let picos = |part: &PricedPart| u128::from(part.tokens) * u128::from(part.usd_per_million.micros());
    let picos = parts.iter().map(picos).sum::<u128>();
    let micros = picos.div_ceil(PICOS);
    let above = (micros * PICOS - picos) as f64 / 1e12;
    let micros = u64::try_from(micros).unwrap_or(u64::MAX).min(MAX_AMOUNT * Amount::ONE.micros());
    (Amount::from_micros(micros).unwrap_or_default(), above)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn priced(model: &str) -> Option<&'static str> {
        static PRICES: std::sync::LazyLock<Prices> = std::sync::LazyLock::new(Prices::listed);
        PRICES.of(model).map(|(name, _)| name)
    }

    #[test]
    fn a_model_is_found_by_its_name_without_vendor_date_and_version() {
        #[rustfmt::skip]
        let table = [
            ("gpt-4o",                                              Some("gpt-4o")),
            ("GPT-4o-2024-11-20",                                   Some("gpt-4o")),
            ("openai/gpt-4o-mini-2024-07-18",                       Some("gpt-4o-mini")),
            ("us.anthropic.claude-sonnet-4-5-20250929-v1:0",        Some("claude-sonnet-4-5")),
            ("models/gemini-2.5-pro",                               Some("gemini-2.5-pro")),
            ("gemini-2.5-flash-preview-09-2025",                    Some("gemini-2.5-flash")),
            ("gpt-4o-unheard-of",                                   None),
            ("gpt",                                                 None),
            ("",                                                    None),
        ];
        for (model, expected) in table {
            assert_eq!(priced(model), expected, "{model}");
        }
    }

    fn price(json: &str) -> ModelPrice {
        serde_json::from_str(json).unwrap()
    }

    const CLAUDE: &str = r#"{"input":3,"cached":0.3,"kept":3.75,"kept_hour":6,"output":15,"most":64000,
        "above":{"input_tokens":200000,"input":6,"cached":0.6,"kept":7.5,"kept_hour":12,"output":22.5}}"#;

    /// In millionths of a dollar.
    #[test]
    fn tokens_cost_what_their_kind_does_rounded_up_once() {
        let tokens = |input, cached, kept, kept_hour, output| PaidTokens { input, cached, kept, kept_hour, output };
        let cheap = r#"{"input":0.15,"output":0.6,"most":16384}"#;
        #[rustfmt::skip]
        let table = [
            (CLAUDE,    tokens(1000, 0, 0, 0, 100),             4500),
            (CLAUDE,    tokens(10, 1000, 100, 10, 0),           30 + 300 + 375 + 60),
            (CLAUDE,    tokens(200_000, 0, 0, 0, 0),            600_000),
            (CLAUDE,    tokens(200_000, 1, 0, 0, 1),            1_200_024),
            (cheap,     tokens(1, 0, 0, 0, 0),                  1),
            (cheap,     tokens(20, 20, 0, 0, 0),                6),
            (cheap,     tokens(1_000_001, 0, 0, 0, 0),          150_001),
            (cheap,     tokens(0, 0, 0, 0, 0),                  0),
            (cheap,     tokens(u64::MAX, 0, 0, 0, u64::MAX),    1_000_000_000_000_000),
        ];
        for (json, tokens, micros) in table {
            assert_eq!(price(json).paid(&tokens).micros(), micros, "{tokens:?}");
        }
    }

    proptest::proptest! {
        /// No call costs more than the most, whichever kinds its tokens are.
        #[test]
        fn the_most_bounds_what_a_call_can_cost(
            parts: [u32; 4], output in 0..1_000_000_u64, answers in 1..9_u64, sets_bound: bool,
        ) {
            let [input, cached, kept, kept_hour] = parts.map(|part| u64::from(part) % 300_000);
            let price = price(CLAUDE);
            let bound = if sets_bound { output } else { price.most };
            let tokens = PaidTokens { input, cached, kept, kept_hour, output: output.min(bound) * answers };
            let demand = Demand {
                input: input + cached + kept + kept_hour, output: sets_bound.then_some(output), answers,
            };
            proptest::prop_assert!(price.paid(&tokens) <= price.most(&demand));
        }
    }

    #[test]
    fn own_prices_replace_those_of_the_list_and_faults_are_told() {
        let own = Prices::parse(r#"{"date":"2026-01-01","models":{"GPT-4o":{"input":1,"output":2,"most":3}}}"#);
        let prices = Prices::listed().replaced_by(own.unwrap());
        assert_eq!(prices.of("gpt-4o").unwrap().1.rates.output, Amount::ONE.saturating_add(Amount::ONE));
        assert!(prices.of("gpt-4o-mini").is_some());
        for fault in [
            r#"{"models":{}}"#,
            r#"{"date":"","models":{"m":{"input":-1,"output":1,"most":1}}}"#,
            r#"{"date":"","models":{"m":{"input":1,"output":1,"most":1,"abvoe":{}}}}"#,
            "{",
        ] {
            let error = Prices::parse(fault).unwrap_err().to_string();
            assert!(error.contains("--list"), "{error}");
        }
    }

    /// A price that is a thousand times off, such as one per thousand tokens, is a mistake.
    #[test]
    fn the_list_has_plausible_prices() {
        for (name, ModelPrice { rates, most, above }) in Prices::listed().models {
            let all = [rates].into_iter().chain(above.map(|above| above.rates));
            for rates in all {
                let Rates { input, cached, kept, kept_hour, output } = rates;
                assert!((0.001..=200.0).contains(&input.units()) && output.units() <= 1000.0, "{name}");
                assert!(cached.is_none_or(|cached| cached <= input), "{name}: a cache makes reading cheaper");
                assert!(kept.is_none_or(|kept| kept_hour.is_none_or(|hour| kept <= hour)), "{name}");
                assert_eq!(output == Amount::ZERO, most == 0, "{name}: embeddings have no output");
            }
        }
    }
}
