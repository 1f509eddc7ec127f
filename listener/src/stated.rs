//! Values that clients state in the head of a request: in a header, or in the query of its target.

use http::{HeaderMap, HeaderName};
use rampmeter_protocol::amount::Amount;
use std::borrow::Cow;
use std::str::FromStr;

/// A header or a query parameter whose value the client chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stated {
    /// The header of this name.
    Header(HeaderName),
    /// The parameter of this name. Escapes (`%41`) are decoded, `+` is a space, and only `&` separates parameters.
    Query(String),
}

/// The cost of a request in one unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitCost {
    /// A fixed amount.
    Fixed(Amount),
    /// Stated by the request.
    Stated {
        /// Where it is stated.
        from: Stated,
        /// The cost of a request that states none. Without it, such a request is refused.
        default: Option<Amount>,
        /// The bounds to which a stated amount is clamped.
        bounds: (Amount, Amount),
    },
}

/// Why a stated value is uncertain. If it counted as absent, the client could choose what its request costs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    /// The header occurs twice, so that readers could choose different values.
    #[error("`{0}` is there more than once; the proxy has to replace what its client sends, or join the values")]
    DoubledHeader(String),
    /// The parameter occurs twice, so that readers could choose different values.
    #[error("`{0}` is in the query more than once")]
    DoubledParameter(String),
    /// The value is no text, or not of the required kind.
    #[error("`{0}` is not readable: it has {1}")]
    Unreadable(String, &'static str),
    /// An amount without a default is missing.
    #[error("`{0}` is missing, and says what the request costs; the cost has no `default`")]
    Missing(String),
}

/// A text that is no source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"header:NAME\" or \"query:KEY\"")]
pub struct UnknownSource;

impl FromStr for Stated {
    type Err = UnknownSource;

    fn from_str(text: &str) -> Result<Self, UnknownSource> {
        match text.split_once(':') {
            Some(("header", name)) => name.parse().map(Stated::Header).map_err(|_| UnknownSource),
            Some(("query", key)) if !key.is_empty() => Ok(Stated::Query(key.to_owned())),
            Some(_) | None => Err(UnknownSource),
        }
    }
}

impl Stated {
    /// Returns the one stated text, if there is any.
    ///
    /// # Errors
    /// If there are several, or one that is not UTF-8.
    pub fn text<'a>(&self, headers: &'a HeaderMap, query: Option<&'a str>) -> Result<Option<Cow<'a, str>>, Unclear> {
        let mut texts = self.texts(headers, query)?;
        match (texts.pop(), texts.is_empty(), self) {
            (text, true, _) => Ok(text),
            (_, false, Stated::Header(name)) => Err(Unclear::DoubledHeader(name.to_string())),
            (_, false, Stated::Query(key)) => Err(Unclear::DoubledParameter(key.clone())),
        }
    }

    fn texts<'a>(&self, headers: &'a HeaderMap, query: Option<&'a str>) -> Result<Vec<Cow<'a, str>>, Unclear> {
        let unreadable = || Unclear::Unreadable(self.name().to_owned(), "bytes that are not UTF-8");
        match self {
            Stated::Header(name) => {
                let text = |value: &'a http::HeaderValue| std::str::from_utf8(value.as_bytes()).map(Cow::from);
                headers.get_all(name).iter().map(|value| text(value).map_err(|_| unreadable())).collect()
            }
            Stated::Query(key) => form_urlencoded::parse(query.unwrap_or_default().as_bytes())
                .filter(|(name, _)| name == key)
                // Bytes that are not UTF-8 come as this character.
                .map(|(_, value)| if value.contains('\u{fffd}') { Err(unreadable()) } else { Ok(value) })
                .collect(),
        }
    }

    fn name(&self) -> &str {
        match self {
            Stated::Header(name) => name.as_str(),
            Stated::Query(key) => key,
        }
    }
}

impl UnitCost {
    /// Returns where the request states the cost, if it does.
    #[must_use]
    pub fn from(&self) -> Option<&Stated> {
        match self {
            UnitCost::Fixed(_) => None,
            UnitCost::Stated { from, .. } => Some(from),
        }
    }

