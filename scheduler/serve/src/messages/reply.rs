//! Where answers go: to a message of their own, or into an array that answers an array, element by
//! element in the same order.

use crate::messages::inbound::Address;
use crate::messages::request_trace::RequestTrace;
use rampmeter_protocol::cost::Cost;
use rampmeter_protocol::id::PermitId;
use std::ops::Range;
use std::sync::Arc;

/// The answer of one element: its index, and where its text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayPlace {
    array: usize,
    element: usize,
}

/// The answer to an array, as far as it is complete. Nearly always all answers come at once and in
/// order.
#[derive(Debug)]
struct OpenArray {
    reply: Address,
    /// The answers, one behind the other.
    text: Vec<u8>,
    answers: Vec<AnswerRange>,
    elements: usize,
    /// Whether every element of the request is counted in `elements`.
    sealed: bool,
}

/// The arrays that still lack answers.
#[derive(Debug, Default)]
pub struct Arrays {
    open: Vec<Option<OpenArray>>,
    /// Memory of finished arrays, for the next ones.
    spare: Vec<(Vec<u8>, Vec<AnswerRange>)>,
}

/// Which element an answer is for, and where its text is.
type AnswerRange = (usize, Range<usize>);

impl Arrays {
    /// Begins the answer to an array.
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

    /// A place for the next element that is answered in the array.
    pub fn place(&mut self, array: usize) -> ArrayPlace {
        let open = self.get(array);
        open.elements += 1;
        ArrayPlace { array, element: open.elements - 1 }
    }

    /// Has `write` write the answer for `place`. The array is to be [closed](Arrays::close) next.
    pub fn answer(&mut self, place: ArrayPlace, write: impl FnOnce(&mut Vec<u8>)) {
        let open = self.get(place.array);
        let begin = open.text.len();
        write(&mut open.text);
        open.answers.push((place.element, begin..open.text.len()));
    }

    /// Notes that the array has no more elements than those with a place.
    pub fn seal(&mut self, array: usize) {
        self.get(array).sealed = true;
    }

    /// Ends the answer to an array if it is complete: `write` gets its text in pieces. Returns its
    /// address.
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
    /// The array.
    #[must_use]
    pub fn array(self) -> usize {
        self.array
    }
}

/// Where the answer to one element of a message goes, and what it is to say. The core carries it
/// along.
#[derive(Clone, Debug)]
pub struct ReplyTo {
    pub(crate) envelope: Envelope,
    /// Whether a permit says what is left of its limits.
    pub(crate) tells_left: bool,
    /// What a permit says that the call costs, if that was computed.
    pub(crate) cost: Option<Arc<Cost<'static>>>,
    /// The span that the answer ends.
    pub(crate) trace: Option<Arc<RequestTrace>>,
}

#[derive(Clone, Debug)]
pub(crate) enum Envelope {
    /// A message of its own.
    Alone(Address),
    /// An array of answers.
    InArray(ArrayPlace),
}

impl ReplyTo {
    pub(crate) fn new(envelope: Envelope) -> Self {
        ReplyTo { envelope, tells_left: false, cost: None, trace: None }
    }

    /// A message of its own.
    pub fn alone(to: Address) -> Self {
        ReplyTo::new(Envelope::Alone(to))
    }

    /// The subject that the answer goes to, if it goes there alone.
    pub(crate) fn inbox(&self) -> Option<&str> {
        match &self.envelope {
            Envelope::Alone(Address::Subject(inbox)) => Some(inbox),
            Envelope::Alone(Address::Here(..)) | Envelope::InArray(_) => None,
        }
    }
}

/// The request that has waited for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waited {
    pub(crate) id: PermitId,
    /// Whether the answer is its grant, and not an update.
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
