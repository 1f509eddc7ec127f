//! The syntax tree.

use crate::error::ScriptError;
use crate::token::{Source, Tokens};
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// An expression.
#[derive(Debug)]
pub(crate) enum Expression {
    Undefined,
    Null,
    Boolean(bool),
    Number(f64),
    Text(Rc<str>),
    Template(Vec<Rc<str>>, Vec<Expression>),
    Name(Rc<str>),
    Array(Vec<Element>),
    Object(Vec<Property>),
    Function(Rc<Function>),
    Member(Box<Member>),
    Call(Box<Call>),
    /// `new` with a name.
    New(Rc<str>, Vec<Element>),
    Unary(Unary, Box<Expression>),
    Binary(Binary, Box<(Expression, Expression)>),
    Logical(Logical, Box<(Expression, Expression)>),
    /// Condition, then, else.
    Conditional(Box<(Expression, Expression, Expression)>),
    Assign(Box<(Pattern, Expression)>),
    /// `target op= value`.
    Update(Box<(Expression, Operator, Expression)>),
    /// `target++` and the like: the added number, and whether the result is the former value.
    Step(Box<Expression>, f64, bool),
    Sequence(Vec<Expression>),
}

/// `object.name`, `object[key]` or one of them after `?.`.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) object: Expression,
    pub(crate) key: Expression,
    pub(crate) optional: bool,
}

/// A call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) callee: Expression,
    pub(crate) arguments: Vec<Element>,
    pub(crate) optional: bool,
    pub(crate) line: u32,
}

/// An element of an array, or an argument.
#[derive(Debug)]
pub(crate) enum Element {
    One(Expression),
    Spread(Expression),
    /// Between two commas.
    Empty,
}

/// A property of an object literal.
#[derive(Debug)]
pub(crate) enum Property {
    Pair(Expression, Expression),
    Spread(Expression),
}

/// A function. Its parameters and body are read when it is first called.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: Rc<str>,
    pub(crate) parameters: Parameters,
    pub(crate) body: Body,
    /// The tokens of the parameters and the body.
    pub(crate) tokens: Tokens,
    pub(crate) parsed: OnceCell<ParsedFunction>,
}

/// The parsed parameters and body of a function.
#[derive(Debug)]
pub(crate) struct ParsedFunction {
    pub(crate) parameters: Pattern,
    /// The statements of the body; none for a function that is one expression.
    pub(crate) statements: Vec<Statement>,
    /// What `var` declares in the whole body.
    pub(crate) variables: BTreeSet<Rc<str>>,
}

/// The parameters of a function.
#[derive(Debug)]
pub(crate) enum Parameters {
    One(Rc<str>),
    /// The bracket that opens the list.
    List(Source, usize),
}

/// The body of a function.
#[derive(Debug)]
pub(crate) enum Body {
    Expression(Expression),
    /// The brace that opens the block.
    Block(Source, usize),
}

/// The target of a value.
#[derive(Debug)]
pub(crate) enum Pattern {
    /// A name, or a member in an assignment.
    Target(Expression),
    /// Elements, and the rest.
    Array(Vec<Option<Pattern>>, Option<Box<Pattern>>),
    /// Keys with patterns, and the rest.
    Object(Vec<(Rc<str>, Pattern)>, Option<Box<Pattern>>),
    /// A pattern with a default value.
    Default(Box<Pattern>, Box<Expression>),
}

/// A statement at the top of a script, or why it is skipped.
#[derive(Debug)]
pub(crate) struct TopLevel {
    pub(crate) tokens: Tokens,
    pub(crate) parsed: Result<Statement, ScriptError>,
}

/// A statement, and its line.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) line: u32,
    pub(crate) kind: StatementKind,
}

/// The kind of a statement, with its parts.
#[derive(Debug)]
pub(crate) enum StatementKind {
    Expression(Expression),
    Declare(Scoping, Vec<(Pattern, Option<Expression>)>),
    Function(Rc<Function>),
    Return(Option<Expression>),
    Throw(Expression),
    If(Expression, Box<Statement>, Option<Box<Statement>>),
    /// Start, condition, step, body.
    For(Option<Box<Statement>>, Option<Expression>, Option<Expression>, Box<Statement>),
    /// Each element, or each key.
    ForEach(Scoping, Pattern, Each, Expression, Box<Statement>),
    While(Expression, Box<Statement>),
    DoWhile(Box<Statement>, Expression),
    Switch(Expression, Vec<Case>),
    Block(Vec<Statement>),
    Break,
    Continue,
    Empty,
}

/// A case of a `switch`. Its statements go on into those of the next one.
#[derive(Debug)]
pub(crate) struct Case {
    /// The value of the case; `None` for `default`.
    pub(crate) value: Option<Expression>,
    pub(crate) statements: Vec<Statement>,
}

/// The scope of a declared name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scoping {
    Function,
    Block,
    /// Nothing is declared; an existing name is used.
    Existing,
}

/// What a loop iterates over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Each {
    Element,
    Key,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Not,
    Minus,
    Plus,
    Typeof,
    Void,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Power,
    Equal,
    Unequal,
    Same,
    NotSame,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logical {
    And,
    Or,
    /// `??`
    Else,
}

/// The operator of an update, without its `=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Binary(Binary),
    Logical(Logical),
}