    /// Returns the request's cost, rounded up; of several amounts the largest, as the upstream may use any of them.
    ///
    /// # Errors
    /// If it states something that is no amount, or nothing and there is no default.
    pub fn read(&self, headers: &HeaderMap, query: Option<&str>) -> Result<Amount, Unclear> {
        let (from, default, (min, max)) = match self {
            UnitCost::Fixed(amount) => return Ok(*amount),
            UnitCost::Stated { from, default, bounds } => (from, default, bounds),
        };
        let name = || from.name().to_owned();
        let amount = |text: Cow<'_, str>| {
            let units: f64 = text.trim().parse().ok().filter(|units| (0.0..f64::INFINITY).contains(units))?;
            Amount::round_up(units.clamp(min.units(), max.units())).ok()
        };
        let amounts: Option<Vec<Amount>> = from.texts(headers, query)?.into_iter().map(amount).collect();
        let largest = amounts.ok_or_else(|| Unclear::Unreadable(name(), "no amount, such as 2.5"))?.into_iter().max();
        largest.or(*default).ok_or_else(|| Unclear::Missing(name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_a_query_are_decoded_once() {
        #[rustfmt::skip]
        let table = [
            ("key=a",               Ok(Some("a"))),
            ("x=1&key=a%20b+c",     Ok(Some("a b c"))),
            ("%6bey=%25%34%31",     Ok(Some("%41"))),
            ("key=a;key=b",         Ok(Some("a;key=b"))),
            ("key=a%zz",            Ok(Some("a%zz"))),
            ("key",                 Ok(Some(""))),
            ("Key=a&keys=b",        Ok(None)),
            ("",                    Ok(None)),
            ("key=a&key=a",         Err("`key` is in the query more than once")),
            ("key=%ff",             Err("`key` is not readable: it has bytes that are not UTF-8")),
        ];
        let (source, headers): (Stated, _) = ("query:key".parse().unwrap(), HeaderMap::new());
        for (query, expected) in table {
            let read = source.text(&headers, Some(query)).map_err(|unclear| unclear.to_string());
            assert_eq!(read.as_ref().map(Option::as_deref).map_err(|text| &**text), expected, "{query}");
        }
        for wrong in ["query:", "query", "header:", "header:a b", "body:a", ""] {
            assert_eq!(wrong.parse::<Stated>(), Err(UnknownSource), "{wrong}");
        }
    }

    #[test]
    fn the_largest_amount_counts_within_its_bounds() {
        let amount = |units| Amount::new(units).unwrap();
        let of_query = |default: Option<f64>| UnitCost::Stated {
            from: Stated::Query("units".to_owned()),
            default: default.map(amount),
            bounds: (amount(1.0), amount(50.0)),
        };
        let no_amount = Err("`units` is not readable: it has no amount, such as 2.5");
        #[rustfmt::skip]
        let table = [
            ("units=7",             Some(5.0),  Ok(7.0)),
            ("%75nits=%37.5",       Some(5.0),  Ok(7.5)),
            ("units=2&units=9",     Some(5.0),  Ok(9.0)),
            ("units=2.00000001",    Some(5.0),  Ok(2.000001)),
            ("units=0",             Some(5.0),  Ok(1.0)),
            ("units=1e9",           Some(5.0),  Ok(50.0)),
            ("unit=7",              Some(5.0),  Ok(5.0)),
            ("units=",              Some(5.0),  no_amount),
            ("units=-1",            Some(5.0),  no_amount),
            ("units=NaN",           Some(5.0),  no_amount),
            ("units=inf",           Some(5.0),  no_amount),
            ("units=9&units=all",   Some(5.0),  no_amount),
            ("",                    None,       Err("`units` is missing, and says what the request costs; the cost has no `default`")),
        ];
        for (query, default, expected) in table {
            let read = of_query(default).read(&HeaderMap::new(), Some(query)).map_err(|unclear| unclear.to_string());
            assert_eq!(read.as_ref().map(|amount| amount.units()).map_err(|text| &**text), expected, "{query}");
        }
    }
}
