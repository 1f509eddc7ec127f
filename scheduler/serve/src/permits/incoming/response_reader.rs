//! The upstream's responses, as workers report them: read in the resource's dialect, and counted.

use crate::log_throttle::LogThrottle;
use crate::permits::answers::tally::Tally;
use rampmeter_dialects::Reader;
use rampmeter_protocol::clock::unix_ms;
use rampmeter_protocol::id::PermitId;
use rampmeter_protocol::settle::Response;
use rampmeter_protocol::time::Time;
use rampmeter_scheduler_core::adaptation::observation::Observation;

/// Reads the answers of one upstream for as long as this process leads its resource.
#[derive(Debug)]
pub(crate) struct ResponseReader {
    reader: Reader,
}

impl ResponseReader {
    pub(crate) fn new(reader: Reader) -> Self {
        ResponseReader { reader }
    }

    /// Reads what the upstream's response to the call of `id` tells, and counts it.
    pub(crate) fn read(
        &mut self,
        now: Time,
        (tally, log): (&mut Tally, &mut LogThrottle),
        id: &PermitId,
        response: &Response<'_>,
    ) -> Observation {
        let read = self.reader.read(response, unix_ms());
        tally.answers.count(response.status);
        for header in read.unreadable {
            *tally.unreadable.entry(header).or_default() += 1;
            // The log is throttled, because such a header often comes with every answer.
            if let Some(left_out) = log.admit(now, header) {
                let value = response.headers.get(header);
                tracing::warn!(
                    header,
                    value,
                    left_out,
                    "a header of the upstream's can't be read; is it another dialect?"
                );
            }
        }
        let Observation { verdict, readings, spent } = &read.observation;
        tracing::debug!(%id, status = response.status, ?verdict, ?readings, ?spent, "the upstream answered");
        read.observation
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rampmeter_dialects::Dialect;
    use rampmeter_protocol::settle::Headers;
    use rampmeter_protocol::text::Text;

    #[test]
    fn what_cannot_be_read_is_counted_always() {
        let (mut response_reader, mut tally) = (ResponseReader::new(Reader::of(Dialect::Plain)), Tally::new(1));
        let mut log = LogThrottle::default();
        let headers = Headers::first_of([(Text::from("retry-after"), Text::from("soon"))]);
        let response = Response { status: 429, headers, quota_spent: false, code: None };
        for id in 0..6 {
            response_reader.read(Time::ORIGIN, (&mut tally, &mut log), &PermitId::secret(id), &response);
        }
        assert_eq!(log.admit(Time::ORIGIN, "retry-after"), None, "the log was told");
        assert_eq!(tally.unreadable["retry-after"], 6);
        assert!(tally.answers.iter().eq([("other", 0), ("1xx", 0), ("2xx", 0), ("3xx", 0), ("4xx", 6), ("5xx", 0)]));
    }
}
