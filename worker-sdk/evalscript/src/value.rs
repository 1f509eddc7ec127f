//! The values of a script.
//!
//! Arrays, objects, functions and scopes live in one [`Heap`] and refer to each other by number. So
//! dropping a deep or circular structure needs no recursion.

use crate::syntax::Function;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Undefined,
    Null,
    Boolean(bool),
    Number(f64),
    Text(Rc<str>),
    Array(ArrayId),
    Object(ObjectId),
    Function(FunctionId),
    Date(DateId),
    /// A global with this name, or a member of one.
    Native(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ArrayId(usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectId(usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FunctionId(usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DateId(usize);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ScopeId(usize);

/// Properties, in the order in which they were set.
pub(crate) type Properties = Vec<(Rc<str>, Value)>;

/// A function, and the scope in which it was made.
#[derive(Clone, Debug)]
pub(crate) struct Closure {
    pub(crate) function: Rc<Function>,
    pub(crate) scope: ScopeId,
}

/// Names and their values.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) names: Properties,
    pub(crate) parent: Option<ScopeId>,
    /// Whether `var` declares here.
    pub(crate) is_function: bool,
}

/// Everything that a script has made. Nothing is freed; the meter bounds the whole.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    arrays: Vec<Vec<Value>>,
    objects: Vec<Properties>,
    functions: Vec<Closure>,
    scopes: Vec<Scope>,
    /// Times, in milliseconds since 1970.
    dates: Vec<f64>,
    /// Arrays that may have empty elements.
    sparse: BTreeSet<ArrayId>,
    frozen_arrays: BTreeSet<ArrayId>,
    frozen_objects: BTreeSet<ObjectId>,
}

impl Heap {
    pub(crate) fn add_array(&mut self, elements: Vec<Value>) -> Value {
        self.arrays.push(elements);
        Value::Array(ArrayId(self.arrays.len() - 1))
    }

    pub(crate) fn add_object(&mut self, properties: Properties) -> Value {
        self.objects.push(properties);
        Value::Object(ObjectId(self.objects.len() - 1))
    }

    pub(crate) fn add_function(&mut self, closure: Closure) -> Value {
        self.functions.push(closure);
        Value::Function(FunctionId(self.functions.len() - 1))
    }

    pub(crate) fn add_date(&mut self, time: f64) -> Value {
        self.dates.push(time);
        Value::Date(DateId(self.dates.len() - 1))
    }

    pub(crate) fn add_scope(&mut self, parent: Option<ScopeId>, is_function: bool) -> ScopeId {
        self.scopes.push(Scope { names: Vec::new(), parent, is_function });
        ScopeId(self.scopes.len() - 1)
    }

    pub(crate) fn array(&self, id: ArrayId) -> &[Value] {
        &self.arrays[id.0]
    }

    pub(crate) fn array_mut(&mut self, id: ArrayId) -> &mut Vec<Value> {
        &mut self.arrays[id.0]
    }

    pub(crate) fn object(&self, id: ObjectId) -> &Properties {
        &self.objects[id.0]
    }

    pub(crate) fn object_mut(&mut self, id: ObjectId) -> &mut Properties {
        &mut self.objects[id.0]
    }

    pub(crate) fn date(&self, id: DateId) -> f64 {
        self.dates[id.0]
    }

    pub(crate) fn date_mut(&mut self, id: DateId) -> &mut f64 {
        &mut self.dates[id.0]
    }

    pub(crate) fn is_sparse(&self, id: ArrayId) -> bool {
        self.sparse.contains(&id)
    }

    pub(crate) fn mark_sparse(&mut self, id: ArrayId) {
        self.sparse.insert(id);
    }

    pub(crate) fn mark_dense(&mut self, id: ArrayId) {
        self.sparse.remove(&id);
    }

    pub(crate) fn freeze(&mut self, value: &Value) {
        if let Value::Array(id) = value {
            self.frozen_arrays.insert(*id);
        } else if let Value::Object(id) = value {
            self.frozen_objects.insert(*id);
        }
    }

    pub(crate) fn is_frozen(&self, value: &Value) -> bool {
        matches!(value, Value::Array(id) if self.frozen_arrays.contains(id))
            || matches!(value, Value::Object(id) if self.frozen_objects.contains(id))
    }

    /// How many functions the script has made so far.
    pub(crate) fn functions(&self) -> usize {
        self.functions.len()
    }

    pub(crate) fn function(&self, id: FunctionId) -> Closure {
        self.functions[id.0].clone()
    }

    pub(crate) fn scope(&self, id: ScopeId) -> &Scope {
        &self.scopes[id.0]
    }

    pub(crate) fn scope_mut(&mut self, id: ScopeId) -> &mut Scope {
        &mut self.scopes[id.0]
    }
}

impl Value {
    pub(crate) fn is_true(&self) -> bool {
        match self {
            Value::Undefined | Value::Null => false,
            Value::Boolean(boolean) => *boolean,
            Value::Number(number) => *number != 0.0 && !number.is_nan(),
            Value::Text(text) => !text.is_empty(),
            Value::Array(_) | Value::Object(_) | Value::Function(_) | Value::Date(_) | Value::Native(_) => true,
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Value::Undefined | Value::Null)
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Undefined => "undefined",
            Value::Null | Value::Array(_) | Value::Object(_) | Value::Date(_) => "object",
            Value::Boolean(_) => "boolean",
            Value::Number(_) => "number",
            Value::Text(_) => "string",
            Value::Native("Math" | "Mosaicking" | "SampleType") => "object",
            Value::Function(_) | Value::Native(_) => "function",
        }
    }

    /// `===`
    pub(crate) fn same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Date(one), Value::Date(two)) => one == two,
            (Value::Undefined, Value::Undefined) | (Value::Null, Value::Null) => true,
            (Value::Boolean(one), Value::Boolean(two)) => one == two,
            (Value::Number(one), Value::Number(two)) => one == two,
            (Value::Text(one), Value::Text(two)) => one == two,
            (Value::Array(one), Value::Array(two)) => one == two,
            (Value::Object(one), Value::Object(two)) => one == two,
            (Value::Function(one), Value::Function(two)) => one == two,
            (Value::Native(one), Value::Native(two)) => one == two,
            (
                Value::Undefined
                | Value::Null
                | Value::Boolean(_)
                | Value::Number(_)
                | Value::Text(_)
                | Value::Array(_)
                | Value::Object(_)
                | Value::Function(_)
                | Value::Date(_)
                | Value::Native(_),
                _,
            ) => false,
        }
    }
}
