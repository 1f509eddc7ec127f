//! Destinations of answers: a message of its own, or a place in an array that answers an array.

use crate::messages::inbound::Address;
use crate::messages::request_trace::RequestTrace;
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::id::PermitId;
use std::ops::Range;
use std::sync::Arc;

/// The place of one answer in an array of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayPlace {
    array: usize,
    element: usize,
}

/// An incomplete array of answers. Nearly always all answers come at once and in order.
#[derive(Debug)]
struct OpenArray {
    reply: Address,
    /// The text of all answers, concatenated.
    text: Vec<u8>,
    answers: Vec<AnswerRange>,
    elements: usize,
    /// Whether `elements` is final.
    sealed: bool,
}

/// The arrays that still lack answers.
#[derive(Debug, Default)]
pub struct Arrays {
    open: Vec<Option<OpenArray>>,
    /// Memory of finished arrays, for reuse.
    spare: Vec<(Vec<u8>, Vec<AnswerRange>)>,
}

/// The element that an answer is for, and the range of its text.
type AnswerRange = (usize, Range<usize>);

impl Arrays {
    /// Begins an array of answers, and returns its index.
    pub fn begin(&mut self, reply: Address) -> usize {
        let (text, answers) = self.spare.pop().unwrap_or_default();
        let array = OpenArray { reply, text, answers, elements: 0, sealed: false };
        match self.open.iter().position(Option::is_none) {
            Some(free) => {
                self.open[free] = Some(array);
                free
            }
            None => {
                self.open.push(Some(array));
                self.open.len() - 1
            }
        }
    }

    /// Returns a place for the next answer in the array.
    pub fn place(&mut self, array: usize) -> ArrayPlace {
        let open = self.get(array);
        open.elements += 1;
        ArrayPlace { array, element: open.elements - 1 }
    }

    /// Writes the answer for `place` with `write`. Try to [close](Arrays::close) the array next.
    pub fn answer(&mut self, place: ArrayPlace, write: impl FnOnce(&mut Vec<u8>)) {
        let open = self.get(place.array);
        let begin = open.text.len();
        write(&mut open.text);
        open.answers.push((place.element, begin..open.text.len()));
    }

    /// Marks the array as having no more elements.
    pub fn seal(&mut self, array: usize) {
        self.get(array).sealed = true;
    }

    /// Ends the array if it is sealed and complete. Passes its text in pieces to `write`, and returns its address.
    pub fn close(&mut self, array: usize, mut write: impl FnMut(&[u8])) -> Option<Address> {
        self.open[array].as_ref().filter(|open| open.sealed && open.answers.len() == open.elements)?;
        let OpenArray { reply, mut text, mut answers, .. } = self.open[array].take()?;
        answers.sort_unstable_by_key(|(element, _)| *element);
        write(b"[");
        for (index, (_, range)) in answers.iter().enumerate() {
            if index > 0 {
                write(b",");
            }
            write(&text[range.clone()]);
        }
        write(b"]");
        text.clear();
        answers.clear();
        self.spare.push((text, answers));
        Some(reply)
    }

    fn get(&mut self, array: usize) -> &mut OpenArray {
        self.open[array].as_mut().expect("an array with a place that is not answered is open")
    }
}

impl ArrayPlace {
    /// Returns the index of the array.
    #[must_use]
    pub fn array(self) -> usize {
        self.array
    }
}

/// The destination of one answer, and what to add to it. The core carries it along.
#[derive(Clone, Debug)]
pub struct ReplyTo {
    pub(crate) envelope: Envelope,
    /// Whether a grant reports what is left of its limits.
    pub(crate) tells_left: bool,
    /// The computed cost, which a grant reports.
    pub(crate) cost: Option<Arc<Cost<'static>>>,
    /// The span that ends with the answer.
    pub(crate) trace: Option<Arc<RequestTrace>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Envelope {
    Alone(Address),
    InArray(ArrayPlace),
}

impl ReplyTo {
    pub(crate) fn new(envelope: Envelope) -> Self {
        ReplyTo { envelope, tells_left: false, cost: None, trace: None }
    }

    /// Creates the destination of an answer that is a message of its own.
    pub fn alone(to: Address) -> Self {
        ReplyTo::new(Envelope::Alone(to))
    }

    /// Returns the subject of an answer that is a NATS message of its own.
    pub(crate) fn inbox(&self) -> Option<&str> {
        match &self.envelope {
            Envelope::Alone(Address::Subject(inbox)) => Some(inbox),
            Envelope::Alone(Address::Here(..)) | Envelope::InArray(_) => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waited {
    pub(crate) id: PermitId,
    pub(crate) is_grant: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(arrays: &mut Arrays, array: usize) -> Option<String> {
        let mut text = Vec::new();
        arrays.close(array, |piece| text.extend_from_slice(piece))?;
        String::from_utf8(text).ok()
    }

    /// The number of elements, the order in which they are answered, and the whole answer.
    fn check(elements: usize, order: &[usize], answer: &str) {
        let mut arrays = Arrays::default();
        let array = arrays.begin(Address::Subject("reply".into()));
        let places: Vec<ArrayPlace> = (0..elements).map(|_| arrays.place(array)).collect();
        arrays.seal(array);
        for element in order {
            assert_eq!(close(&mut arrays, array), None, "an answer is missing");
            arrays.answer(places[*element], |text| text.extend_from_slice(element.to_string().as_bytes()));
        }
        assert_eq!(close(&mut arrays, array).as_deref(), Some(answer));
    }

    #[test]
    fn an_array_goes_out_whole_and_in_order() {
        check(0, &[], "[]");
        check(1, &[0], "[0]");
        check(3, &[0, 1, 2], "[0,1,2]");
        check(3, &[2, 0, 1], "[0,1,2]");
    }

    #[test]
    fn several_arrays_may_be_open_and_memory_is_used_again() {
        let mut arrays = Arrays::default();
        let (first, second) = ["a", "b"].map(|reply| arrays.begin(Address::Subject(reply.into()))).into();
        let (a, b) = (arrays.place(first), arrays.place(second));
        arrays.answer(b, |text| text.push(b'b'));
        assert_eq!(close(&mut arrays, second), None, "more elements might come");
        arrays.seal(second);
        assert_eq!(close(&mut arrays, second).as_deref(), Some("[b]"));
        assert_eq!(arrays.begin(Address::Subject("c".into())), second);
        arrays.answer(a, |text| text.push(b'a'));
        arrays.seal(first);
        assert_eq!(close(&mut arrays, first).as_deref(), Some("[a]"));
        assert_eq!((arrays.open.len(), arrays.spare.len()), (2, 1));
    }
}
