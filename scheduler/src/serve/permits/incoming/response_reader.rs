//! The upstream's answers, as workers report them: read in the resource's dialect, and counted.

use crate::serve::permits::answers::tally::Tally;
use rampmeter_dialects::Reader;
use rampmeter_protocol::clock::unix_ms;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::settle::Response;
use rampmeter_protocol::time::{Span, Time};
use rampmeter_scheduler_core::adaptation::observation::Observation;
use std::collections::BTreeMap;

/// Pause between two log lines about one header that cannot be read: such a header comes with every
/// answer, or never.
const TOLD_EVERY: Span = Span::from_secs(60);

/// Reads the answers of one upstream for as long as this process leads its resource.
#[derive(Debug)]
pub(crate) struct ResponseReader {
    reader: Reader,
    /// When the log was last told of a header. At most as many as the dialect has.
    told: BTreeMap<&'static str, Time>,
}

impl ResponseReader {
    pub(crate) fn new(reader: Reader) -> Self {
        ResponseReader { reader, told: BTreeMap::new() }
    }

    /// What the upstream's answer to the call of `id` tells.
    pub(crate) fn hear(&mut self, now: Time, tally: &mut Tally, id: &PermitId, response: &Response<'_>) -> Observation {
        let heard = self.reader.read(response, unix_ms());
        tally.answers.count(response.status);
        for header in heard.unreadable {
            *tally.unreadable.entry(header).or_default() += 1;
            self.complain(now, header, response);
        }
        let Observation { verdict, readings, spent } = &heard.observation;
        tracing::debug!(%id, status = response.status, ?verdict, ?readings, ?spent, "the upstream answered");
        heard.observation
    }

    fn complain(&mut self, now: Time, header: &'static str, response: &Response<'_>) {
        let quiet = self.told.get(header).is_some_and(|told| now.since(*told) < TOLD_EVERY);
        if !quiet {
            self.told.insert(header, now);
            let value = response.headers.get(header);
            tracing::warn!(header, value, "a header of the upstream's can't be read; is it another dialect?");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_dialects::Dialect;
    use rampmeter_protocol::settle::Headers;
    use rampmeter_protocol::text::Text;

    fn at(secs: u64) -> Time {
        Time::ORIGIN + Span::from_secs(secs)
    }

    #[test]
    fn what_cannot_be_read_is_counted_always_and_told_once_a_minute() {
        let (mut response_reader, mut tally) = (ResponseReader::new(Reader::of(Dialect::Plain)), Tally::new(1));
        let headers = Headers::first_of([(Text::from("retry-after"), Text::from("soon"))]);
        let response = Response { status: 429, headers, quota_spent: false };
        // When it comes, and when the log was last told of it.
        for (now, told) in [(0, 0), (1, 0), (59, 0), (60, 60), (119, 60), (500, 500)] {
            response_reader.hear(at(now), &mut tally, &PermitId::generated(1, now), &response);
            assert_eq!(response_reader.told["retry-after"], at(told), "at {now} s");
        }
        assert_eq!(tally.unreadable["retry-after"], 6);
        assert!(tally.answers.iter().eq([("other", 0), ("1xx", 0), ("2xx", 0), ("3xx", 0), ("4xx", 6), ("5xx", 0)]));
    }
}
